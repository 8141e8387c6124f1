// A unit of .debug_info: one compiled file, or a part of one that several share (partial units of dwz and LTO).
//
// An entry's values are resolved through the unit: strings and addresses may be indices into tables that begin where
// the unit says, and with split DWARF they lie in another file than the entry.
//
//     main file     .debug_info: skeleton unit ──dwo_name, dwo_id──►  .dwo or .dwp: .debug_info.dwo: the unit
//                   .debug_addr, .debug_line, (4: .debug_ranges)  ◄── addr_base etc. of the skeleton
//     shared file   .debug_info, .debug_str  ◄── kAltReference, kAltStr (.gnu_debugaltlink)
#ifndef HOLDFAST_REPORT_DWARF_UNIT_H_
#define HOLDFAST_REPORT_DWARF_UNIT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "report/dwarf/abbrevs.h"
#include "report/dwarf/constants.h"
#include "report/dwarf/section.h"

namespace holdfast::dwarf {

// The sections of one file. Those that it does not have are empty.
struct Sections {
  Section info, abbrev, str, line_str, str_offsets, line, ranges, rnglists, addr;
  Section cu_index;               // of a package (.dwp)
  std::shared_ptr<Sections> alt;  // the shared file (dwz), null when there is none
};

inline constexpr size_t kEntryBytes = 4096;  // nearly every entry is smaller

struct UnitHeader {
  uint64_t offset = 0, end = 0;  // in .debug_info
  uint64_t first_entry = 0;      // offset in .debug_info
  uint64_t abbrev_offset = 0;
  uint64_t dwo_id = 0;  // of skeleton and split units of version 5
  Encoding encoding;
  uint8_t type = 0;  // UnitType; kUnitCompile before version 5
};

// The header at `offset`; nullopt when there is none that can be read, also behind the last one. `next`: where to look
// for the next one (0: the section is damaged from here on).
std::optional<UnitHeader> ReadUnitHeader(Section* info, uint64_t offset, uint64_t* next);

class Unit {
 public:
  // `file` holds the entries; `main` .debug_addr and, for split units of version 4, .debug_ranges.
  Unit(Sections* file, Sections* main, const UnitHeader& header) : file_(file), main_(main), header_(header) {}

  // Reads the abbreviations and the first entry; false when they are damaged. `whole_table`: not only the first entry's
  // abbreviation.
  bool Open(bool whole_table);

  const UnitHeader& header() const { return header_; }
  const AbbrevTable& abbrevs() const { return *abbrevs_; }
  Sections* file() const { return file_; }

  // Of the first entry.
  uint16_t tag = 0;
  std::string name, comp_dir, dwo_name;
  uint64_t low_pc = 0, language = 0;
  std::optional<uint64_t> line_offset, dwo_id;
  // Where this unit's parts of the tables begin. A split unit takes the first from its skeleton, the others from the
  // index of its package.
  uint64_t addr_base = 0, ranges_base = 0, str_offsets_base = 0, rnglists_base = 0;

  // The first entry's code: calls add(low, high) for each range.
  void EachRange(const std::function<void(uint64_t, uint64_t)>& add);

  std::string TextOf(const Value& value);
  std::optional<uint64_t> AddressOf(const Value& value);

  // What an entry says of its code.
  struct Code {
    Value low, high, ranges;
    void Take(uint16_t attribute, const Value& value) {
      if (attribute == kAtLowPc) low = value;
      if (attribute == kAtHighPc) high = value;
      if (attribute == kAtRanges) ranges = value;
    }
  };
  template <typename Add>
  void EachRange(const Code& code, Add add) {
    if (code.ranges.kind != Value::kNone) return EachRangeOfList(code.ranges, add);
    const std::optional<uint64_t> low = AddressOf(code.low);
    if (!low.has_value() || code.high.kind == Value::kNone) return;
    // An address, or (usual since version 4) a length.
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

#endif  // HOLDFAST_REPORT_DWARF_UNIT_H_
