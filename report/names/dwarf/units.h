// The units of a file by offset. Finds the unit of an entry that another entry refers to.
#ifndef HOLDFAST_REPORT_NAMES_DWARF_UNITS_H_
#define HOLDFAST_REPORT_NAMES_DWARF_UNITS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/names/dwarf/unit.h"

namespace holdfast::dwarf {

class UnitSet {
 public:
  explicit UnitSet(Sections* sections) : sections_(sections) {}

  // Reads one more header; returns false at the end of the section.
  bool ReadNext();
  const std::vector<UnitHeader>& headers() const { return headers_; }

  // Opens the unit that contains the entry at `offset`; null if there is none. Valid until the next call.
  Unit* Find(uint64_t offset);

 private:
  static constexpr size_t kMaxOpen = 256;

  Sections* sections_;
  uint64_t next_ = 0;
  bool at_end_ = false;
  std::vector<UnitHeader> headers_;                            // ascending
  absl::flat_hash_map<uint64_t, std::unique_ptr<Unit>> open_;  // by offset
};

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_NAMES_DWARF_UNITS_H_
