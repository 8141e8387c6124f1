// What a thread calls itself (include/holdfast.h): `tenant=acme`, `kind=write`. Samples of the heap, of waits and of holds that it takes
// have these labels. No hot path knows of them: a set of labels is a number in ThreadState, and the innermost frame of a stack
// (sampler/tables/label_sets.h, which says what is bounded and what happens then).
//
// Of the calling thread, also in a signal handler; lock-free, no allocation, no system call, errno kept. A new thread has none; a child
// of fork has those of the thread that forked.
#ifndef HOLDFAST_SAMPLER_LABELS_LABELS_H_
#define HOLDFAST_SAMPLER_LABELS_LABELS_H_

#include <cstdint>

namespace holdfast {

// Of this process: a number that holds for any of its threads. 0: no labels.
using LabelsNumber = uint32_t;

// Adds or changes one label; null or "": takes it away. Returns what the labels were before.
LabelsNumber SetLabel(const char* key, const char* value);
// All of them, as they were at some time. What is no such number changes nothing.
LabelsNumber SetLabels(LabelsNumber labels);

// The calling thread has just given itself another name: of its next samples that is the label, where names are labels.
void NamedThisThread();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_LABELS_LABELS_H_
