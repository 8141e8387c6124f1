// What the seccomp filters of a running process do to the system calls that `holdfast attach` causes: those of dlopen and
// those of the library. A filter may end the process, so each call is evaluated before anything is changed.
//
//     mmap(0, _, PROT_READ | PROT_EXEC, MAP_PRIVATE, …)  ──►  every filter of the thread  ──►  allowed, denied, or fatal
//
// Arguments that are not known in advance take both branches of a test. Only root outside of a container may read filters.
#ifndef HOLDFAST_REPORT_RUN_SECCOMP_FILTER_H_
#define HOLDFAST_REPORT_RUN_SECCOMP_FILTER_H_

#include <linux/filter.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace holdfast {

using SeccompFilter = std::vector<sock_filter>;

enum class FilterEffect : uint8_t {
  kAllowed,
  kDenied,  // may return an error
  kFatal    // may end the process, send it a signal, or ask another process; or cannot be evaluated
};

struct FilteredCall {
  const char* name;
  int number;
  bool is_needed;                                         // attach is impossible if the call is denied
  std::array<std::optional<uint64_t>, 6> arguments = {};  // nothing: any value
};

// The calls of dlopen, of the thread that makes it, and of the library, which starts no exporter in a process with a filter.
// docs/limitations.md lists those of the library; a test compares.
const std::vector<FilteredCall>& CausedCalls();

// The worst effect that the filters together may have on the call.
FilterEffect EffectOf(const std::vector<SeccompFilter>& filters, const FilteredCall& call);

// Returns why these filters forbid to attach, or to detach; "": they do not. A detach makes fewer calls.
std::string WhyFiltersForbid(const std::vector<SeccompFilter>& filters, bool detaches = false);

// Of each thread that has not ended: seccomp's mode and the number of filters, "2 1". Mode 0 is none, mode 1 is strict.
using FilterCounts = std::map<pid_t, std::string>;
FilterCounts CountFilters(pid_t pid);
// The same, of one thread; empty: it has ended.
FilterCounts CountFiltersOf(pid_t pid, pid_t thread);
bool HasMode(const FilterCounts& counts, char mode);
// Whether a thread has installed a filter since, or a new thread has a number of filters that no thread had before.
bool FiltersChanged(const FilterCounts& before, const FilterCounts& now);
// Whether the thread has a filter and began after the filters were read: it may be another filter, although it is as many.
bool IsUnexamined(const FilterCounts& before, const FilterCounts& now, pid_t thread);
// Kernels before 5.9 do not tell how many filters a thread has: another filter is not noticed.
bool HasUncountedFilters(const FilterCounts& counts);

struct ProcessFilters {
  std::vector<std::vector<SeccompFilter>> of_threads;
  FilterCounts counts;
  uint32_t stops = 0;       // threads that were stopped
  uint32_t lost_calls = 0;  // see CallOutcome
};
// Reads the filters of each thread. Each is stopped for a moment. An error says why they are not known.
absl::StatusOr<ProcessFilters> ReadFilters(pid_t pid);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_SECCOMP_FILTER_H_
