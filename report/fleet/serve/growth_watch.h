// Tells whether running processes grow, judging by their snapshot files: the verdicts of `holdfast leaks` for /metrics
// and the live page. Reads each file once. One look takes at most kLook, and gives no verdict on a process until all
// its files have been read. Any thread.
#ifndef HOLDFAST_REPORT_FLEET_SERVE_GROWTH_WATCH_H_
#define HOLDFAST_REPORT_FLEET_SERVE_GROWTH_WATCH_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "report/analysis/growth/growth_answer.h"
#include "report/analysis/growth/growth_rate.h"
#include "report/base/time_budget.h"
#include "report/daemon/find_tables.h"
#include "report/page/report_builder.h"

namespace holdfast {

struct WatchedGrowth {
  std::string kind;  // heap, map
  GrowthAnswer answer;
  GrowthRate rate;
  ReportBuilder::Growths page;  // for the live page; without snapshots: it has no answer
};

class GrowthWatch {
 public:
  static constexpr std::chrono::milliseconds kLook{300};

  GrowthWatch();
  ~GrowthWatch();
  // Returns the growths of all live processes in the given order; an unknown process has an empty list. Forgets all
  // others.
  std::vector<std::vector<WatchedGrowth>> Of(const std::vector<ProcessTable>& processes);
  // `version` changes with the answer; 0: unknown.
  std::vector<WatchedGrowth> OfOne(const ProcessTable& process, uint64_t* version = nullptr);

 private:
  struct Watched;
  Watched* Look(const ProcessTable& process, const Deadline& until);
  static bool LookWhatHolds(const ProcessTable& process, Watched* watched);

  std::mutex mutex_;  // guards what follows
  std::map<std::string, std::unique_ptr<Watched>> watched_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_SERVE_GROWTH_WATCH_H_
