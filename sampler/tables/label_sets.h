// The labels that threads give themselves (include/holdfast.h): sets of `key=value`, each distinct one once, under a number that
// holds for the life of the process and in its forked children.
//
//     ThreadState::labels 3 ──► sets[3] "kind\0write\0tenant\0acme\0"      private memory
//     a sample ──► LabelFrame ──► LabelSet in the table, made when the first sample needs it; its place is the innermost frame
//
// Bounded: 4,096 sets and 256 KiB of text, never given back. What comes later is `[overflow]`: of the label that was to be set, or,
// where even that has no room, of the whole set; each is counted (kLabelsFull). Some sets are kept free for that.
//
// Any thread, signal handlers, before there is a table; lock-free, no allocation, no system call.
#ifndef HOLDFAST_SAMPLER_TABLES_LABEL_SETS_H_
#define HOLDFAST_SAMPLER_TABLES_LABEL_SETS_H_

#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/tables/shared_table.h"

namespace holdfast {

inline constexpr uint32_t kKeptLabelSets = 64;  // of kMostLabelSets, for overflow alone
inline constexpr uint32_t kLabelTextBytes = 256 << 10;

// `set` with another value of `key`, or without it (null, ""). Names that are too long are cut. Some 0.5 µs.
uint16_t WithLabel(uint16_t set, const char* key, const char* value);

// The value that it has of `key`; null: none.
const char* LabelIn(uint16_t set, const char* key);

bool IsLabelSet(uint32_t number);

// A label had no room, and was left out or has become kLabelOverflow.
void CountLabelLost();

// What a stack has as its innermost frame, in this table; 0 for no labels.
TaggedPc LabelFrameSlow(SharedTable* table, uint16_t set);
inline TaggedPc LabelFrame(SharedTable* table, uint16_t set) {
  return LIKELY(set == 0) ? 0 : LabelFrameSlow(table, set);
}

// In a child of fork, whose table is a new one.
void ForgetLabelFrames();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLES_LABEL_SETS_H_
