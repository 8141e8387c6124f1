#include "report/names/elf/import_slots.h"

#include <elf.h>
#include <string.h>

#include <algorithm>

namespace holdfast {
namespace {

constexpr uint64_t kMaxRelocationBytes = 64 << 20, kPieceBytes = 32768 * sizeof(Elf64_Rela);
constexpr size_t kLongestName = 64;

}  // namespace

std::vector<ImportSlot> ImportSlotsOf(const ElfFile& elf, const std::vector<std::string_view>& names) {
  std::vector<ImportSlot> slots;
  for (const Elf64_Shdr& section : elf.sections()) {
    if (section.sh_type != SHT_RELA || section.sh_link >= elf.sections().size()) continue;
    const Elf64_Shdr& names_of = elf.sections()[section.sh_link];
    const auto symbols = names_of.sh_type == SHT_DYNSYM ? elf.SymbolsOf(names_of, kMaxRelocationBytes) : std::nullopt;
    if (!symbols.has_value() || section.sh_size > kMaxRelocationBytes) continue;
    std::string bytes;  // read in pieces: an exporter may have little address space
    for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= section.sh_size; at += sizeof(Elf64_Rela)) {
      const uint64_t in_piece = at % kPieceBytes;
      if (in_piece == 0) bytes = elf.ReadUpTo(section.sh_offset + at, std::min(section.sh_size - at, kPieceBytes));
      if (in_piece + sizeof(Elf64_Rela) > bytes.size()) break;
      Elf64_Rela entry;
      memcpy(&entry, bytes.data() + in_piece, sizeof entry);
      const uint64_t index = ELF64_R_SYM(entry.r_info);
      if (index == 0 || index >= symbols->symbols.size()) continue;
      std::string name = elf.TextAt(*symbols->names, symbols->symbols[index].st_name, kLongestName);
      if (std::find(names.begin(), names.end(), name) != names.end())
        slots.push_back({entry.r_offset, static_cast<uint32_t>(ELF64_R_TYPE(entry.r_info)), std::move(name)});
    }
  }
  return slots;
}

}  // namespace holdfast
