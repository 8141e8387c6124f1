// Looks at the threads of running processes for servers and pushers, in a thread of its own.
//
//   ThreadTicker ticker;
//   ticker.ClosePeriod(process);             the first call begins to look at the process's threads
//   state = Observe(process.table, …);       later, so that it has the stacks of all waits that the looks saw
//   ticker.AddTo(process, ThreadTicker::Sums::kOnlyGrow, &state);
//
// What a process did before the first call is not seen. A process is forgotten when nobody has asked for ten minutes; one that
// has ended remains until then, so that its last period can be told. Any thread.
#ifndef HOLDFAST_REPORT_FLEET_LIVE_THREAD_TICKER_H_
#define HOLDFAST_REPORT_FLEET_LIVE_THREAD_TICKER_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "report/daemon/find_tables.h"
#include "report/observe/process_state.h"

namespace holdfast {

class ThreadTicker {
 public:
  ThreadTicker() = default;
  ~ThreadTicker();
  ThreadTicker(const ThreadTicker&) = delete;
  ThreadTicker& operator=(const ThreadTicker&) = delete;

  // Looks at all threads now. Error: the process does not request the kind `wall`, or is not visible.
  absl::Status ClosePeriod(const ProcessTable& process);
  // Adds what was known then. kWhole: see ThreadLooks::Times, `with_open`. Error: there was no successful ClosePeriod.
  enum class Sums : uint8_t { kOnlyGrow, kWhole };
  absl::Status AddTo(const ProcessTable& process, Sums sums, ProcessState* state);

 private:
  struct Watched {
    Watched(TableFile its_table, pid_t pid)
        : table(std::move(its_table)), looks(LookedAtProcess::Of(pid, !table.owner().IsOfOurNamespace())) {}
    TableFile table;
    ThreadLooks looks;
    int64_t asked_ns = 0, next_rights_ns = 0;
  };
  void Run();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::string, std::unique_ptr<Watched>> watched_;  // by TableFile::key
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_LIVE_THREAD_TICKER_H_
