#include "report/run/static_tls.h"

#include <elf.h>
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/file_descriptor.h"
#include "report/base/libc_names.h"
#include "report/names/elf/elf_file.h"
#include "report/names/elf/elf_symbols.h"
#include "report/observe/outside/modules_of_process.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/thread_status.h"

namespace holdfast {
namespace {

// A field as glibc describes it to libthread_db.
struct Field {
  uint32_t bits, count, offset;
};

// The exported symbols of a module of the process, at their addresses there.
class Exports {
 public:
  struct Symbol {
    uint64_t start = 0, size = 0;
    bool Contains(uint64_t address, uint64_t bytes) const {
      return address >= start && address - start <= size && bytes <= size - (address - start);
    }
  };

  static std::optional<Exports> Of(pid_t pid, const ModuleInfo& module, const ProcessMemory* memory) {
    const FileDescriptor file(open((RootOfProcess(pid) + module.path).c_str(),
                                   O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));  // not a regular file: do not wait
    if (!file.valid()) return std::nullopt;
    Exports exports(memory, module.bias);
    exports.elf_ = ElfFile::Open(file.get());
    if (exports.elf_ == nullptr || !exports.elf_->is_readable() || exports.elf_->BuildId() != module.build_id)
      return std::nullopt;
    for (const Elf64_Shdr& section : exports.elf_->sections()) {
      if (section.sh_type != SHT_DYNSYM) continue;
      auto table = exports.elf_->SymbolsOf(section, ElfSymbols::kMaxSymbolBytes);
      if (!table.has_value()) continue;
      auto names = exports.elf_->BytesOf(*table->names, ElfSymbols::kMaxNameBytes);
      if (!names.has_value()) continue;
      exports.symbols_ = std::move(table->symbols);
      exports.names_ = *std::move(names);
    }
    exports.elf_.reset();
    return exports;
  }

  // Returns nothing if there is no such symbol.
  std::optional<Symbol> Find(std::string_view name) const {
    for (const Elf64_Sym& symbol : symbols_) {
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names_.size()) continue;
      if (std::string_view(names_.c_str() + symbol.st_name) == name)
        return Symbol{bias_ + symbol.st_value, symbol.st_size};
    }
    return std::nullopt;
  }
  // Reads the variable of this name.
  template <typename Value>
  std::optional<Value> Read(std::string_view name) const {
    const std::optional<Symbol> symbol = Find(name);
    Value value;
    if (!symbol.has_value() || symbol->size < sizeof value || !memory_->Read(symbol->start, &value, sizeof value))
      return std::nullopt;
    return value;
  }
  std::optional<uint32_t> OffsetOf(std::string_view name) const {
    const std::optional<Field> field = Read<Field>(name);
    if (!field.has_value() || field->bits != 64 || field->count != 1) return std::nullopt;
    return field->offset;
  }

 private:
  Exports(const ProcessMemory* memory, uint64_t bias) : memory_(memory), bias_(bias) {}

  const ProcessMemory* memory_;
  uint64_t bias_;
  std::unique_ptr<ElfFile> elf_;
  std::vector<Elf64_Sym> symbols_;
  std::string names_;
};

// Returns the addresses of the two words that this function stores through its two arguments:
//
//     mov size(%rip),%rax    mov %rax,(%rdi)    mov align(%rip),%rax    mov %rax,(%rsi)    ret
//
// Nothing if it is compiled otherwise.
std::optional<std::array<uint64_t, 2>> WordsStoredBy(uint64_t function, const ProcessMemory& memory) {
  std::array<uint8_t, 48> code{};
  if (!memory.Read(function, code.data(), code.size())) return std::nullopt;
  constexpr std::array<uint8_t, 4> kEndbr = {0xf3, 0x0f, 0x1e, 0xfa};
  constexpr uint8_t kRexW = 0x48, kLoad = 0x8b, kStore = 0x89, kReturn = 0xc3, kRdi = 7, kRsi = 6;
  constexpr size_t kLongest = 7;
  size_t at = memcmp(code.data(), kEndbr.data(), kEndbr.size()) == 0 ? kEndbr.size() : 0;
  std::array<uint64_t, 8> held{};  // the address of the word in each register
  std::array<uint64_t, 2> stored{};
  while (at + kLongest <= code.size() && code[at] == kRexW) {
    const uint8_t operation = code[at + 1], operands = code[at + 2], to = operands >> 3 & 7, base = operands & 7;
    if (operation == kLoad && (operands & 0xc7) == 5) {  // from memory, relative to the next instruction
      int32_t distance;
      memcpy(&distance, &code[at + 3], sizeof distance);
      at += kLongest;
      held[to] = function + at + static_cast<uint64_t>(int64_t{distance});
    } else if (operation == kStore && operands >> 6 == 0 && (base == kRdi || base == kRsi)) {
      stored[base == kRdi ? 0 : 1] = held[to];
      at += 3;
    } else {
      return std::nullopt;
    }
  }
  if (at >= code.size() || code[at] != kReturn || stored[0] == 0 || stored[1] == 0) return std::nullopt;
  return stored;
}

// The words of _rtld_global from _dl_tls_dtv_slotinfo_list on, since glibc 2.34.
struct LinkerWords {
  uint64_t slots, in_static, used, optional;
};

// Returns the largest distance from the thread pointer at which a loaded library has its TLS. Nothing if the list of these
// libraries cannot be read.
std::optional<uint64_t> FarthestTls(uint64_t slots, const Exports& libc, const ProcessMemory& memory) {
  constexpr std::string_view kPrefix = "_thread_db_";
  const auto offset = [&](std::string_view name) { return libc.OffsetOf(fmt::format("{}{}", kPrefix, name)); };
  const auto next = offset("dtv_slotinfo_list_next"), length = offset("dtv_slotinfo_list_len"),
             map = offset("dtv_slotinfo_map"), tls = offset("link_map_l_tls_offset");
  const auto first = libc.Read<Field>("_thread_db_dtv_slotinfo_list_slotinfo");
  if (!next || !length || !map || !tls || !first) return std::nullopt;
  constexpr uint64_t kMaxLists = 64, kMaxSlots = 4096;
  uint64_t farthest = 0;
  for (uint64_t lists = 0; slots != 0; ++lists) {
    uint64_t count = 0, after = 0;
    if (lists == kMaxLists || !memory.Read(slots + *length, &count, sizeof count) ||
        !memory.Read(slots + *next, &after, sizeof after) || count > kMaxSlots)
      return std::nullopt;
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t object = 0, at = 0;
      if (!memory.Read(slots + first->offset + i * (first->bits / 8) + *map, &object, sizeof object))
        return std::nullopt;
      if (object == 0) continue;
      if (!memory.Read(object + *tls, &at, sizeof at)) return std::nullopt;
      // All ones: not static.
      if (at != UINT64_MAX) farthest = std::max(farthest, at);
    }
    slots = after;
  }
  return farthest;
}

}  // namespace

