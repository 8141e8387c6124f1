// Which thread takes samples at which stacks, for who wants to know what the threads are called: names are read from outside,
// in /proc, when a snapshot is made (report/export/running_program.h).
//
// At the first sample of a thread, and once in a while after it: the first may come before the thread has reached its own
// function. The calling thread is muted.
#ifndef HOLDFAST_SAMPLER_PROCESS_NOTED_THREADS_H_
#define HOLDFAST_SAMPLER_PROCESS_NOTED_THREADS_H_

#include "sampler/contract/attributes.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/tables/shared_table.h"

namespace holdfast {

void NoteThreadSlow(SharedTable* table, ThreadState& thread, const Row* row);

// `again`: although it is noted already.
inline void NoteThread(SharedTable* table, ThreadState& thread, const Row* row, bool again) {
  if (UNLIKELY(!thread.noted || again)) NoteThreadSlow(table, thread, row);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_NOTED_THREADS_H_
