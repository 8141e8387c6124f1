// libc's registration of handlers that run when a thread is cancelled: the functions behind pthread_cleanup_push in C.
// A program of one thread may have a glibc without them (before 2.34). musl's buffer is smaller and has no third word.
#ifndef HOLDFAST_SAMPLER_RECORD_CLEANUP_H_
#define HOLDFAST_SAMPLER_RECORD_CLEANUP_H_

#include <pthread.h>

#include "sampler/contract/attributes.h"
#include "sampler/process/process.h"

namespace holdfast {

struct CleanupFunctions {
  void (*push)(_pthread_cleanup_buffer* buffer, void (*routine)(void*), void* argument);  // null: no registration
  void (*pop)(_pthread_cleanup_buffer* buffer, int execute);
};
// Set once, when the shim becomes ready.
extern HOLDFAST_HIDDEN CleanupFunctions cleanup_functions;

// Returns the place in `buffer` where libc keeps the buffer that was registered before.
inline _pthread_cleanup_buffer*& FormerCleanup(_pthread_cleanup_buffer* buffer) {
  constexpr int kMusls = 2;
  if (LIKELY(process.libc != Libc::kMusl)) return buffer->__prev;
  return reinterpret_cast<_pthread_cleanup_buffer**>(buffer)[kMusls];
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_CLEANUP_H_
