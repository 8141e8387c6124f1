#include "report/names/dwarf/abbrevs.h"

#include <algorithm>

#include "report/names/dwarf/constants.h"

namespace holdfast::dwarf {
namespace {

constexpr size_t kFirstWindow = 16 * 1024;
constexpr size_t kLargestWindow = 64 << 20;

// Returns the size of a form's value, or -1 if the value itself encodes its size.
int FixedSize(uint16_t form, Encoding encoding) {
  switch (form) {
    case DW_FORM_flag_present:
    case DW_FORM_implicit_const:
      return 0;
    case DW_FORM_data1:
    case DW_FORM_ref1:
    case DW_FORM_flag:
    case DW_FORM_strx1:
    case DW_FORM_addrx1:
      return 1;
    case DW_FORM_data2:
    case DW_FORM_ref2:
    case DW_FORM_strx2:
    case DW_FORM_addrx2:
      return 2;
    case DW_FORM_strx3:
    case DW_FORM_addrx3:
      return 3;
    case DW_FORM_data4:
    case DW_FORM_ref4:
    case DW_FORM_ref_sup4:
    case DW_FORM_strx4:
    case DW_FORM_addrx4:
      return 4;
    case DW_FORM_addr:
    case DW_FORM_data8:
    case DW_FORM_ref8:
    case DW_FORM_ref_sig8:
    case DW_FORM_ref_sup8:
      return 8;
    case DW_FORM_data16:
      return 16;
    case DW_FORM_strp:
    case DW_FORM_line_strp:
    case DW_FORM_sec_offset:
    case DW_FORM_strp_sup:
    case DW_FORM_GNU_ref_alt:
    case DW_FORM_GNU_strp_alt:
      return encoding.offset_size;
    case DW_FORM_ref_addr:
      return encoding.version <= 2 ? 8 : encoding.offset_size;  // version 2: the size of an address
    default:
      return -1;
  }
}

}  // namespace

Value ReadValue(Cursor* cursor, const AttributeSpec& spec, Encoding encoding) {
  const auto value = [](Value::Kind kind, uint64_t number) { return Value{kind, number, {}}; };
  uint16_t form = spec.form;
  if (form == DW_FORM_indirect) {
    form = static_cast<uint16_t>(cursor->Uleb());
    if (form == DW_FORM_indirect || form == DW_FORM_implicit_const) form = 0;
  }
  switch (form) {
    case DW_FORM_addr:
      return value(Value::kAddress, cursor->U64());
    case DW_FORM_addrx:
    case DW_FORM_GNU_addr_index:
      return value(Value::kAddressIndex, cursor->Uleb());
    case DW_FORM_addrx1:
      return value(Value::kAddressIndex, cursor->U8());
    case DW_FORM_addrx2:
      return value(Value::kAddressIndex, cursor->U16());
    case DW_FORM_addrx3:
      return value(Value::kAddressIndex, cursor->U24());
    case DW_FORM_addrx4:
      return value(Value::kAddressIndex, cursor->U32());
    case DW_FORM_data1:
    case DW_FORM_flag:
      return value(Value::kNumber, cursor->U8());
    case DW_FORM_data2:
      return value(Value::kNumber, cursor->U16());
    case DW_FORM_data4:
      return value(Value::kNumber, cursor->U32());
    case DW_FORM_data8:
      return value(Value::kNumber, cursor->U64());
    case DW_FORM_udata:
      return value(Value::kNumber, cursor->Uleb());
    case DW_FORM_sdata:
      return value(Value::kNumber, static_cast<uint64_t>(cursor->Sleb()));
    case DW_FORM_implicit_const:
      return value(Value::kNumber, static_cast<uint64_t>(spec.implicit));
    case DW_FORM_flag_present:
      return value(Value::kNumber, 1);
    case DW_FORM_sec_offset:
      return value(Value::kNumber, cursor->Offset(encoding.offset_size));
    case DW_FORM_string:
      return {Value::kText, 0, cursor->CString()};
    case DW_FORM_strp:
      return value(Value::kStr, cursor->Offset(encoding.offset_size));
    case DW_FORM_line_strp:
      return value(Value::kLineStr, cursor->Offset(encoding.offset_size));
    case DW_FORM_strx:
    case DW_FORM_GNU_str_index:
      return value(Value::kStrIndex, cursor->Uleb());
    case DW_FORM_strx1:
      return value(Value::kStrIndex, cursor->U8());
    case DW_FORM_strx2:
      return value(Value::kStrIndex, cursor->U16());
    case DW_FORM_strx3:
      return value(Value::kStrIndex, cursor->U24());
    case DW_FORM_strx4:
      return value(Value::kStrIndex, cursor->U32());
    case DW_FORM_strp_sup:
    case DW_FORM_GNU_strp_alt:
      return value(Value::kAltStr, cursor->Offset(encoding.offset_size));
    case DW_FORM_ref1:
      return value(Value::kUnitReference, cursor->U8());
    case DW_FORM_ref2:
      return value(Value::kUnitReference, cursor->U16());
    case DW_FORM_ref4:
      return value(Value::kUnitReference, cursor->U32());
    case DW_FORM_ref8:
      return value(Value::kUnitReference, cursor->U64());
    case DW_FORM_ref_udata:
      return value(Value::kUnitReference, cursor->Uleb());
    case DW_FORM_ref_addr:
      return value(Value::kReference, cursor->Offset(static_cast<uint8_t>(FixedSize(DW_FORM_ref_addr, encoding))));
    case DW_FORM_GNU_ref_alt:
      return value(Value::kAltReference, cursor->Offset(encoding.offset_size));
    case DW_FORM_ref_sup4:
      return value(Value::kAltReference, cursor->U32());
    case DW_FORM_ref_sup8:
      return value(Value::kAltReference, cursor->U64());
    case DW_FORM_rnglistx:
      return value(Value::kRangeIndex, cursor->Uleb());
    case DW_FORM_loclistx:
      cursor->Uleb();
      return {};
    case DW_FORM_block1:
      cursor->Skip(cursor->U8());
      return {};
    case DW_FORM_block2:
      cursor->Skip(cursor->U16());
      return {};
    case DW_FORM_block4:
      cursor->Skip(cursor->U32());
      return {};
    case DW_FORM_block:
    case DW_FORM_exprloc:
      cursor->Skip(cursor->Uleb());
      return {};
    case DW_FORM_data16:
      cursor->Skip(16);
      return {};
    case DW_FORM_ref_sig8:
      cursor->Skip(8);
      return {};
    default:
      cursor->Skip(cursor->left() + 1);
      return {};  // unknown size: nothing after it can be read
  }
}

void SkipValue(Cursor* cursor, const AttributeSpec& spec, Encoding encoding) {
  if (const int size = FixedSize(spec.form, encoding); size >= 0) {
    cursor->Skip(static_cast<uint64_t>(size));
  } else {
    (void)ReadValue(cursor, spec, encoding);
  }
}

std::optional<AbbrevTable> AbbrevTable::Parse(std::string_view window, Encoding encoding,
                                              std::optional<uint64_t> only) {
  AbbrevTable table;
  table.encoding_ = encoding;
  Cursor cursor(window);
  while (const uint64_t code = cursor.Uleb()) {
    Abbrev abbrev;
    abbrev.tag = static_cast<uint16_t>(cursor.Uleb());
    abbrev.children = cursor.U8() != 0;
    abbrev.is_call_site = abbrev.tag == DW_TAG_call_site || abbrev.tag == DW_TAG_GNU_call_site;
    abbrev.first = static_cast<uint32_t>(table.attributes_.size());
    while (cursor.ok()) {
      AttributeSpec spec;
      spec.attribute = static_cast<uint16_t>(cursor.Uleb());
      spec.form = static_cast<uint16_t>(cursor.Uleb());
      if (spec.form == DW_FORM_implicit_const) spec.implicit = cursor.Sleb();
      if (spec.attribute == 0 && spec.form == 0) break;
      const bool is_code =
          spec.attribute == DW_AT_low_pc || spec.attribute == DW_AT_high_pc || spec.attribute == DW_AT_ranges;
      if (is_code && (abbrev.tag == DW_TAG_subprogram || abbrev.tag == DW_TAG_inlined_subroutine)) {
        spec.is_walked = abbrev.is_scope = true;
      }
      if (abbrev.is_call_site && (spec.attribute == DW_AT_call_return_pc || spec.attribute == DW_AT_call_pc ||
                                  spec.attribute == DW_AT_low_pc || spec.attribute == DW_AT_call_origin ||
                                  spec.attribute == DW_AT_abstract_origin)) {
        spec.is_walked = true;
      }
      spec.size = static_cast<int8_t>(FixedSize(spec.form, encoding));
      if (spec.attribute == DW_AT_sibling && spec.form == DW_FORM_ref4) abbrev.sibling_at = abbrev.fixed_size;
      if (spec.attribute == DW_AT_abstract_origin) abbrev.is_instance = true;
      abbrev.fixed_size = spec.size < 0 || abbrev.fixed_size < 0 ? -1 : abbrev.fixed_size + spec.size;
      table.attributes_.push_back(spec);
    }
    if (!cursor.ok()) return std::nullopt;
    abbrev.count = static_cast<uint32_t>(table.attributes_.size()) - abbrev.first;
    if (code == table.by_code_.size() + 1) {
      table.by_code_.push_back(abbrev);
    } else {
      table.sparse_.try_emplace(code, abbrev);
    }
    if (only == code) return table;
  }
  if (!cursor.ok()) return std::nullopt;
  return table;
}

std::shared_ptr<const AbbrevTable> AbbrevTable::Read(Section* section, uint64_t offset, Encoding encoding,
                                                     std::optional<uint64_t> only) {
  for (size_t want = only.has_value() ? 512 : kFirstWindow; want <= kLargestWindow; want *= 8) {
    const std::string_view window = section->Window(offset, want);
    if (auto table = Parse(window, encoding, only)) return std::make_shared<AbbrevTable>(*std::move(table));
    if (window.size() < want) break;  // the section ends within the table
  }
  return nullptr;
}

}  // namespace holdfast::dwarf
