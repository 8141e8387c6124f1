// The entry to every slow path: whether this thread of this process may record.
//
// A child of fork has its parent's memory, and must not write into its parent's table. It notices here that it is a
// child, and begins anew (begin_child.h):
//
//   MADV_WIPEONFORK works    a page that the kernel empties in every child. No system call on the way.
//   Linux before 4.14, some  the child marks itself after fork and _Fork. Each slow path also compares pids, for children of a raw
//   emulators                clone, and looks for a page that those children do not have (MADV_DONTFORK) but children of vfork do.
#ifndef HOLDFAST_SAMPLER_PROCESS_ENTER_H_
#define HOLDFAST_SAMPLER_PROCESS_ENTER_H_

#include <atomic>
#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/hot_path/thread_state.h"

namespace holdfast {

// Call first on every slow path. False: do not record (muted, switched off, or another process's state). In a forked
// child the first call begins its own, empty profile.
bool EnterSlow(ThreadState& thread);

// Whether the tables are this process's own. A forked child notices here that it is one, and begins anew. False: do not
// touch them.
bool OwnState();
// For the end of a process. Also false in a forked child that has entered no slow path and has no CPU timer: it has nothing to
// report, so it need not begin anew.
bool OwnStateWithNews();

// Call once, before the functions above.
void MakeOwnershipPage();
// For a child of fork that runs a function of ours: does what the kernel's emptied page would do, if the kernel did
// not. `pid`: its own, or 0.
void MarkForkedChild(int pid);

// Whether this thread was introduced in this very process, and the process has begun to record every allocation: two
// loads, because every allocation calls it then.
struct OwnershipPage {
  std::atomic<uint32_t> state;        // enter.cc
  std::atomic<uint32_t> exact_epoch;  // 1 + ThreadState::epoch of its threads; 0: not begun
  std::atomic<int> forked_pid;        // of a child of fork, noted by itself; 0: not a child, or not noted (a raw clone)
};
extern HOLDFAST_HIDDEN OwnershipPage* ownership;   // null: recording never began
extern HOLDFAST_HIDDEN bool ownership_is_emptied;  // false: the kernel cannot, and every allocation takes the long path
inline bool MayBeExactHere() { return ownership_is_emptied; }
// Call only if MayBeExactHere(). Neither the emptied page of a child (0) nor a thread that was never introduced (epoch 0) compares
// equal.
inline bool IsExactHere(const ThreadState& thread) {
  return ownership->exact_epoch.load(std::memory_order_relaxed) == thread.epoch + 1;
}
inline void SetExactHere(const ThreadState& thread) {
  ownership->exact_epoch.store(thread.epoch + 1, std::memory_order_release);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_ENTER_H_
