// Lets the end of a process look at the records just before the first of them changes (sampler/lifetime/last_profile.cc).
#ifndef HOLDFAST_SAMPLER_RECORD_BEFORE_NEXT_CHANGE_H_
#define HOLDFAST_SAMPLER_RECORD_BEFORE_NEXT_CHANGE_H_

#include <atomic>

#include "sampler/contract/attributes.h"

namespace holdfast {

// Called before a sampled block or a mapping is added or removed, by each thread that does so, also in a signal handler,
// until it has set itself to null. It takes no lock and waits a bounded time. Null: nothing is to be done.
extern HOLDFAST_HIDDEN std::atomic<void (*)()> before_next_change;

inline void CallBeforeNextChange() {
  // Set by a thread that was alone then; the threads that it starts afterwards see it.
  if (void (*const call)() = before_next_change.load(std::memory_order_relaxed); UNLIKELY(call != nullptr)) call();
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_BEFORE_NEXT_CHANGE_H_
