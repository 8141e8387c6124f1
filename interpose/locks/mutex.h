// What condition.cc needs of mutexes: the wait for a condition lets one go.
#ifndef HOLDFAST_INTERPOSE_LOCKS_MUTEX_H_
#define HOLDFAST_INTERPOSE_LOCKS_MUTEX_H_

#include <pthread.h>

#include "sampler/locks/holds.h"

namespace holdfast {

// BeginUnlock, for a mutex that its holder is about to let go (or, if it holds it more than once, is not).
HOLDFAST_HIDDEN void BeginMutexRelease(pthread_mutex_t* mutex, LockHold* hold);

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_LOCKS_MUTEX_H_
