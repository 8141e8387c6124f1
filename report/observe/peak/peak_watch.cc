#include "report/observe/peak/peak_watch.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "report/observe/peak/table_pages.h"
#include "report/observe/table/snapshot_locks.h"

namespace holdfast {
namespace {

// Rows are read again if use exceeds the kept state by 1/kHigher. They are also read if it exceeds the state by any
// amount, either kMuchLater after the last read or at a separate peak: use was lower by 1/kHigher in between.
constexpr uint64_t kHigher = 100;
constexpr int64_t kMuchLater = 5 * kSecond;
// Reading rows takes at most 1/kShare of a core, and 1/kShareOfAll at interval 1. Unused time is saved, for states that
// last only from one look to the next: reading 100,000 rows takes 10 ms, and a peak of 100 ms cannot wait for half a
// second.
constexpr int64_t kShare = 50, kShareOfAll = 10;
constexpr int64_t kMaxSaved = 250 * kMs;
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

bool PeakWatch::MayBePeak(uint64_t now, int64_t now_ns) {
  const uint64_t part = state_.bytes / kHigher;
  const uint64_t last = std::exchange(last_, now);
  saved_ns_ = std::min(kMaxSaved, saved_ns_ + (now_ns - std::exchange(last_ns_, now_ns)) / kShare);
  least_since_ = std::min(least_since_, now);
  const bool is_same_peak = least_since_ + part >= state_.bytes && now_ns - looked_ns_ < kMuchLater;
  if (now <= state_.bytes || (is_same_peak && now - state_.bytes <= part)) return false;
  const bool lasts = (now > last ? now - last : last - now) <= now / kHigher;
  return now_ns >= not_before_ns_ || (lasts && saved_ns_ > 0);
}

void PeakWatch::Look(const TableFile& table) {
  const int64_t start = NowNs();
  InUseLines lines;
  if (!ReadTable(table.descriptor(), &lines, offsetof(TableHeader, in_use), sizeof lines)) return;
  const uint64_t now = BytesInUse(lines);
  if (in_use_ != now) changed_ns_ = start;
  in_use_ = now;
  is_exact_ = CounterValue(lines.all.shadow) != 0;
  if (start < foreign_until_ns_ || !MayBePeak(now, start)) return;
  if (table.ReadWith().has_value()) {
    foreign_until_ns_ = start + kForeignRest;
    return;
  }
  const int64_t used = NowNs(CLOCK_THREAD_CPUTIME_ID);
  if (!rows_.Follow(table.descriptor())) return;
  next_.wall_ns = NowNs(CLOCK_REALTIME);
  bool read = rows_.Read(table.descriptor(), &next_.rows, &next_.bytes);
  if (read && is_exact_) {
    // Rows are read one by one while the program runs. A state with more than was ever in use is not a consistent one.
    read = ReadTable(table.descriptor(), &lines, offsetof(TableHeader, in_use), sizeof lines) &&
           next_.bytes <= MaxInUse(lines).value_or(next_.bytes);
  }
  if (read && next_.bytes > state_.bytes) {
    std::swap(state_, next_);
    looked_ns_ = start;
    least_since_ = state_.bytes;
  }
  next_ = {};
  const int64_t took = NowNs(CLOCK_THREAD_CPUTIME_ID) - used;
  not_before_ns_ = start + (is_exact_ ? kShareOfAll : kShare) * took;
  saved_ns_ -= took;
}

uint64_t PeakWatch::Consider(const TableSnapshot& snapshot) {
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
  const bool is_torn =
      snapshot.most_bytes.has_value() && static_cast<double>(bytes) > *snapshot.most_bytes * (1 << kAmountFractionBits);
  if (bytes > state_.bytes && !is_torn) {  // of equal states keep the first
    state_ = std::move(seen);
    least_since_ = bytes;
    return bytes;
  }
  return BytesInBoth(state_, seen);
}

}  // namespace holdfast
