// The end of `holdfast run`: waits until the last profiles are written, then prints to standard error which profiles
// there are and what to type next.
#ifndef HOLDFAST_REPORT_RUN_RUN_FINISH_H_
#define HOLDFAST_REPORT_RUN_RUN_FINISH_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "report/base/signals.h"
#include "sampler/contract/entry_state.h"

namespace holdfast {

struct FinishedRun {
  std::string program;                       // as the user named it
  std::vector<std::string> command;          // the program and its arguments
  std::string path;                          // where the program was found
  std::string library;                       // libholdfast.so
  std::vector<std::string> without_library;  // executables that ran without the library
  pid_t pid = 0;
  std::string out;                           // absolute
  std::string tables;                        // the folder of their tables
  std::set<std::string> names_before;        // the files in `out` before the run
  std::string heap_interval, lock_interval;  // formatted for people
  Entries entries = Entries::kAuto;
  bool has_exporter = true;
  bool found_no_room = false;  // for a table, when the program started
  bool quiet = false;
  std::string stalled_exporter = {};  // why the exporter does not respond; set by AwaitProfiles
};

// A table of a dead process from which no profiles were written.
struct TableLeft {
  std::string path;
  uint32_t pid = 0;  // as the table says
  uid_t user = 0;
  bool is_foreign = false;  // another user's, without a mark that a program of root's became that user; not touched
};

// Waits until no table of a dead process with this output folder is left. Waits at most 5 s; at most a minute while an
// exporter is busy; some milliseconds if the exporter cannot respond; less if `signals` says so; not at all without an
// exporter. Calls `restart_exporter` once, because the exporter that was started with the program may have exited.
// Returns the tables that are left.
std::vector<TableLeft> AwaitProfiles(FinishedRun& run, HeldSignals& signals,
                                     const std::function<void()>& restart_exporter);

// Returns how many live processes have a table with this output folder.
size_t RunningProcesses(const FinishedRun& run);

// Returns the newest profile of this kind of each process of this run, the program itself first.
std::vector<std::string> NewestFiles(const FinishedRun& run, const std::vector<std::string>& names_now,
                                     const std::string& kind);

// Returns the lines to print.
std::string Summary(const FinishedRun& run, const std::vector<std::string>& names_now,
                    const std::vector<TableLeft>& tables_left, size_t running);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_RUN_FINISH_H_
