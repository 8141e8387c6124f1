// Handles a wait from which its thread does not return: cancelled, or ended by a signal handler (pthread_exit). libc
// runs the handler registered here when it unwinds the thread past our frame: the C form of pthread_cleanup, no
// exceptions, no landing pads. The same happens when a handler jumps out of the wait by longjmp. After other jumps
// (setcontext, __builtin_longjmp) the thread removes the registration later: see DropAbandonedWait.
//
//     LockWait wait;  WaitCleanup cleanup;
//     BeginWait(…, &wait);  cleanup.Push(&wait);  real function;  cleanup.Pop();  EndWait(&wait, …);
#ifndef HOLDFAST_INTERPOSE_LOCKS_CANCELLATION_H_
#define HOLDFAST_INTERPOSE_LOCKS_CANCELLATION_H_

#include <pthread.h>

#include "sampler/hot_path/this_thread.h"
#include "sampler/record/cleanup.h"
#include "sampler/record/waits.h"

namespace holdfast {

class WaitCleanup {
 public:
  void Push(LockWait* wait) { Push(wait, EndCancelled, wait); }
  void Push(LockWait* wait, void (*routine)(void*), void* argument) {
    pushed_ = wait->active() && cleanup_functions.push != nullptr;
    if (!pushed_) return;
    cleanup_functions.push(&buffer_, routine, argument);
    NoteCleanup(wait, &buffer_, FormerCleanup(&buffer_));
  }
  void Pop() {
    if (pushed_) cleanup_functions.pop(&buffer_, 0);
  }

 private:
  static void EndCancelled(void* wait) { EndWait(static_cast<LockWait*>(wait), false); }

  _pthread_cleanup_buffer buffer_;
  bool pushed_;
};

inline constexpr auto kNeverRefused = [](auto) { return false; };

// One wait with one call, from its beginning to its end. `acquired`, `refused`: interpret the call's result; a refused
// call is no wait.
template <typename Call, typename Acquired, typename Refused = decltype(kNeverRefused)>
inline auto WaitWhole(const CallerRegisters& caller, const void* holder, WaitKind kind, WaitStyle style, Call call,
                      Acquired acquired, Refused refused = kNeverRefused) {
  LockWait wait;
  WaitCleanup cleanup;
  BeginWait(caller, holder, kind, style, &wait);
  EnterWait(false, &wait);
  cleanup.Push(&wait);
  const auto result = call();
  cleanup.Pop();
  if (refused(result)) {
    DropWait(&wait);
  } else {
    EndWait(&wait, acquired(result));
  }
  return result;
}

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_LOCKS_CANCELLATION_H_
