// `holdfast merge`: merges many profiles into one file.
//
//   kSum         adds up the newest snapshot of each process, and all differences. Never adds up cumulative files of one
//                process, because each holds all that the earlier ones held
//   kDifference  newest − oldest per process for metrics that only grow (alloc_*, contentions, delay), and the newest
//                value of what is in use; duration_nanos is the time in between. Needs two snapshots
//   kAverage     the mean of all given files, including several snapshots of one process (then inuse_* is the mean over
//                time)
// `min_total`, `max_total`: use only files with a total of the metric in this range (the weight filter).
#ifndef HOLDFAST_REPORT_SHOW_MERGE_COMMAND_H_
#define HOLDFAST_REPORT_SHOW_MERGE_COMMAND_H_

#include <limits>
#include <ostream>
#include <string>

#include "report/show/selection.h"

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

#endif  // HOLDFAST_REPORT_SHOW_MERGE_COMMAND_H_
