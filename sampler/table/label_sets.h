// The labels of threads (include/holdfast.h): sets of `key=value`. Each distinct set exists once, and has a number that
// is valid for the life of the process and in its forked children.
//
//     ThreadState::labels 3 ──► sets[3] "kind\0write\0tenant\0acme\0"      private memory
//     a sample ──► LabelFrame ──► LabelSet in the table, made when the first sample needs it; its place is the innermost frame
//
// Bounded: 4,096 sets and 256 KiB of text, never freed. Later labels become `[overflow]`: the value of the new label
// or, if there is no room for that either, the whole set; each is counted (kLabelsFull). Some sets are reserved for
// that.
//
// Any thread, signal handlers, before there is a table; lock-free, no allocation, no system call.
#ifndef HOLDFAST_SAMPLER_TABLE_LABEL_SETS_H_
#define HOLDFAST_SAMPLER_TABLE_LABEL_SETS_H_

#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

inline constexpr uint32_t kKeptLabelSets = 64;  // of kMaxLabelSets, for overflow only
inline constexpr uint32_t kLabelTextBytes = 256 << 10;

// Returns `set` with another value of `key`, or without it (null, ""). Names that are too long are cut. About 0.5 µs.
uint16_t WithLabel(uint16_t set, const char* key, const char* value);

// Returns the value of `key` in the set; null: none.
const char* LabelIn(uint16_t set, const char* key);

bool IsLabelSet(uint32_t number);

// Counts a label without room, which was left out or became kLabelOverflow.
void CountLabelLost();

// Returns the innermost frame for stacks with this set, in this table; 0 for no labels.
TaggedPc LabelFrameSlow(SharedTable* table, uint16_t set);
inline TaggedPc LabelFrame(SharedTable* table, uint16_t set) {
  return LIKELY(set == 0) ? 0 : LabelFrameSlow(table, set);
}

// For a child of fork, which has a new table.
void ForgetLabelFrames();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_LABEL_SETS_H_
