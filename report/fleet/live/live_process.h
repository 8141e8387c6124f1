// One profiled process, for servers and pushers: a snapshot of its table, and the profiles made from it.
#ifndef HOLDFAST_REPORT_FLEET_LIVE_LIVE_PROCESS_H_
#define HOLDFAST_REPORT_FLEET_LIVE_LIVE_PROCESS_H_

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/base/time_budget.h"
#include "report/builder/loaded_modules.h"
#include "report/daemon/find_tables.h"
#include "report/names/symbolize/module_symbolizer.h"
#include "report/observe/process_state.h"
#include "report/profile/profile.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// Symbolizes profiles and keeps names between calls. Any thread, one at a time.
class Names {
 public:
  // `believed_ns`: for how long a file is not checked again after it was checked.
  explicit Names(int64_t believed_ns = kSecond) { symbolizer_.BelieveFor(believed_ns); }
  // `profile` must be made from `state`. Returns false if time was too short for all source lines; the next call
  // knows more.
  bool Give(const ProcessState& state, ProfileKind kind, Profile* profile);
  // Returns the names of addresses in the program, "" if unknown.
  std::vector<std::string> Of(const ProcessState& state, const std::vector<uint64_t>& addresses);

 private:
  // Returns the files of the state's process.
  const LoadedFiles& FilesOf(const ProcessState& state);

  std::mutex mutex_;  // guards all below
  OpenFiles open_files_;
  std::map<std::string, LoadedModules> modules_;  // by process
  ModuleSymbolizer symbolizer_;
};

// Selects processes of this user: those in `pids`, and those with an output folder in `outs` (absolute paths). Selects
// all if both are empty.
struct ProcessChoice {
  std::vector<pid_t> pids;
  std::vector<std::string> outs, tables;

  // Applies to running and exited processes.
  bool Chooses(const ProcessTable& process) const;
};

// "4242", "/var/tmp/profiles" → a choice. An error has a complete message: the process must exist, and the folder too,
// unless a table names it. `may_come`: programs that start later may create a folder that is given as a path with a slash.
absl::StatusOr<ProcessChoice> ChooseProcesses(const std::vector<std::string>& arguments,
                                              const std::vector<std::string>& tables, bool may_come = true);

// For root: returns a message if other users have profiled programs that are not among the chosen ones, else "".
std::string UnservedUsers(const ProcessChoice& choice);

// Returns the running processes, by pid. Stores in `ended` those that have exited and still have a table.
std::vector<ProcessTable> LiveProcesses(const ProcessChoice& choice, std::vector<ProcessTable>* ended = nullptr);
// Returns the chosen process with this pid. Returns NotFound if it is not chosen, not profiled, or another user's.
absl::StatusOr<ProcessTable> LiveProcess(const ProcessChoice& choice, pid_t pid);

// The pid that `holdfast ls` shows.
pid_t PidOf(const ProcessTable& process);
// Returns the arguments, each terminated by a zero byte, as in /proc. If /proc is not readable, uses the table.
std::string CommandLineOf(const ProcessTable& process, const TableSnapshot& snapshot);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_LIVE_LIVE_PROCESS_H_
