// The moment before the exit handlers: a snapshot taken later shows what destructors left, not what the program held.
#ifndef HOLDFAST_INTERPOSE_PROCESS_EXIT_HOOKS_H_
#define HOLDFAST_INTERPOSE_PROCESS_EXIT_HOOKS_H_

#include <pthread.h>

namespace holdfast {

// Makes a return from main run BeforeExitHandlers (sampler/lifetime/lifetime.h). libc allocates a record: called once, while
// blocks still come from the early arena, so that no allocator below sees it; or from an allocator in the executable, just
// before that one is redirected.
void WatchReturnFromMain();

// The calling thread ends by itself, or another one is cancelled: if that is the main thread, the process goes on.
void NoteThreadEnd();
void NoteCancellation(pthread_t thread);

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_PROCESS_EXIT_HOOKS_H_
