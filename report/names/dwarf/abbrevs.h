// Abbreviations: the attributes that the entries (DIEs) of a unit have, and how to read or skip them.
//
// An entry says "code 7", and the table says "7 = subprogram with children: name strp, low_pc addr, high_pc data4 …".
// For most abbreviations the entry's size is fixed, so that walking a unit of 300,000 entries takes a few milliseconds.
#ifndef HOLDFAST_REPORT_NAMES_DWARF_ABBREVS_H_
#define HOLDFAST_REPORT_NAMES_DWARF_ABBREVS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/names/dwarf/cursor.h"
#include "report/names/dwarf/section.h"

namespace holdfast::dwarf {

struct Encoding {
  uint16_t version = 0;
  uint8_t offset_size = 4;  // 8 in 64-bit DWARF; addresses always have 8 bytes on x86-64
  bool operator==(const Encoding&) const = default;
};

struct AttributeSpec {
  uint16_t attribute = 0, form = 0;
  bool is_walked = false;  // a walk reads it: a scope's low_pc, high_pc, ranges; a call site's pc and origin
  int8_t size = -1;        // size of the value; -1: it varies
  int64_t implicit = 0;    // the value of DW_FORM_implicit_const
};

struct Abbrev {
  uint16_t tag = 0;
  bool children = false;
  bool is_scope = false;  // a function or inlined call with code
  bool is_call_site = false;
  // Its function is described elsewhere, so it contains no types and no other function's code.
  bool is_instance = false;
  int32_t fixed_size = 0;   // total size of the attributes; -1: it varies
  int32_t sibling_at = -1;  // offset of a 4-byte DW_AT_sibling among the attributes; -1: none
  uint32_t first = 0, count = 0;
};

// An attribute's unresolved value: a string or address may be in another section.
struct Value {
  enum Kind : uint8_t {
    kNone,
    kNumber,  // also a flag or a section offset
    kAddress,
    kAddressIndex,   // into .debug_addr
    kText,           // `text`
    kStr,            // offset in .debug_str
    kLineStr,        // offset in .debug_line_str
    kStrIndex,       // into .debug_str_offsets
    kAltStr,         // offset in .debug_str of the shared file (dwz)
    kUnitReference,  // offset in the unit
    kReference,      // offset in .debug_info
    kAltReference,   // offset in .debug_info of the shared file
    kRangeIndex,     // into the offsets of .debug_rnglists
  };
  Kind kind = kNone;
  uint64_t number = 0;
  std::string_view text;
};

Value ReadValue(Cursor* cursor, const AttributeSpec& spec, Encoding encoding);
void SkipValue(Cursor* cursor, const AttributeSpec& spec, Encoding encoding);

class AbbrevTable {
 public:
  // Reads the table at `offset`; returns null if it is damaged. `only` stops after that code, which is enough for a
  // first look.
  static std::shared_ptr<const AbbrevTable> Read(Section* section, uint64_t offset, Encoding encoding,
                                                 std::optional<uint64_t> only = std::nullopt);

  // Returns null if the table lacks the code.
  const Abbrev* Find(uint64_t code) const {
    if (code - 1 < by_code_.size()) return &by_code_[code - 1];
    const auto found = sparse_.find(code);
    return found == sparse_.end() ? nullptr : &found->second;
  }
  std::span<const AttributeSpec> AttributesOf(const Abbrev& abbrev) const {
    return {attributes_.data() + abbrev.first, abbrev.count};
  }

  // Moves the cursor past an entry's attributes.
  void SkipEntry(Cursor* cursor, const Abbrev& abbrev) const {
    if (abbrev.fixed_size >= 0) {
      cursor->Skip(static_cast<uint64_t>(abbrev.fixed_size));
      return;
    }
    WalkEntry(cursor, abbrev, [](uint16_t, const Value&) {});
  }
  // Moves the cursor past an entry's attributes, and calls visit(attribute, value) for those that a walk needs.
  template <typename Visit>
  void WalkEntry(Cursor* cursor, const Abbrev& abbrev, Visit visit) const {
    for (const AttributeSpec& spec : AttributesOf(abbrev)) {
      if (spec.is_walked) {
        visit(spec.attribute, ReadValue(cursor, spec, encoding_));
      } else if (spec.size >= 0) {
        cursor->Skip(static_cast<uint64_t>(spec.size));
      } else {
        SkipValue(cursor, spec, encoding_);
      }
    }
  }
  // Calls visit(attribute, value) for each attribute of an entry.
  template <typename Visit>
  void ReadEntry(Cursor* cursor, const Abbrev& abbrev, Visit visit) const {
    for (const AttributeSpec& spec : AttributesOf(abbrev)) visit(spec.attribute, ReadValue(cursor, spec, encoding_));
  }

 private:
  // Reads from a window of the section. Returns nullopt if the table does not fit into the window.
  static std::optional<AbbrevTable> Parse(std::string_view window, Encoding encoding, std::optional<uint64_t> only);

  Encoding encoding_;
  std::vector<Abbrev> by_code_;  // compilers number them from 1
  absl::flat_hash_map<uint64_t, Abbrev> sparse_;
  std::vector<AttributeSpec> attributes_;
};

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_NAMES_DWARF_ABBREVS_H_
