#include "report/names/dwarf/split_dwarf.h"

#include "report/names/dwarf/constants.h"
#include "report/names/dwarf/cursor.h"

namespace holdfast::dwarf {
namespace {

struct Parts {  // the starts of a unit's parts in a package's sections
  uint64_t info = 0, abbrev = 0, str_offsets = 0, rnglists = 0;
};

// Finds a unit in a package's index (DWARF 5, section 7.3.5): a hash table of ids, then a table of offsets with a row
// for each unit and a column for each section.
std::optional<Parts> FindInPackage(Section* index, uint64_t id) {
  Cursor header(index->Window(0, 16));
  const uint32_t version = header.U32();  // 2 (GNU's format for DWARF 4), or two bytes with 5 and two bytes of padding
  const uint32_t columns = header.U32(), units = header.U32(), slots = header.U32();
  if (!header.ok() || ((version & 0xffff) != 2 && (version & 0xffff) != 5) || slots == 0 ||
      (slots & (slots - 1)) != 0 || columns > 16) {
    return std::nullopt;
  }
  const uint64_t rows = 16 + uint64_t{slots} * 8, names = rows + uint64_t{slots} * 4, offsets = names + columns * 4;
  const uint64_t mask = slots - 1, step = ((id >> 32) & mask) | 1;
  uint64_t slot = id & mask;
  for (uint32_t tried = 0; tried < slots; ++tried, slot = (slot + step) & mask) {
    Cursor row_cursor(index->Window(rows + slot * 4, 4));
    const uint32_t row = row_cursor.U32();
    if (row == 0 || row > units) return std::nullopt;
    Cursor id_cursor(index->Window(16 + slot * 8, 8));
    if (id_cursor.U64() != id) continue;
    Parts parts;
    for (uint32_t column = 0; column < columns; ++column) {
      Cursor name(index->Window(names + column * 4, 4));
      const uint32_t section = name.U32();
      Cursor offset(index->Window(offsets + (uint64_t{row - 1} * columns + column) * 4, 4));
      const uint64_t value = offset.U32();
      if (!name.ok() || !offset.ok()) return std::nullopt;
      if (section == kSectInfo) parts.info = value;
      if (section == kSectAbbrev) parts.abbrev = value;
      if (section == kSectStrOffsets) parts.str_offsets = value;
      if (section == kSectRnglists) parts.rnglists = value;
    }
    return parts;
  }
  return std::nullopt;
}

std::unique_ptr<Unit> OpenAt(Sections* file, const Unit& skeleton, uint64_t offset, const Parts& parts,
                             uint64_t* next) {
  std::optional<UnitHeader> header = ReadUnitHeader(&file->info, offset, next);
  if (!header.has_value() || (header->type != DW_UT_compile && header->type != DW_UT_split_compile)) return nullptr;
  header->abbrev_offset += parts.abbrev;
  auto unit = std::make_unique<Unit>(file, skeleton.file(), *header);
  const bool since5 = header->encoding.version >= 5;
  // Since version 5 the tables have headers (7.26, 7.28), in 32-bit or 64-bit DWARF. The bases are after the headers.
  const bool wide = header->encoding.offset_size == 8;
  unit->str_offsets_base = parts.str_offsets + (since5 ? (wide ? 16 : 8) : 0);
  unit->rnglists_base = parts.rnglists + (since5 ? (wide ? 20 : 12) : 0);
  unit->addr_base = skeleton.addr_base;
  unit->ranges_base = skeleton.ranges_base;
  if (!unit->Open(true)) return nullptr;
  unit->low_pc = skeleton.low_pc;
  const uint64_t id = since5 ? header->dwo_id : unit->dwo_id.value_or(0);
  return id == *skeleton.dwo_id ? std::move(unit) : nullptr;
}

}  // namespace

std::unique_ptr<Unit> OpenSplitUnit(Sections* file, const Unit& skeleton) {
  if (!skeleton.dwo_id.has_value()) return nullptr;
  uint64_t next = 0;
  if (!file->cu_index.empty()) {
    const auto parts = FindInPackage(&file->cu_index, *skeleton.dwo_id);
    return parts.has_value() ? OpenAt(file, skeleton, parts->info, *parts, &next) : nullptr;
  }
  for (uint64_t offset = 0; offset < file->info.size(); offset = next) {
    if (auto unit = OpenAt(file, skeleton, offset, {}, &next)) return unit;
    if (next == 0) break;
  }
  return nullptr;
}

}  // namespace holdfast::dwarf
