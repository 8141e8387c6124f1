// Groups locks into classes, for programs with many locks of a kind: one in each connection, session or shard.
//
//     16 locks: THD::LOCK_thd_data (mariadbd) in blocks from create_thd, the hottest 5.00ms
//
// Two locks are in one class if they have the same kind and rank, and
//  - they are parts of one variable, at any index of its arrays: `server.accounts_[*].mutex`, or `queues` without debug
//    information;
//  - or they have the same offset in blocks of one size from one function;
//  - or they have three or more different offsets in such blocks, which are arrays, and the same function is the top holder
//    and the same one the top waiter of all of them;
//  - or they have the same offset in frames of one function;
//  - or only their addresses are known, and the same function is the top holder and the same one the top waiter of both.
//
// Mutexes in a class are idle (report/analysis/locks/wait_rank.h) if each parks one idle thread: there are several, each has
// one waiter at a time, for kParkedNs on average, and nearly always in the thread's own loop. A single such lock may be
// contended.
//
// The sums of a class are the sums of its locks, and its longest time is the maximum.
#ifndef HOLDFAST_REPORT_ANALYSIS_LOCKS_LOCK_CLASSES_H_
#define HOLDFAST_REPORT_ANALYSIS_LOCKS_LOCK_CLASSES_H_

#include <string>

#include "report/analysis/locks/lock_list.h"

namespace holdfast {

inline constexpr int64_t kParkedNs = 100'000'000;

// Returns what the locks of a class have in common, as text for people and as a key; "" if only the address is known.
std::string LockClassOf(const Profile& profile, const LockList& list, const LockList::Lock& lock, Plumbing* plumbing);

// Replaces each class by one lock with the number of its hottest one, in the same order. Pairs refer to that number as
// well.
LockList GroupByClass(const Profile& profile, LockList list, Plumbing* plumbing);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_LOCKS_LOCK_CLASSES_H_
