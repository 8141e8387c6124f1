// Snapshots of running processes for who answers requests: beside the table what /proc says of the program (RunningProgram), as far as the
// kind of profile that is wanted needs it.
//
//   LivePrograms programs;
//   absl::StatusOr<Snapshot> snapshot = programs.Take(process, kResidentFile);
//
// Of each process is kept what has to be known from one request to the next: the most that libc had mapped, which never decreases, and when
// its page table may be looked through again. Any thread.
#ifndef HOLDFAST_REPORT_LIVE_LIVE_PROGRAMS_H_
#define HOLDFAST_REPORT_LIVE_LIVE_PROGRAMS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "report/export/running_program.h"
#include "report/processes/find_tables.h"
#include "report/table/snapshot.h"

namespace holdfast {

class LivePrograms {
 public:
  // `file`: index into kFileKindNames. Of kResidentFile an error where it is not asked for, or not to be had just now.
  absl::StatusOr<Snapshot> Take(const ProcessTable& process, int file);

 private:
  // Those that have ended are the first to go.
  static constexpr size_t kMost = 1024;
  struct Program {
    std::mutex mutex;  // guards what follows
    RunningProgram program;
  };
  struct Place {
    std::shared_ptr<Program> program;
    uint64_t turn = 0;  // the last that asked
  };
  std::shared_ptr<Program> ProgramOf(const ProcessTable& process);

  std::mutex mutex_;  // guards what follows
  std::map<std::string, Place> programs_;
  uint64_t turns_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_LIVE_LIVE_PROGRAMS_H_
