// A range of code in memory. No state.
#ifndef HOLDFAST_SAMPLER_CONTRACT_CODE_RANGE_H_
#define HOLDFAST_SAMPLER_CONTRACT_CODE_RANGE_H_

#include <cstdint>

namespace holdfast {

struct CodeRange {
  uintptr_t start, end;
  bool Has(uintptr_t address) const { return address >= start && address < end; }
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_CODE_RANGE_H_
