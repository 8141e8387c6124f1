// Returns the bytes that the heap has in use without reading the table's rows: only a few lines, which can be read
// often.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_HEAP_IN_USE_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_HEAP_IN_USE_H_

#include <cstdint>
#include <optional>

#include "sampler/contract/layout.h"

namespace holdfast {

// These lines, in the table's order.
struct InUseLines {
  HeapInUse all;
  ThreadInUse of_threads[kMaxOwners + 1];
};
static_assert(offsetof(TableHeader, in_use_of) == offsetof(TableHeader, in_use) + offsetof(InUseLines, of_threads));

// In units of kAmountFractionBits.
uint64_t BytesInUse(const InUseLines& lines);

// Returns an upper bound of what was ever in use. Nothing: every sample was added to one sum, or nothing is known.
std::optional<uint64_t> MaxInUse(const InUseLines& lines);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_HEAP_IN_USE_H_
