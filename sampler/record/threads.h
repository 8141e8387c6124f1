// Threads, by the stack that created them: how many there were, and how many still live.
//
//     pthread_create ──► BeginBirth   takes the stack and a slot   ┐ creator
//     the real one   ──► EndBirth     counts it, or gives it back  ┘
//     BeganThread    ──► the program's function ──► EndedThread      the new thread
//
// A thread that is cancelled, or ends by its own system call, never reaches EndedThread. Readers of the table look for
// it in /proc (report/observe/observe.h). Its slot is reused when slots run short.
//
// Any thread, signal handlers, children of fork and vfork; nothing allocates or changes errno.
#ifndef HOLDFAST_SAMPLER_RECORD_THREADS_H_
#define HOLDFAST_SAMPLER_RECORD_THREADS_H_

#include <cstdint>

#include "sampler/arch/processor.h"

namespace holdfast {

// The new thread's function and argument, kept until it begins.
struct ThreadStart {
  void* function;
  void* argument;
};

// On the creator's stack.
struct ThreadBirth {
  ThreadStart*
      start;  // null: not followed, create it as the program asked; else the new thread calls BeganThread with it
  void* row;
  uint32_t epoch;  // Process::epoch: a handler may fork in between
};
// `stack_bytes`: size of the stack that libc maps for the thread; 0: it maps none.
ThreadBirth BeginBirth(const CallerRegisters& caller, const ThreadStart& start, uint64_t stack_bytes);
// `created`: the thread exists, or did.
void EndBirth(const ThreadBirth& birth, bool created);

// A followed thread; on its own stack.
struct FollowedThread {
  ThreadStart start;
  uint32_t number;  // of its slot
  uint32_t epoch;   // Process::epoch
  uint64_t who;     // as in its slot
};
FollowedThread BeganThread(ThreadStart* start);
void EndedThread(const FollowedThread& thread);
// The function that a live thread was started with, main for the first one; null: not known.
const void* FunctionOfThread(uint32_t id);
// Ends the calling thread's entry, if it is followed: found by its id.
void EndedThisThread();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_THREADS_H_
