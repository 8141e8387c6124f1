// Forms of allocation that musl makes out of its own malloc and aligned_alloc. It calls those by name, which leads back
// to this library: one allocation would be counted twice, and charged to musl's code.
#ifndef HOLDFAST_INTERPOSE_HEAP_MUSL_FORMS_H_
#define HOLDFAST_INTERPOSE_HEAP_MUSL_FORMS_H_

#include "sampler/contract/attributes.h"

namespace holdfast {

// Makes `real` lead to forms that call the real malloc and aligned_alloc. Call once, before the shim is ready, if musl's
// own functions are the real ones. Returns whether sampled blocks may be aligned: whether that costs no more than other
// blocks do, and fails as they do where memory is short.
HOLDFAST_HIDDEN bool UseOwnForms();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_HEAP_MUSL_FORMS_H_
