// Names the locks and holders in the samples of a wall profile, once locks and functions have names.
//
//     state: lock, lock_address: 0x55d0c0de4080    →    lock: cache_mutex (server), holder: Cache::Evict
//
// `holder`: the function that the recorded waits for this lock are charged to most.
#ifndef HOLDFAST_REPORT_BUILDER_WALL_LOCKS_H_
#define HOLDFAST_REPORT_BUILDER_WALL_LOCKS_H_

#include "report/profile/profile.h"

namespace holdfast {

// Changes no profile of another kind. A second call replaces the names.
void NameLocksOfWall(Profile* profile);
// Gives the samples of a difference, which has no list of locks, the names that those of the whole profile have.
void CopyLockNames(const Profile& whole, Profile* difference);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_WALL_LOCKS_H_
