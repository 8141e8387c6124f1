// The end of `holdfast run`: waits until the last profiles are in place, then says on standard error which there are
// and what to type next.
#ifndef HOLDFAST_REPORT_PROCESSES_RUN_FINISH_H_
#define HOLDFAST_REPORT_PROCESSES_RUN_FINISH_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "report/base/signals.h"

namespace holdfast {

struct FinishedRun {
  std::string program;                       // as it was started
  std::vector<std::string> command;          // the same with its arguments
  std::string path;                          // where it was found
  std::string library;                       // libholdfast.so
  std::vector<std::string> without_library;  // executables in which the library was not, while it ran
  pid_t pid = 0;
  std::string out;                           // absolute
  std::string tables;                        // the folder where its tables lie
  std::set<std::string> names_before;        // what lay in `out` before
  std::string heap_interval, lock_interval;  // as they were, for people
  bool has_exporter = true;
  bool found_no_room = false;  // for a table, when the program was started
  bool quiet = false;
  std::string still_exporter = {};  // why the exporter does not answer, once AwaitProfiles has found that it does not
};

// A table of a dead process that is not written as profiles.
struct TableLeft {
  std::string path;
  uint32_t pid = 0;  // as it says itself
  uid_t user = 0;
  bool is_foreign = false;  // another user's, and no mark shows that a program of root's became that one: left alone
};

// Waits until no table of a dead process with this output folder is left: at most 5 s, a minute while an exporter is at work,
// some milliseconds if the exporter cannot answer; less when `signals` says so. Without an exporter there is nothing to wait
// for. `restart_exporter` is called once: the exporter of the start may be gone. Returns the tables that are left.
std::vector<TableLeft> AwaitProfiles(FinishedRun& run, HeldSignals& signals,
                                     const std::function<void()>& restart_exporter);

// How many live processes have a table with this output folder.
size_t StillProfiled(const FinishedRun& run);

// The newest profile of this kind of each process of this run, the program's own first.
std::vector<std::string> NewestFiles(const FinishedRun& run, const std::vector<std::string>& names_now,
                                     const std::string& kind);

// The lines to print.
std::string Summary(const FinishedRun& run, const std::vector<std::string>& names_now,
                    const std::vector<TableLeft>& tables_left, size_t still_profiled);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROCESSES_RUN_FINISH_H_
