// Finds what grows, for the page of an HTML report: computes the series of `holdfast leaks` (report/show/leaks.h) over
// the same files, so that the page and the command always agree.
//
//   HtmlLeaks leaks;
//   leaks.See(file);              // each file as it is read; heap and map profiles that may have an answer are read again
//   leaks.Find(&data);            // last, before ReportBuilder::Encode
//
// All stacks that grow go into the page, up to kMaxGrowing, and the largest others. A process has an answer of each kind with
// kMinSnapshots, or if the ages of live blocks tell it. One thread at a time.
#ifndef HOLDFAST_REPORT_PAGE_HTML_LEAKS_H_
#define HOLDFAST_REPORT_PAGE_HTML_LEAKS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "report/analysis/growth/all_memory.h"
#include "report/analysis/growth/process_series.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/page/report_builder.h"

namespace holdfast {

class HtmlLeaks {
 public:
  static constexpr size_t kMaxGrowing = 1000, kMaxOthers = 40, kMaxPoints = 48;

  // The page's data of one process and kind, heap or map. `entries` are those of `series`.
  static ReportBuilder::Growths GrowthsOf(const std::string& process, std::string_view kind,
                                          const ProcessSeries& series,
                                          const std::vector<ProcessSeries::Entry>& entries);
  // Whether the page has an answer for such a series.
  static bool HasAnswer(const ProcessSeries& series) { return series.snapshots() > 0 && series.has_course(); }
  // The course of all resident memory, in words.
  static std::vector<std::string> LinesOf(const AllMemory& memory);

  void See(const ProfileFile& file);
  // Returns an error if a file has become unreadable; a file that was deleted is left out. `plumbing`: additional
  // patterns of functions that count for their callers.
  absl::Status Find(const std::vector<std::string>& plumbing, ReportBuilder* data) const;

 private:
  struct Files {
    std::vector<std::string> heap, map;  // paths
    bool has_course = false;             // record::Course
    int64_t newest_ns = 0;               // of any kind that `holdfast leaks` reads
  };
  std::map<std::string, Files> files_;  // by process
  // Time and path of the two newest lifetimes profiles: the newest may describe what the exit handlers left.
  std::map<std::string, std::vector<std::pair<int64_t, std::string>>> ages_at_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PAGE_HTML_LEAKS_H_
