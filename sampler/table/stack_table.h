// Distinct stacks and their rows, in the table file.
//
// A stack's outer frames are in a tree of calls that all stacks share (Node); its innermost ones are in the Stack. It
// is found by its last known node (StackPath), or by the hash of all its frames (StackTrace).
//
//     Node ──nodes──► Node ──stacks──► Stack ──rows──► Row(class 64) → Row(class 96) → …   for the program: children.h
//     HashIndex ──hash──► Stack                                                            for a stack that arrives whole
//     stack_lists[0 … 255] ──► Stack ──next──► Stack → …                                   for readers of the table
//
// Any thread; lock-free. Two threads that add the same record at the same time agree on one; the loser's stack stays in
// the readers' list, without rows.
#ifndef HOLDFAST_SAMPLER_TABLE_STACK_TABLE_H_
#define HOLDFAST_SAMPLER_TABLE_STACK_TABLE_H_

#include <bit>

#include "sampler/contract/deep_stacks.h"
#include "sampler/table/shared_table.h"
#include "sampler/table/stack_rows.h"

namespace holdfast {

// A stack as it was captured.
struct StackTrace {
  uint16_t depth;
  bool truncated;  // outer frames are missing
  // Leaf first: frames[0] is the caller. Return addresses: the instruction in progress ends at or before it. For code
  // that a signal interrupted it is the interrupted address + 1, so that "− 1" is right for every frame.
  TaggedPc frames[kMaxKeptFrames];
  TaggedPc outermost[kOutermostKept];  // during the walk of a deep stack: a ring of the last frames
};

// Returns the stack for `trace`; the overflow stack (counted) if the table is full. `labels`: LabelFrame, becomes its
// innermost frame.
Stack* InternStack(SharedTable* table, const StackTrace& trace, TaggedPc labels = 0);

// Hashes a frame together with all outer ones.
inline uint64_t HashFrame(uint64_t outer, TaggedPc frame) {
  return (std::rotl(outer, 23) ^ frame) * 0x9e3779b97f4a7c15;
}

// For a child of fork, after its parent had a table and before it has its own.
void ForgetStacks();
// Before a filter forbids system calls: makes room in the indexes for some thousand stacks.
void PrepareStacks(SharedTable* table);

// A stack that is kept from its outermost frame on, so that the next one with the same outer frames neither hashes them
// nor searches their nodes. Its memory may be zeros at first.
struct StackPath {
  int depth = 0;
  int known_nodes = 0;  // nodes known for its outermost pieces of kNodeFrames frames
  TaggedPc frames[kMaxDepth];
  uint64_t hashes[kMaxDepth];  // HashFrame
  Offset nodes[kMaxDepth / kNodeFrames];

  // The hash with labels (LabelFrame).
  uint64_t HashWith(TaggedPc labels) const {
    const uint64_t of_frames = hashes[depth - 1];
    return LIKELY(labels == 0) ? of_frames : HashFrame(of_frames, labels);
  }
  // Keeps only the outermost frames.
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

// The same for a StackPath, complete and not empty; its nodes are known afterwards.
Stack* InternStack(SharedTable* table, StackPath* path, TaggedPc labels = 0);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_STACK_TABLE_H_
