// The names of threads that took samples, as records (message Threads of proto/holdfast.proto): those that differ from the
// program's name, each with the outermost frames of a sample.
#ifndef HOLDFAST_REPORT_BUILDER_WRITTEN_THREADS_H_
#define HOLDFAST_REPORT_BUILDER_WRITTEN_THREADS_H_

#include "report/builder/written_locks.h"
#include "report/observe/process_state.h"
#include "report/profile/profile.h"

namespace holdfast {

void AddThreadRecords(const ProcessState& state, const FramesOfStack& frames, Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_WRITTEN_THREADS_H_
