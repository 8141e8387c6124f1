#include "sampler/stacks/remembered_walks.h"

#include "sampler/contract/syscalls.h"
#include "sampler/tables/name_labels.h"

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
    made->labels_apart_ = thread_label != ThreadLabel::kNo;
    all_[thread.owner].store(made, std::memory_order_relaxed);
  }
  return made;
}

RememberedWalk* WalkMemory::Keep(const CallerRegisters& caller, Offset stack, uintptr_t label_word) {
  const bool labels_apart = labels_apart_;
  // Two words a frame, one less for the outermost, which may have one that ends the walk, and the labels: more are counted first.
  int count = labels_apart ? 1 : 0;
  if (last_.path().depth * 2 > RememberedWalk::kMost) {
    last_.ForEachWord([&](uintptr_t, uintptr_t) { ++count; });
    if (count > RememberedWalk::kMost) return nullptr;
    count = labels_apart ? 1 : 0;
  }
  const size_t set = SetOf(caller);
  RememberedWalk& walk = sets_[set][oldest_[set]];
  oldest_[set] = static_cast<uint8_t>((oldest_[set] + 1) % kWays);
  walk.pc = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  last_.ForEachWord([&](uintptr_t place, uintptr_t word) {
    walk.words[count++] = {reinterpret_cast<const uintptr_t*>(place), word};
  });
  if (count == (labels_apart ? 1 : 0)) return nullptr;
  if (labels_apart) walk.words[0] = {LabelWord(thread_state), label_word};
  walk.sp = caller.sp;
  walk.fp = caller.fp;
  walk.uses_fp = last_.uses_fp();
  walk.generation = last_.generation();
  walk.stack = stack;
  for (int i = 0; i < RememberedWalk::kRows; ++i) walk.size_classes[i] = UINT16_MAX;
  for (; count % 4 != 0; ++count) walk.words[count] = walk.words[0];
  walk.end = walk.words + count;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  walk.pc = caller.pc;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  // A handler may have set labels in the midst of it.
  if (UNLIKELY(labels_apart_ != labels_apart)) walk.pc = 0;
  return &walk;
}

void WalkMemory::KeepLabelsApart() {
  if (labels_apart_) return;
  labels_apart_ = true;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  for (auto& set : sets_) {
    for (RememberedWalk& walk : set) {
      if (walk.pc != 0) walk.pc = 0;
    }
  }
}

void WalkMemory::RememberRow(uint64_t path_hash, uint16_t size_class, Offset row, Offset stack) {
  const uint64_t key = KeyOf(path_hash, size_class);
  KnownRow& known = known_rows_[key >> 52];
  known.key = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  known.row = row;
  known.stack = stack;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  known.key = key;
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
