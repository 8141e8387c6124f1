// What /proc says of a program beside its table, when a snapshot is made: how much of its memory is resident, and of each live block,
// what libc has mapped, and what the threads are called that took samples.
//
//     HOLDFAST    noted_threads: thread 4713 sampled at this stack, at 12.3 s        ┐
//     /proc       4713 is called "io-worker", and began at 12.1 s                    ┴►  io-worker
//
// Of threads the profile's records say, if they have a name that is not the program's:
//
//     thread 3: stack 2 tid 4713 name io-worker
//     thread stack 2: 0x55d2c0901233 0x55d2c0901300      addresses of locations of this file: the outermost, the last is where it began
//
// An id that was given to another thread after the sample is none of that name. What a thread was called stays known once it has
// ended, as long as the table says nothing else of its id. One thread at a time.
#ifndef HOLDFAST_REPORT_EXPORT_RUNNING_PROGRAM_H_
#define HOLDFAST_REPORT_EXPORT_RUNNING_PROGRAM_H_

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "report/lock_records/lock_comments.h"
#include "report/pprof/profile.h"
#include "report/table/snapshot.h"
#include "report/table/table_folder.h"

namespace holdfast {

// Of which what is resident can be told.
inline constexpr uint32_t kKindsOfResident = KindBit(ProfileKind::kHeap) | KindBit(ProfileKind::kMap);

class RunningProgram {
 public:
  // Fills resident_bytes, names of noted_threads: those that are not the program's own, and which of live_threads are gone: those
  // that were cancelled, or ended by a system call of their own.
  void Look(const TableFile& table, Snapshot* snapshot);
  // Fills libc_mappings: what libc has mapped; as it was seen last where the process is gone.
  void LookAtLibcMappings(const TableFile& table, Snapshot* snapshot);
  // Fills resident_rows where they are wanted, or resident_left_out.
  void LookAtResident(const TableFile& table, Snapshot* snapshot);
  // CLOCK_MONOTONIC, from when on it is looked at again.
  int64_t next_resident_ns() const { return next_resident_ns_; }

  struct Most {
    uint64_t mappings, bytes;
  };
  using MostByLibc = std::array<Most, kMappingKinds>;  // that there ever were; by kind
  MostByLibc most_by_libc() const;
  void set_most_by_libc(const MostByLibc& most);

 private:
  struct Seen {
    std::string name;
    int64_t alive_ns;  // CLOCK_MONOTONIC, when it was last seen alive
  };
  using GoneThread = std::pair<uint32_t, int64_t>;  // id, and when it began
  std::set<GoneThread> gone_;                       // that had not said so
  std::map<uint32_t, Seen> seen_;                   // by id; only of threads that the table notes
  std::array<LibcMapping, kMappingKinds> libc_mappings_ = {};
  int64_t next_resident_ns_ = 0;
};

// A snapshot that knows which of its live_threads are gone, for who keeps no RunningProgram.
absl::StatusOr<Snapshot> TakeWithThreads(const TableFile& table);

// At most so many threads.
void AddThreadComments(const Snapshot& snapshot, const FramesOfStack& frames, Profile* profile, size_t most = 256);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORT_RUNNING_PROGRAM_H_
