// The tables that one exporter serves: finds the tables of its output folder as they appear, and watches them until
// their processes have ended.
//
// Notices events by inotify. Tables of other output folders wake no exporter to work:
//   the lock file     touched by each process that has made a table of this output folder (AnnounceTable)
//   root's marks      opened by processes of other users, who may not touch them
//   the folder        only root's exporter, which serves users whom it discovers there
//   each served table touched by its process, or by a tool, when a control word changes
// Every second the folder is listed as well, for processes that cannot announce themselves. One thread.
#ifndef HOLDFAST_REPORT_DAEMON_SERVED_TABLES_H_
#define HOLDFAST_REPORT_DAEMON_SERVED_TABLES_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/base/file_descriptor.h"
#include "report/base/time_budget.h"
#include "report/builder/ended_files.h"
#include "report/builder/output_folder.h"
#include "report/builder/process_exporter.h"
#include "report/daemon/exporter.h"
#include "report/daemon/limit_watch.h"
#include "report/daemon/served_users.h"
#include "report/daemon/trigger_watch.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/table_folder.h"
#include "report/observe/table/tool_readers.h"

namespace holdfast {

// How often the words of live tables are read, in case there are no notifications (chroot).
inline constexpr int64_t kTick = 100 * kMs;
inline constexpr int64_t kEarlyTick = 25 * kMs;  // a wake this long before a tick is one: each wake costs 40 us
inline constexpr int64_t kLookAround = kSecond;  // how often all processes and the folder are checked

// The tables that a look at the folder may find.
enum class TableLook : uint8_t {
  kAnnounced,  // those of served users, under their own names
  kAll,        // also those of processes that cannot announce themselves
};

// The requested period is preceded by this many shorter ones, each half as long as the next: for 60 s, snapshots after
// 3.75, 11, 26 and 56 s. At least a second each.
inline constexpr int kFirstSnapshots = 4;
// The same if every allocation is recorded: after 1.9, 5.6, 13, 28 and 58 s. Such runs are often short.
inline constexpr int kFirstOfExact = 5;

struct ServedTable {
  ServedTable(ProcessExporter of_table, uid_t its_user) : exporter(std::move(of_table)), user(its_user) {}

  ProcessExporter exporter;
  FileDescriptor process;  // pidfd; invalid if the process is not visible
  int64_t added_ns = 0;
  int64_t next_snapshot = 0;
  int snapshots = 0;      // number of snapshots that were due so far
  bool is_exact = false;  // every allocation is recorded
  uint32_t requests_answered = 0;
  int64_t exit_answered = 0;   // when it was answered; 0: it did not ask
  int64_t exit_moment_ns = 0;  // when it asked for a copy before its exit handlers; 0: it did not
  int failures = 0;
  uint32_t beat = 0;
  int64_t next_beat = 0;
  bool requests_holders = false;  // HOLDFAST_SNAPSHOT_HOLDERS, and blocks are not labelled yet
  bool shared = false;            // merged into its program's sum, which is not yet written
  bool gone = false;              // its process has ended or runs another image
  bool has_ended = false;         // known of its process
  bool touched = false;           // an event happened to the table or its process
  int watch = -1;                 // of the table, in inotify; -1: none
  bool finished = false;          // nothing more to do
  bool is_ended = false;          // its last profiles are written; only names may be missing
  int64_t ended_ns = 0;
  bool is_completing = false;     // a child is adding names to its files
  ReaderOfPipe reader;            // in case the process reads the tool's output
  int64_t complete_again_ns = 0;  // not earlier, because completing names takes long
  bool is_new = true;             // its environment was not read yet
  uid_t user;                     // the table's owner
  bool became_another = false;
  TriggerWatch triggers{"", std::nullopt};
  std::shared_ptr<LimitedGroup> group;  // the memory control group; null: not visible
  std::string near_limit;               // the reason for a due snapshot; "": none

