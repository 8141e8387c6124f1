// Threads, by the stack that created them: how many there were, and which still live.
//
//     pthread_create ──► BeginBirth   takes the stack and a slot   ┐ creator
//     the real one   ──► EndBirth     counts it, or gives it back  ┘
//     BeganThread    ──► the program's function ──► EndedThread      the new thread
//
// A thread that is cancelled, or ends by a system call of its own, never comes to EndedThread: who reads the table looks for it in
// /proc (report/export/running_program.h); its slot is used again when slots run short.
//
// Any thread, signal handlers, children of fork and vfork; nothing allocates or changes errno.
#ifndef HOLDFAST_SAMPLER_EVENTS_THREADS_H_
#define HOLDFAST_SAMPLER_EVENTS_THREADS_H_

#include <cstdint>

#include "sampler/arch/processor.h"

namespace holdfast {

// What the new thread is to do; kept until it begins.
struct ThreadStart {
  void* function;
  void* argument;
};

// On the creator's stack.
struct ThreadBirth {
  ThreadStart*
      start;  // null: it is not followed, create it as the program said; else the new thread is to call BeganThread with it
  void* row;
  uint32_t epoch;  // Process::epoch: a handler may fork in between
};
// `stack_bytes`: of the stack that libc maps for it; 0: it does not.
ThreadBirth BeginBirth(const CallerRegisters& caller, const ThreadStart& start, uint64_t stack_bytes);
// `created`: there is such a thread now, or was.
void EndBirth(const ThreadBirth& birth, bool created);

// A thread that is followed; on its stack.
struct FollowedThread {
  ThreadStart start;
  uint32_t number;  // of its slot
  uint32_t epoch;   // Process::epoch
  uint64_t who;     // as its slot has it
};
FollowedThread BeganThread(ThreadStart* start);
void EndedThread(const FollowedThread& thread);
// The same for the calling thread, if it is a followed one: by its id.
void EndedThisThread();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_EVENTS_THREADS_H_
