// `holdfast diff`: what changed between two profiles, or two sets of them.
//
// Changes
//  Δ of a function = head − base, of its self and its total (recursion counts once), as in `go tool pprof -base`.
//  Each Δ has an error: the sum of both sides' variances. For two snapshots of one process, blocks in both are the same
//  blocks, so that only the difference in a stack is uncertain.
//  |Δ| ≤ 3σ is marked as within the sampling error (≈): about one function in 370 exceeds that by chance.
//  added: nothing in base; removed: nothing in head; grown, shrunk: the others. Functions without any Δ have no row.
// With `normalize` the head is scaled to the total of the base: a change is then one of the function's share.
#ifndef HOLDFAST_REPORT_SHOW_DIFF_H_
#define HOLDFAST_REPORT_SHOW_DIFF_H_

#include <ostream>
#include <string>
#include <vector>

#include "report/show/profile_diff.h"
#include "report/show/selection.h"

namespace holdfast {

struct DiffOptions {
  ViewOptions view;  // its files are the head; base and head if `base` is empty
  ProfileDiffOptions compare = {};
  bool only_significant = false;  // no rows within the sampling error
};

int RunDiff(const DiffOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_DIFF_H_
