// Turns the answer of LookAtWaits, waiters and holders at a snapshot, into records (message Waits of proto/holdfast.proto). BuildProfile
// writes them into mutex and block profiles; report/analysis/locks/waiting_list.h reads them.
//
// At most kMaxWaitsWritten waits: deadlocks first, then waits for a holder, the longest first, then the others.
#ifndef HOLDFAST_REPORT_BUILDER_WRITTEN_WAITS_H_
#define HOLDFAST_REPORT_BUILDER_WRITTEN_WAITS_H_

#include "report/builder/written_locks.h"
#include "report/observe/process_state.h"
#include "report/profile/profile.h"

namespace holdfast {

inline constexpr size_t kMaxWaitsWritten = 256;

void AddWaitRecords(const ProcessState& state, const FramesOfStack& frames, Profile* profile,
                    size_t most = kMaxWaitsWritten);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_WRITTEN_WAITS_H_
