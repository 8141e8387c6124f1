// Adds to a snapshot what /proc says about the program: the resident bytes of the process and of each live block,
// libc's mappings, and the names of threads that took samples.
//
//     HOLDFAST    noted_threads: thread 4713 sampled at this stack, at 12.3 s        ┐
//     /proc       4713 is called "io-worker", and began at 12.1 s                    ┴►  io-worker
//
// The profile's records (message Threads of proto/holdfast.proto) list threads with names that differ from the
// program's, each with the outermost frames of a sample.
//
// A thread id that was reused after the sample does not give the name. A thread's name stays known after its end,
// unless the table reports its id otherwise. One thread at a time.
#ifndef HOLDFAST_REPORT_BUILDER_RUNNING_PROGRAM_H_
#define HOLDFAST_REPORT_BUILDER_RUNNING_PROGRAM_H_

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "report/builder/written_locks.h"
#include "report/observe/table/snapshot.h"
#include "report/observe/table/table_folder.h"
#include "report/profile/profile.h"

namespace holdfast {

// The kinds with known resident bytes.
inline constexpr uint32_t kKindsOfResident = KindBit(ProfileKind::kHeap) | KindBit(ProfileKind::kMap);

class RunningProgram {
 public:
  // Sets resident_bytes; the names of noted_threads that differ from the program's; and which of live_threads are gone,
  // because they were cancelled or ended by a direct system call.
  void Look(const TableFile& table, Snapshot* snapshot);
  // Sets libc_mappings: libc's mappings, or the last known ones if the process has ended.
  void LookAtLibcMappings(const TableFile& table, Snapshot* snapshot);
  // Sets resident_rows if requested, or resident_left_out.
  void LookAtResident(const TableFile& table, Snapshot* snapshot);
  // CLOCK_MONOTONIC; no earlier call examines resident memory.
  int64_t next_resident_ns() const { return next_resident_ns_; }

  struct Max {
    uint64_t mappings, bytes;
  };
  using MaxByLibc = std::array<Max, kMappingKinds>;  // observed maxima, by kind
  MaxByLibc max_by_libc() const;
  void set_max_by_libc(const MaxByLibc& most);

 private:
  struct Seen {
    std::string name;
    int64_t alive_ns;  // CLOCK_MONOTONIC, when the thread was last seen alive
  };
  using GoneThread = std::pair<uint32_t, int64_t>;  // id and start time
  std::set<GoneThread> gone_;                       // threads that ended without reporting it
  std::map<uint32_t, Seen> seen_;                   // by id; only threads noted in the table
  std::array<LibcMapping, kMappingKinds> libc_mappings_ = {};
  int64_t next_resident_ns_ = 0;
};

// Takes a snapshot that knows which of its live_threads are gone, for callers without a RunningProgram.
absl::StatusOr<Snapshot> TakeWithThreads(const TableFile& table);

// Adds the names of at most `most` threads that took samples.
void AddThreadRecords(const Snapshot& snapshot, const FramesOfStack& frames, Profile* profile, size_t most = 256);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_RUNNING_PROGRAM_H_
