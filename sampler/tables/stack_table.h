// Distinct stacks and their rows, in the table file.
//
// A stack's frames lie in a tree of calls that all stacks share (Node); a Stack names a leaf of it and is found by the
// hash of its frames, so that a stack seen before costs one look-up and no comparison of frames.
//
//     HashIndex ──hash──► Stack ──rows──► Row(class 64) → Row(class 96) → …        of the program, when it samples
//     stack_lists[0 … 255] ──► Stack ──next──► Stack → …                           of who reads the table
//
// Any thread; lock-free: lists only grow at their heads. Two threads that add the same record at the same time agree on
// one: who loses the race finds the winner's; a stack that lost stays in its list, without rows.
#ifndef HOLDFAST_SAMPLER_TABLES_STACK_TABLE_H_
#define HOLDFAST_SAMPLER_TABLES_STACK_TABLE_H_

#include <bit>

#include "sampler/tables/shared_table.h"

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

// The same for such a stack, whole and not empty: whose nodes are known afterwards if it was new.
Stack* InternStack(SharedTable* table, StackPath* path, TaggedPc labels = 0);

// The row of `stack` for heap samples of a size class, or for waits of a kind: one that is not full. When the table is full:
// the profile's overflow row (counted).
Row* FindRow(SharedTable* table, Stack* stack, ProfileKind profile, WaitKind wait, uint16_t size_class);
// The same of other kinds than heap and locks. `mark`: the MappingKind, or ThrownBits; `number`: as Row::size_class.
Row* FindMarkedRow(SharedTable* table, Stack* stack, ProfileKind profile, uint8_t mark, uint16_t number);

// The same for heap samples at interval 1, a row that `owner` alone allocates in. Null: the table is full.
Row* FindOwnRow(SharedTable* table, Stack* stack, uint8_t owner, uint16_t size_class);
// That of the overflow stack, of all size classes. Null: it was not asked for while there was room.
Row* OwnOverflowRow(SharedTable* table, uint8_t owner);

// Adds a heap row to the list of all (RecordShard::newest_row).
void NoteRow(SharedTable* table, Row* row);

// Makes the overflow and the missing stack of a new table, and the overflow rows. False: no room even for them.
bool MakeSpecialStacks(SharedTable* table);

// Takes no more samples. By the first two sums, which are those of what was allocated or waited: what is freed is never more.
inline bool IsFull(const Row& row) {
  return (row.sums[0].load(std::memory_order_relaxed) | row.sums[1].load(std::memory_order_relaxed)) >= kFullSum;
}

// Adds to a sum, unless it is full for good (counted).
inline void AddTo(SharedTable* table, std::atomic<uint64_t>* sum, uint64_t by) {
  // Relaxed: each sum stands for itself. Threads that come together may exceed kMostSum, by far less than to its end.
  if (UNLIKELY(sum->load(std::memory_order_relaxed) >= kMostSum)) return table->Count(Loss::kSumFull);
  sum->fetch_add(by, std::memory_order_relaxed);
}

// Adds to a sum that holds the bits of a double.
void AddDouble(std::atomic<uint64_t>* sum, double value);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLES_STACK_TABLE_H_
