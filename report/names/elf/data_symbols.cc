#include "report/names/elf/data_symbols.h"

#include <elf.h>

#include <algorithm>
#include <optional>

#include "report/names/elf/elf_file.h"
#include "report/names/elf/elf_symbols.h"

namespace holdfast {

std::unique_ptr<DataSymbols> DataSymbols::Load(int fd, std::string_view build_id) {
  const std::unique_ptr<ElfFile> elf = ElfFile::Open(fd);
  if (elf == nullptr || !elf->is_readable() || elf->BuildId() != build_id) return nullptr;
  auto result = std::make_unique<DataSymbols>();
  for (const uint32_t kind : {SHT_SYMTAB, SHT_DYNSYM}) {
    if (!result->variables_.empty()) break;
    for (const Elf64_Shdr& section : elf->sections()) {
      if (section.sh_type != kind) continue;
      const auto table = elf->SymbolsOf(section, ElfSymbols::kMaxSymbolBytes);
      if (!table) continue;
      const auto names = elf->BytesOf(*table->names, ElfSymbols::kMaxNameBytes);
      if (!names.has_value()) continue;
      const auto offset = static_cast<uint32_t>(result->names_.size());
      if (result->names_.size() + names->size() >= UINT32_MAX) break;
      for (const Elf64_Sym& symbol : table->symbols) {
        const auto type = ELF64_ST_TYPE(symbol.st_info);
        if ((type != STT_OBJECT && type != STT_COMMON) || symbol.st_shndx == SHN_UNDEF || symbol.st_size == 0 ||
            symbol.st_name >= names->size())
          continue;
        result->variables_.push_back({symbol.st_value, symbol.st_size, offset + symbol.st_name});
      }
      result->names_ += *names;
      result->names_ += '\0';
    }
  }
  // The largest of several variables at one address comes first.
  std::sort(result->variables_.begin(), result->variables_.end(), [](const Variable& a, const Variable& b) {
    return a.start != b.start ? a.start < b.start : a.size > b.size;
  });
  return result;
}

std::string_view DataSymbols::Find(uint64_t elf_address, uint64_t* start) const {
  constexpr int kMaxNested = 16;
  auto next = std::upper_bound(variables_.begin(), variables_.end(), elf_address,
                               [](uint64_t at, const Variable& variable) { return at < variable.start; });
  for (int i = 0; i < kMaxNested && next != variables_.begin(); ++i) {
    --next;
    if (elf_address - next->start >= next->size) continue;
    if (start != nullptr) *start = next->start;
    const std::string_view name(names_.c_str() + next->name);
    return name.size() > ElfSymbols::kMaxName ? std::string_view() : name.substr(0, name.find('@', 1));
  }
  return "";
}

}  // namespace holdfast
