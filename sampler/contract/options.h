// The target's options, from HOLDFAST_* variables in the environment at the program's start.
//
// Parsed once, without libc, before anything else runs. A bad value causes one line on standard error and the default.
#ifndef HOLDFAST_SAMPLER_CONTRACT_OPTIONS_H_
#define HOLDFAST_SAMPLER_CONTRACT_OPTIONS_H_

#include <cstddef>
#include <cstdint>

#include "sampler/contract/entry_state.h"
#include "sampler/contract/layout.h"
#include "sampler/contract/quantities.h"

namespace holdfast {

// Mean waiting time between lock samples. A sample costs about 1 µs, while the thread waits anyway. At 100 µs a thread
// that only waits pays at most 1 % of that time, and 1 ms of delay is known within 30 %.
inline constexpr uint64_t kDefaultLockIntervalNs = 100'000;
inline constexpr uint64_t kDefaultHeapInterval = 512 << 10;
inline constexpr size_t kLongestPath = 1024;
inline constexpr size_t kOnSnapshotBytes = 1024;  // of the command, with the terminating zero

// Whether samples carry their thread's name as a label: as it is, or with its trailing number folded.
enum class ThreadLabel : uint8_t { kNo, kYes, kFolded };

struct Options {
  uint64_t heap_interval = kDefaultHeapInterval;
  uint64_t lock_interval_ns = kDefaultLockIntervalNs;
  uint64_t cpu_interval_ns = 0;  // CPU time between two samples of a thread; 0 = off
  uint64_t snapshot_every_ns = 60'000'000'000;
  uint64_t max_disk_bytes = 1 << 30;
  uint64_t max_memory_bytes = 64 << 20;
  uint64_t seed = 0;  // 0 = random
  uint32_t keep = kKeepThinned;
  uint32_t profiles = kAllKinds;  // KindBits
  int signal = 0;                 // asks for a snapshot; 0 = none
  uint32_t verbose = 0;
  int root_pid = 0;      // HOLDFAST_ROOT
  int leak_checker = 0;  // HOLDFAST_LEAK_CHECKER: the `holdfast run` that searches the memory at the end; 0: none does
  bool cpu_is_forced = false;  // also where CpuState says that it stays off
  bool enable = true;
  bool children = true;
  bool lock_label = false;  // keep lock samples apart by lock
  ThreadLabel thread_label = ThreadLabel::kNo;
  bool merge = false;             // HOLDFAST_MERGE_CHILDREN
  uint64_t skip_small_bytes = 0;  // HOLDFAST_SKIP_SMALL; 0 = every process has a profile
  bool peak = true;               // HOLDFAST_PEAK
  bool resident = false;          // HOLDFAST_RESIDENT
  bool wall = false;              // HOLDFAST_WALL
  Lifetimes lifetimes = Lifetimes::kUnlessShort;
  Entries entries = Entries::kAuto;
  bool exporter = true;  // HOLDFAST_EXPORTER=no
  // HOLDFAST_REPLAY: walks may be remembered (sampler/record/exact.h, sampler/capture/remembered_stack.h).
  bool replay = true;
  const char* exporter_path = nullptr;
  const char* snapshot_when = "";  // triggers.h
  // "HOLDFAST_ON_SNAPSHOT=COMMAND"; null: none. Accepted only if LD_PRELOAD of the same environment names the library:
  // anyone who can set LD_PRELOAD can run commands anyway. If /etc/ld.so.preload loads the library, the environment
  // that a setuid program passes on as root may come from an unprivileged user.
  const char* on_snapshot = nullptr;
  const char* tables = nullptr;       // null: the default places
  const char* runtime_dir = nullptr;  // XDG_RUNTIME_DIR
  char out[kLongestPath] = {};        // absolute
};

// `environment` ends with a null pointer. Strings in the result point into it.
void ReadOptions(const char* const* environment, Options* options);

// Whether a HOLDFAST_ variable is one of ours, or is set by something other than a person: by our tests, or by
// Kubernetes for a service of that name ("HOLDFAST_PORT", "HOLDFAST_AGENT_SERVICE_HOST"). Anything else is misspelt.
// `name` may end with '=' and a value.
bool IsKnownVariable(const char* name);

// Copies `path` as an absolute path, which stays valid when the program changes directory. False: longer than
// `capacity`, and cut.
bool CopyAbsolutePath(char* to, size_t capacity, const char* path);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_OPTIONS_H_
