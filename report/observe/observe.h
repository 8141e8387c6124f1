// Observes a process from outside: the holders of locks, the names of threads, libc's mappings, resident pages, and the
// account of its memory. The table has none of these.
//
//     holdfast stuck      Observe(table, {.waits = true, .other_threads = 16})
//     holdfast memory     Observe(table, {.records = false, .account = true, .free_memory = true})
//     the exporter        ProcessObserver::Observe, one observer for each process and all its snapshots
//
// Nothing is stopped, and nothing is written to the process. If the kernel does not permit to look, the state says why.
#ifndef HOLDFAST_REPORT_OBSERVE_OBSERVE_H_
#define HOLDFAST_REPORT_OBSERVE_OBSERVE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "report/observe/outside/thread_lives.h"
#include "report/observe/process_state.h"
#include "report/observe/table/snapshot.h"
#include "report/observe/table/table_folder.h"

namespace holdfast {

// The kinds with known resident bytes.
inline constexpr uint32_t kKindsOfResident = KindBit(ProfileKind::kHeap) | KindBit(ProfileKind::kMap);

enum class ThreadsWanted { kNo, kIfAnyIsLive, kYes };

// Selects what Observe reads.
struct Wanted {
  bool records = true;       // false: `table` stays empty
  bool waits = false;        // holders, deadlocks, and waits that libc's functions do not see
  size_t other_threads = 0;  // with `waits`: for how many threads that do not wait to report what they do
  // Names of threads that took samples, which threads have ended without reporting it, and the process's resident
  // bytes. kIfAnyIsLive: only if the table lists live threads. kYes: also the lifetimes of all threads, unless
  // `has_looks`: the caller looks at what they do.
  ThreadsWanted threads = ThreadsWanted::kNo;
  bool has_looks = false;
  bool mappings = false;                      // libc's mappings; the last known ones if the process has ended
  bool residency = false;                     // if the table requests it
  bool account = false, free_memory = false;  // free_memory: with the account, and reads glibc's heaps (0.5 s a GiB)
};

// Observes one process repeatedly. Remembers the names of threads that have ended, the maximum of libc's mappings, and
// the time from which resident memory may be examined again. One thread at a time.
//
//     HOLDFAST    noted_threads: thread 4713 sampled at this stack, at 12.3 s        ┐
//     /proc       4713 is called "io-worker", and began at 12.1 s                    ┴►  io-worker
//
// A thread id that was reused after the sample does not give the name. A thread's name stays known after its end,
// unless the table reports its id otherwise.
class ProcessObserver {
 public:
  // Takes a snapshot of the table. Error: the table cannot be read.
  absl::StatusOr<ProcessState> Observe(const TableFile& table, const Wanted& wanted);
  // The same for a snapshot that was taken before.
  ProcessState Observe(const TableFile& table, TableSnapshot snapshot, const Wanted& wanted);
  // Adds to a state.
  void Observe(const TableFile& table, const Wanted& wanted, ProcessState* state);

  // CLOCK_MONOTONIC; no earlier call examines resident memory.
  int64_t next_residency_ns() const { return next_residency_ns_; }

  // Reads the lifetimes of threads, so that later calls know those that have ended. For a parent, before its child
  // observes the process: what the child remembers is lost.
  void ReadLives(const TableFile& table);

  struct Max {
    uint64_t mappings, bytes;
  };
  using MaxByLibc = std::array<Max, kMappingKinds>;  // observed maxima, by kind
  MaxByLibc max_by_libc() const;
  void set_max_by_libc(const MaxByLibc& most);

 private:
  void ObserveThreads(const TableFile& table, bool reads_lives, ProcessState* state);
  void ObserveMappings(const TableFile& table, ProcessState* state);
  void ObserveResidency(const TableFile& table, ProcessState* state);

  struct Seen {
    std::string name;
    int64_t alive_ns;  // CLOCK_MONOTONIC, when the thread was last seen alive
  };
  using GoneThread = std::pair<uint32_t, int64_t>;  // id and start time
  std::set<GoneThread> gone_;                       // threads that ended without reporting it
  std::map<uint32_t, Seen> seen_;                   // by id; only threads noted in the table
  ThreadLives lives_;
  std::array<LibcMapping, kMappingKinds> libc_mappings_ = {};
  int64_t next_residency_ns_ = 0;
};

// Observes a process once.
inline absl::StatusOr<ProcessState> Observe(const TableFile& table, const Wanted& wanted) {
  return ProcessObserver().Observe(table, wanted);
}
inline ProcessState Observe(const TableFile& table, TableSnapshot snapshot, const Wanted& wanted) {
  return ProcessObserver().Observe(table, std::move(snapshot), wanted);
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_OBSERVE_H_