  const TableFile& table() const { return exporter.table(); }
  // Returns whether the process has ended, if it is visible.
  bool HasEnded();
  int64_t BeatPeriod() const;
  int64_t SnapshotPeriod() const;  // until the next snapshot
  // A snapshot in addition to the regular ones.
  bool IsExtraDue(int64_t now_ns) const { return !near_limit.empty() || triggers.IsDue(now_ns); }
  // Whether there is work before the next tick.
  bool NeedsAttention(int64_t now_ns) const {
    return is_new || touched || gone || now_ns >= next_beat || (next_snapshot != 0 && now_ns >= next_snapshot) ||
           IsExtraDue(now_ns);
  }
};

class ServedTables {
 public:
  // `folder`: the tables. `options` and `ended` must outlive this object.
  ServedTables(const ExporterOptions& options, FileDescriptor folder, EndedFiles* ended);

  // Looks for new tables. `output`: null if there is none yet.
  void Find(const OutputFolder* output, TableLook look = TableLook::kAll);
  // Watches the lock file, which must be locked by this process. Call before the first Find.
  void WatchLock(const std::string& path);
  // Whether tables were announced since the last call.
  bool TakeAnnouncements() { return std::exchange(announced_, false); }
  // For root: whether there are tables or marks of other users that the last call did not see. A process of another
  // user, started by one of root's, cannot announce its table.
  bool HasNewStrangers();
  // For root: whether such a table got its name since the last call. It is known to be a descendant's only while its
  // process lives.
  bool TakeStranger() { return std::exchange(stranger_named_, false); }
  // Finds processes that are gone.
  void LookAtProcesses();
  void DropFinished();
  // Removes the table's file.
  void RemoveTable(const ServedTable& served) const;

  // Waits until something happens to the folder or a process, a snapshot is due, or the next tick. Meanwhile checks
  // memory in use, and other reasons for a snapshot.
  void Wait();
  bool is_notified() const { return lock_watch_ >= 0; }

  // Handles root's programs that execute others as another user: `served` is gone, but its process lives. Waits for the
  // new program's table.
  void AwaitSuccessor(ServedTable& served, const OutputFolder* output);
  // Whether there is, or may come, work: a table, a program that became another, or the parent.
  bool MayHaveWork() const;

  ServedUsers& users() { return users_; }
  const FileDescriptor& folder() const { return folder_; }
  // Whether there is no table, and none of a small process that may soon have to be served.
  bool empty() const { return served_.empty() && small_.empty(); }
  const std::vector<std::unique_ptr<ServedTable>>& all() const { return served_; }

 private:
  std::vector<TableOwner> RootsProcesses() const;
  // Reads events. Returns whether any calls for work.
  bool TakeNotifications();
  bool WasRenamed(const TableFile& table, uid_t user);
  bool TakesAnother(uid_t user) const;
  bool IsOfAnotherFolder(const std::string& name) const;
  bool IsServedElsewhere(const std::string& name) const;
  void Add(TableFile table, uid_t user);
  bool ParentLives() const;
  int64_t LookEvery(int64_t now_ns) const;
  // Returns true if a snapshot is due.
  bool LookAtAll();
  void LookAtLimits(int64_t now_ns);

  const ExporterOptions& options_;
  FileDescriptor folder_;
  EndedFiles* ended_;
  FileDescriptor events_;  // inotify; invalid: no notifications
  int lock_watch_ = -1;
  std::set<int> announcing_;  // watches of the lock and of marks
  int folder_watch_ = -1;     // root's
  bool announced_ = false, stranger_named_ = false;
  std::unordered_map<int, ServedTable*> watched_;  // by watch
  int64_t folder_changed_ns_ = 0, listed_ns_ = 0;  // of HasNewStrangers, wall clock
  std::set<std::string> strangers_;
  FileDescriptor parent_;  // invalid: none, or a wait has seen its end
  const std::shared_ptr<OpenFiles> open_files_ = std::make_shared<OpenFiles>();  // of all modules
  LimitWatch limits_;
  int64_t next_limit_ns_ = 0;
  ServedUsers users_;
  const uid_t own_user_;
  const std::string own_prefix_, own_hash_;
  std::vector<std::unique_ptr<ServedTable>> served_;
  std::vector<FileDescriptor> became_others_;
  std::map<std::string, int64_t> small_;  // tables of small processes (ShowSmallTables), and when they were first seen
  std::set<std::string> known_;           // existing tables that were examined: served, finished, or of another folder
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_SERVED_TABLES_H_
