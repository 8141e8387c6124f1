// The stack of a sample where samples come often: from the walks that the thread remembers (remembered_walks.h), or walked as far as it
// differs from the last one. In a loop 32 frames deep 2,260 instructions a sample become 205 (callgrind, deep_loop at 64 KiB); at the default, where a
// program that allocates 1 GB a second takes 2,000 a second, that would save 0.1 % for 40 KiB a thread, so there it is not done.
//
// Inside the sampler only; the calling thread is muted.
#ifndef HOLDFAST_SAMPLER_STACKS_REMEMBERED_STACK_H_
#define HOLDFAST_SAMPLER_STACKS_REMEMBERED_STACK_H_

#include "sampler/stacks/remembered_walks.h"
#include "sampler/stacks/sample_stack.h"

namespace holdfast {

inline constexpr uint64_t kLargestReplayed = 64 << 10;  // heap interval, bytes

// As SampleStack does. Threads that have no memory of their own take the long way.
inline Stack* RememberedStack(SharedTable* table, ThreadState& thread, const CallerRegisters& caller) {
  WalkMemory* memory = WalkMemory::Make(thread);
  if (memory == nullptr) return SampleStack(table, thread, caller);
  // First, as a name that another thread has given is no part of what is remembered: by the labels, which are, it is seen at once.
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

#endif  // HOLDFAST_SAMPLER_STACKS_REMEMBERED_STACK_H_
