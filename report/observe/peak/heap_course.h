// Keeps what each heap row had allocated and freed at up to 32 moments of a program that records every allocation, so
// that one snapshot at the end is enough to judge whether the program grew. Looks from outside: no thread of the
// program takes part.
//
//    moments   40  80 120 … 1320 ms      after 32 of them: every second one is dropped, and the next ones are
//              40    120  …   1240       twice as far apart
//
// So 16 to 32 moments cover the whole life of the program. Memory is bounded: with more than about 30,000 rows nothing is
// kept. Forked children and attached processes have no course, because their tables lack the older blocks. One thread.
#ifndef HOLDFAST_REPORT_OBSERVE_PEAK_HEAP_COURSE_H_
#define HOLDFAST_REPORT_OBSERVE_PEAK_HEAP_COURSE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "report/base/time_budget.h"
#include "report/observe/peak/heap_moment.h"
#include "report/observe/peak/heap_rows.h"
#include "report/observe/table/table_folder.h"

namespace holdfast {

class HeapCourse {
 public:
  static constexpr int64_t kFirstPeriod = 40 * kMs;
  static constexpr size_t kMaxMoments = 32, kMinMoments = 8;
  static constexpr size_t kMaxRows = 250'000;  // of all moments: 10 MB

  // Call often, if every allocation is recorded. Reads the rows if the next moment is due.
  void Look(const TableFile& table) { LookAt(table, NowNs()); }
  // `now_ns`: CLOCK_MONOTONIC.
  void LookAt(const TableFile& table, int64_t now_ns);
  // Call when enough snapshots are written. Frees the memory.
  void Stop();

  // Oldest first.
  const std::vector<HeapMoment>& moments() const { return moments_; }

 private:
  void DropEverySecond();

  HeapRows rows_;
  std::vector<HeapMoment> moments_;
  size_t rows_kept_ = 0;
  int64_t period_ns_ = kFirstPeriod, next_ns_ = 0;
  bool is_stopped_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_PEAK_HEAP_COURSE_H_
