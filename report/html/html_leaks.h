// Finds what grows, for the page of an HTML report: computes the series of `holdfast leaks` (report/comparisons/leaks.h) over
// the same files, so that the page and the command always agree.
//
//   HtmlLeaks leaks;
//   leaks.See(file);              // each file as it is read; only heap profiles of enough snapshots are read again
//   leaks.Find(&data);            // last, before ReportBuilder::Encode
//
// The page gets all growing stacks, up to kMostGrowing, and the largest others. The cost is a second reading of the
// heap profiles of processes with kLeastSnapshots or more. One thread at a time.
#ifndef HOLDFAST_REPORT_HTML_HTML_LEAKS_H_
#define HOLDFAST_REPORT_HTML_HTML_LEAKS_H_

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "report/growth/all_memory.h"
#include "report/growth/leak_series.h"
#include "report/html/report_builder.h"
#include "report/profiles/profile_set.h"

namespace holdfast {

class HtmlLeaks {
 public:
  static constexpr size_t kMostGrowing = 1000, kMostOthers = 40, kMostPoints = 48;

  // Returns the growth of one process for the page. `entries` must belong to `series`.
  static ReportBuilder::Growths GrowthsOf(const std::string& process, const LeakSeries& series,
                                          const std::vector<LeakSeries::Entry>& entries);

  void See(const ProfileFile& file);
  // Returns an error if a file has become unreadable; a file that was deleted is left out. `plumbing`: additional
  // patterns of functions that count for their callers.
  absl::Status Find(const std::vector<std::string>& plumbing, ReportBuilder* data) const;

 private:
  std::map<std::string, std::vector<std::string>> paths_;           // of heap profiles, by process
  std::map<std::string, std::pair<int64_t, std::string>> ages_at_;  // of the newest lifetimes profile: time, path
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTML_HTML_LEAKS_H_
