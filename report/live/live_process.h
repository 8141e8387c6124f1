// One profiled process as a server or a pusher sees it: a snapshot of its table, and profiles made of that.
#ifndef HOLDFAST_REPORT_LIVE_LIVE_PROCESS_H_
#define HOLDFAST_REPORT_LIVE_LIVE_PROCESS_H_

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/base/time_budget.h"
#include "report/export/loaded_modules.h"
#include "report/pprof/profile.h"
#include "report/processes/find_tables.h"
#include "report/symbolize/module_symbolizer.h"
#include "report/table/snapshot.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// Names for profiles, kept from one to the next. Any thread: one at a time.
class Names {
 public:
  // `believed_ns`: so long after a look at a file it is not looked at again.
  explicit Names(int64_t believed_ns = kSecond) { symbolizer_.BelieveFor(believed_ns); }
  // `profile` is of `snapshot`. False: there was not time enough for all lines of source, and next time more are known.
  bool Give(const Snapshot& snapshot, ProfileKind kind, Profile* profile);
  // Of addresses as the program sees them; "" where none is known.
  std::vector<std::string> Of(const Snapshot& snapshot, const std::vector<uint64_t>& addresses);

 private:
  // Of the process of a snapshot.
  const LoadedFiles& FilesOf(const Snapshot& snapshot);

  std::mutex mutex_;  // guards all below
  OpenFiles open_files_;
  std::map<std::string, LoadedModules> modules_;  // by process
  ModuleSymbolizer symbolizer_;
};

// Which processes of this user are meant: those in `pids`, and those whose profiles go into one of `outs` (absolute); all
// where neither says anything.
struct ProcessChoice {
  std::vector<pid_t> pids;
  std::vector<std::string> outs, tables;

  // Whether it runs, or has run.
  bool Chooses(const ProcessTable& process) const;
};

// "4242", "/var/tmp/profiles" → a choice. The message of an error is complete.
absl::StatusOr<ProcessChoice> ChooseProcesses(const std::vector<std::string>& arguments,
                                              const std::vector<std::string>& tables);

// As root: whether other users have profiled programs, which are not among the chosen; a message, or "".
std::string WhoIsNotServed(const ProcessChoice& choice);

// The running ones, by pid. `ended`: takes those that have ended and whose tables are still there.
std::vector<ProcessTable> LiveProcesses(const ProcessChoice& choice, std::vector<ProcessTable>* ended = nullptr);
// That one; NotFound where it is not chosen, not profiled, or another user's.
absl::StatusOr<ProcessTable> LiveProcess(const ProcessChoice& choice, pid_t pid);

// As `holdfast ls` shows it.
pid_t PidOf(const ProcessTable& process);
// Its arguments, each ended by a zero byte, as /proc has them; what its table says where /proc does not show it.
std::string CommandLineOf(const ProcessTable& process, const Snapshot& snapshot);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_LIVE_LIVE_PROCESS_H_
