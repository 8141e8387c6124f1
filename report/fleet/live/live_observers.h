// Observes running processes for servers that answer requests.
//
//   LiveObservers observers(&ticker);
//   absl::StatusOr<ProcessState> state = observers.Observe(process, kResidentFile);
//
// Keeps an observer per process, which remembers between requests: the most that libc had mapped never decreases, and
// its page table is not read too often. Any thread.
#ifndef HOLDFAST_REPORT_FLEET_LIVE_LIVE_OBSERVERS_H_
#define HOLDFAST_REPORT_FLEET_LIVE_LIVE_OBSERVERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "report/daemon/find_tables.h"
#include "report/fleet/live/thread_ticker.h"
#include "report/observe/observe.h"

namespace holdfast {

class LiveObservers {
 public:
  // `ticker` must outlive this object.
  explicit LiveObservers(ThreadTicker* ticker) : ticker_(ticker) {}

  // Finds out what a file of this kind needs (index into kFileKinds). For kResidentFile and kWallFile, returns an error if
  // that profile is not enabled or cannot be made at this moment.
  absl::StatusOr<ProcessState> Observe(const ProcessTable& process, int file);

 private:
  // Entries of exited processes are removed first.
  static constexpr size_t kMax = 1024;
  struct Locked {
    std::mutex mutex;  // guards what follows
    ProcessObserver observer;
  };
  struct Place {
    std::shared_ptr<Locked> process;
    uint64_t turn = 0;  // the time of the last request, as a counter
  };
  std::shared_ptr<Locked> Find(const ProcessTable& process);

  ThreadTicker* const ticker_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, Place> processes_;
  uint64_t turns_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_LIVE_LIVE_OBSERVERS_H_
