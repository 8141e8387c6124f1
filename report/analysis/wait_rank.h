// How waits are ranked, the one rule for `locks`, `top`, `stuck` and the views of mutex and block profiles. Totals hold all of them.
//
//   1  lock    somebody holds what is waited for: a mutex, a reader-writer lock, a spin lock, a futex that is a lock; and a
//              condition within a function that takes a lock of its own kind (kLockFunctions: ObjectMonitor::enter of Java)
//   2  event   nobody holds it (a condition, a semaphore, a barrier, once, join, a futex that is an event: RankOf
//              of lock_list.h), and the wait lies deep in the program's work: a statement that waits for a row lock, a request
//              that waits for a connection of a pool
//   3  idle    nobody holds it, and the thread waits in its own loop: not more than kLoopFunctions functions of the program
//              lie between its start and the wait, plumbing not counted; kStartFunctions where it has waited since it
//              was created. Pools of threads do, all day, through nobody's fault, and so does who missed a wake-up. So do
//              threads that runtimes have for themselves, by their names, and threads that are parked by a mutex each
//
// Functions on the stack (2026-11-23, idle in their loops, against held up): MariaDB 10.11 1 to 4, against 19; node 18 1 or 2;
// OpenJDK 17 5 to 7 (threads of Java 13 and more, idle or not: they have no loop of their own), Chromium 3 to 9.
#ifndef HOLDFAST_REPORT_ANALYSIS_WAIT_RANK_H_
#define HOLDFAST_REPORT_ANALYSIS_WAIT_RANK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "report/pprof/profile.h"
#include "report/profiles/plumbing.h"

namespace holdfast {

enum class WaitRank : uint8_t { kLock, kEvent, kIdle };

inline constexpr size_t kLoopFunctions = 4, kStartFunctions = 10;

// How many functions of a stack are the program's, inlined ones too.
size_t OwnFunctions(const Profile& profile, std::span<const uint32_t> stack, Plumbing* plumbing);
// Whether a stack, leaf first, is that of a thread in its own loop. Of one that is not known, or was cut: no.
bool IsInOwnLoop(const Profile& profile, std::span<const uint32_t> stack, bool since_start, Plumbing* plumbing);
// Ranks a wait for something without a holder that libc knows.
WaitRank RankOfUnheld(const Profile& profile, std::span<const uint32_t> stack, bool since_start, Plumbing* plumbing);
// Whether a thread of this name belongs to a runtime, which has it wait for work of the runtime's own: "Finalizer", "GC Thread#3".
bool IsRuntimeThread(std::string_view name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_WAIT_RANK_H_
