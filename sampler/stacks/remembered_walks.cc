#include "sampler/stacks/remembered_walks.h"

#include "sampler/contract/syscalls.h"

namespace holdfast {

constinit std::atomic<WalkMemory*> WalkMemory::all_[kMostOwners + 1] = {};

WalkMemory* WalkMemory::Make(ThreadState& thread) {
  if (WalkMemory* found = Of(thread)) return found;
  if (thread.owner == 0 || no_system_calls.load(std::memory_order_relaxed)) return nullptr;
  auto* made = static_cast<WalkMemory*>(MapLazily(sizeof(WalkMemory)));
  // Only this thread has this number; a handler that jumped out of here has left a mapping that nobody has touched.
  if (made == nullptr) {
    thread.owner = 0;  // not tried again
  } else {
    all_[thread.owner].store(made, std::memory_order_relaxed);
  }
  return made;
}

RememberedWalk* WalkMemory::Keep(const CallerRegisters& caller, const StackBounds& bounds, uint64_t generation,
                                 Offset stack) {
  const WalkNotes& notes = notes_;
  const int count = notes.count_;
  if (count == 0 || count > WalkNotes::kMost) return nullptr;
  uintptr_t highest = 0;
  for (int i = 0; i < count; ++i) {
    const auto place = reinterpret_cast<uintptr_t>(notes.words_[i].place);
    if (place < caller.sp - sizeof(uintptr_t) || place % sizeof(uintptr_t) != 0) return nullptr;  // of another stack
    if (place > highest) highest = place;
  }
  if (caller.sp < bounds.low || highest >= bounds.high) return nullptr;

  const size_t set = SetOf(caller);
  RememberedWalk& walk = sets_[set][oldest_[set]];
  oldest_[set] = static_cast<uint8_t>((oldest_[set] + 1) % kWays);
  walk.pc = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  walk.sp = caller.sp;
  walk.fp = caller.fp;
  walk.uses_fp = notes.uses_first_fp_;
  walk.generation = generation;
  walk.stack = stack;
  for (int i = 0; i < RememberedWalk::kRows; ++i) walk.size_classes[i] = UINT16_MAX;
  const int groups = (count + 3) / 4;
  walk.end = walk.words + groups * 4;
  for (int i = 0; i < groups * 4; ++i) walk.words[i] = notes.words_[i < count ? i : 0];
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  walk.pc = caller.pc;
  return &walk;
}

// A handler that comes in between is muted; one that jumps out leaves no wrong pair.
void RememberedWalk::RememberRow(uint16_t size_class, Offset row) {
  const int at = size_class % kRows;
  size_classes[at] = UINT16_MAX;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  rows[at] = row;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  size_classes[at] = size_class;
}

void RememberedWalk::ForgetRow(uint16_t size_class) { size_classes[size_class % kRows] = UINT16_MAX; }

}  // namespace holdfast
