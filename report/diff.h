// `holdfast diff`: what changed between two profiles, or two sets of them.
//
// What counts as a change
//   Δ of a function = head − base, of its self and its total (recursion once), as `go tool pprof -base` has it.
//   Each Δ has an error: variances of both sides added up; where both are snapshots of one process, blocks that are in
//   both are the same blocks, so that only what differs in a stack is uncertain.
//   |Δ| ≤ 3σ is marked as within the sampling error (≈): by chance alone about one function in 370 is beyond it.
//   added: nothing in base; removed: nothing in head; grown, shrunk: the others. Functions without any Δ have no row.
// With `normalize` head is scaled to the total of base: what changed is then each function's share.
#ifndef HOLDFAST_REPORT_DIFF_H_
#define HOLDFAST_REPORT_DIFF_H_

#include <ostream>
#include <string>
#include <vector>

#include "report/profile_merger.h"
#include "report/view.h"

namespace holdfast {

struct DiffOptions {
  ViewOptions view;                    // its files are the head; or base and head when `base` is empty
  std::vector<std::string> base = {};  // files and folders
  bool normalize = false;
  bool only_significant = false;  // no rows within the sampling error
};

int RunDiff(const DiffOptions& options, std::ostream& out, std::ostream& err);

// Two sets side by side: sample types of base, then those of head, with variances of what each side adds to a Δ.
struct Comparison {
  View view;         // of the head; its profile holds both sides
  size_t types = 0;  // sample types of one side: base's metric m is column m, head's is types + m
  bool same_process = false;
};
absl::StatusOr<Comparison> Compare(const ViewOptions& options, const std::vector<std::string>& base, bool normalize,
                                   std::ostream& err);

struct Change {
  uint32_t node;
  int64_t base_self, base_total, head_self, head_total;
  double self_variance, total_variance;  // of the differences
  int64_t self() const;
  int64_t total() const;
  bool WithinError() const;  // by total
};
// Functions that differ, the largest Δ first: by self, or by total. `stacks` has the columns base, head.
std::vector<Change> ChangesOf(const Stacks& stacks, bool same_process, bool by_total);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DIFF_H_
