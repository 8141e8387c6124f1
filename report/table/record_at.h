// Records and counters of a table, of which we have a copy: it is another program's, and may say anything.
#ifndef HOLDFAST_REPORT_TABLE_RECORD_AT_H_
#define HOLDFAST_REPORT_TABLE_RECORD_AT_H_

#include <atomic>
#include <bit>
#include <cstdint>

#include "sampler/contract/layout.h"

namespace holdfast {

// The record at `offset`, of `size` bytes; null if it does not lie wholly behind the header and inside of the first `limit` of `bytes`.
template <typename T>
const T* RecordAt(const char* bytes, uint64_t limit, Offset offset, uint64_t size = sizeof(T)) {
  const uint64_t start = uint64_t{offset} * kUnit;
  if (start < sizeof(TableHeader) || start > limit || size > limit - start) return nullptr;
  return reinterpret_cast<const T*>(bytes + start);
}

// What a counter holds: nobody writes into our copy.
template <typename T>
T CounterValue(const std::atomic<T>& counter) {
  return counter.load(std::memory_order_relaxed);
}

// A sum that is kept as the bits of a double; 0 where they are of none that could be one.
inline double FromDoubleBits(uint64_t bits) {
  const double value = std::bit_cast<double>(bits);
  return value >= 0 && value < 1e300 ? value : 0;  // also false for NaN
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_RECORD_AT_H_
