// Abbreviations: what the entries (DIEs) of a unit are made of, and how to read or skip their attributes.
//
// Entries say "code 7", the table says "7 = subprogram with children: name strp, low_pc addr, high_pc data4 …". Most
// entries have a size that follows from their abbreviation alone, so that a unit of 300,000 entries is walked in a few
// milliseconds.
#ifndef HOLDFAST_REPORT_DWARF_ABBREVS_H_
#define HOLDFAST_REPORT_DWARF_ABBREVS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/dwarf/cursor.h"
#include "report/dwarf/section.h"

namespace holdfast::dwarf {

struct Encoding {
  uint16_t version = 0;
  uint8_t offset_size = 4;  // 8 in 64-bit DWARF; addresses always have 8 bytes on x86-64
  bool operator==(const Encoding&) const = default;
};

struct AttributeSpec {
  uint16_t attribute = 0, form = 0;
  bool is_walked = false;  // what a walk reads: a scope's low_pc, high_pc, ranges; a call site's pc and origin
  int8_t size = -1;        // of the value; -1 when that varies
  int64_t implicit = 0;    // of DW_FORM_implicit_const
};

struct Abbrev {
  uint16_t tag = 0;
  bool children = false;
  bool is_scope = false;  // a function or an inlined call that has code
  bool is_call_site = false;
  bool is_instance = false;  // of a function that is described elsewhere: holds no types, so no code but its own
  int32_t fixed_size = 0;    // of all its attributes; -1 when that varies
  int32_t sibling_at = -1;   // where DW_AT_sibling lies among them, in 4 bytes; -1 when there is none there
  uint32_t first = 0, count = 0;
};

// One attribute's value, not yet resolved: a string or an address may lie in another section.
struct Value {
  enum Kind : uint8_t {
    kNone,
    kNumber,  // also a flag, a section offset
    kAddress,
    kAddressIndex,   // into .debug_addr
    kText,           // `text`
    kStr,            // offset in .debug_str
    kLineStr,        // offset in .debug_line_str
    kStrIndex,       // into .debug_str_offsets
    kAltStr,         // offset in .debug_str of the shared (dwz) file
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
  // The table at `offset`; null when it is damaged. `only` stops behind that code: all that a first look needs.
  static std::shared_ptr<const AbbrevTable> Read(Section* section, uint64_t offset, Encoding encoding,
                                                 std::optional<uint64_t> only = std::nullopt);

  // Null for a code that is not there.
  const Abbrev* Find(uint64_t code) const {
    if (code - 1 < by_code_.size()) return &by_code_[code - 1];
    const auto found = sparse_.find(code);
    return found == sparse_.end() ? nullptr : &found->second;
  }
  std::span<const AttributeSpec> AttributesOf(const Abbrev& abbrev) const {
    return {attributes_.data() + abbrev.first, abbrev.count};
  }

  // Moves the cursor behind an entry's attributes.
  void SkipEntry(Cursor* cursor, const Abbrev& abbrev) const {
    if (abbrev.fixed_size >= 0) {
      cursor->Skip(static_cast<uint64_t>(abbrev.fixed_size));
      return;
    }
    WalkEntry(cursor, abbrev, [](uint16_t, const Value&) {});
  }
  // Moves the cursor behind an entry, reading only what a walk needs: visit(attribute, value).
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
  // visit(attribute, value) for each attribute of an entry.
  template <typename Visit>
  void ReadEntry(Cursor* cursor, const Abbrev& abbrev, Visit visit) const {
    for (const AttributeSpec& spec : AttributesOf(abbrev)) visit(spec.attribute, ReadValue(cursor, spec, encoding_));
  }

 private:
  // Reads from a window of the section; nullopt when that window is too short for the table.
  static std::optional<AbbrevTable> Parse(std::string_view window, Encoding encoding, std::optional<uint64_t> only);

  Encoding encoding_;
  std::vector<Abbrev> by_code_;  // compilers count from 1
  absl::flat_hash_map<uint64_t, Abbrev> sparse_;
  std::vector<AttributeSpec> attributes_;
};

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_DWARF_ABBREVS_H_
