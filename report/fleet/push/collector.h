// Collects what is new in each profiled process, and writes it to the spool of the process's output folder.
//
// A process is known from the moment its table is found. The table is kept open, so that the last changes are reported
// even if the process has exited and the exporter has deleted the file. One thread.
#ifndef HOLDFAST_REPORT_FLEET_PUSH_COLLECTOR_H_
#define HOLDFAST_REPORT_FLEET_PUSH_COLLECTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/builder/output_folder.h"
#include "report/fleet/live/live_process.h"
#include "report/fleet/live/place_of_process.h"
#include "report/fleet/live/thread_ticker.h"
#include "report/fleet/push/idle_process.h"
#include "report/fleet/push/process_exits.h"
#include "report/fleet/push/push_labels.h"
#include "report/fleet/push/reported_process.h"
#include "report/fleet/push/series_times.h"
#include "report/fleet/push/spool.h"
#include "report/observe/observe.h"

namespace holdfast {

class Collector {
 public:
  struct Options {
    ProcessChoice choice;
    std::vector<PushLabel> labels;
    std::string server, tenant = {};  // for the spool
    int64_t every_ns = 0;
    // If a process began longer ago than this, its past counts from when it is found.
    int64_t report_all_within_ns = 0;
    bool once = false;  // report the current state once, even if an earlier pusher has just reported it
    std::optional<uint64_t> max_disk_bytes = {};
  };
  struct Counts {
    uint64_t profiles = 0, cut_stacks = 0, cut_labels = 0, too_large = 0, dropped = 0, unwritten = 0;
  };

  // `use`: called for each new spool.
  Collector(Options options, std::function<void(std::shared_ptr<Spool>)> use)
      : options_(std::move(options)), use_(std::move(use)) {}

  // Opens the spools of the folders that the user named, so that entries waiting there are sent.
  void OpenNamed();
  // Looks for processes in `tables`, or everywhere if it is empty. Prints once what cannot be pushed.
  void Find(const std::vector<std::string>& tables);
  // Reports what is new in running processes, and the last changes of exited ones.
  void ReportAll();
  // Reports only exited processes, soon after they exit. Returns whether there were any.
  bool ReportEnded();
  // For exited processes that an earlier pusher has reported in part: reports the rest, from their last files.
  void ReportEarlier();
  // Reports processes that were never seen running, from files that they wrote within the last hour: they were
  // short-lived, or ran while there was no pusher. `tables`: folders of tables; the exporters note there which folders
  // have such files.
  void ReportUnseen(const std::set<std::string>& tables);

  // The folders of tables in which processes were found.
  const std::set<std::string>& table_folders() const { return table_folders_; }
  size_t processes() const;  // running ones
  const std::vector<std::shared_ptr<Spool>>& spools() const { return all_spools_; }
  const Counts& counts() const { return counts_; }

 private:
  struct Watched {
    ProcessTable table;
    std::shared_ptr<Spool> spool;  // null: not reported yet
    ReportedProcess reported;
    IdleProcess idle;
    ProcessObserver observer;
    CumulativeValues wall;      // what was reported of the time of its threads
    int64_t wall_since_ns = 0;  // when the looks at its threads began
    PlaceOfProcess place;       // stored while it runs: the first report may come after its exit
    FileDescriptor process;     // pidfd; invalid if the process is not visible
    int64_t found_ns = 0;       // wall clock
    bool ended = false;         // has exited; its last state is still to be reported
    explicit Watched(ProcessTable found);
    // Asks only the kernel, so it does not notice an exec.
    bool HasExited() const;
  };

