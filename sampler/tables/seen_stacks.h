// Whether a stack may be in the table, without a look at its records: they lie in no cache, and to find that none of a list is the
// one takes 230 ns, where one allocation in ten comes from a new stack (cc1plus, every allocation recorded).
//
//     stack_heads[5] → Stack 0x…0c40005 → Stack 0x…1280005        head 5: two stacks
//     words[5]         bit 49 (0x31), bit 10 (0x0a)               by the six bits of the hash above those that chose the head
//
// In private memory, from the first sample at interval 1 on; before, nobody pays for it. Any thread, lock-free.
#ifndef HOLDFAST_SAMPLER_TABLES_SEEN_STACKS_H_
#define HOLDFAST_SAMPLER_TABLES_SEEN_STACKS_H_

#include <atomic>
#include <cstdint>

#include "sampler/tables/shared_table.h"

namespace holdfast {

struct SeenStacks {
  std::atomic<uint64_t> words[kStackHeads];
  // Whether the lists of before are noted, too. Until then, and for good where a handler jumped out of BeginSeenStacks, "not noted"
  // says nothing.
  std::atomic<bool> complete;
};

extern HOLDFAST_HIDDEN std::atomic<SeenStacks*> seen_stacks;  // null: not in use

// Lists that hold stacks already count as full of them. No memory, or no system call allowed: it is not used.
void BeginSeenStacks(SharedTable* table);
// In a child of fork, which has another table.
void ForgetSeenStacks();

// Notes that a stack of this hash is about to be added. True: it was not noted before.
inline bool NoteIn(SeenStacks* seen, uint64_t hash) {
  std::atomic<uint64_t>& word = seen->words[hash % kStackHeads];
  const uint64_t bit = uint64_t{1} << (hash / kStackHeads % 64);
  return (word.load(std::memory_order_relaxed) & bit) == 0 && (word.fetch_or(bit) & bit) == 0;
}
inline bool NoteSeen(uint64_t hash) {
  SeenStacks* seen = seen_stacks.load(std::memory_order_acquire);
  return UNLIKELY(seen != nullptr) && NoteIn(seen, hash);
}

// The same. True: it is in no list.
inline bool NoteNew(uint64_t hash) {
  SeenStacks* seen = seen_stacks.load(std::memory_order_acquire);
  return seen != nullptr && seen->complete.load(std::memory_order_acquire) && NoteIn(seen, hash);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLES_SEEN_STACKS_H_
