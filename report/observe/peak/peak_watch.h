// Keeps the state of a program's heap at peak use. Looks from outside: no thread of the program takes part.
//
//    each look   reads a few lines of the table (about 1 µs), and stops if no more is in use than in the kept state
//                if use is higher by 1 %, or after a lower interval, or after a while: reads the rows (HeapRows), and keeps
//                them if they have more
//
// Captures, to within 1 %, any state that lasts for two looks, at kLookAtPeak or, after a while without a change, at the
// exporter's ticks. For a shorter one the table has the amount in HeapInUse::highest. One thread.
#ifndef HOLDFAST_REPORT_OBSERVE_PEAK_PEAK_WATCH_H_
#define HOLDFAST_REPORT_OBSERVE_PEAK_PEAK_WATCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "report/base/time_budget.h"
#include "report/observe/peak/heap_rows.h"
#include "report/observe/peak/peak_state.h"
#include "report/observe/table/snapshot.h"
#include "report/observe/table/table_folder.h"

namespace holdfast {

// How often to look, see PeakWatch. If every allocation is recorded, short peaks matter more than the exporter's time.
inline constexpr int64_t kLookAtPeak = 40 * kMs, kLookAtExactPeak = 5 * kMs;
// After this time without a change a look at each tick is enough: most programs of a machine are idle.
inline constexpr int64_t kQuietAfter = 2 * kSecond;

class PeakWatch {
 public:
  // Call about every kLookAtPeak. Not for a table that must be read with another user's rights.
  void Look(const TableFile& table);
  // Estimated bytes in use at the last look, in units of kAmountFractionBits. Nothing: not known yet.
  std::optional<uint64_t> in_use() const { return in_use_; }
  // Whether the last look found that every allocation is recorded.
  bool is_exact() const { return is_exact_; }
  // Whether no look has found another amount in use for kQuietAfter.
  bool is_quiet(int64_t now_ns) const { return now_ns - changed_ns_ >= kQuietAfter; }
  // Takes a snapshot that was read for another purpose as a candidate. Returns how many bytes of the state now kept,
  // compared row by row, the snapshot contains.
  uint64_t Consider(const TableSnapshot& snapshot);

  const PeakState& state() const { return state_; }

 private:
  bool MayBePeak(uint64_t now, int64_t now_ns);

  HeapRows rows_;
  PeakState state_, next_;
  std::optional<uint64_t> in_use_;
  uint64_t last_ = 0, least_since_ = 0;  // in use at the last look; the minimum of all looks since `state_` was read
  int64_t last_ns_ = 0, saved_ns_ = 0;   // time of the last look; saved time for reading
  int64_t changed_ns_ = 0;               // the last look that found another amount in use
  int64_t looked_ns_ = 0;                // when `state_` was read, CLOCK_MONOTONIC
  int64_t not_before_ns_ = 0, foreign_until_ns_ = 0;
  bool is_exact_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_PEAK_PEAK_WATCH_H_
