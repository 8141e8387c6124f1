// Keeps the state of a program's heap at the most that was in use, by looking from outside: no thread of the program takes part.
//
//     each look   a few lines of the table: more in use than in the state that is kept? No: that was all (about 1 µs)
//                 yes, by 1 %, or after there was less by as much, or after a while: its rows are read (HeapRows), and kept if
//                 they hold more
//
// A state that lasts from one look to the next but one is seen, within 1 %. The table has the height of a shorter one, in
// HeapInUse::highest. One thread.
#ifndef HOLDFAST_REPORT_PEAK_PEAK_WATCH_H_
#define HOLDFAST_REPORT_PEAK_PEAK_WATCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "report/base/time_budget.h"
#include "report/peak/heap_rows.h"
#include "report/peak/peak_state.h"
#include "report/table/snapshot.h"
#include "report/table/table_folder.h"

namespace holdfast {

// How often to look: see PeakWatch. Where every allocation is recorded, short peaks matter more than the exporter's time.
inline constexpr int64_t kLookAtPeak = 40 * kMs, kLookAtExactPeak = 5 * kMs;

class PeakWatch {
 public:
  // To be called every kLookAtPeak or so. Not of a table that is to be read with another user's rights.
  void Look(const TableFile& table);
  // Estimated bytes, in kAmountFractionBits, that were in use at the last look. Nothing: not known yet.
  std::optional<uint64_t> in_use() const { return in_use_; }
  // Whether the last look found a table in which every allocation is recorded.
  bool is_exact() const { return is_exact_; }
  // What was read for other ends. Returns how many bytes of the state that is kept now, row by row, are in it too.
  uint64_t Consider(const Snapshot& snapshot);

  const PeakState& state() const { return state_; }

 private:
  bool MayBePeak(uint64_t now, int64_t now_ns);

  HeapRows rows_;
  PeakState state_, next_;
  std::optional<uint64_t> in_use_;
  uint64_t last_ = 0, least_since_ = 0;  // in use at the last look; the least at any since `state_` was read
  int64_t last_ns_ = 0, saved_ns_ = 0;   // when that was; how long reading may take that is not put off
  int64_t looked_ns_ = 0;                // when `state_` was read, of CLOCK_MONOTONIC
  int64_t not_before_ns_ = 0, foreign_until_ns_ = 0;
  bool is_exact_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PEAK_PEAK_WATCH_H_
