// Distinct stacks and their rows, in the table file.
//
// A stack's outer frames lie in a tree of calls that all stacks share (Node); its innermost ones stand in the Stack. It is found by
// the last node that is known of it (StackPath), or by the hash of all of its frames (StackTrace).
//
//     Node ──nodes──► Node ──stacks──► Stack ──rows──► Row(class 64) → Row(class 96) → …   of the program: children.h
//     HashIndex ──hash──► Stack                                                            of a stack that comes as a whole
//     stack_lists[0 … 255] ──► Stack ──next──► Stack → …                                   of who reads the table
//
// Any thread; lock-free. Two threads that add the same record at the same time agree on one; a stack that lost stays in the readers'
// list, without rows.
#ifndef HOLDFAST_SAMPLER_TABLES_STACK_TABLE_H_
#define HOLDFAST_SAMPLER_TABLES_STACK_TABLE_H_

#include <bit>

#include "sampler/tables/shared_table.h"
#include "sampler/tables/stack_rows.h"

namespace holdfast {

// A stack as it was captured.
struct StackTrace {
  uint16_t depth;
  bool truncated;  // outer frames are missing
  // Leaf first: frames[0] is the caller. Return addresses: the instruction that was under way ends at or before it. For
  // code that a signal interrupted it is the interrupted address + 1, so that "− 1" is right for every frame.
  TaggedPc frames[kMaxDepth];
};

// The stack for `trace`; the overflow stack (counted) when the table is full. `labels`: LabelFrame, which becomes its innermost frame.
Stack* InternStack(SharedTable* table, const StackTrace& trace, TaggedPc labels = 0);

// Of a frame and all outer ones.
inline uint64_t HashFrame(uint64_t outer, TaggedPc frame) {
  return (std::rotl(outer, 23) ^ frame) * 0x9e3779b97f4a7c15;
}

// In a child of fork whose parent had a table, before it has one of its own.
void ForgetStacks();

// A stack that is kept from its outermost frame on, so that the next one with the same outer frames neither hashes them nor looks
// for their nodes. Its memory may be zeros at first.
struct StackPath {
  int depth = 0;
  int known_nodes = 0;  // of its outermost pieces of kNodeFrames
  TaggedPc frames[kMaxDepth];
  uint64_t hashes[kMaxDepth];  // HashFrame
  Offset nodes[kMaxDepth / kNodeFrames];

  // With its labels (LabelFrame).
  uint64_t HashWith(TaggedPc labels) const {
    const uint64_t of_frames = hashes[depth - 1];
    return LIKELY(labels == 0) ? of_frames : HashFrame(of_frames, labels);
  }
  // Leaves the outermost ones.
  void Cut(int frames_left) {
    depth = frames_left;
    if (known_nodes > frames_left / kNodeFrames) known_nodes = frames_left / kNodeFrames;
  }
  void Add(TaggedPc frame) {
    frames[depth] = frame;
    hashes[depth] = HashFrame(depth != 0 ? hashes[depth - 1] : 0, frame);
    ++depth;
  }
};
static_assert(kMaxDepth % kNodeFrames == 0);

// The same for such a stack, whole and not empty: whose nodes are known afterwards.
Stack* InternStack(SharedTable* table, StackPath* path, TaggedPc labels = 0);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLES_STACK_TABLE_H_
