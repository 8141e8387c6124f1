// A heap's bytes in use at one moment, by rows of its table.
#ifndef HOLDFAST_REPORT_OBSERVE_PEAK_PEAK_STATE_H_
#define HOLDFAST_REPORT_OBSERVE_PEAK_PEAK_STATE_H_

#include <cstdint>
#include <vector>

#include "sampler/contract/layout.h"

namespace holdfast {

struct RowInUse {
  uint64_t bytes, objects;  // in units of kAmountFractionBits and kCountFractionBits
  float bytes_variance, objects_variance;
  Offset row;
};

struct PeakState {
  int64_t wall_ns = 0;  // 0: no state yet
  uint64_t bytes = 0;   // sum over all rows, in units of kAmountFractionBits
  std::vector<RowInUse> rows;

  double estimated_bytes() const { return static_cast<double>(bytes) / (1 << kAmountFractionBits); }
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_PEAK_PEAK_STATE_H_
