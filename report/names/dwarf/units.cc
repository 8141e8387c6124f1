#include "report/names/dwarf/units.h"

#include <algorithm>

#include "report/names/dwarf/constants.h"

namespace holdfast::dwarf {

bool UnitSet::ReadNext() {
  while (!at_end_) {
    const auto header = ReadUnitHeader(&sections_->info, next_, &next_);
    at_end_ = next_ == 0;
    // Type units contain no code, and no entry with code refers to them by offset.
    if (!header.has_value() || header->type == DW_UT_type || header->type == DW_UT_split_type) continue;
    headers_.push_back(*header);
    return true;
  }
  return false;
}

Unit* UnitSet::Find(uint64_t offset) {
  while (!at_end_ && next_ <= offset) ReadNext();
  auto after = std::upper_bound(headers_.begin(), headers_.end(), offset,
                                [](uint64_t o, const UnitHeader& header) { return o < header.offset; });
  if (after == headers_.begin() || offset >= (--after)->end || offset < after->first_entry) return nullptr;
  if (const auto found = open_.find(after->offset); found != open_.end()) return found->second.get();
  if (open_.size() >= kMaxOpen) open_.clear();
  auto unit = std::make_unique<Unit>(sections_, sections_, *after);
  if (!unit->Open(true)) return nullptr;
  return (open_[after->offset] = std::move(unit)).get();
}

}  // namespace holdfast::dwarf
