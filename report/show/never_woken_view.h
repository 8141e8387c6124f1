// The part of `holdfast stuck PID` about threads that can never be woken (report/holders/never_woken.h).
//
//   never woken: no pointer found to what 2 threads wait for
//     T5 worker (tid 4715)  waits for 0x7f31a4000b20, in a block of run_queue ← main
//     T6 joiner (tid 4716)  waits for the end of T5 worker
//
// The process is not stopped: the search is repeated as in unreachable.h, and a thread is named only if each search finds
// it and it has not run meanwhile. The registers of other sleeping threads remain unknown, so the first line then says
// that this cannot be told; `stop` reads the registers from a copy.
#ifndef HOLDFAST_REPORT_SHOW_NEVER_WOKEN_VIEW_H_
#define HOLDFAST_REPORT_SHOW_NEVER_WOKEN_VIEW_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/show/tracing_rights.h"

namespace holdfast {

struct LostThread {
  uint32_t id = 0, number = 0;  // as the process sees it; by age, from 1 for main
  std::string name;
  uint64_t address = 0;  // of the futex
  std::string waits_for;
};

struct NeverWoken {
  std::vector<LostThread> threads;  // by age
  uint32_t hidden_threads = 0;      // that may still run, with registers that are unknown
  uint32_t unknown = 0;             // waiting threads about which nothing can be said
  bool stopped = false;
  bool IsCertain() const { return hidden_threads == 0; }
};

// Without `stop`, a process is not searched if that takes long; the error says so. No threads: none sleeps in futex(2)
// without a timeout, or all of these can be woken.
absl::StatusOr<NeverWoken> FindNeverWoken(pid_t pid, const std::vector<std::string>& tables, bool stop,
                                          const TracingRights* rights);

// "" if there is nothing to say.
std::string NeverWokenText(const NeverWoken& found, pid_t pid);
std::string NeverWokenJson(const NeverWoken& found);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_NEVER_WOKEN_VIEW_H_
