// The first step of every view of a profile: turns files into one set of stacks, and into the lines that say what is
// shown.
//
// Files that are added up
//   - Files of different processes are summed. Their 95 % intervals are combined as independent errors (root of the sum
//     of squares).
//   - Of several snapshots of one process (equal `process` comment) only the newest counts, because it contains the
//     earlier ones. In a folder, the state before the exit handlers counts (report/analysis/profiles/profile_set.h), and a line
//     says so. If the user named older snapshots, `err` lists them; for a folder no message is needed. Differences
//     (duration not 0) and files without a `process` comment are always added up.
//   - Named files of different kinds (heap, mutex …) are an error. From a folder one kind is taken: the one that has the
//     requested metric, else heap or, if the programs have freed everything, peak (report/analysis/opening.h), else the
//     only one.
#ifndef HOLDFAST_REPORT_SHOW_SELECTION_H_
#define HOLDFAST_REPORT_SHOW_SELECTION_H_

#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "report/analysis/opening.h"
#include "report/analysis/profiles/filtered_stacks.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/analysis/thread_names.h"
#include "report/base/say.h"
#include "report/show/text_table.h"

namespace holdfast {

struct ViewOptions {
  std::vector<std::string> files;  // "-" is standard input; folders are searched
  std::string kind = "";           // heap, mutex, block, map, threads, exceptions, peak; "" = see above
  bool ended = false;              // in folders, include what exited processes held
  bool peak = false;               // show the peak of the processes of the given files
  std::string metric = "";         // "" = the profile's default, or what report/analysis/opening.h says
  bool opens_peak = true;          // if everything was freed and no kind is asked for, show the peak
  std::string unit = "auto";
  size_t node_count = 30;  // 0 = all
  bool by_total = false;
  bool errors = false;  // show the 95 % interval of each value
  StackOptions stacks = {};
  std::string format = "table";
  std::string color = "auto";
  bool full_names = false;           // as in the file
  std::optional<size_t> width = {};  // of lines; 0 = unlimited; not set: the terminal's
  bool pager = true;                 // if the output is longer than the screen
};

struct View {
  std::shared_ptr<const Profile> profile;   // the sum of all files
  std::shared_ptr<Plumbing> plumbing;       // of `profile`, if choosing the metric needed it; see PlumbingOf
  std::vector<double> variances;            // of `profile`, if requested and known
  size_t metric = 0;                        // index of the sample type
  size_t default_metric = 0;                // according to the profile
  Opening opening = Opening::kInUse;        // if no metric was requested
  int64_t left = 0;                         // if the programs have freed everything: bytes that are still in use
  std::optional<LockTrouble> lock_trouble;  // if it comes first (report/analysis/opening.h)
  std::string metric_name, unit_name, kind;
  std::string program, sampling;           // of all files, joined; largest programs first
  std::vector<std::string> losses, peaks;  // peaks: of a few processes, see PeakOf
  std::vector<std::string> older_blocks;   // of processes that were attached; the same few, see OlderBlocksIn
  std::optional<int64_t> peak_bytes,
      peak_stacks_bytes;  // sum of all heights in heap and peak profiles, see PeakBytesOf
  int64_t peak_missing_bytes = 0;
  // Of the process with the highest peak: processes need not have theirs at one time.
  std::optional<int64_t> highest_peak_bytes = {};
  int64_t highest_peak_missing_bytes = 0;
  // For files that state the resident memory: what else they say about pages.
  size_t files_with_pages = 0, files_with_huge = 0;
  int64_t swapped_bytes = 0, huge_bytes = 0;
  std::optional<double> stated_half_width;  // of the total, as the files state
  std::string output_unit;
  size_t files = 0;
  std::vector<std::string>
      unfinished;  // objects without lines, because they were not ready when a file was written; "" = no names at all
  // Processes that exited before the others and are left out, and what they held when they exited.
  size_t ended = 0;
  int64_t ended_value = 0;
  void SetEnded(const std::vector<const ProfileFile*>& files_of_ended);
  // "2 more processes exited earlier with 5MiB in use, not included in the total (--ended adds them)"
  std::string EndedText() const;
  // For processes that are shown before their exit handlers ran: the moment shown, and the moment after the handlers.
  std::vector<std::pair<int64_t, int64_t>> freed_at_exit;
  // The processes of a heap profile for which a file states the resident memory.
  size_t resident_files = 0;
  int64_t resident_bytes = 0;
  // In a sum of mutex or block profiles: the functions that contend for futexes (idle_waits.h).
  std::optional<std::set<std::string>> contends;
  ThreadNames thread_names;  // if rows are threads: from all kinds of profiles given

  std::string Value(int64_t value) const;
  Cell ValueCell(int64_t value) const { return Cell::Number(Value(value), value); }
  // Returns "± 12KiB".
  Cell ErrorCell(double variance) const { return ErrorCell(variance, !variances.empty()); }
  Cell ErrorCell(double variance, bool known) const;
};

inline absl::StatusOr<Style> StyleOf(const ViewOptions& options) {
  return StyleFor(options.format, options.color, options.width);
}

// Reads files and adds them up. Returns InvalidArgument for wrong usage. Prints warnings to `err`.
absl::StatusOr<View> OpenView(const ViewOptions& options, std::ostream& err);
// The same for files that were read before, such as two profiles on standard input.
absl::StatusOr<View> ViewOf(std::vector<const ProfileFile*> files, const ViewOptions& options);

// Returns the files of `set` that count (see above). Prints a message to `err` about those that do not.
absl::StatusOr<std::vector<const ProfileFile*>> FilesThatCount(ProfileSet* set, const ViewOptions& options,
                                                               std::ostream& err);

// Takes the files of ended processes out of those that count if the chosen metric is an amount at one moment (live_processes.h).
std::vector<const ProfileFile*> EndedOf(std::vector<const ProfileFile*>* files, const ViewOptions& options);

// Returns the stacks with the filters applied and with the chosen metric, or with `columns` if that is not empty.
absl::StatusOr<FilteredStacks> StacksOf(const View& view, const ViewOptions& options, std::vector<size_t> columns = {});

// HasFilter: whether any filter by name or label is set. NothingLeft: the error if the filters leave nothing.
bool HasFilter(const StackOptions& options);
absl::Status NothingLeft();

// Returns the plumbing of the view's profile.
absl::StatusOr<std::shared_ptr<Plumbing>> PlumbingOf(const View& view, const ViewOptions& options);

// Adds a line about code without names if it is a large part of the total. `plumbing` must belong to the view's profile.
void AddMissingNames(const View& view, const ViewOptions& options, Plumbing* plumbing, TextTable* table);

// Adds the lines above a table: program, metric, total ± …, sampled, lost, and the filters in use.
void AddHeader(const View& view, const FilteredStacks& stacks, const ViewOptions& options, TextTable* table);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_SELECTION_H_
