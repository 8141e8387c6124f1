// What a table says of the bytes that its heap has in use, without its rows: a few lines that can be read often.
#ifndef HOLDFAST_REPORT_TABLE_HEAP_IN_USE_H_
#define HOLDFAST_REPORT_TABLE_HEAP_IN_USE_H_

#include <cstdint>

#include "sampler/contract/layout.h"

namespace holdfast {

// These lines in the order of the table.
struct InUseLines {
  HeapInUse all;
  ThreadInUse of_threads[kMostOwners + 1];
};
static_assert(offsetof(TableHeader, in_use_of) == offsetof(TableHeader, in_use) + offsetof(InUseLines, of_threads));

// In kAmountFractionBits.
uint64_t BytesInUse(const InUseLines& lines);

// How near HeapInUse::highest is to the most that was in use.
enum class HeightError {
  kEstimated,  // it is a sum of samples
  kOfThreads,  // every allocation was counted, by several threads: at most one part in kHeightParts is missing
  kNone,       // every allocation was counted, by one thread
};
HeightError HeightErrorOf(const InUseLines& lines);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_HEAP_IN_USE_H_
