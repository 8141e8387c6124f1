#include "report/names/dwarf/unit.h"

#include "report/names/dwarf/constants.h"
#include "report/names/dwarf/cursor.h"

namespace holdfast::dwarf {
namespace {

constexpr size_t kHeaderBytes = 64;
constexpr size_t kRangeBytes = 32;          // more than any list entry has
constexpr size_t kRangesPiece = 256 << 10;  // for tables: a unit's parts of a table are contiguous
constexpr uint64_t kAddressSize = 8;

}  // namespace

std::optional<UnitHeader> ReadUnitHeader(Section* info, uint64_t offset, uint64_t* next) {
  *next = 0;
  Cursor cursor(info->Window(offset, kHeaderBytes));
  UnitHeader header;
  header.offset = offset;
  uint64_t length = cursor.U32();
  if (length == 0xffffffff) {
    length = cursor.U64();
    header.encoding.offset_size = 8;
  } else if (length >= 0xfffffff0) {
    return std::nullopt;
  }
  const uint64_t begin = offset + cursor.offset();
  if (!cursor.ok() || length > info->size() - begin) return std::nullopt;
  *next = header.end = begin + length;
  header.encoding.version = cursor.U16();
  header.type = DW_UT_compile;
  uint8_t address_size = 0;
  if (header.encoding.version >= 5) {
    header.type = cursor.U8();
    address_size = cursor.U8();
    header.abbrev_offset = cursor.Offset(header.encoding.offset_size);
    if (header.type == DW_UT_skeleton || header.type == DW_UT_split_compile) header.dwo_id = cursor.U64();
    if (header.type == DW_UT_type || header.type == DW_UT_split_type) cursor.Skip(8 + header.encoding.offset_size);
  } else {
    header.abbrev_offset = cursor.Offset(header.encoding.offset_size);
    address_size = cursor.U8();
  }
  header.first_entry = offset + cursor.offset();
  if (!cursor.ok() || header.encoding.version < 2 || header.encoding.version > 5 || address_size != kAddressSize ||
      header.first_entry > header.end) {
    return std::nullopt;
  }
  return header;
}

bool Unit::Open(bool whole_table) {
  const std::string_view window = file_->info.Window(header_.first_entry, kEntryBytes);
  Cursor cursor(window.substr(0, header_.end - header_.first_entry));
  const uint64_t code = cursor.Uleb();
  if (!cursor.ok() || code == 0) return false;
  abbrevs_ = AbbrevTable::Read(&file_->abbrev, header_.abbrev_offset, header_.encoding,
                               whole_table ? std::nullopt : std::optional(code));
  const Abbrev* abbrev = abbrevs_ == nullptr ? nullptr : abbrevs_->Find(code);
  if (abbrev == nullptr) return false;
  tag = abbrev->tag;
  Value name_value, comp_dir_value, dwo_name_value;
  abbrevs_->ReadEntry(&cursor, *abbrev, [&](uint16_t attribute, const Value& value) {
    code_.Take(attribute, value);
    switch (attribute) {
      case DW_AT_name:
        name_value = value;
        break;
      case DW_AT_comp_dir:
        comp_dir_value = value;
        break;
      case DW_AT_dwo_name:
      case DW_AT_GNU_dwo_name:
        dwo_name_value = value;
        break;
      case DW_AT_language:
        language = value.number;
        break;
      case DW_AT_stmt_list:
        line_offset = value.number;
        break;
      case DW_AT_GNU_dwo_id:
        dwo_id = value.number;
        break;
      case DW_AT_str_offsets_base:
        str_offsets_base = value.number;
        break;
      case DW_AT_addr_base:
      case DW_AT_GNU_addr_base:
        addr_base = value.number;
        break;
      case DW_AT_rnglists_base:
        rnglists_base = value.number;
        break;
      case DW_AT_GNU_ranges_base:
        ranges_base = value.number;
        break;
      default:
        break;
    }
  });
  if (!cursor.ok()) return false;
  if (header_.encoding.version >= 5 && header_.type == DW_UT_skeleton) dwo_id = header_.dwo_id;
  // After all bases are known.
  name = TextOf(name_value);
  comp_dir = TextOf(comp_dir_value);
  dwo_name = TextOf(dwo_name_value);
  low_pc = AddressOf(code_.low).value_or(0);
  return true;
}

std::string Unit::TextOf(const Value& value) {
  switch (value.kind) {
    case Value::kText:
      return std::string(value.text);
    case Value::kStr:
      return file_->str.StringAt(value.number);
    case Value::kLineStr:
      return file_->line_str.StringAt(value.number);
    case Value::kStrIndex: {
      const uint8_t size = header_.encoding.offset_size;
      Cursor cursor(file_->str_offsets.WindowAround(str_offsets_base + value.number * size, size, kRangesPiece));
      const uint64_t offset = cursor.Offset(size);
      return cursor.ok() ? file_->str.StringAt(offset) : std::string();
    }
    default:
      return {};
  }
}

std::optional<uint64_t> Unit::AddressAtIndex(uint64_t index) {
  Cursor cursor(main_->addr.WindowAround(addr_base + index * kAddressSize, kAddressSize, kRangesPiece));
  const uint64_t address = cursor.U64();
  return cursor.ok() ? std::optional(address) : std::nullopt;
}

std::optional<uint64_t> Unit::AddressOf(const Value& value) {
  if (value.kind == Value::kAddress) return value.number;
  if (value.kind == Value::kAddressIndex) return AddressAtIndex(value.number);
  return std::nullopt;
}

void Unit::EachRange(const std::function<void(uint64_t, uint64_t)>& add) { EachRange(code_, add); }

void Unit::EachRangeOfList(const Value& list, const std::function<void(uint64_t, uint64_t)>& add) {
  if (header_.encoding.version < 5) return EachRangeBefore5(list.number + (IsSplit() ? ranges_base : 0), add);
  uint64_t offset = list.number;
  if (list.kind == Value::kRangeIndex) {
    const uint8_t size = header_.encoding.offset_size;
    Cursor cursor(file_->rnglists.WindowAround(rnglists_base + list.number * size, size, kRangesPiece));
    offset = rnglists_base + cursor.Offset(size);
    if (!cursor.ok()) return;
  }
  EachRangeSince5(offset, add);
}

// Reads a list through windows of its section: the window moves before the cursor can reach its end.
void Unit::EachRangeBefore5(uint64_t offset, const std::function<void(uint64_t, uint64_t)>& add) {
  uint64_t base = low_pc;
  while (true) {
    Cursor cursor(main_->ranges.WindowAround(offset, kRangeBytes, kRangesPiece));
    do {
      const uint64_t low = cursor.U64(), high = cursor.U64();
      if (!cursor.ok() || (low == 0 && high == 0)) return;
      if (low == ~uint64_t{0}) {
        base = high;
      } else {
        add(base + low, base + high);
      }
    } while (cursor.left() >= kRangeBytes);
    offset += cursor.offset();
  }
}

void Unit::EachRangeSince5(uint64_t offset, const std::function<void(uint64_t, uint64_t)>& add) {
  uint64_t base = low_pc;
  while (true) {
    Cursor cursor(file_->rnglists.WindowAround(offset, kRangeBytes, kRangesPiece));
    do {
      if (!ReadRange(&cursor, &base, add)) return;
    } while (cursor.left() >= kRangeBytes);
    offset += cursor.offset();
  }
}

bool Unit::ReadRange(Cursor* cursor, uint64_t* base, const std::function<void(uint64_t, uint64_t)>& add) {
  std::optional<uint64_t> low, high;
  switch (cursor->U8()) {
    case DW_RLE_base_addressx:
      *base = AddressAtIndex(cursor->Uleb()).value_or(0);
      break;
    case DW_RLE_startx_endx:
      low = AddressAtIndex(cursor->Uleb());
      high = AddressAtIndex(cursor->Uleb());
      break;
    case DW_RLE_startx_length:
      low = AddressAtIndex(cursor->Uleb());
      high = low.value_or(0) + cursor->Uleb();
      break;
    case DW_RLE_offset_pair:
      low = *base + cursor->Uleb();
      high = *base + cursor->Uleb();
      break;
    case DW_RLE_base_address:
      *base = cursor->U64();
      break;
    case DW_RLE_start_end:
      low = cursor->U64();
      high = cursor->U64();
      break;
    case DW_RLE_start_length:
      low = cursor->U64();
      high = *low + cursor->Uleb();
      break;
    default:
      return false;  // end of the list, or damaged
  }
  if (!cursor->ok()) return false;
  if (low.has_value() && high.has_value()) add(*low, *high);
  return true;
}

}  // namespace holdfast::dwarf
