// Calls the library in a running process: chooses a thread, loads the library if it is not loaded yet, and lets it attach or
// detach. A child process does the tracing, so that the kernel lets go of every thread when it ends, however it ends.
#ifndef HOLDFAST_REPORT_RUN_LIBRARY_CALL_H_
#define HOLDFAST_REPORT_RUN_LIBRARY_CALL_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "report/run/borrowed_thread.h"

namespace holdfast {

struct CallOutcome {
  LibraryAnswer answer;
  int64_t stopped_us = 0;      // for which the thread that was borrowed did nothing of its own
  int64_t all_stopped_us = 0;  // for which all threads were stopped, because of an allocator in the executable; the sum
  uint32_t all_stops = 0;      // times that they were
  uint32_t threads = 0;        // that were stopped at once
  uint32_t stops = 0;          // of a thread to be borrowed
  uint32_t lost_calls = 0;     // system calls that returned EINTR or fewer bytes because of a stop
};

// If the executable has an allocator of its own, the library answers with changes of the code: then all threads are stopped
// at once, the changes are written (entry_patches.h), and the library is called again.
//
// Fails if no thread can be borrowed within `patience_ms`, or if the library cannot be loaded: then nothing has changed. An
// error of the kind DeadlineExceeded means that the call will be made as soon as a thread may use the dynamic linker.
// `is_asked_to_end` is called ten times a second; as soon as it returns true, no other thread is tried.
absl::StatusOr<CallOutcome> CallLibrary(pid_t pid, const LibraryCall& call, int patience_ms,
                                        const std::function<bool()>& is_asked_to_end = {});

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_LIBRARY_CALL_H_
