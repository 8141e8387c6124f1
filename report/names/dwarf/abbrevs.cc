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
    case kFormFlagPresent:
    case kFormImplicitConst:
      return 0;
    case kFormData1:
    case kFormRef1:
    case kFormFlag:
    case kFormStrx1:
    case kFormAddrx1:
      return 1;
    case kFormData2:
    case kFormRef2:
    case kFormStrx2:
    case kFormAddrx2:
      return 2;
    case kFormStrx3:
    case kFormAddrx3:
      return 3;
    case kFormData4:
    case kFormRef4:
    case kFormRefSup4:
    case kFormStrx4:
    case kFormAddrx4:
      return 4;
    case kFormAddr:
    case kFormData8:
    case kFormRef8:
    case kFormRefSig8:
    case kFormRefSup8:
      return 8;
    case kFormData16:
      return 16;
    case kFormStrp:
    case kFormLineStrp:
    case kFormSecOffset:
    case kFormStrpSup:
    case kFormGnuRefAlt:
    case kFormGnuStrpAlt:
      return encoding.offset_size;
    case kFormRefAddr:
      return encoding.version <= 2 ? 8 : encoding.offset_size;  // version 2: the size of an address
    default:
      return -1;
  }
}

}  // namespace

Value ReadValue(Cursor* cursor, const AttributeSpec& spec, Encoding encoding) {
  const auto value = [](Value::Kind kind, uint64_t number) { return Value{kind, number, {}}; };
  uint16_t form = spec.form;
  if (form == kFormIndirect) {
    form = static_cast<uint16_t>(cursor->Uleb());
    if (form == kFormIndirect || form == kFormImplicitConst) form = 0;
  }
  switch (form) {
    case kFormAddr:
      return value(Value::kAddress, cursor->U64());
    case kFormAddrx:
    case kFormGnuAddrIndex:
      return value(Value::kAddressIndex, cursor->Uleb());
    case kFormAddrx1:
      return value(Value::kAddressIndex, cursor->U8());
    case kFormAddrx2:
      return value(Value::kAddressIndex, cursor->U16());
    case kFormAddrx3:
      return value(Value::kAddressIndex, cursor->U24());
    case kFormAddrx4:
      return value(Value::kAddressIndex, cursor->U32());
    case kFormData1:
    case kFormFlag:
      return value(Value::kNumber, cursor->U8());
    case kFormData2:
      return value(Value::kNumber, cursor->U16());
    case kFormData4:
      return value(Value::kNumber, cursor->U32());
    case kFormData8:
      return value(Value::kNumber, cursor->U64());
    case kFormUdata:
      return value(Value::kNumber, cursor->Uleb());
    case kFormSdata:
      return value(Value::kNumber, static_cast<uint64_t>(cursor->Sleb()));
    case kFormImplicitConst:
      return value(Value::kNumber, static_cast<uint64_t>(spec.implicit));
    case kFormFlagPresent:
      return value(Value::kNumber, 1);
    case kFormSecOffset:
      return value(Value::kNumber, cursor->Offset(encoding.offset_size));
    case kFormString:
      return {Value::kText, 0, cursor->CString()};
    case kFormStrp:
      return value(Value::kStr, cursor->Offset(encoding.offset_size));
    case kFormLineStrp:
      return value(Value::kLineStr, cursor->Offset(encoding.offset_size));
    case kFormStrx:
    case kFormGnuStrIndex:
      return value(Value::kStrIndex, cursor->Uleb());
    case kFormStrx1:
      return value(Value::kStrIndex, cursor->U8());
    case kFormStrx2:
      return value(Value::kStrIndex, cursor->U16());
    case kFormStrx3:
      return value(Value::kStrIndex, cursor->U24());
    case kFormStrx4:
      return value(Value::kStrIndex, cursor->U32());
    case kFormStrpSup:
    case kFormGnuStrpAlt:
      return value(Value::kAltStr, cursor->Offset(encoding.offset_size));
    case kFormRef1:
      return value(Value::kUnitReference, cursor->U8());
    case kFormRef2:
      return value(Value::kUnitReference, cursor->U16());
    case kFormRef4:
      return value(Value::kUnitReference, cursor->U32());
    case kFormRef8:
      return value(Value::kUnitReference, cursor->U64());
    case kFormRefUdata:
      return value(Value::kUnitReference, cursor->Uleb());
    case kFormRefAddr:
      return value(Value::kReference, cursor->Offset(static_cast<uint8_t>(FixedSize(kFormRefAddr, encoding))));
    case kFormGnuRefAlt:
      return value(Value::kAltReference, cursor->Offset(encoding.offset_size));
    case kFormRefSup4:
      return value(Value::kAltReference, cursor->U32());
    case kFormRefSup8:
      return value(Value::kAltReference, cursor->U64());
    case kFormRnglistx:
      return value(Value::kRangeIndex, cursor->Uleb());
    case kFormLoclistx:
      cursor->Uleb();
      return {};
    case kFormBlock1:
      cursor->Skip(cursor->U8());
      return {};
    case kFormBlock2:
      cursor->Skip(cursor->U16());
      return {};
    case kFormBlock4:
      cursor->Skip(cursor->U32());
      return {};
    case kFormBlock:
    case kFormExprloc:
      cursor->Skip(cursor->Uleb());
      return {};
    case kFormData16:
      cursor->Skip(16);
      return {};
    case kFormRefSig8:
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
    abbrev.is_call_site = abbrev.tag == kTagCallSite || abbrev.tag == kTagGnuCallSite;
    abbrev.first = static_cast<uint32_t>(table.attributes_.size());
    while (cursor.ok()) {
      AttributeSpec spec;
      spec.attribute = static_cast<uint16_t>(cursor.Uleb());
      spec.form = static_cast<uint16_t>(cursor.Uleb());
      if (spec.form == kFormImplicitConst) spec.implicit = cursor.Sleb();
      if (spec.attribute == 0 && spec.form == 0) break;
      const bool is_code = spec.attribute == kAtLowPc || spec.attribute == kAtHighPc || spec.attribute == kAtRanges;
      if (is_code && (abbrev.tag == kTagSubprogram || abbrev.tag == kTagInlinedSubroutine)) {
        spec.is_walked = abbrev.is_scope = true;
      }
      if (abbrev.is_call_site &&
          (spec.attribute == kAtCallReturnPc || spec.attribute == kAtCallPc || spec.attribute == kAtLowPc ||
           spec.attribute == kAtCallOrigin || spec.attribute == kAtAbstractOrigin)) {
        spec.is_walked = true;
      }
      spec.size = static_cast<int8_t>(FixedSize(spec.form, encoding));
      if (spec.attribute == kAtSibling && spec.form == kFormRef4) abbrev.sibling_at = abbrev.fixed_size;
      if (spec.attribute == kAtAbstractOrigin) abbrev.is_instance = true;
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
