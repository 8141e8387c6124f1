// A thread's labels (include/holdfast.h): `tenant=acme`, `kind=write`. Samples of the heap, of waits and of holds carry
// the labels of the thread that takes them. Hot paths do not see labels: a set is a number in ThreadState, and the
// innermost frame of a stack (sampler/table/label_sets.h has the limits).
//
// For the calling thread, also in a signal handler; lock-free, no allocation, no system call, errno kept. A new thread
// has none; a child of fork has those of the thread that forked.
#ifndef HOLDFAST_SAMPLER_RECORD_LABELS_H_
#define HOLDFAST_SAMPLER_RECORD_LABELS_H_

#include <cstdint>

namespace holdfast {

// Number of a label set in this process, valid for any of its threads. 0: no labels.
using LabelsNumber = uint32_t;

// Adds or changes one label; null or "" removes it. Returns the previous labels.
LabelsNumber SetLabel(const char* key, const char* value);
// Sets all labels to those of an earlier time. An invalid number changes nothing.
LabelsNumber SetLabels(LabelsNumber labels);

// Call after the calling thread has changed its name: its next samples carry it, if names are labels.
void NamedThisThread();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_LABELS_H_
