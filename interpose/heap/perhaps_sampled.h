// What free and realloc do where a block may be a sample (malloc.cc): also for delete, and for large samples.
#ifndef HOLDFAST_INTERPOSE_HEAP_PERHAPS_SAMPLED_H_
#define HOLDFAST_INTERPOSE_HEAP_PERHAPS_SAMPLED_H_

#include <stddef.h>

#include "sampler/contract/attributes.h"

namespace holdfast {

// free, for a block that lies where samples lie (or while the tag is not in use). Warm rather than cold.
HOLDFAST_HIDDEN void FreePerhapsSampled(void* block);

// The same for __libc_free and __libc_realloc.
HOLDFAST_HIDDEN void LibcFreePerhapsSampled(void* block);
HOLDFAST_HIDDEN void* LibcReallocPerhapsSampled(void* block, size_t bytes);

// realloc, for a block that may be a sample, when the call itself has been charged for and no sample is due.
HOLDFAST_HIDDEN void* ReallocNoneDue(void* block, size_t bytes);

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_HEAP_PERHAPS_SAMPLED_H_
