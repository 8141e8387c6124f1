// Keeps the state of a program's heap at the most that was in use, by looking from outside: no thread of the program takes part.
//
//     each look   one line of the table: more in use than in the state that is kept? No: that was all (about 1 µs)
//                                         yes, by 1 %, or after there was less by as much, or after a while: its rows are read
//                                         (HeapRows), and kept if they hold more
//     interval 1  only the rows know what is in use: they are read at each look, or as often as a tenth of a core allows, and not
//                 while the program does not run
//
// So a state that lasts from one look to the next but one is seen, within 1 %. What is shorter is known by its height:
// HeapInUse::highest. At interval 1 that is of large blocks alone; small ones (kLargestShadowed) are as many as at the nearest
// look. One thread.
#ifndef HOLDFAST_REPORT_PEAK_PEAK_WATCH_H_
#define HOLDFAST_REPORT_PEAK_PEAK_WATCH_H_

#include <sys/types.h>
#include <time.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "report/base/time_budget.h"
#include "report/peak/heap_rows.h"
#include "report/peak/peak_state.h"
#include "report/table/snapshot.h"
#include "report/table/table_folder.h"

namespace holdfast {

inline constexpr int64_t kLookAtPeak = 40 * kMs;  // how often: see PeakWatch

// The most that was in use, where only rows know: see above.
struct PeakHeight {
  uint64_t bytes = 0;  // in kAmountFractionBits
  int64_t wall_ns = 0;
};

class PeakWatch {
 public:
  // `process`: as we see it; none: always taken for running.
  void set_process(std::optional<pid_t> process);

  // To be called every kLookAtPeak or so. Not of a table that is to be read with another user's rights.
  void Look(const TableFile& table);
  // Estimated bytes, in kAmountFractionBits, that were in use at the last look. Nothing: not known yet.
  std::optional<uint64_t> in_use() const { return in_use_; }
  // What was read for other ends. Returns how many bytes of the state that is kept now, row by row, are in it too.
  uint64_t Consider(const Snapshot& snapshot);

  const PeakState& state() const { return state_; }
  const PeakHeight& height() const { return height_; }

 private:
  bool HasRun();
  bool MayBePeak(uint64_t now, int64_t now_ns);
  void Raise(uint64_t bytes, int64_t wall_ns);
  void RaiseByLargeBlocks(const Snapshot::LargeInUse& large, uint64_t small, int64_t now_ns);

  HeapRows rows_;
  PeakState state_, next_;
  PeakHeight height_;
  std::optional<uint64_t> in_use_;
  uint64_t last_ = 0, least_since_ = 0;  // in use at the last look; the least at any since `state_` was read
  int64_t last_ns_ = 0, saved_ns_ = 0;   // when that was; how long reading may take that is not put off
  // At the last look, where only rows know: the highest so far of large blocks, and what small ones had.
  uint64_t highest_of_large_ = 0, small_ = 0;
  int64_t small_ns_ = 0;
  int64_t looked_ns_ = 0;  // when `state_` was read, of CLOCK_MONOTONIC
  int64_t not_before_ns_ = 0, foreign_until_ns_ = 0;
  std::optional<clockid_t> clock_;  // of the processor time that the program has taken
  int64_t ran_ns_ = -1;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PEAK_PEAK_WATCH_H_
