// Writes the patches by which the library redirects an allocator in a running process's executable, or undoes them: stops
// all threads at once, and none of them between two instructions that a jump replaces.
//
//     stopped at                                              then
//     malloc: push %rbx      ◄── the jump's own place is fine the patches are written, all threads continue
//             mov %rdi,%rbx  ◄── or a signal handler returns  all threads continue, and are stopped again later
//             test %rdi,%rdi     here
//
// Call in a process that traces nothing else. If it is killed, the kernel lets go of every thread: each patch is in place or
// not, and both are right.
#ifndef HOLDFAST_REPORT_RUN_ENTRY_PATCHES_H_
#define HOLDFAST_REPORT_RUN_ENTRY_PATCHES_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sampler/contract/attach_call.h"

namespace holdfast {

// The patches that the library asks for, read from the process. Untrusted: they change nothing but the process itself.
absl::StatusOr<std::vector<EntryPatch>> ReadEntryPatches(pid_t pid, uint64_t address, uint32_t count);

struct PatchStops {
  uint32_t times = 0;       // that all threads were stopped, or were to be
  uint32_t threads = 0;     // that were stopped at once, at most
  uint32_t lost_calls = 0;  // see CallOutcome
  int64_t stopped_us = 0;   // the sum of all times
  pid_t unstoppable = 0;    // the kernel lets go of this thread only when this process ends; 0: none
};
// `patches`: as read at `address`. Nothing is written if they are not there any more. Aborted: see `unstoppable`. `stops` also
// counts if it fails. `end_us`: when it gives up; may be changed meanwhile.
absl::Status WriteEntryPatches(pid_t pid, uint64_t address, const std::vector<EntryPatch>& patches, bool undo,
                               const std::atomic<int64_t>& end_us, PatchStops* stops);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_ENTRY_PATCHES_H_
