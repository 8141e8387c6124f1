// The functions of include/holdfast.h. A program finds them by one weak symbol, a table of pointers. Calls come through
// a pointer, so each function has its own frame in a stack, and its caller is the program's.
#include <errno.h>
#include <holdfast.h>

#include <bit>
#include <new>

#include "interpose/base/readiness.h"
#include "sampler/arch/processor.h"
#include "sampler/capture/little_stack.h"
#include "sampler/contract/pool_blocks.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/hot_path/this_thread.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/record/heap.h"
#include "sampler/record/holds.h"
#include "sampler/record/labels.h"
#include "sampler/record/waits.h"

namespace holdfast {
namespace {

inline void* KeyOf(const void* block) { return std::bit_cast<void*>(KeyOfPoolBlock(std::bit_cast<uintptr_t>(block))); }

void Snapshot() {
  if (!Ready()) return;
  const int kept = errno;
  RequestSnapshot();
  errno = kept;
}

__attribute__((noinline)) void AllocSlow(const void* block, size_t bytes) {
  if (!MayBeDue(bytes) || !HeapEventDue(bytes)) return;
  RecordAlloc(HOLDFAST_CALLER(), KeyOf(block), bytes);
}
void Alloc(const void* block, size_t bytes) {
  if (block == nullptr || !Ready() || LIKELY(!ChargeHeap(bytes))) return;
  return AllocSlow(block, bytes);
}

void Free(const void* block) {
  const void* key = KeyOf(block);
  if (block != nullptr && UNLIKELY(PassesFilter(key))) RecordFree(key);
}

static_assert(sizeof(LockWait) <= sizeof(holdfast_wait) && alignof(LockWait) <= alignof(holdfast_wait));
LockWait* Inside(holdfast_wait* wait) { return reinterpret_cast<LockWait*>(wait); }

void Wait(const void* lock, holdfast_wait* opaque) {
  auto* wait = new (opaque) LockWait{};
  if (!Ready() || LittleStackForWait()) return;
  BeginWait(HOLDFAST_CALLER(), lock, WaitKind::kCustom, WaitStyle::kWhole, wait);
  EnterWait(false, wait);
}

void WaitEnd(holdfast_wait* opaque, int acquired) {
  LockWait* wait = Inside(opaque);
  if (wait->active()) EndWait(wait, acquired != 0);
}

// Before the lock is free: waiting up to here is this holder's, and the next holder is late from here on.
__attribute__((noinline)) void ReleaseSlow(const void* lock) {
  if (!Ready() || LittleStackForWait()) return;
  if (!WatchedSlow(lock)) {
    if (!MayUnlockFast()) AfterUnlock(lock);
    return;
  }
  LockHold hold;
  BeginUnlock(lock, WaitKind::kCustom, true, &hold);
  EndUnlock(HOLDFAST_CALLER(), true, &hold);
}
void Release(const void* lock) {
  if (LIKELY(NoLockWatched())) return;
  return ReleaseSlow(lock);
}

// A failure undoes nothing: the thread keeps its labels.
uint32_t Label(const char* key, const char* value) { return Ready() ? SetLabel(key, value) : 0; }
uint32_t Labels(uint32_t labels) { return Ready() ? SetLabels(labels) : 0; }

}  // namespace
}  // namespace holdfast

// Exported without a version, like operator new. Weak, because holdfast.h declares it so: clang's assembler accepts no
// other binding afterwards.
extern "C" HOLDFAST_EXPORT __attribute__((weak)) const holdfast_functions holdfast_v1;
constinit const holdfast_functions holdfast_v1 = {
    .bytes = sizeof(holdfast_functions),
    .snapshot = holdfast::Snapshot,
    .alloc = holdfast::Alloc,
    .free = holdfast::Free,
    .lock_wait = holdfast::Wait,
    .lock_wait_end = holdfast::WaitEnd,
    .lock_release = holdfast::Release,
    .label = holdfast::Label,
    .set_labels = holdfast::Labels,
};
