// The stack of a sample when samples are frequent: from the walks that the thread remembers (remembered_walks.h), or
// walked up to where it joins the last one. In a loop 32 frames deep 2,260 instructions a sample become 205 (callgrind,
// deep_loop at 64 KiB). At the default interval, where a program that allocates 1 GB a second takes 2,000 samples a
// second, that would save 0.1 % for 40 KiB a thread, so it is not used there.
//
// Inside the sampler only; the calling thread is muted.
#ifndef HOLDFAST_SAMPLER_CAPTURE_REMEMBERED_STACK_H_
#define HOLDFAST_SAMPLER_CAPTURE_REMEMBERED_STACK_H_

#include "sampler/capture/remembered_walks.h"
#include "sampler/capture/sample_stack.h"

namespace holdfast {

inline constexpr uint64_t kLargestReplayed = 64 << 10;  // heap interval, bytes

// As SampleStack. Threads without their own memory of walks take the long path.
inline Stack* RememberedStack(SharedTable* table, ThreadState& thread, const CallerRegisters& caller) {
  WalkMemory* memory = WalkMemory::Make(thread);
  if (memory == nullptr) return SampleStack(table, thread, caller);
  // First, because a name given by another thread is not remembered with walks; the labels are, so a change shows at
  // once.
  SeeThreadNameIfWanted(thread);
  if (const RememberedWalk* walk = memory->Find(caller)) return table->At<Stack>(walk->stack);
  // Read once: a handler may set others.
  const uintptr_t label_word = *LabelWord(thread);
  const TaggedPc labels = LabelFrame(table, LabelsIn(label_word));
  LastWalk& last = memory->last();
  switch (WalkFromLast(table, thread, caller, &last)) {
    case Walked::kLast: {
      Stack* stack = InternStack(table, &last.path(), labels);
      const Offset at = table->OffsetOf(stack);
      if (at != table->header()->overflow_stack)
        memory->KeepIfExpected(caller, last.path().HashWith(labels), at, label_word);
      return stack;
    }
    case Walked::kTrace:
      return InternStack(table, *last.trace(), labels);
    case Walked::kMissing:
      break;
  }
  return MissingStack(table);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_REMEMBERED_STACK_H_
