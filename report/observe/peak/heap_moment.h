// The sums of a heap's rows at one moment: allocated and freed. Plain data.
#ifndef HOLDFAST_REPORT_OBSERVE_PEAK_HEAP_MOMENT_H_
#define HOLDFAST_REPORT_OBSERVE_PEAK_HEAP_MOMENT_H_

#include <cstdint>
#include <vector>

#include "sampler/contract/layout.h"

namespace holdfast {

// Cumulative sums of a row that records every allocation.
struct RowSums {
  uint64_t allocated_bytes, allocated_objects, freed_bytes, freed_objects;
  Offset row;
};

struct HeapMoment {
  int64_t elapsed_ns = 0;  // since the process began, as TableSnapshot::elapsed_ns
  std::vector<RowSums> rows = {};
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_PEAK_HEAP_MOMENT_H_
