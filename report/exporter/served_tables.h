// Whom one exporter serves: the tables of its output folder, found when they come, watched until their processes have ended.
//
// Told by inotify where a table gets its name; where nothing tells, by looking. One thread.
#ifndef HOLDFAST_REPORT_EXPORTER_SERVED_TABLES_H_
#define HOLDFAST_REPORT_EXPORTER_SERVED_TABLES_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "report/base/file_descriptor.h"
#include "report/base/time_budget.h"
#include "report/export/ended_files.h"
#include "report/export/output_folder.h"
#include "report/export/process_exporter.h"
#include "report/exporter/exporter.h"
#include "report/exporter/served_users.h"
#include "report/table/process_info.h"
#include "report/table/table_folder.h"
#include "report/table/tool_readers.h"
#include "report/triggers/limit_watch.h"
#include "report/triggers/trigger_watch.h"

namespace holdfast {

inline constexpr int64_t kTick = 100 * kMs;  // how often the words of live tables are read: nothing may tell (chroot)
inline constexpr int64_t kLookAround = kSecond;  // how often all processes and the folder are looked at

// So many periods come before the one that was asked for, each half as long as the next: of 60 s, snapshots after 3.75, 11, 26
// and 56 s. Not less than a second.
inline constexpr int kFirstSnapshots = 4;
// The same where every allocation is recorded: after 1.9, 5.6, 13, 28 and 58 s. Such runs are often short.
inline constexpr int kFirstOfExact = 5;

struct ServedTable {
  ServedTable(ProcessExporter of_table, uid_t its_user) : exporter(std::move(of_table)), user(its_user) {}

  ProcessExporter exporter;
  FileDescriptor process;  // pidfd; invalid where the process is out of reach
  int64_t added_ns = 0;
  int64_t next_snapshot = 0;
  int snapshots = 0;      // that were due so far
  bool is_exact = false;  // every allocation is recorded
  uint32_t requests_answered = 0;
  int64_t exit_answered = 0;   // when; 0 = it did not ask
  int64_t exit_moment_ns = 0;  // when it asked for a copy before its exit handlers; 0: it did not
  int failures = 0;
  uint32_t beat = 0;
  int64_t next_beat = 0;
  bool shared = false;    // in the sum of its program, which is still to be written
  bool gone = false;      // its process ended or runs another image
  bool finished = false;  // nothing more to do
  bool is_ended = false;  // its last profiles are written; only names may still be missing
  int64_t ended_ns = 0;
  bool is_completing = false;     // a child adds names to its files
  ReaderOfPipe reader;            // of the tool's output, perhaps
  int64_t complete_again_ns = 0;  // not before, as completing names takes long
  bool is_new = true;             // nobody has looked whether it wants to be pushed
  uid_t user;                     // the owner of the table
  bool became_another = false;
  TriggerWatch triggers{"", std::nullopt};
  std::shared_ptr<LimitedGroup> group;  // of memory; null: not to be seen
  std::string near_limit;               // a snapshot is due: why; "": none is

  const TableFile& table() const { return exporter.table(); }
  // Whether the process ended, as far as it can be reached.
  bool HasEnded() const;
  int64_t BeatPeriod() const;
  int64_t SnapshotPeriod() const;  // until the next one
  // A snapshot besides those of each interval.
  bool IsExtraDue(int64_t now_ns) const { return !near_limit.empty() || triggers.IsDue(now_ns); }
};

class ServedTables {
 public:
  // `folder`: the tables. `options` and `ended` must live as long as this.
  ServedTables(const ExporterOptions& options, FileDescriptor folder, EndedFiles* ended);

  // Looks for new tables. `output`: null while there is none.
  void Find(const OutputFolder* output);
  // Which processes are gone.
  void LookAtProcesses();
  void DropFinished();
  // Removes the file.
  void RemoveTable(const ServedTable& served) const;

  // Until something happens to the folder or to a process, a snapshot is due, or the next tick.
  // Meanwhile it looks at what is in use, and at what else asks for a snapshot.
  void Wait();
  // True when something happened to a table of this user; others may be busy in the same folder.
  bool TakeNotifications() const;
  bool is_notified() const { return events_.valid(); }

  // Programs of root's that execute others as another user: `served` is gone, but its process lives. What it became is
  // waited for.
  void AwaitSuccessor(ServedTable& served, const OutputFolder* output);
  // Whether there is, or may come, anything to do: a table, a program that became another, the parent.
  bool MayHaveWork() const;

  ServedUsers& users() { return users_; }
  const FileDescriptor& folder() const { return folder_; }
  bool empty() const { return served_.empty(); }
  const std::vector<std::unique_ptr<ServedTable>>& all() const { return served_; }

 private:
  std::vector<TableOwner> RootsProcesses() const;
  bool WasRenamed(const TableFile& table, uid_t user);
  bool TakesAnother(uid_t user) const;
  bool IsServedElsewhere(const std::string& name) const;
  void Add(TableFile table, uid_t user);
  bool ParentLives() const;
  int64_t LookEvery() const;
  // True: a snapshot is due.
  bool LookAtAll();
  void LookAtLimits(int64_t now_ns);

  const ExporterOptions& options_;
  FileDescriptor folder_;
  EndedFiles* ended_;
  FileDescriptor events_;  // inotify; invalid: nothing tells
  FileDescriptor parent_;
  const std::shared_ptr<OpenFiles> open_files_ = std::make_shared<OpenFiles>();  // of all modules
  LimitWatch limits_;
  int64_t next_limit_ns_ = 0;
  ServedUsers users_;
  const std::string own_prefix_;
  std::vector<std::unique_ptr<ServedTable>> served_;
  std::vector<FileDescriptor> became_others_;
  std::set<std::string> known_;  // the tables that are there and were looked at: served, finished, another folder's
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORTER_SERVED_TABLES_H_
