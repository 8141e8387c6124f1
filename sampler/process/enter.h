// The way into every slow path: whether this thread of this process may record.
//
// A child of fork has its parent's memory, and must not write into its parent's table. It finds out here, and begins anew
// (begin_child.h):
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

// First thing on every slow path. False: do not record (muted, switched off, or a state that belongs to someone else).
// In a forked child the first call here begins its own, empty profile.
bool EnterSlow(ThreadState& thread);

// Whether the tables are this process's own: a forked child finds out, and begins anew, here. False: do not touch them.
bool OwnState();

// Once, before the first of these.
void MakeOwnershipPage();
// In a child of fork that runs a function of ours: as if the kernel had emptied the page, where nobody did. `pid`: its own, or 0.
void MarkForkedChild(int pid);

// Whether this thread was introduced in this very process, and that has begun to record every allocation: two loads, for who comes
// here at each of them.
struct OwnershipPage {
  std::atomic<uint32_t> state;        // enter.cc
  std::atomic<uint32_t> exact_epoch;  // 1 + ThreadState::epoch of its threads; 0: not begun
  std::atomic<int> forked_pid;  // of a child of fork, noted by itself; 0: it is none, or nobody could (a raw clone)
};
extern HOLDFAST_HIDDEN OwnershipPage* ownership;   // null: recording never began
extern HOLDFAST_HIDDEN bool ownership_is_emptied;  // false: the kernel cannot, and every allocation goes the long way
inline bool MayBeExactHere() { return ownership_is_emptied; }
// Where it may be. Neither the emptied page of a child (0) nor a thread that was never introduced (epoch 0) is equal.
inline bool IsExactHere(const ThreadState& thread) {
  return ownership->exact_epoch.load(std::memory_order_relaxed) == thread.epoch + 1;
}
inline void SetExactHere(const ThreadState& thread) {
  ownership->exact_epoch.store(thread.epoch + 1, std::memory_order_release);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_ENTER_H_
