// The name of a thread (pthread_setname_np, prctl) as one of its labels, where that is asked for (HOLDFAST_THREAD_LABEL).
//
//     a sample ──► WithThreadName: PR_GET_NAME, some 0.1 µs ──► the same set of labels, or the one with another name
//
// Read anew at each sample: so it does not matter who has changed it. Bounded: kMostThreadNames different names are labels as they are; of
// what comes later the number at the end is folded ("worker-500" is worker-*), and when there are as many of those, it is
// `[overflow]`, counted as kLabelsFull. Names are never given back: a label of a sample holds for the life of the process.
//
// Any thread, signal handlers; lock-free, no allocation. Behind a seccomp filter names stay as they were.
#ifndef HOLDFAST_SAMPLER_TABLES_NAME_LABELS_H_
#define HOLDFAST_SAMPLER_TABLES_NAME_LABELS_H_

#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/contract/options.h"

namespace holdfast {

inline constexpr uint32_t kMostThreadNames = 64;

// Set once, before the first sample.
extern HOLDFAST_HIDDEN ThreadLabel thread_label;

// `set` with the calling thread's name as the kernel has it.
uint16_t WithThreadName(uint16_t set);

// What stands as the label for a thread of this name. For WithThreadName, and tests.
inline constexpr uint32_t kThreadNameBytes = 16;  // TASK_COMM_LEN
const char* LabelOfName(const char* name, char (&folded)[kThreadNameBytes]);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLES_NAME_LABELS_H_
