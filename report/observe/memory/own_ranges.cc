#include "report/observe/memory/own_ranges.h"

#include <algorithm>
#include <memory>

#include "report/observe/memory/table_reader.h"
#include "report/observe/table/snapshot_locks.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// Bounds the work for a corrupt file.
constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

absl::StatusOr<std::vector<OwnRange>> ReadMappedRanges(const TableFile& table) {
  const TableReader reader(table.descriptor());
  const absl::StatusOr<std::unique_ptr<TableHeader>> head = reader.Head();
  if (!head.ok()) return head.status();
  std::vector<OwnRange> ranges;
  // A longer list is cyclic.
  uint64_t left = std::min(reader.FileBytes(), kMaxBytes) / sizeof(MappedRangeSegment);
  const auto segment = std::make_unique<MappedRangeSegment>();
  for (Offset at = CounterValue((*head)->mapped_ranges); at != 0 && left > 0; at = segment->next, --left) {
    if (!reader.Read(at, segment.get(), sizeof *segment)) break;
    for (const MappedRange& range : segment->ranges) {
      if (range.start < range.end && range.end <= kPcMask) {
        ranges.push_back({range.start, range.end, range.kind == MappingKind::kArena, range.row, range.ticket});
      }
    }
  }
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  return ranges;
}

}  // namespace holdfast
