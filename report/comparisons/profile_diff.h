// Two profiles, or two sets of them, function by function: what `holdfast diff` prints and `holdfast check` judges.
//
//   base files ──► FilteredStacks ──► sums of each function ─┐
//   head files ──► FilteredStacks ──► sums of each function ─┴─► one Change for each function that differs
//
// One side at a time is in memory: two files of 1,000,000 samples take what one does. Functions of both sides are the
// same when they have the same name (or line, file, object path …, as `by` says). Two builds of a program are read twice:
// there functions are the same when they have the same name across builds (report/profiles/function_identity.h), or when each
// side alone has one function that is shown so.
//
// The error of a change is that of both sides added up. Where both are snapshots of one process, blocks that are in both
// are the same blocks, so that of each stack only the difference of both variances is uncertain. One thread.
#ifndef HOLDFAST_REPORT_COMPARISONS_PROFILE_DIFF_H_
#define HOLDFAST_REPORT_COMPARISONS_PROFILE_DIFF_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/views/node_cells.h"
#include "report/views/selection.h"

namespace holdfast {

struct Change {
  NodeCells cells;
  int64_t base_self = 0, base_total = 0, head_self = 0, head_total = 0;
  double self_variance = 0, total_variance = 0;  // of the differences

  int64_t self() const;
  int64_t total() const;
  // Both within 3 σ: by chance alone one function in 370 is beyond that.
  bool WithinError() const;
  const std::string& name() const { return cells.name.text; }
};

struct ProfileDiff {
  View view;  // of the head, without its profile
  std::string base_program = "";
  int64_t base_total = 0, head_total = 0;
  double variance = 0;               // of the difference of both totals
  std::vector<Change> changes = {};  // functions that differ, in no order
  bool errors_known = false;         // else all variances are 0
  bool TotalWithinError() const;
};

struct ProfileDiffOptions {
  // Files and folders. Empty: `options.files` are base and head; or one folder, there the oldest snapshot of each process
  // is the base and the newest the head.
  std::vector<std::string> base = {};
  // Instead of two files: one set, its samples with one label against those with another. As --tagfocus takes them.
  std::string base_label = "", head_label = "";
  bool normalize = false;  // scale the head to the total of the base
};

// `options.files` is the head.
absl::StatusOr<ProfileDiff> Compare(const ViewOptions& options, const ProfileDiffOptions& how, std::ostream& err);

// The largest Δ first: of self, or of total.
void SortChanges(bool by_total, std::vector<Change>* changes);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMPARISONS_PROFILE_DIFF_H_
