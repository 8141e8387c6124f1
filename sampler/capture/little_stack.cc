#include "sampler/capture/little_stack.h"

#include "sampler/capture/raw_memory.h"
#include "sampler/contract/attributes.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/table/shared_table.h"

namespace holdfast {
namespace {

uint8_t FloorByte(uintptr_t address) { return static_cast<uint8_t>(address / kPageBytes); }

// Lowest address of the thread's own stack known to be usable: at most two pages below what a walk found readable.
uintptr_t KnownFloor(const ThreadState& thread) {
  const uintptr_t low = PageOf(thread.stack_bounds.low);
  const auto pages = static_cast<uint8_t>(FloorByte(low) - thread.stack_floor);
  return pages <= 2 ? low - pages * kPageBytes : low;
}

}  // namespace

// All in one frame, because it runs with hardly any stack left.
bool LittleStackLeftSlow(uintptr_t bytes) {
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const uintptr_t target = here - bytes;
  if (PageOf(target) == PageOf(here)) return false;
  ThreadState& thread = thread_state;
  StackBounds& known = thread.stack_bounds;
  const bool own = here >= known.low && here < known.high;
  if (LIKELY(own) && LIKELY(target >= KnownFloor(thread))) return false;
  for (uintptr_t page = PageOf(here); page > target;) {
    page -= kPageBytes;
    if (PageForbidden(page)) return true;
  }
  if (own) {
    if (known.low - PageOf(target) < 3 * kPageBytes) thread.stack_floor = FloorByte(target);
  } else if (const uintptr_t end = MainStackEnd(here); end != 0) {
    // The main thread's stack never shrinks: this much will be there the next time.
    __atomic_store_n(&known.low, PageOf(target), __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&known.high, end, __ATOMIC_RELAXED);
    thread.stack_floor = FloorByte(target);
  }
  return false;
}

bool LittleStackForWait() {
  if (LIKELY(!LittleStackLeft(kStackForRecord))) return false;
  if (SharedTable* table = CurrentTable()) table->Count(Loss::kStackMissing);
  return true;
}

}  // namespace holdfast
