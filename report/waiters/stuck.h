// Who waits for whom, in words: `holdfast stuck`, and the lines that other commands print where there is a deadlock.
//
//   deadlock: 2 threads wait for each other, since 25.1s
//     T2 worker (tid 4711)  holds  accounts_mutex (server)  waits for  audit_mutex (server)     transfer ← handle ← run
//     T3 worker (tid 4712)  holds  audit_mutex (server)     waits for  accounts_mutex (server)  audit ← handle ← run
//
// From a profile's comments (report/analysis/waiting_list.h), whether it lies in a file or was made a moment ago.
#ifndef HOLDFAST_REPORT_WAITERS_STUCK_H_
#define HOLDFAST_REPORT_WAITERS_STUCK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "report/pprof/profile.h"

namespace holdfast {

// Which calls stand beside a thread.
struct CallsShown {
  std::vector<std::string> plumbing =
      {};             // patterns of what else is plumbing (report/profiles/plumbing.h), which compile
  bool folds = true;  // false: plumbing as well
  bool each = false;  // each lock of a class by itself
};

// "" if there is none.
std::string DeadlockText(const Profile& profile);
// One screen: deadlocks, locks that somebody waits for, what nobody holds. `process`: "server (pid 4242)".
std::string StuckText(const Profile& profile, const std::string& process, const CallsShown& shown = {});
std::string StuckJson(const Profile& profile, int64_t pid, const CallsShown& shown = {});  // with whole stacks
bool HasDeadlock(const Profile& profile);

// Several processes: those in which somebody waits for a lock or in the midst of work as above, one after the other; then what
// the threads of the others do, alike ones together, those in the midst of their work first.
//
//   2 threads sleep in epoll_wait (do_epoll_wait): postgres (pid 4712), postgres (pid 4713)
//     WaitEventSetWait ← WaitLatch ← ProcSleep ← LockAcquireExtended ← XactLockTableWait ← heap_update ← …
struct StuckProcess {
  std::string name;
  Profile profile;
};
std::string StuckTextOfAll(const std::vector<StuckProcess>& processes, const CallsShown& shown = {});

// Of these files, the deadlocks in those that are block profiles; "" if there is none, also for files that cannot be read.
std::string DeadlocksIn(const std::vector<std::string>& files);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_WAITERS_STUCK_H_