absl::StatusOr<StaticTls> StaticTlsNeededBy(const std::string& library) {
  const FileDescriptor file(open(library.c_str(), O_RDONLY | O_CLOEXEC));
  const std::unique_ptr<ElfFile> elf = file.valid() ? ElfFile::Open(file.get()) : nullptr;
  if (elf == nullptr || !elf->is_readable()) return absl::NotFoundError(library + " cannot be read");
  StaticTls need;
  bool is_static = false;
  for (const Elf64_Phdr& segment : elf->segments()) {
    if (segment.p_type == PT_TLS) {
      need.alignment = std::max<uint64_t>(1, segment.p_align);
      need.bytes = segment.p_memsz + (segment.p_vaddr & (need.alignment - 1));
    }
    if (segment.p_type != PT_DYNAMIC) continue;
    const std::string entries = elf->ReadUpTo(segment.p_offset, std::min<uint64_t>(segment.p_filesz, 64 << 10));
    for (size_t at = 0; at + sizeof(Elf64_Dyn) <= entries.size(); at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      memcpy(&entry, entries.data() + at, sizeof entry);
      is_static = is_static || (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_STATIC_TLS) != 0);
    }
  }
  return is_static ? need : StaticTls();
}

absl::StatusOr<StaticTls> FreeStaticTls(pid_t pid) {
  const ProcessMemory memory(pid);
  std::vector<ModuleInfo> modules;
  AddModulesOf(pid, memory, &modules);
  const auto exports_of = [&](auto is_wanted) -> std::optional<Exports> {
    const auto module = std::find_if(modules.begin(), modules.end(), is_wanted);
    return module == modules.end() ? std::nullopt : Exports::Of(pid, *module, &memory);
  };
  const auto libc = exports_of([](const ModuleInfo& module) { return IsFileOfGlibc(module.path); });
  const auto linker = exports_of([](const ModuleInfo& module) { return BaseName(module.path).starts_with("ld-"); });
  if (!libc.has_value() || !linker.has_value())
    return absl::NotFoundError("its libc and dynamic linker are not the files that it has loaded");
  const auto function = linker->Find("_dl_get_tls_static_info"), global = linker->Find("_rtld_global"),
             constant = linker->Find("_rtld_global_ro");
  const auto list = libc->OffsetOf("_thread_db_rtld_global__dl_tls_dtv_slotinfo_list");
  const auto descriptor = libc->Read<uint32_t>("_thread_db_sizeof_pthread");
  const absl::Status unknown = absl::NotFoundError("its glibc is built in another way");
  if (!function || !global || !constant || !list || !descriptor) return unknown;
  const auto words = WordsStoredBy(function->start, memory);
  uint64_t size = 0, alignment = 0;
  LinkerWords linker_words{};
  const uint64_t at = global->start + *list;
  if (!words || !constant->Contains((*words)[0], sizeof size) || !constant->Contains((*words)[1], sizeof alignment) ||
      !global->Contains(at, sizeof linker_words) || !memory.Read((*words)[0], &size, sizeof size) ||
      !memory.Read((*words)[1], &alignment, sizeof alignment) || !memory.Read(at, &linker_words, sizeof linker_words))
    return unknown;
  const auto farthest = FarthestTls(linker_words.slots, *libc, memory);
  constexpr uint64_t kMost = 1 << 30;
  const bool is_plausible = size < kMost && *descriptor < size && linker_words.used <= size - *descriptor &&
                            linker_words.used > 0 && linker_words.optional <= size && linker_words.in_static > 0 &&
                            linker_words.in_static < kMost && farthest.has_value() && *farthest > 0 &&
                            *farthest <= linker_words.used && alignment > 0 && (alignment & (alignment - 1)) == 0;
  if (!is_plausible) return unknown;
  return StaticTls{size - *descriptor - linker_words.used, alignment};
}

int64_t DlerrorFromErrno(pid_t pid, const ModuleInfo& libc) {
  const auto exports = Exports::Of(pid, libc, nullptr);
  if (!exports.has_value()) return 0;
  // Both are thread-local variables of libc, so their distance is the same in each thread.
  const auto result = exports->Find("__libc_dlerror_result"), error_number = exports->Find("errno");
  return result.has_value() && error_number.has_value() && result->size == sizeof(uint64_t)
             ? static_cast<int64_t>(result->start - error_number->start)
             : 0;
}

}  // namespace holdfast
