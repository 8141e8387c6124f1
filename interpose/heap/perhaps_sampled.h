// free and realloc for blocks that may be samples (malloc.cc): also for delete, and for large samples.
#ifndef HOLDFAST_INTERPOSE_HEAP_PERHAPS_SAMPLED_H_
#define HOLDFAST_INTERPOSE_HEAP_PERHAPS_SAMPLED_H_

#include <stddef.h>

#include "sampler/contract/attributes.h"

namespace holdfast {

// free, for a block at an address where samples may be (or any block while the tag is off). Warm rather than cold.
HOLDFAST_HIDDEN void FreePerhapsSampled(void* block);

// The same for __libc_free and __libc_realloc.
HOLDFAST_HIDDEN void LibcFreePerhapsSampled(void* block);
HOLDFAST_HIDDEN void* LibcReallocPerhapsSampled(void* block, size_t bytes);

// realloc, for a block that may be a sample, after the call was charged and no sample is due.
HOLDFAST_HIDDEN void* ReallocNoneDue(void* block, size_t bytes);

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_HEAP_PERHAPS_SAMPLED_H_
