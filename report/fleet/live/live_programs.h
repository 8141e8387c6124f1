// Takes snapshots of running processes for servers that answer requests. Adds to the table what /proc says about the
// program (RunningProgram), if the requested kind of profile needs it.
//
//   LivePrograms programs;
//   absl::StatusOr<Snapshot> snapshot = programs.Take(process, kResidentFile);
//
// Keeps per process what must survive between requests: the most that libc had mapped, which never decreases, and the
// earliest time at which its page table may be read again. Any thread.
#ifndef HOLDFAST_REPORT_FLEET_LIVE_LIVE_PROGRAMS_H_
#define HOLDFAST_REPORT_FLEET_LIVE_LIVE_PROGRAMS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "report/builder/running_program.h"
#include "report/daemon/find_tables.h"
#include "report/observe/table/snapshot.h"

namespace holdfast {

class LivePrograms {
 public:
  // `file`: index into kFileKindNames. For kResidentFile, returns an error if that profile is not enabled or cannot be
  // made at this moment.
  absl::StatusOr<Snapshot> Take(const ProcessTable& process, int file);

 private:
  // Entries of exited processes are removed first.
  static constexpr size_t kMax = 1024;
  struct Program {
    std::mutex mutex;  // guards what follows
    RunningProgram program;
  };
  struct Place {
    std::shared_ptr<Program> program;
    uint64_t turn = 0;  // the time of the last request, as a counter
  };
  std::shared_ptr<Program> ProgramOf(const ProcessTable& process);

  std::mutex mutex_;  // guards what follows
  std::map<std::string, Place> programs_;
  uint64_t turns_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_LIVE_LIVE_PROGRAMS_H_
