// A unit of .debug_info: one compiled file, or a part that several files share (partial units of dwz and LTO).
//
// The unit resolves the values of its entries. Strings and addresses may be indices into tables, and the unit says
// where its parts of the tables begin. With split DWARF these tables may be in another file than the entry.
//
//     main file     .debug_info: skeleton unit ──dwo_name, dwo_id──►  .dwo or .dwp: .debug_info.dwo: the unit
//                   .debug_addr, .debug_line, (4: .debug_ranges)  ◄── addr_base etc. of the skeleton
//     shared file   .debug_info, .debug_str  ◄── kAltReference, kAltStr (.gnu_debugaltlink)
#ifndef HOLDFAST_REPORT_NAMES_DWARF_UNIT_H_
#define HOLDFAST_REPORT_NAMES_DWARF_UNIT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "report/names/dwarf/abbrevs.h"
#include "report/names/dwarf/constants.h"
#include "report/names/dwarf/section.h"

namespace holdfast::dwarf {

// The sections of one file. Missing sections are empty.
struct Sections {
  Section info, abbrev, str, line_str, str_offsets, line, ranges, rnglists, addr;
  Section cu_index;               // for a package (.dwp)
  std::shared_ptr<Sections> alt;  // the shared file (dwz); null = none
};

inline constexpr size_t kEntryBytes = 4096;  // most entries are smaller

struct UnitHeader {
  uint64_t offset = 0, end = 0;  // in .debug_info
  uint64_t first_entry = 0;      // offset in .debug_info
  uint64_t abbrev_offset = 0;
  uint64_t dwo_id = 0;  // for skeleton and split units of version 5
  Encoding encoding;
  uint8_t type = 0;  // UnitType; DW_UT_compile before version 5
};

// Reads the header at `offset`. Returns nullopt if the header is damaged, or at the end of the section. `next`: offset
// of the next header (0: the rest of the section is damaged).
std::optional<UnitHeader> ReadUnitHeader(Section* info, uint64_t offset, uint64_t* next);

class Unit {
 public:
  // `file` has the entries. `main` has .debug_addr and, for split units of version 4, .debug_ranges.
  Unit(Sections* file, Sections* main, const UnitHeader& header) : file_(file), main_(main), header_(header) {}

  // Reads the abbreviations and the first entry; returns false if they are damaged. `whole_table`: read all
  // abbreviations, not only the first entry's.
  bool Open(bool whole_table);

  const UnitHeader& header() const { return header_; }
  const AbbrevTable& abbrevs() const { return *abbrevs_; }
  Sections* file() const { return file_; }

  // Attributes of the first entry.
  uint16_t tag = 0;
  std::string name, comp_dir, dwo_name;
  uint64_t low_pc = 0, language = 0;
  std::optional<uint64_t> line_offset, dwo_id;
  // The starts of this unit's parts of the tables. A split unit takes the first two from its skeleton, the others from
  // its package's index.
  uint64_t addr_base = 0, ranges_base = 0, str_offsets_base = 0, rnglists_base = 0;

  // Calls add(low, high) for each range of the first entry's code.
  void EachRange(const std::function<void(uint64_t, uint64_t)>& add);

  std::string TextOf(const Value& value);
  std::optional<uint64_t> AddressOf(const Value& value);

  // An entry's attributes about its code.
  struct Code {
    Value low, high, ranges;
    void Take(uint16_t attribute, const Value& value) {
      if (attribute == DW_AT_low_pc) low = value;
      if (attribute == DW_AT_high_pc) high = value;
      if (attribute == DW_AT_ranges) ranges = value;
    }
  };
  template <typename Add>
  void EachRange(const Code& code, Add add) {
    if (code.ranges.kind != Value::kNone) return EachRangeOfList(code.ranges, add);
    const std::optional<uint64_t> low = AddressOf(code.low);
    if (!low.has_value() || code.high.kind == Value::kNone) return;
    // An address, or a length (usual since version 4).
    const std::optional<uint64_t> end = AddressOf(code.high);
    add(*low, end.has_value() ? *end : *low + code.high.number);
  }

 private:
  void EachRangeOfList(const Value& list, const std::function<void(uint64_t, uint64_t)>& add);
  void EachRangeBefore5(uint64_t offset, const std::function<void(uint64_t, uint64_t)>& add);
  void EachRangeSince5(uint64_t offset, const std::function<void(uint64_t, uint64_t)>& add);
  bool ReadRange(Cursor* cursor, uint64_t* base, const std::function<void(uint64_t, uint64_t)>& add);
  std::optional<uint64_t> AddressAtIndex(uint64_t index);
  bool IsSplit() const { return file_ != main_; }

  Sections* file_;
  Sections* main_;
  UnitHeader header_;
  std::shared_ptr<const AbbrevTable> abbrevs_;
  Code code_;
};

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_NAMES_DWARF_UNIT_H_
