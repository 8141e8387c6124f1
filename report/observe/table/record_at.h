// Reads records and counters from our copy of a table. Another program wrote the table, so it is untrusted.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_RECORD_AT_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_RECORD_AT_H_

#include <atomic>
#include <bit>
#include <cstdint>

#include "sampler/contract/layout.h"

namespace holdfast {

// Returns the record of `size` bytes at `offset`; null if it is not entirely after the header and within the first
// `limit` bytes.
template <typename T>
const T* RecordAt(const char* bytes, uint64_t limit, Offset offset, uint64_t size = sizeof(T)) {
  const uint64_t start = uint64_t{offset} * kUnit;
  if (start < sizeof(TableHeader) || start > limit || size > limit - start) return nullptr;
  return reinterpret_cast<const T*>(bytes + start);
}

// Returns a counter's value. Nobody writes to our copy.
template <typename T>
T CounterValue(const std::atomic<T>& counter) {
  return counter.load(std::memory_order_relaxed);
}

// Returns a sum that is stored as the bits of a double; 0 for invalid bits.
inline double FromDoubleBits(uint64_t bits) {
  const double value = std::bit_cast<double>(bits);
  return value >= 0 && value < 1e300 ? value : 0;  // the comparison is also false for NaN
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_RECORD_AT_H_
