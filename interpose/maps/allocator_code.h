// Where the code of the allocator lies, if it is a library of its own: what that maps is not the program's.
#ifndef HOLDFAST_INTERPOSE_MAPS_ALLOCATOR_CODE_H_
#define HOLDFAST_INTERPOSE_MAPS_ALLOCATOR_CODE_H_

#include <cstdint>

#include "sampler/contract/attributes.h"

namespace holdfast {

// Set once, when the real functions are found. libc's own calls come by no PLT, so that it may be libc just as well.
struct AllocatorCode {
  uintptr_t start, bytes;
  bool Holds(uintptr_t pc) const { return pc - start < bytes; }
};
extern HOLDFAST_HIDDEN AllocatorCode allocator_code;

// `function`: the real malloc. Not where the program itself has it: its allocator's calls are not told from its own.
void FindAllocatorCode(const void* function);

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_MAPS_ALLOCATOR_CODE_H_
