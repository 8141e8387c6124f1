// Spin locks of musl: a free one is 0, like a taken one of glibc.
#ifndef HOLDFAST_INTERPOSE_LOCKS_SPIN_H_
#define HOLDFAST_INTERPOSE_LOCKS_SPIN_H_

#include "sampler/contract/attributes.h"

namespace holdfast {

// Makes both paths of pthread_spin_lock read the lock's word as musl writes it. Call once, before the shim is ready.
HOLDFAST_HIDDEN void UseMuslSpinLocks();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_LOCKS_SPIN_H_
