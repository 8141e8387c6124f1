// The lists of stacks in a table, as those that add to them walk them: see StackBranch in sampler/contract/records.h.
// Inside stack_table.cc only; any thread, lock-free.
#ifndef HOLDFAST_SAMPLER_TABLES_STACK_LIST_H_
#define HOLDFAST_SAMPLER_TABLES_STACK_LIST_H_

#include <atomic>
#include <cstdint>

#include "sampler/tables/seen_stacks.h"
#include "sampler/tables/shared_table.h"

namespace holdfast {

// Walks the list of stacks that one hash leads to, and adds to it at its head. Whoever loses a race for the head looks again,
// and makes its record anew: there may be a branch by then, and what that leads to has to lie behind it.
class StackList {
 public:
  StackList(SharedTable* table, uint64_t hash) : table_(table), hash_(hash) {}

  // True: it is not there, and Find need not look: Push and then Find do. What another thread adds after this look at the head makes
  // Push fail; who added it before noted it before. Of four new stacks one is looked for all the same, so that a list that has
  // become long gets its branch.
  bool IsSurelyNew() {
    if (seen_stacks.load(std::memory_order_relaxed) == nullptr || hash_ >> 62 == 0) return false;
    Offset older[kMostBranches];
    EnterInnermost(older);
    length_ = 0;
    return NoteNew(hash_);
  }

  // Null: it is not there.
  Stack* Find() {
    Offset older[kMostBranches];
    const Offset behind = EnterInnermost(older);
    if (Stack* found = FindInTwo(first_, behind)) return found;
    for (int i = branches_ - 1; i > 0; --i) {
      if (Stack* found = FindFrom(older[i - 1])) return found;
    }
    return nullptr;
  }

  // After Find, and before the record that is to be added is made.
  void Branch() {
    if (length_ < kStackBranchAfter || branches_ == kMostBranches) return;
    auto* branch = table_->New<StackBranch>();
    if (branch == nullptr) return;
    branch->truncated = kIsBranch;
    branch->next = first_;
    if (!Publish(branch)) return;  // ours stays unused: a few bytes lost to a race
    Enter(branch);
    first_ = 0;
    length_ = 0;
  }

  // False: another thread was first, and Find has to look again.
  bool Push(Stack* stack) {
    stack->next = first_;
    return Publish(stack);
  }

 private:
  static constexpr int kMostBranches = 12;  // one above the other: then all bits of the hash are used

  // The list that the hash leads to behind all branches. Returns what lies behind the innermost of them, and fills in what lies
  // behind each.
  Offset EnterInnermost(Offset* older) {
    Offset behind = 0;
    head_ = &table_->header()->stack_heads[hash_ % kStackHeads];
    bits_ = hash_ / kStackHeads;
    branches_ = 0;
    for (first_ = head_->load(std::memory_order_acquire); IsBranch(first_);
         first_ = head_->load(std::memory_order_acquire)) {
      auto* branch = table_->At<StackBranch>(first_);
      behind = branch->next;
      if (branches_ < kMostBranches) older[branches_] = behind;
      Enter(branch);
    }
    return behind;
  }
  bool IsBranch(Offset at) const { return at != 0 && table_->At<Stack>(at)->truncated == kIsBranch; }
  Stack* FindFrom(Offset at) const {
    while (at != 0) {
      Stack* stack = table_->At<Stack>(at);
      if (stack->hash == hash_) return stack;
      at = stack->next;
    }
    return nullptr;
  }
  // The innermost list, whose length is noted, and the one behind its branch: side by side, as each step waits for memory.
  Stack* FindInTwo(Offset at, Offset behind) {
    for (length_ = 0; at != 0; ++length_) {
      Stack* stack = table_->At<Stack>(at);
      if (behind != 0) {
        Stack* other = table_->At<Stack>(behind);
        behind = other->next;
        if (other->hash == hash_) return other;
      }
      at = stack->next;
      if (stack->hash == hash_) return stack;
    }
    return FindFrom(behind);
  }
  void Enter(StackBranch* branch) {
    head_ = &branch->heads[bits_ % 16];
    bits_ /= 16;
    ++branches_;
  }
  // Release: who finds the offset finds the filled record.
  bool Publish(const void* record) {
    Offset first = first_;
    return head_->compare_exchange_strong(first, table_->OffsetOf(record), std::memory_order_release,
                                          std::memory_order_relaxed);
  }

  SharedTable* const table_;
  const uint64_t hash_;
  uint64_t bits_ = 0;                    // what is left of the hash for branches
  std::atomic<Offset>* head_ = nullptr;  // of the innermost list, and what it led to when it was searched
  Offset first_ = 0;
  int length_ = 0, branches_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLES_STACK_LIST_H_
