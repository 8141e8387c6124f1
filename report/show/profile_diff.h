// Compares two profiles, or two sets of them, function by function: `holdfast diff` prints the result and `holdfast
// check` judges it.
//
//   base files ──► FilteredStacks ──► sums of each function ─┐
//   head files ──► FilteredStacks ──► sums of each function ─┴─► one Change for each function that differs
//
// Only one side at a time is in memory: two files of 1,000,000 samples need as much as one. Functions of both sides are
// the same if they have the same name (or line, file, object path …, according to `by`). For two builds of a program
// the files are read twice. Functions are then the same if they have the same name across builds
// (report/analysis/profiles/function_identity.h), or if each side has exactly one function that is shown so.
//
// The variance of a change is the sum of both sides' variances. For two snapshots of one process, blocks in both are
// the same blocks, so for each stack only the difference of the variances counts. One thread.
#ifndef HOLDFAST_REPORT_SHOW_PROFILE_DIFF_H_
#define HOLDFAST_REPORT_SHOW_PROFILE_DIFF_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/show/node_cells.h"
#include "report/show/selection.h"

namespace holdfast {

struct Change {
  NodeCells cells;
  int64_t base_self = 0, base_total = 0, head_self = 0, head_total = 0;
  double self_variance = 0, total_variance = 0;  // of the differences

  int64_t self() const;
  int64_t total() const;
  // Both are within 3 σ: about one function in 370 exceeds that by chance.
  bool WithinError() const;
  const std::string& name() const { return cells.name.text; }
};

struct ProfileDiff {
  View view;  // of the head, without its profile
  std::string base_program = "";
  int64_t base_total = 0, head_total = 0;
  size_t base_ended = 0;  // as View::ended
  std::string base_ended_text = "";
  double variance = 0;               // of the difference of both totals
  std::vector<Change> changes = {};  // functions that differ, unordered
  bool errors_known = false;         // false: all variances are 0
  bool TotalWithinError() const;
};

struct ProfileDiffOptions {
  // Files and folders. Empty: `options.files` has base and head; or one folder, with the oldest snapshot of each
  // process as the base and the newest as the head.
  std::vector<std::string> base = {};
  // Instead of two files: compares samples of one set by label, in the syntax of --tagfocus.
  std::string base_label = "", head_label = "";
  bool normalize = false;  // scale the head to the base's total
};

// `options.files` is the head.
absl::StatusOr<ProfileDiff> Compare(const ViewOptions& options, const ProfileDiffOptions& how, std::ostream& err);

// Sorts by self or by total, largest Δ first.
void SortChanges(bool by_total, std::vector<Change>* changes);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_PROFILE_DIFF_H_
