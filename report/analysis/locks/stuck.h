// Describes in words which threads wait for which: `holdfast stuck`, and the lines that other commands print for a
// deadlock.
//
//   deadlock: 2 threads wait for each other, since 25.1s
//     T2 worker (tid 4711)  holds  accounts_mutex (server)  waits for  audit_mutex (server)     transfer ← handle ← run
//     T3 worker (tid 4712)  holds  audit_mutex (server)     waits for  accounts_mutex (server)  audit ← handle ← run
//
// Reads a profile's records (report/analysis/locks/waiting_list.h), whether the profile is in a file or was just made.
#ifndef HOLDFAST_REPORT_ANALYSIS_LOCKS_STUCK_H_
#define HOLDFAST_REPORT_ANALYSIS_LOCKS_STUCK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "report/profile/profile.h"

namespace holdfast {

// Selects the calls that are shown for a thread.
struct CallsShown {
  std::vector<std::string> plumbing =
      {};             // additional patterns for plumbing (report/analysis/profiles/plumbing.h); must be valid
  bool folds = true;  // false: also show plumbing
  bool each = false;  // show each lock of a class separately
};

// Returns "" if there is no deadlock.
std::string DeadlockText(const Profile& profile);
// One screen: deadlocks, locks with waiters, waits without a holder. `process`: "server (pid 4242)".
std::string StuckText(const Profile& profile, const std::string& process, const CallsShown& shown = {});
std::string StuckJson(const Profile& profile, int64_t pid, const CallsShown& shown = {});  // with complete stacks
bool HasDeadlock(const Profile& profile);

// Several processes. First those with threads that wait for a lock or in the middle of work, as above, one after the
// other. Then what the other processes' threads do, equal ones together, and those in the middle of work first.
//
//   2 threads sleep in epoll_wait (do_epoll_wait): postgres (pid 4712), postgres (pid 4713)
//     WaitEventSetWait ← WaitLatch ← ProcSleep ← LockAcquireExtended ← XactLockTableWait ← heap_update ← …
struct StuckProcess {
  std::string name;
  Profile profile;
};
std::string StuckTextOfAll(const std::vector<StuckProcess>& processes, const CallsShown& shown = {});

// Returns the deadlocks in those files that are block profiles; "" if there is none. Skips unreadable files.
std::string DeadlocksIn(const std::vector<std::string>& files);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_LOCKS_STUCK_H_
