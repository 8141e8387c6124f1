// Functions that create a thread, name one, or end the calling one.
//
// A new thread begins in a function of ours, which calls the program's: its end is seen there, also when an exception, pthread_exit
// or a cancellation passes, as the frame has unwind tables and no business in that.
#include <errno.h>
#include <pthread.h>
#include <threads.h>

#include "interpose/base/old_version.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "interpose/process/exit_hooks.h"
#include "interpose/process/start.h"
#include "sampler/process/cpu_timers.h"
#include "sampler/record/labels.h"
#include "sampler/record/threads.h"

using namespace holdfast;

namespace {

void* RunThread(void* given) {
  const FollowedThread thread = BeganThread(static_cast<ThreadStart*>(given));
  void* result = reinterpret_cast<void* (*)(void*)>(thread.start.function)(thread.start.argument);
  EndedThread(thread);
  return result;
}

int RunC11Thread(void* given) {
  const FollowedThread thread = BeganThread(static_cast<ThreadStart*>(given));
  const int result = reinterpret_cast<thrd_start_t>(thread.start.function)(thread.start.argument);
  EndedThread(thread);
  return result;
}

// Returns the bytes that libc maps for the stack of a thread with these attributes: as the attributes say, or the process's default. 0: the
// program brings its own.
uint64_t StackBytesOf(const pthread_attr_t* attributes) {
  size_t bytes = 0;
  if (attributes == nullptr) {
    pthread_attr_t plain;
    return pthread_attr_init(&plain) == 0 && real.pthread_attr_getstacksize(&plain, &bytes) == 0 ? bytes : 0;
  }
  void* lowest = nullptr;
  // If none is set, its end is at address 0.
  const bool own =
      real.pthread_attr_getstack(attributes, &lowest, &bytes) != 0 || reinterpret_cast<uintptr_t>(lowest) + bytes != 0;
  return !own && real.pthread_attr_getstacksize(attributes, &bytes) == 0 ? bytes : 0;
}

void EndThread() {
  EndedThisThread();
  NoteThreadEnd();
}

template <typename Create>
int Created(const CallerRegisters& caller, void* function, void* argument, uint64_t stack_bytes, Create create) {
  const ThreadBirth birth = BeginBirth(caller, {function, argument}, stack_bytes);
  const int result = create(birth.start);
  EndBirth(birth, result == 0);
  return result;
}
static_assert(thrd_success == 0);

__attribute__((noinline)) int CreateThread(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                                           void* argument) {
  return Created(HOLDFAST_CALLER(), reinterpret_cast<void*>(start), argument, StackBytesOf(attributes),
                 [=](ThreadStart* followed) {
                   return followed != nullptr ? real.pthread_create(thread, attributes, RunThread, followed)
                                              : real.pthread_create(thread, attributes, start, argument);
                 });
}

__attribute__((noinline)) int CreateC11Thread(thrd_t* thread, thrd_start_t start, void* argument) {
  return Created(HOLDFAST_CALLER(), reinterpret_cast<void*>(start), argument, StackBytesOf(nullptr),
                 [=](ThreadStart* followed) {
                   return followed != nullptr ? real.thrd_create(thread, RunC11Thread, followed)
                                              : real.thrd_create(thread, start, argument);
                 });
}

}  // namespace

extern "C" {

HOLDFAST_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                                   void* argument) noexcept {
  if (UNLIKELY(!Ready())) return EAGAIN;
  if (passes_through) return real.pthread_create(thread, attributes, start, argument);
  BeforeThread();
  return CreateThread(thread, attributes, start, argument);
}

HOLDFAST_EXPORT int thrd_create(thrd_t* thread, thrd_start_t start, void* argument) {
  if (UNLIKELY(!Ready())) return thrd_error;
  if (passes_through) return real.thrd_create(thread, start, argument);
  BeforeThread();
  return CreateC11Thread(thread, start, argument);
}

// If it names another thread, the next sample of that thread finds the name.
HOLDFAST_EXPORT int pthread_setname_np(pthread_t thread, const char* name) noexcept {
  if (UNLIKELY(!Ready())) return EAGAIN;
  const int result = real.pthread_setname_np(thread, name);
  if (result == 0 && pthread_equal(thread, pthread_self())) NamedThisThread();
  return result;
}

// The first one installs glibc's handler for the signal of CPU timers, in place of ours.
HOLDFAST_EXPORT int pthread_cancel(pthread_t thread) {
  if (UNLIKELY(!Ready())) return EAGAIN;
  NoteCancellation(thread);
  const int result = real.pthread_cancel(thread);
  RestoreCpuHandler();
  return result;
}

HOLDFAST_EXPORT void pthread_exit(void* value) {
  if (LIKELY(Ready())) EndThread();
  real.pthread_exit(value);
  __builtin_unreachable();
}

HOLDFAST_EXPORT void thrd_exit(int value) {
  if (LIKELY(Ready())) EndThread();
  real.thrd_exit(value);
  __builtin_unreachable();
}

}  // extern "C"

extern "C" HOLDFAST_EXPORT int holdfast_pthread_setname_np_2_12(pthread_t thread, const char* name) noexcept {
  return pthread_setname_np(thread, name);
}
asm(".symver holdfast_pthread_setname_np_2_12,pthread_setname_np@" HOLDFAST_GLIBC_2_12 ",remove");

#define P(...) (__VA_ARGS__)
HOLDFAST_OLD_VERSION(int, thrd_create, 2_28, "GLIBC_2.28", P(thrd_t* thread, thrd_start_t start, void* argument),
                     P(thread, start, argument));
HOLDFAST_OLD_VERSION(void, thrd_exit, 2_28, "GLIBC_2.28", P(int value), P(value));

extern "C" HOLDFAST_EXPORT int holdfast_pthread_cancel_2_2_5(pthread_t thread) { return pthread_cancel(thread); }
asm(".symver holdfast_pthread_cancel_2_2_5,pthread_cancel@" HOLDFAST_GLIBC_2_2_5 ",remove");

extern "C" HOLDFAST_EXPORT int holdfast_pthread_create_2_2_5(pthread_t* thread, const pthread_attr_t* attributes,
                                                             void* (*start)(void*), void* argument) noexcept {
  return pthread_create(thread, attributes, start, argument);
}
asm(".symver holdfast_pthread_create_2_2_5,pthread_create@" HOLDFAST_GLIBC_2_2_5 ",remove");
