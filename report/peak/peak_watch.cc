#include "report/peak/peak_watch.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "report/peak/table_pages.h"
#include "report/table/snapshot_locks.h"

namespace holdfast {
namespace {

constexpr uint64_t kHigher = 100;  // the rows are read once a hundredth more is in use than in the state that is kept,
constexpr int64_t kMuchLater = 5 * kSecond;  // or anything more, after so long
// Reading rows takes at most one part in so many of a core; at interval 1.
constexpr int64_t kShare = 50, kShareOfAll = 10;
constexpr int64_t kForeignRest = kSecond;

}  // namespace

void PeakWatch::set_process(std::optional<pid_t> process) {
  clockid_t clock;
  if (process.has_value() && clock_getcpuclockid(*process, &clock) == 0) clock_ = clock;
}

bool PeakWatch::HasRun() {
  timespec time;
  if (!clock_.has_value() || clock_gettime(*clock_, &time) != 0) return true;
  const int64_t before = std::exchange(ran_ns_, time.tv_sec * kSecond + time.tv_nsec);
  return before != ran_ns_;
}

void PeakWatch::Raise(uint64_t bytes, int64_t wall_ns) {
  if (bytes > height_.bytes) height_ = {bytes, wall_ns};
}

void PeakWatch::RaiseByLargeBlocks(const HeapInUse& in_use, uint64_t small, int64_t now_ns) {
  const uint64_t highest = CounterValue(in_use.highest);
  const int64_t then_ns = std::clamp<int64_t>(CounterValue(in_use.highest_ns), 0, now_ns);
  if (highest > highest_of_large_ && highest < kFullSum) {
    const bool was_nearer = small_ns_ != 0 && then_ns - small_ns_ < now_ns - then_ns;
    Raise(highest + (was_nearer ? small_ : small), NowNs(CLOCK_REALTIME) - (now_ns - then_ns));
  }
  highest_of_large_ = highest;
  small_ = small;
  small_ns_ = now_ns;
}

void PeakWatch::Look(const TableFile& table) {
  const int64_t start = NowNs();
  HeapInUse in_use;
  if (!ReadTable(table.descriptor(), &in_use, offsetof(TableHeader, in_use), sizeof in_use)) return;
  const uint64_t now = CounterValue(in_use.now);
  if (CounterValue(in_use.shadow) == 0) in_use_ = now;
  if (start < not_before_ns_) return;
  if (CounterValue(in_use.shadow) != 0) {
    if (!HasRun()) return;
  } else if (now <= state_.bytes || (now - state_.bytes <= state_.bytes / kHigher && start - looked_ns_ < kMuchLater)) {
    return;
  }
  if (table.ReadWith().has_value()) {
    not_before_ns_ = start + kForeignRest;
    return;
  }
  const bool by_rows = CounterValue(in_use.shadow) != 0;
  const int64_t used = NowNs(CLOCK_THREAD_CPUTIME_ID);
  if (!rows_.Follow(table.descriptor(), CounterValue(in_use.newest_row))) return;
  next_.wall_ns = NowNs(CLOCK_REALTIME);
  const bool read = rows_.Read(table.descriptor(), &next_.rows, &next_.bytes);
  if (read && by_rows) {
    in_use_ = next_.bytes;
    Raise(next_.bytes, next_.wall_ns);
    // Large blocks that came while the rows were read are in `now` of before, in that of behind, or in both: never small ones.
    HeapInUse behind;
    if (ReadTable(table.descriptor(), &behind, offsetof(TableHeader, in_use), sizeof behind)) {
      const uint64_t large = std::max(now, CounterValue(behind.now));
      RaiseByLargeBlocks(behind, next_.bytes - std::min(next_.bytes, large), NowNs());
    }
  }
  if (read && next_.bytes > state_.bytes) {
    std::swap(state_, next_);
    looked_ns_ = start;
  }
  // Where rows are not read each time, once they are kept there is no need of a second copy.
  if (!by_rows) next_ = {};
  not_before_ns_ = start + (by_rows ? kShareOfAll : kShare) * (NowNs(CLOCK_THREAD_CPUTIME_ID) - used);
}

uint64_t PeakWatch::Consider(const Snapshot& snapshot) {
  PeakState seen;
  seen.wall_ns = snapshot.wall_ns;
  for (const RowInfo& row : snapshot.rows) {
    if (row.profile != ProfileKind::kHeap) continue;
    const auto left = [&row](HeapSum allocated, HeapSum freed, double unit) {
      return static_cast<uint64_t>(std::clamp((row.sums[allocated] - row.sums[freed]) * unit, 0.0, 9e18));
    };
    const auto variance = [&row](HeapSum allocated, HeapSum freed) {
      return static_cast<float>(std::clamp(row.sums[allocated] - row.sums[freed], 0.0, 3e38));
    };
    const RowInUse in_use{.bytes = left(kAllocSpace, kFreeSpace, 1 << kAmountFractionBits),
                          .objects = left(kAllocObjects, kFreeObjects, 1 << kCountFractionBits),
                          .bytes_variance = variance(kAllocSpaceVariance, kFreeSpaceVariance),
                          .objects_variance = variance(kAllocObjectsVariance, kFreeObjectsVariance),
                          .row = row.place};
    if (in_use.bytes == 0 && in_use.objects == 0) continue;
    seen.bytes += in_use.bytes;
    seen.rows.push_back(in_use);
  }
  const uint64_t bytes = seen.bytes;
  if (bytes > state_.bytes) state_ = std::move(seen);  // of equal ones the first
  return bytes;
}

}  // namespace holdfast
