// `holdfast leaks`: which stacks hold more and more memory, over the snapshots of a process.
//
// The bytes and objects that each stack has in use in every snapshot are a series; report/growth/growth.h says of each whether it
// grows. Growing stacks are the leaks: ranked by the lower end of the 95 % interval of their slope, so that a sure small
// leak comes before an unsure large one. A stack is the names of its functions (`depth`: of the innermost ones alone), so
// it is the same in every snapshot, whatever was loaded in between. Exit codes: 0 (level), 1 (growing, or in steps),
// 2 (wrong usage), 3 (a file cannot be read), 4 (cannot tell).
#ifndef HOLDFAST_REPORT_COMPARISONS_LEAKS_H_
#define HOLDFAST_REPORT_COMPARISONS_LEAKS_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/growth/growth_answer.h"
#include "report/growth/leak_series.h"
#include "report/growth/suppressions.h"
#include "report/profiles/profile_set.h"
#include "report/views/selection.h"

namespace holdfast {

struct LeaksOptions {
  ViewOptions view;         // files, filters, unit, format; node_count: how many leaks
  size_t depth = 0;         // functions of a stack that tell it from others, from the leaf; 0 = all
  size_t shown_frames = 4;  // more where it takes more to tell two rows apart
  std::string kind = "";    // heap or threads alone
  std::string limit = "";   // when will this much be in use?
  std::vector<std::string> suppressions = {};
  bool all = false;     // also what does not grow
  bool follow = false;  // go on with each new snapshot
};

// Of one process, or of one family of processes, and one kind: what RunLeaks prints.
struct ProgramGrowth {
  std::string program, kind;
  GrowthAnswer answer;
  double slope = 0, half_width = 0;  // bytes an hour of all that leaks; 0: nothing does
  double hours = 0;                  // that were seen
};
absl::StatusOr<std::vector<ProgramGrowth>> FindGrowth(const LeaksOptions& options, std::ostream& err);

int RunLeaks(const LeaksOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMPARISONS_LEAKS_H_
