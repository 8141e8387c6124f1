#include "report/peak/peak_watch.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "report/peak/table_pages.h"
#include "report/table/snapshot_locks.h"

namespace holdfast {
namespace {

// The rows are read once a hundredth more is in use than in the state that is kept, or anything more, after so long, or of
// another peak: there was less by a hundredth meanwhile.
constexpr uint64_t kHigher = 100;
constexpr int64_t kMuchLater = 5 * kSecond;
// Reading rows takes at most one part in so many of a core; at interval 1. What was not taken is kept for states that last from one
// look to the next: of 100,000 rows a read takes 10 ms, and a peak of 100 ms cannot wait for half a second.
constexpr int64_t kShare = 50, kShareOfAll = 10;
constexpr int64_t kMostSaved = 250 * kMs;
constexpr int64_t kForeignRest = kSecond;

uint64_t BytesInBoth(const PeakState& one, const PeakState& other) {
  absl::flat_hash_map<Offset, uint64_t> bytes_of;
  bytes_of.reserve(other.rows.size());
  for (const RowInUse& row : other.rows) bytes_of.emplace(row.row, row.bytes);
  uint64_t sum = 0;
  for (const RowInUse& row : one.rows) {
    if (const auto found = bytes_of.find(row.row); found != bytes_of.end()) sum += std::min(row.bytes, found->second);
  }
  return sum;
}

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

void PeakWatch::RaiseByLargeBlocks(const Snapshot::LargeInUse& large, uint64_t small, int64_t now_ns) {
  if (large.highest > highest_of_large_ && large.highest < kFullSum) {
    const int64_t then_ns = std::clamp<int64_t>(large.highest_ns, 0, now_ns);
    const bool was_nearer = small_ns_ != 0 && then_ns - small_ns_ < now_ns - then_ns;
    Raise(large.highest + (was_nearer ? small_ : small), large.highest_wall_ns);
  }
  highest_of_large_ = large.highest;
  small_ = small;
  small_ns_ = now_ns;
}

bool PeakWatch::MayBePeak(uint64_t now, int64_t now_ns) {
  const uint64_t part = state_.bytes / kHigher;
  const uint64_t last = std::exchange(last_, now);
  saved_ns_ = std::min(kMostSaved, saved_ns_ + (now_ns - std::exchange(last_ns_, now_ns)) / kShare);
  least_since_ = std::min(least_since_, now);
  const bool is_same_peak = least_since_ + part >= state_.bytes && now_ns - looked_ns_ < kMuchLater;
  if (now <= state_.bytes || (is_same_peak && now - state_.bytes <= part)) return false;
  const bool lasts = (now > last ? now - last : last - now) <= now / kHigher;
  return now_ns >= not_before_ns_ || (lasts && saved_ns_ > 0);
}

void PeakWatch::Look(const TableFile& table) {
  const int64_t start = NowNs();
  HeapInUse in_use;
  if (!ReadTable(table.descriptor(), &in_use, offsetof(TableHeader, in_use), sizeof in_use)) return;
  const uint64_t now = CounterValue(in_use.now);
  if (CounterValue(in_use.shadow) == 0) in_use_ = now;
  if (start < foreign_until_ns_) return;
  if (CounterValue(in_use.shadow) != 0) {
    if (start < not_before_ns_ || !HasRun()) return;
  } else if (!MayBePeak(now, start)) {
    return;
  }
  if (table.ReadWith().has_value()) {
    foreign_until_ns_ = start + kForeignRest;
    return;
  }
  const bool by_rows = CounterValue(in_use.shadow) != 0;
  const int64_t used = NowNs(CLOCK_THREAD_CPUTIME_ID);
  if (!rows_.Follow(table.descriptor())) return;
  next_.wall_ns = NowNs(CLOCK_REALTIME);
  const bool read = rows_.Read(table.descriptor(), &next_.rows, &next_.bytes);
  if (read && by_rows) {
    in_use_ = next_.bytes;
    Raise(next_.bytes, next_.wall_ns);
    // Large blocks that came while the rows were read are in `now` of before, in that of behind, or in both: never small ones.
    HeapInUse behind;
    if (ReadTable(table.descriptor(), &behind, offsetof(TableHeader, in_use), sizeof behind)) {
      const uint64_t large = std::max(now, CounterValue(behind.now));
      const int64_t now_ns = NowNs(), highest_ns = CounterValue(behind.highest_ns);
      RaiseByLargeBlocks({large, CounterValue(behind.highest), highest_ns,
                          NowNs(CLOCK_REALTIME) - (now_ns - std::clamp<int64_t>(highest_ns, 0, now_ns))},
                         next_.bytes - std::min(next_.bytes, large), now_ns);
    }
  }
  if (read && next_.bytes > state_.bytes) {
    std::swap(state_, next_);
    looked_ns_ = start;
    least_since_ = state_.bytes;
  }
  // Where rows are not read each time, once they are kept there is no need of a second copy.
  if (!by_rows) next_ = {};
  const int64_t took = NowNs(CLOCK_THREAD_CPUTIME_ID) - used;
  not_before_ns_ = start + (by_rows ? kShareOfAll : kShare) * took;
  saved_ns_ -= took;
}

uint64_t PeakWatch::Consider(const Snapshot& snapshot) {
  PeakState seen;
  uint64_t small = 0;  // of blocks that may be counted by rows alone
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
    if (row.class_bytes <= kLargestShadowed) small += in_use.bytes;
    seen.rows.push_back(in_use);
  }
  const uint64_t bytes = seen.bytes;
  if (snapshot.large_in_use.has_value()) {
    Raise(bytes, seen.wall_ns);
    // Large blocks that came while the table was copied are in the rows and not in `now`: they are no small ones.
    small = std::min(small, bytes - std::min(bytes, snapshot.large_in_use->now));
    RaiseByLargeBlocks(*snapshot.large_in_use, small, NowNs());
  }
  if (bytes > state_.bytes) {  // of equal ones the first
    state_ = std::move(seen);
    least_since_ = bytes;
    return bytes;
  }
  return BytesInBoth(state_, seen);
}

}  // namespace holdfast
