// The name of a thread (pthread_setname_np, prctl) as one of its labels, if requested (HOLDFAST_THREAD_LABEL).
//
//     a sample ──► WithThreadName: PR_GET_NAME, about 0.1 µs ──► the same label set, or one with another name
//
// Read anew at each sample, so it does not matter who changed it. Bounded: kMaxThreadNames different names become
// labels unchanged. The trailing number of later ones is folded ("worker-500" becomes worker-*). When there are as many
// of those, the label is `[overflow]`, counted as kLabelsFull. Names are never freed: a sample's label is valid for the
// life of the process.
//
// Any thread, signal handlers; lock-free, no allocation. With a seccomp filter names no longer change.
#ifndef HOLDFAST_SAMPLER_TABLE_NAME_LABELS_H_
#define HOLDFAST_SAMPLER_TABLE_NAME_LABELS_H_

#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/contract/options.h"

namespace holdfast {

inline constexpr uint32_t kMaxThreadNames = 64;

// Set once, before the first sample.
extern HOLDFAST_HIDDEN ThreadLabel thread_label;

// Returns `set` with the calling thread's name in the kernel.
uint16_t WithThreadName(uint16_t set);

// Returns the label for a thread of this name. For WithThreadName, and tests.
inline constexpr uint32_t kThreadNameBytes = 16;  // TASK_COMM_LEN
const char* LabelOfName(const char* name, char (&folded)[kThreadNameBytes]);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_NAME_LABELS_H_