  std::shared_ptr<Spool> SpoolOf(const std::string& out);
  bool Begin(Watched* watched, const ProcessState& state);
  bool BeganLongAgo(const Watched& watched, const TableSnapshot& snapshot) const;
  // Whether this or an earlier pusher reported memory in use less than half an interval ago. Then only counters are
  // due.
  bool IsInUseReported(const Watched& watched) const;
  // Returns false if the report could not be written; it is tried again later.
  bool Report(Watched* watched);
  // `records`: RecordsHash before the snapshot.
  bool ReportNow(Watched* watched, std::optional<uint64_t> records, TableSnapshot snapshot);
  // Reports a process that has exited and is not watched.
  void ReportLast(ProcessTable process, TableSnapshot snapshot);
  void ReportAgain(Watched* watched);
  // Reports resident memory. It is no counter: each report contains the current state.
  void ReportResident(Watched* watched, const ProcessState& state);
  // Reports where the time of the threads went since the last report. The first call only begins to look.
  void ReportWall(Watched* watched, ProcessState* state);
  struct NewProfile {
    Profile increase;
    CumulativeValues values;
  };
  // Returns what a profile kind contains now beyond what was reported before.
  using ProfileNow = std::function<std::optional<NewProfile>(ProfileKind, const CumulativeValues&)>;
  // Adds an entry for each kind for which `now` returns a profile. Updates `reported` once the entries are written; returns
  // false if they could not be. `only_counters`: adds nothing unless a counter has increased.
  bool ReportKinds(Spool* spool, ReportedProcess* reported, const ProfileNow& now, IdleProcess* idle = nullptr,
                   bool only_counters = false);
  // `file`: index into kFileKinds.
  absl::StatusOr<bool> Put(Spool* spool, const ReportedProcess& reported, int file, const Profile& increase,
                           IdleProcess* idle);
  absl::Status PutOne(Spool* spool, const ReportedProcess& reported, int file, bool counts,
                      const ServerProfiles::Part& part, int64_t duration_ns);
  class Tables;  // found once for all spools
  void ReportByTables(Spool* spool, Tables* tables);
  void ReportByFiles(Spool* spool, Tables* tables);
  // The files that each process left in the folder lately.
  std::map<std::string, std::vector<OutputFolder::Entry>> UnseenIn(Spool* spool);
  void ReportByFolder(Spool* spool, Tables* tables);
  void ReportByFile(Spool* spool, const std::string& process, const std::vector<OutputFolder::Entry>& files,
                    bool has_ended);
  bool BeginByFile(const Profile& profile, ReportedProcess* reported);
  void OpenNoted(const std::set<std::string>& tables);
  void CloseIdle();
  template <typename HasEnded>
  void ReportWatched(HasEnded has_ended, bool also_living);
  // Reports processes that exited before they were found running. Their tables may be gone at the next look.
  void ReportEndedUnseen(std::vector<ProcessTable> ended);
  void ShrinkSpools();
  void SayOnce(const std::string& text);
  void SayUnwritten(const absl::Status& status);

  const Options options_;
  const std::function<void(std::shared_ptr<Spool>)> use_;
  Names names_;
  ThreadTicker ticker_;
  ProcessExits exits_;
  SeriesTimes times_;
  std::map<Spool*, uint64_t> max_bytes_;
  std::map<std::string, Watched> watched_;                // by TableFile::key
  std::map<std::string, std::shared_ptr<Spool>> spools_;  // by folder
  std::vector<std::shared_ptr<Spool>> all_spools_;
  std::set<std::string> ended_;  // same keys; not to be examined again
  std::set<std::string> table_folders_, said_, reported_here_;
  std::set<std::string> elsewhere_;                                       // folders that other pushers serve
  std::map<std::string, std::map<std::string, std::string>> process_of_;  // by folder and file name
  struct ByFiles {
    std::string out;
    ReportedProcess reported;
    int64_t newest_ns = 0;  // of its files
  };
  std::map<std::string, ByFiles> by_files_;      // invisible processes that may write more files
  std::map<std::string, int64_t> noted_looked_;  // modification time of noted folders when they were last examined
  bool has_looked_ = false;
  Counts counts_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_COLLECTOR_H_
