// Notes which thread takes samples at which stacks, so that threads can be named: names are read from outside, in /proc, when
// a snapshot is made (report/observe/observe.h).
//
// Recorded at the first sample of a thread, and once in a while afterwards, because the first may come before the
// thread has reached its own function. The calling thread is muted.
#ifndef HOLDFAST_SAMPLER_PROCESS_NOTED_THREADS_H_
#define HOLDFAST_SAMPLER_PROCESS_NOTED_THREADS_H_

#include "sampler/contract/attributes.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

void NoteThreadSlow(SharedTable* table, ThreadState& thread, const Row* row, int64_t now_ns);

// `now_ns`: the time, if it has just been read; then a thread that is noted already is noted again. 0: not read.
inline void NoteThread(SharedTable* table, ThreadState& thread, const Row* row, int64_t now_ns) {
  if (UNLIKELY(!thread.noted || now_ns != 0)) NoteThreadSlow(table, thread, row, now_ns);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_NOTED_THREADS_H_
