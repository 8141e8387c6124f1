// Locks of one class: those that a program has many of, one in each connection, session or shard.
//
//     16 locks: THD::LOCK_thd_data (mariadbd) in blocks from create_thd, the hottest 5.00ms
//
// Two locks are of one class if they have the same kind and rank, and
//   - they are parts of the same variable, at any index of its arrays: `server.accounts_[*].mutex`, or `queues` without debug information;
//   - they are at the same place of blocks of one size from one function;
//   - they are at three or more places of such blocks, which are arrays, and the same function held and the same one waited for
//     all of them most;
//   - they are at the same place of the frames of one function;
//   - nothing is known of either but its address, and the same function held and the same one waited for both most.
// Mutexes of a class by which idle threads are parked, one by each, are idle (report/analysis/wait_rank.h): several locks, each waited
// for by one thread at a time, for kParkedNs on average, and nearly always in the thread's own loop. A single lock like that may be contended.
//
// Sums of a class are the sums of its locks, and its longest is the longest of them.
#ifndef HOLDFAST_REPORT_ANALYSIS_LOCK_CLASSES_H_
#define HOLDFAST_REPORT_ANALYSIS_LOCK_CLASSES_H_

#include <string>

#include "report/analysis/lock_list.h"

namespace holdfast {

inline constexpr int64_t kParkedNs = 100'000'000;

// What the locks of a class have in common, for people and as a key; "" where nothing but the address is known.
std::string LockClassOf(const Profile& profile, const LockList& list, const LockList::Lock& lock, Plumbing* plumbing);

// Each class as one lock, with the number of its hottest one, in the same order. Pairs name that number as well.
LockList GroupByClass(const Profile& profile, LockList list, Plumbing* plumbing);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_LOCK_CLASSES_H_
