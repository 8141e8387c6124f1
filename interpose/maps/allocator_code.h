// Address range of the allocator's code, if it is a library of its own: its mappings are not the program's.
#ifndef HOLDFAST_INTERPOSE_MAPS_ALLOCATOR_CODE_H_
#define HOLDFAST_INTERPOSE_MAPS_ALLOCATOR_CODE_H_

#include <cstdint>

#include "sampler/contract/attributes.h"

namespace holdfast {

// Set once, when the real functions are found. libc's own calls bypass the PLT, so it may also be libc.
struct AllocatorCode {
  uintptr_t start, bytes;
  bool Holds(uintptr_t pc) const { return pc - start < bytes; }
};
extern HOLDFAST_HIDDEN AllocatorCode allocator_code;

// `function`: the real malloc. Finds nothing if the program itself contains it: its allocator's calls cannot be
// distinguished from its own.
void FindAllocatorCode(const void* function);

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_MAPS_ALLOCATOR_CODE_H_
