// `holdfast merge`: many profiles into one file.
//
//   kSum         of each process its newest snapshot (and all differences), added up. Cumulative files of one process
//                are never added up: each holds all that the earlier ones held
//   kDifference  of each process newest − oldest for what only grows (alloc_*, contentions, delay), the newest of what
//   is
//                in use; duration_nanos says between which times. Needs two snapshots
//   kAverage     the mean of all given files, also of snapshots of one process (then inuse_* is its mean over the time)
// `min_total`, `max_total`: only files whose total of the metric lies between them (the weight filter).
#ifndef HOLDFAST_REPORT_VIEWS_MERGE_COMMAND_H_
#define HOLDFAST_REPORT_VIEWS_MERGE_COMMAND_H_

#include <limits>
#include <ostream>
#include <string>

#include "report/views/selection.h"

namespace holdfast {

enum class MergeMode { kSum, kDifference, kAverage };

struct MergeOptions {
  ViewOptions view;
  MergeMode mode = MergeMode::kSum;
  std::string output = "-";
  std::string min_total = "", max_total = "";
};

int RunMerge(const MergeOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_VIEWS_MERGE_COMMAND_H_
