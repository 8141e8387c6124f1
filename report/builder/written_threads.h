// Writes what is known about threads as records of proto/holdfast.proto. AddThreadRecords: the names of threads that took samples
// (message Threads), if they differ from the program's name, each with the outermost frames of a sample.
#ifndef HOLDFAST_REPORT_BUILDER_WRITTEN_THREADS_H_
#define HOLDFAST_REPORT_BUILDER_WRITTEN_THREADS_H_

#include "report/builder/written_locks.h"
#include "report/observe/process_state.h"
#include "report/profile/profile.h"

namespace holdfast {

void AddThreadRecords(const ProcessState& state, const FramesOfStack& frames, Profile* profile);

// The lifetimes of threads, and how they divide, as records (message ThreadTimes). At most 1,024: those with shorter lives
// are sums by name.
void AddThreadTimes(const ThreadTimes& times, Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_WRITTEN_THREADS_H_
