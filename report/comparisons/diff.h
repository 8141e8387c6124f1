// `holdfast diff`: what changed between two profiles, or two sets of them.
//
// What counts as a change
//   Δ of a function = head − base, of its self and its total (recursion once), as `go tool pprof -base` has it.
//   Each Δ has an error: variances of both sides added up; where both are snapshots of one process, blocks that are in
//   both are the same blocks, so that only what differs in a stack is uncertain.
//   |Δ| ≤ 3σ is marked as within the sampling error (≈): by chance alone about one function in 370 is beyond it.
//   added: nothing in base; removed: nothing in head; grown, shrunk: the others. Functions without any Δ have no row.
// With `normalize` head is scaled to the total of base: what changed is then each function's share.
#ifndef HOLDFAST_REPORT_COMPARISONS_DIFF_H_
#define HOLDFAST_REPORT_COMPARISONS_DIFF_H_

#include <ostream>
#include <string>
#include <vector>

#include "report/comparisons/profile_diff.h"
#include "report/views/selection.h"

namespace holdfast {

struct DiffOptions {
  ViewOptions view;  // its files are the head; or base and head when `base` is empty
  ProfileDiffOptions compare = {};
  bool only_significant = false;  // no rows within the sampling error
};

int RunDiff(const DiffOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMPARISONS_DIFF_H_
