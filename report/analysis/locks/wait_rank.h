// Ranks waits. `locks`, `top`, `stuck` and the views of mutex and block profiles all use this rule. Totals include all
// ranks.
//
//  1  lock    a thread holds the object: a mutex, a reader-writer lock, a spin lock, a futex that is a lock; or a
//             condition or futex within a function that takes its own kind of lock (kLockFunctions: Java's
//             ObjectMonitor::enter, Rust's RwLock::read_contended)
//  2  event   the object has no holder (a condition, a semaphore, a barrier, once, join, a futex that is an event: RankOf
//             in lock_list.h), and the wait is deep in the program's work: a statement that waits for a row lock, a request
//             that waits for a pooled connection
//  3  idle    the object has no holder, and the thread waits in its own loop: at most kLoopFunctions functions of the
//             program are between its start and the wait, without plumbing; kStartFunctions if the thread has waited since
//             it was created. Threads of a pool wait like this all day, which is normal; so does a thread that missed a
//             wake-up. Also idle are runtimes' own threads, by name, and threads that are each parked by a mutex
//
// Functions on the stack (2026-11-23; idle threads in their loops, and blocked ones for comparison): MariaDB 10.11 1 to
// 4, and 19; node 18 1 or 2; OpenJDK 17 5 to 7 (Java threads 13 and more, idle or not: they have no loop of their own),
// Chromium 3 to 9.
#ifndef HOLDFAST_REPORT_ANALYSIS_LOCKS_WAIT_RANK_H_
#define HOLDFAST_REPORT_ANALYSIS_LOCKS_WAIT_RANK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "report/analysis/profiles/plumbing.h"
#include "report/profile/profile.h"

namespace holdfast {

enum class WaitRank : uint8_t { kLock, kEvent, kIdle };

inline constexpr size_t kLoopFunctions = 4, kStartFunctions = 10;

// Returns how many functions of a stack are the program's own, including inlined ones.
size_t OwnFunctions(const Profile& profile, std::span<const uint32_t> stack, Plumbing* plumbing);
// Returns whether a stack, leaf first, is that of a thread in its own loop. Returns false for an unknown or truncated
// stack.
bool IsInOwnLoop(const Profile& profile, std::span<const uint32_t> stack, bool since_start, Plumbing* plumbing);
// Returns whether a stack, leaf first, waits in a function that takes its own kind of lock: Rust's Mutex, Java's monitors.
bool TakesALock(const Profile& profile, std::span<const uint32_t> stack);
// Returns whether a stack, leaf first, waits for a futex that is known as an event: Rust's Condvar::wait, thread::park.
bool WaitsForAnEvent(const Profile& profile, std::span<const uint32_t> stack);
// Ranks a wait for an object without a holder known to libc.
WaitRank RankOfUnheld(const Profile& profile, std::span<const uint32_t> stack, bool since_start, Plumbing* plumbing);
// Returns whether a thread of this name belongs to a runtime and waits for the runtime's own work: "Finalizer", "GC
// Thread#3".
bool IsRuntimeThread(std::string_view name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_LOCKS_WAIT_RANK_H_
