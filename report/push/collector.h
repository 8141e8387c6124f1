// What is new in each profiled process, written to the spool of its output folder.
//
// A process is known from when its table is found; the table is kept open, so that what it did last is told also when it has
// ended and the exporter has removed the file. One thread.
#ifndef HOLDFAST_REPORT_PUSH_COLLECTOR_H_
#define HOLDFAST_REPORT_PUSH_COLLECTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/export/output_folder.h"
#include "report/export/running_program.h"
#include "report/live/live_process.h"
#include "report/live/place_of_process.h"
#include "report/processes/process_exits.h"
#include "report/push/push_labels.h"
#include "report/push/quiet_process.h"
#include "report/push/series_times.h"
#include "report/push/spool.h"
#include "report/push/told_process.h"

namespace holdfast {

class Collector {
 public:
  struct Options {
    ProcessChoice choice;
    std::vector<PushLabel> labels;
    std::string server, tenant = {};  // for the spool
    int64_t every_ns = 0;
    // What a process did that began longer ago counts from when it is found.
    int64_t tell_all_within_ns = 0;
    bool once = false;  // what there is now, also if an earlier pusher has just told of it
    std::optional<uint64_t> max_disk_bytes = {};
  };
  struct Counts {
    uint64_t profiles = 0, cut_stacks = 0, cut_labels = 0, too_large = 0, dropped = 0, unwritten = 0;
  };

  // `use` is called for each new spool.
  Collector(Options options, std::function<void(std::shared_ptr<Spool>)> use)
      : options_(std::move(options)), use_(std::move(use)) {}

  // Opens the spools of the folders that were named: what waits there is sent.
  void OpenNamed();
  // Looks for processes, in `tables`, or wherever there are some. Says what cannot be pushed, once.
  void Find(const std::vector<std::string>& tables);
  // What is new in those that run, and the last of those that have ended.
  void TellAll();
  // Only the latter, soon after they ended; true: there were some.
  bool TellEnded();
  // What an earlier pusher told in part of processes that have ended since: the rest, by their last files.
  void TellOfEarlier();
  // Tells of processes that nobody saw running, by the files that they left within the last hour: they ran for a moment, or while
  // there was no pusher. `tables`: folders of tables; their exporters note where such files are.
  void TellUnseen(const std::set<std::string>& tables);

  // Folders of tables that processes were found in.
  const std::set<std::string>& table_folders() const { return table_folders_; }
  size_t processes() const;  // that run
  const std::vector<std::shared_ptr<Spool>>& spools() const { return all_spools_; }
  const Counts& counts() const { return counts_; }

 private:
  struct Watched {
    ProcessTable table;
    std::shared_ptr<Spool> spool;  // null: not told yet
    ToldProcess told;
    QuietProcess quiet;
    RunningProgram program;
    PlaceOfProcess place;    // known while it runs: the first that is told of it may be its end
    FileDescriptor process;  // pidfd; invalid where it is out of sight
    int64_t found_ns = 0;    // wall clock
    bool ended = false;      // and waits until its last state can be told
    explicit Watched(ProcessTable found);
    // Told by the kernel alone: an exec is not seen.
    bool HasExited() const;
  };

  std::shared_ptr<Spool> SpoolOf(const std::string& out);
  bool Begin(Watched* watched, const Snapshot& snapshot);
  bool BeganLongAgo(const Watched& watched, const Snapshot& snapshot) const;
  // Whether this pusher or an earlier one told what is in use less than half an interval ago: then only counters are due.
  bool IsInUseTold(const Watched& watched) const;
  // False: it could not be written down. It is tried again later.
  bool Tell(Watched* watched);
  // `records`: RecordsHash before the snapshot.
  bool TellAsItIs(Watched* watched, std::optional<uint64_t> records, Snapshot snapshot);
  // Of one that has ended, and is not watched.
  void TellLast(ProcessTable process, Snapshot snapshot);
  void TellAgain(Watched* watched);
  // Nothing of it is counted: it is as it is now, each time.
  void TellResident(Watched* watched, const Snapshot& snapshot);
  struct NewProfile {
    Profile increase;
    CumulativeValues values;
  };
  // What there is of a kind now, after what was told.
  using ProfileNow = std::function<std::optional<NewProfile>(ProfileKind, const CumulativeValues&)>;
  // Adds entries for each kind by `now` of it; nothing where it has none. What was told changes once they are written; false: they
  // could not be. `only_counters`: nothing either where no counter has increased.
  bool TellKinds(Spool* spool, ToldProcess* told, const ProfileNow& now, QuietProcess* quiet = nullptr,
                 bool only_counters = false);
  // `file`: index into kFileKindNames.
  absl::StatusOr<bool> Put(Spool* spool, const ToldProcess& told, int file, const Profile& increase,
                           QuietProcess* quiet);
  absl::Status PutOne(Spool* spool, const ToldProcess& told, int file, bool counts, const ServerProfiles::Part& part,
                      int64_t duration_ns);
  void TellByTables(Spool* spool);
  void TellByFiles(Spool* spool);
  // Of each process that left files in the folder lately: those files.
  std::map<std::string, std::vector<OutputFolder::Entry>> UnseenIn(Spool* spool);
  void TellByFolder(Spool* spool);
  void TellByFile(Spool* spool, const std::string& process, const std::vector<OutputFolder::Entry>& files,
                  bool has_ended);
  bool BeginByFile(const Profile& profile, ToldProcess* told);
  void OpenNoted(const std::set<std::string>& tables);
  void CloseIdle();
  template <typename HasEnded>
  void TellThose(HasEnded has_ended, bool also_living);
  // What has ended before it was ever found running: its table may be gone at the next look.
  void TellEndedUnseen(std::vector<ProcessTable> ended);
  void ShrinkSpools();
  void SayOnce(const std::string& text);
  void SayUnwritten(const absl::Status& status);

  const Options options_;
  const std::function<void(std::shared_ptr<Spool>)> use_;
  Names names_;
  ProcessExits exits_;
  SeriesTimes times_;
  std::map<Spool*, uint64_t> max_bytes_;
  std::map<std::string, Watched> watched_;                // by TableFile::key
  std::map<std::string, std::shared_ptr<Spool>> spools_;  // by folder
  std::vector<std::shared_ptr<Spool>> all_spools_;
  std::set<std::string> ended_;  // not to be looked at again, by the same keys
  std::set<std::string> table_folders_, said_, told_here_;
  std::set<std::string> elsewhere_;                                       // folders that other pushers have
  std::map<std::string, std::map<std::string, std::string>> process_of_;  // by folder and name of the file
  struct ByFiles {
    std::string out;
    ToldProcess told;
    int64_t newest_ns = 0;  // of its files
  };
  std::map<std::string, ByFiles> by_files_;      // processes out of sight that may write more files
  std::map<std::string, int64_t> noted_looked_;  // when noted folders were last changed, as they were looked into
  bool has_looked_ = false;
  Counts counts_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PUSH_COLLECTOR_H_
