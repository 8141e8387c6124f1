#include "report/names/elf/own_mappings.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/names/elf/elf_file.h"
#include "report/names/elf/elf_symbols.h"
#include "report/names/elf/import_slots.h"

namespace holdfast {
namespace {

std::string CodeAt(const ElfFile& elf, uint64_t address, uint64_t bytes) {
  for (const Elf64_Phdr& segment : elf.segments()) {
    const uint64_t offset = address - segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && offset < segment.p_filesz)
      return elf.ReadUpTo(segment.p_offset + offset, std::min(bytes, segment.p_filesz - offset));
  }
  return "";
}

// Where the last 4 of the bytes up to `end` lead, as a distance from their end, which is at `address`.
uint64_t TargetAt(const std::string& code, size_t end, uint64_t address) {
  int32_t distance;
  memcpy(&distance, code.data() + end - sizeof distance, sizeof distance);
  return address + static_cast<uint64_t>(int64_t{distance});
}

// Whether the function calls libc's `syscall`, which the library sees: directly through its slot, or by the .plt.
bool CallsSyscall(const ElfFile& elf, const Elf64_Sym& function) {
  constexpr uint64_t kMostBytes = 4096, kPltBytes = 16;
  constexpr size_t kCall = 5, kIndirect = 6;
  if (!elf.is_x86_64()) return false;
  const std::vector<ImportSlot> slots = ImportSlotsOf(elf, {"syscall"});
  const auto is_slot = [&slots](uint64_t address) {
    return std::any_of(slots.begin(), slots.end(),
                       [address](const ImportSlot& slot) { return slot.address == address; });
  };
  // call or jmp *slot(%rip)
  const auto is_indirect = [&](const std::string& code, size_t at, uint64_t address) {
    return at + kIndirect <= code.size() && code[at] == '\xff' && (code[at + 1] == '\x15' || code[at + 1] == '\x25') &&
           is_slot(TargetAt(code, at + kIndirect, address + at + kIndirect));
  };
  const std::string code = CodeAt(elf, function.st_value, std::min(function.st_size, kMostBytes));
  for (size_t at = 0; at + kCall <= code.size(); ++at) {
    if (is_indirect(code, at, function.st_value)) return true;
    if (code[at] != '\xe8' && code[at] != '\xe9') continue;
    const uint64_t target = TargetAt(code, at + kCall, function.st_value + at + kCall);
    const std::string plt = CodeAt(elf, target, kPltBytes);
    size_t jump = plt.starts_with("\xf3\x0f\x1e\xfa") ? 4 : 0;
    if (jump < plt.size() && plt[jump] == '\xf2') ++jump;  // bnd
    if (is_indirect(plt, jump, target)) return true;
  }
  return false;
}

}  // namespace

std::string OwnMappingsText(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const std::unique_ptr<ElfFile> elf = file.valid() ? ElfFile::Open(file.get()) : nullptr;
  if (elf == nullptr || !elf->is_readable()) return "";
  constexpr const char* kFunctions[] = {"mmap", "mmap64", "munmap", "mremap"};
  for (const Elf64_Shdr& section : elf->sections()) {
    if (section.sh_type != SHT_DYNSYM) continue;
    const auto table = elf->SymbolsOf(section, ElfSymbols::kMaxSymbolBytes);
    const auto names = table ? elf->BytesOf(*table->names, ElfSymbols::kMaxNameBytes) : std::nullopt;
    if (!names) return "";
    for (const char* function : kFunctions) {
      for (const Elf64_Sym& symbol : table->symbols) {
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names->size() ||
            strcmp(names->c_str() + symbol.st_name, function) != 0)
          continue;
        if (CallsSyscall(*elf, symbol))
          break;  // the first of the name is the one; a hostile file has a million of them
        return fmt::format("the executable defines {} itself: calls of it are not in map profiles", function);
      }
    }
  }
  return "";
}

}  // namespace holdfast
