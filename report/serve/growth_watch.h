// Whether running processes grow, by the snapshots that were written of them: the answer of `holdfast leaks` for /metrics and the live
// page. Each file is read once; one look takes at most kLook, and says nothing of a process until all its files are read. Any thread.
#ifndef HOLDFAST_REPORT_SERVE_GROWTH_WATCH_H_
#define HOLDFAST_REPORT_SERVE_GROWTH_WATCH_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "report/base/time_budget.h"
#include "report/growth/growth_answer.h"
#include "report/growth/growth_rate.h"
#include "report/html/report_builder.h"
#include "report/processes/find_tables.h"

namespace holdfast {

struct WatchedGrowth {
  std::string kind;  // heap, map
  GrowthAnswer answer;
  GrowthRate rate;
  ReportBuilder::Growths page;  // of heap: for the live page
};

class GrowthWatch {
 public:
  static constexpr std::chrono::milliseconds kLook{300};

  GrowthWatch();
  ~GrowthWatch();
  // The growths of all processes that live, in their order; an empty list if nothing is known. Forgets the others.
  std::vector<std::vector<WatchedGrowth>> Of(const std::vector<ProcessTable>& processes);
  // `version` changes with the answer; 0: nothing is known.
  std::vector<WatchedGrowth> OfOne(const ProcessTable& process, uint64_t* version = nullptr);

 private:
  struct Watched;
  Watched* Look(const ProcessTable& process, const Deadline& until);

  std::mutex mutex_;  // guards what follows
  std::map<std::string, std::unique_ptr<Watched>> watched_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SERVE_GROWTH_WATCH_H_
