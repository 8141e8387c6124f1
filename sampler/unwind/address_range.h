// A range of addresses, from `start` up to, not including, `end`.
#ifndef HOLDFAST_SAMPLER_UNWIND_ADDRESS_RANGE_H_
#define HOLDFAST_SAMPLER_UNWIND_ADDRESS_RANGE_H_

#include <cstdint>

namespace holdfast {

struct AddressRange {
  uintptr_t start = 0;
  uintptr_t end = 0;
  bool Contains(uintptr_t address) const { return address >= start && address < end; }
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_UNWIND_ADDRESS_RANGE_H_
