#include "report/memory/resident_rows.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "report/table/process_info.h"
#include "sampler/contract/weight.h"

namespace holdfast {
namespace {

constexpr uint64_t kPiece = uint64_t{64} << 20;  // of a block, between two looks at the clock

std::optional<PageTable::Share> ShareOf(const LiveBlock& block, PageTable* pages, const Deadline& by) {
  PageTable::Share share;
  for (uint64_t at = 0; at < block.bytes; at += kPiece) {
    if (by.Passed()) return std::nullopt;
    const PageTable::Share piece = pages->Of(block.address + at, std::min(kPiece, block.bytes - at));
    share.resident += piece.resident;
    share.swapped += piece.swapped;
  }
  return share;
}

}  // namespace

bool AddResidentRows(const std::vector<LiveBlock>& blocks, PageTable* pages, const Deadline& by, Snapshot* snapshot) {
  absl::flat_hash_map<Offset, ResidentRow> rows;
  double swapped = 0, swapped_variance = 0;
  for (const LiveBlock& block : blocks) {
    const std::optional<PageTable::Share> share = ShareOf(block, pages, by);
    if (!share.has_value()) return false;
    const double p = SampleProbability(block.bytes, block.interval), variance = (1 - p) / (p * p);
    const auto bytes = static_cast<double>(block.bytes), resident = static_cast<double>(share->resident),
               away = static_cast<double>(share->swapped);
    ResidentRow& row = rows[block.row];
    row.row = block.row;
    row.objects += 1 / p;
    row.bytes += bytes / p;
    row.resident += resident / p;
    row.objects_variance += variance;
    row.bytes_variance += bytes * bytes * variance;
    row.resident_variance += resident * resident * variance;
    swapped += away / p;
    swapped_variance += away * away * variance;
  }
  for (const auto& [place, row] : rows) snapshot->resident_rows.push_back(row);
  snapshot->swapped_bytes = swapped;
  snapshot->swapped_variance = swapped_variance;
  return true;
}

absl::Status ReadResidentRows(pid_t pid, const TableFile& table, const Deadline& by, Snapshot* snapshot) {
  PageTable pages(pid);
  if (pages.is_denied()) return absl::PermissionDeniedError("its page table may not be read (/proc/PID/pagemap)");
  const absl::StatusOr<std::vector<LiveBlock>> blocks = ReadLiveBlocks(table);
  if (!blocks.ok()) return blocks.status();
  Snapshot found;
  if (!AddResidentRows(*blocks, &pages, by, &found))
    return absl::DeadlineExceededError("its page table takes too long to be read");
  // It may have ended, or have become another program: then its page table was another's, or none.
  if (pages.has_failed() || table.liveness() == Liveness::kDead)
    return absl::NotFoundError("its page table could not be read to the end");
  snapshot->resident_rows = std::move(found.resident_rows);
  snapshot->swapped_bytes = found.swapped_bytes;
  snapshot->swapped_variance = found.swapped_variance;
  return absl::OkStatus();
}

}  // namespace holdfast
