// Mutex functions for condition.cc: the wait for a condition releases a mutex.
#ifndef HOLDFAST_INTERPOSE_LOCKS_MUTEX_H_
#define HOLDFAST_INTERPOSE_LOCKS_MUTEX_H_

#include <pthread.h>

#include "sampler/record/holds.h"

namespace holdfast {

// BeginUnlock, for a mutex that its holder is about to release (or not, if it holds the mutex more than once).
HOLDFAST_HIDDEN void BeginMutexRelease(pthread_mutex_t* mutex, LockHold* hold);

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_LOCKS_MUTEX_H_
