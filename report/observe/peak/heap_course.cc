#include "report/observe/peak/heap_course.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "report/observe/peak/table_pages.h"
#include "report/observe/table/process_info.h"
#include "sampler/contract/attach_call.h"

namespace holdfast {
namespace {

constexpr int64_t kShareOfLooks = 50;  // reading rows takes at most 1/kShareOfLooks of a core
constexpr int64_t kOtherUsersRest = kSecond;

// Returns the time since the process began. Falls back to wall clocks for a process in another time namespace.
int64_t ElapsedNs(const TableFile& table, int64_t now_ns) {
  if (SharesOurClock(table.owner()))
    return static_cast<int64_t>(static_cast<uint64_t>(now_ns) -
                                static_cast<uint64_t>(table.owner().start_monotonic_ns));
  int64_t start_ns = 0;
  if (!ReadTable(table.descriptor(), &start_ns, offsetof(TableHeader, start_wall_ns), sizeof start_ns)) return 0;
  return static_cast<int64_t>(static_cast<uint64_t>(NowNs(CLOCK_REALTIME)) - static_cast<uint64_t>(start_ns));
}

// The table of a forked child, or of an attached process, lacks the older blocks. A program that replaces those blocks
// would seem to grow.
bool TableLacksOlderBlocks(const TableFile& table) {
  const auto read = [&table](uint64_t offset) {
    uint32_t word = 0;
    return ReadTable(table.descriptor(), &word, offset, sizeof word) ? word : 0;
  };
  return read(offsetof(TableHeader, forked)) != 0 || (read(offsetof(TableHeader, profiles)) & kAttachedBit) != 0;
}

}  // namespace

void HeapCourse::LookAt(const TableFile& table, int64_t now_ns) {
  if (is_stopped_) return;
  if (next_ns_ == 0) next_ns_ = now_ns + period_ns_;
  if (now_ns < next_ns_) return;
  next_ns_ = now_ns + period_ns_;  // also after a read that fails
  if (table.ReadWith().has_value()) {
    next_ns_ = now_ns + kOtherUsersRest;
    return;
  }
  const int64_t used = NowNs(CLOCK_THREAD_CPUTIME_ID);
  HeapMoment moment{.elapsed_ns = ElapsedNs(table, now_ns)};
  if (!rows_.Follow(table.descriptor())) return;
  if (kMinMoments * rows_.known() > kMaxRows || TableLacksOlderBlocks(table)) return Stop();
  if (!rows_.ReadSums(table.descriptor(), &moment.rows)) return;
  rows_kept_ += moment.rows.size();
  moments_.push_back(std::move(moment));
  if (moments_.size() >= kMaxMoments) DropEverySecond();
  while (rows_kept_ > kMaxRows && moments_.size() > kMinMoments) DropEverySecond();
  const int64_t took = NowNs(CLOCK_THREAD_CPUTIME_ID) - used;
  next_ns_ = now_ns + std::max(period_ns_, kShareOfLooks * took);
}

// Keeps the oldest one, because the course begins there.
void HeapCourse::DropEverySecond() {
  size_t kept = 0;
  rows_kept_ = 0;
  for (size_t i = 0; i < moments_.size(); i += 2) {
    rows_kept_ += moments_[i].rows.size();
    if (kept != i) moments_[kept] = std::move(moments_[i]);
    ++kept;
  }
  moments_.resize(kept);
  period_ns_ *= 2;
}

void HeapCourse::Stop() {
  is_stopped_ = true;
  moments_ = {};
  rows_ = {};
}

}  // namespace holdfast
