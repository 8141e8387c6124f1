// What every view of a profile begins with: files in, one set of stacks out, and the lines that say what is shown.
//
// Which files are added up
//   - files of different processes are summed, their 95 % intervals as independent errors (root of the sum of squares)
//   - of several snapshots of one process (equal `process` comment) the newest counts, as it holds all that the earlier
//     ones held. Of a folder what it held before its exit handlers counts (report/profiles/profile_set.h), and a line says so. Those that were given by name are named on `err`; who gives a folder expects it. Differences (duration not 0) and files that do not say whose
//     they are always add up
//   - named files of different kinds (heap, mutex …) are an error; of a folder one kind is taken: the one that has the
//     metric that was asked for, else heap, else the only one
#ifndef HOLDFAST_REPORT_VIEWS_SELECTION_H_
#define HOLDFAST_REPORT_VIEWS_SELECTION_H_

#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "report/analysis/thread_names.h"
#include "report/base/say.h"
#include "report/profiles/filtered_stacks.h"
#include "report/profiles/plumbing.h"
#include "report/profiles/profile_set.h"
#include "report/views/text_table.h"

namespace holdfast {

struct ViewOptions {
  std::vector<std::string> files;  // "-" is standard input; folders are looked through
  std::string kind = "";           // heap, mutex, block, map, threads, exceptions, peak; "" = see above
  bool ended = false;              // of a folder also what processes held that have ended
  bool peak = false;               // what was in use at the most, of the processes whose files are given
  std::string metric = "";         // "" = the profile's default; of a heap of which nothing is in use, alloc_space
  std::string unit = "auto";
  size_t node_count = 30;  // 0 = all
  bool by_total = false;
  bool errors = false;  // columns with the 95 % interval of each value
  StackOptions stacks = {};
  std::string format = "table";
  std::string color = "auto";
  bool full_names = false;           // as they are in the file
  std::optional<size_t> width = {};  // of lines, 0 = any; not given: the terminal's
  bool pager = true;                 // where the terminal is too low
};

struct View {
  std::shared_ptr<const Profile> profile;  // all files, added up
  std::vector<double> variances;           // of `profile`, when they were asked for and are known
  size_t metric = 0;                       // index of the sample type
  size_t default_metric = 0;               // as the profile says
  bool all_was_freed = false;              // so that what was allocated is shown, as no metric was asked for
  std::string metric_name, unit_name, kind;
  std::string program, sampling;           // of all files, joined; programs with the most first
  std::vector<std::string> losses, peaks;  // peaks: of a few processes, see PeakOf
  std::optional<int64_t> peak_bytes,
      peak_stacks_bytes;  // of heap and peak profiles: all heights together, see PeakBytesOf
  int64_t peak_missing_bytes = 0;
  // Of files that say what is resident: what else is known of their pages.
  size_t files_with_pages = 0, files_with_huge = 0;
  int64_t swapped_bytes = 0, huge_bytes = 0;
  std::optional<double> stated_half_width;  // of the whole total, as the files say
  std::string output_unit;
  size_t files = 0;
  std::vector<std::string>
      unfinished;  // objects that had no lines in time when a file was written; "" = no names at all
  std::vector<std::string> single_files;  // the paths of those that are no sums of others
  // Processes that ended before the others and are left out, and what they held at their ends.
  size_t ended = 0;
  int64_t ended_value = 0;
  // Of processes that are shown as they were before their exit handlers: that moment, and the one after the handlers.
  std::vector<std::pair<int64_t, int64_t>> freed_at_exit;
  // Of the processes of a heap whose files say it.
  size_t resident_files = 0;
  int64_t resident_bytes = 0;
  // Of a sum of mutex or block profiles: which functions contend for futexes (idle_waits.h).
  std::optional<std::set<std::string>> contends;
  ThreadNames thread_names;  // where rows are threads: of all kinds of profiles that were given

  std::string Value(int64_t value) const;
  Cell ValueCell(int64_t value) const { return Cell::Number(Value(value), value); }
  // "± 12KiB"
  Cell ErrorCell(double variance) const { return ErrorCell(variance, !variances.empty()); }
  Cell ErrorCell(double variance, bool known) const;
};

inline absl::StatusOr<Style> StyleOf(const ViewOptions& options) {
  return StyleFor(options.format, options.color, options.width);
}

// Reads and adds up. InvalidArgument: wrong usage. Messages that are no errors go to `err`.
absl::StatusOr<View> OpenView(const ViewOptions& options, std::ostream& err);
// From one that is read already, such as standard input that holds two things.
absl::StatusOr<View> ViewOf(std::vector<const ProfileFile*> files, const ViewOptions& options);

// The files of `set` that count (see above), and a message to `err` for those that do not.
absl::StatusOr<std::vector<const ProfileFile*>> FilesThatCount(ProfileSet* set, const ViewOptions& options,
                                                               std::ostream& err);

// The chosen metric (and others, when `columns` is not empty) with the filters applied.
absl::StatusOr<FilteredStacks> StacksOf(const View& view, const ViewOptions& options, std::vector<size_t> columns = {});

// Whether any filter by name or label is set, and the error when it leaves nothing.
bool HasFilter(const StackOptions& options);
absl::Status NothingLeft();

// Adds the line on code without names, where that is much of the total. `whose` is of the view's profile.
void AddMissingNames(const View& view, const ViewOptions& options, Plumbing* whose, TextTable* table);

// program, metric, total ± …, sampled, lost, and the filters in force.
void AddHeader(const View& view, const FilteredStacks& stacks, const ViewOptions& options, TextTable* table);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_VIEWS_SELECTION_H_
