// Finds what locks cost beside waiting time, from other profiles of the same process.
//
//     cpu    pthread_spin_lock ← serve ← run     ┐ the stack above libc's function is
//     block  serve ← run waits for queue_lock    ┴ that of a waiter: CPU time of queue_lock
//     wall   state: lock, lock_address: 0x55d0c0de4080, holder_state: io     what a holder does while others wait
//
// CPU time in a lock's functions is spinning, and the kernel's work for putting threads to sleep and waking them. If
// one stack waits for several locks, they share its CPU time in proportion to the waits. Call paths that are in no
// recorded pair are not found.
#ifndef HOLDFAST_REPORT_ANALYSIS_LOCKS_LOCK_COSTS_H_
#define HOLDFAST_REPORT_ANALYSIS_LOCKS_LOCK_COSTS_H_

#include <string>
#include <string_view>

#include "report/analysis/locks/lock_list.h"
#include "report/profile/profile.h"

namespace holdfast {

// Sets Lock::call_cpu_ns of the locks that samples belong to. `locks`: the profile that the list was read from; `cpu`:
// a cpu profile of the same process.
void AddCpuOfCalls(const Profile& locks, const Profile& cpu, LockList* list);
// Sets Lock::holder_does. `wall`: a wall profile of the same process.
void AddHolderStates(const Profile& wall, LockList* list);

// Describes a value of the label `holder_state`: "cpu" → "on a CPU", "syscall:poll" → "in poll".
std::string HolderStateText(std::string_view state);
// "on a CPU 62 %, in input and output 31 %"; "" if nothing is known. Parts below 1 % are left out.
std::string HolderStatesText(const LockList::HolderStates& states);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_LOCKS_LOCK_COSTS_H_
