// The way into every slow path: whether this thread of this process may record.
//
// A child of fork has its parent's memory, and must not write into its parent's table. It finds out here, by a page that the
// kernel empties in every child, and begins anew (begin_child.h).
#ifndef HOLDFAST_SAMPLER_PROCESS_ENTER_H_
#define HOLDFAST_SAMPLER_PROCESS_ENTER_H_

#include "sampler/hot_path/thread_state.h"

namespace holdfast {

// First thing on every slow path. False: do not record (muted, switched off, or a state that belongs to someone else).
// In a forked child the first call here begins its own, empty profile.
bool EnterSlow(ThreadState& thread);

// Whether the tables are this process's own: a forked child finds out, and begins anew, here. False: do not touch them.
bool OwnState();

// Once, before the first of these.
void MakeOwnershipPage();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_ENTER_H_
