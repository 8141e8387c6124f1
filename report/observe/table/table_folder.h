// Finds, opens, reads and removes table files. sampler/contract/layout.h describes their contents.
//
// A table is another program's file in a folder that others may write to. So it is opened without following links, and
// must be a regular file of our own user (also if we are root). It is only read by copying, never through a mapping,
// because truncation would then cause SIGBUS.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_TABLE_FOLDER_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_TABLE_FOLDER_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/snapshot.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// The words for communication between process and exporter.
struct ControlWords {
  uint32_t exit_request = 0, exported = 0, snapshot_request = 0, snapshot_done = 0;
  ExitMoment exit_moment = ExitMoment::kNone;
};

class TableFile {
 public:
  // `name`: the file's name in `folder`. Errors: NotFound if the file is gone, PermissionDenied if it belongs to
  // another user, Unavailable while it is being made.
  static absl::StatusOr<TableFile> Open(const FileDescriptor& folder, const std::string& name, uid_t user = geteuid());

  // For root: the rights with which to read the records if root's would be too many. The program is now another user
  // and may be hostile. Nothing: read with this user's own rights.
  struct Rights {
    uid_t user;
    gid_t group;
  };
  std::optional<Rights> ReadWith() const;
  // The file was renamed because its program became another user.
  void Renamed(const std::string& name);

  const std::string& name() const { return name_; }
  const TableOwner& owner() const { return owner_; }
  const std::string& out() const { return out_; }
  // The folder of that path, as the program sees it. If unknown, OutIdHere returns the folder as we see it.
  FolderId out_id() const { return out_id_; }
  FolderId OutIdHere() const;
  const std::string& program() const { return program_; }
  bool merge() const { return merge_; }
  bool peak() const { return peak_; }  // requested
  // Additional conditions for a snapshot, set by the program (sampler/contract/triggers.h); "": none.
  const std::string& snapshot_when() const { return snapshot_when_; }
  uint64_t bytes() const;  // memory used by the file
  uint64_t snapshot_every_ns() const { return snapshot_every_ns_; }
  // Identifies this file among all others, whatever path leads to it. Each container's /dev/shm numbers its inodes from
  // the same start.
  std::string key() const;
  bool IsSameFile(const TableFile& other) const;
  uid_t user() const;  // the file's current owner
  int descriptor() const { return file_.get(); }
  int64_t modified_ns() const;  // of the file, wall clock

  // Returns whether the process that made the table still runs the same image. Also checks whether anybody maps the
  // file: nobody does once the process has ended or executed another program. This works even for a process in another
  // container, and if addresses do not reveal an exec. A forked child may keep its parent's table mapped.
  Liveness liveness() const;
  // The same from what FindProcess and ReadProcStat returned just now.
  Liveness liveness(std::optional<pid_t> pid, const std::optional<ProcStat>& stat) const;

  absl::StatusOr<ControlWords> ReadWords() const;
  absl::StatusOr<TableSnapshot> TakeSnapshot() const;
  // Returns the hash of all records, as in TableSnapshot::records_hash: while it is unchanged, there is nothing new.
  // Nothing: the table cannot be read.
  std::optional<uint64_t> RecordsHash() const;
  // Returns the modules recorded after the one at `*newest` (0: all), newest first. Sets `*newest` for the next call,
  // which costs one pread if nothing was recorded.
  std::vector<ModuleInfo> ModulesSince(uint32_t* newest) const;
  // Returns the current owner of a slot of ongoing waits. It equals OngoingWaitInfo::owner as long as it is the same
  // wait.
  uint64_t OngoingOwnerAt(uint64_t place) const;
  // Returns the ongoing waits now: see ReadOngoingNow.
  std::vector<OngoingWaitInfo> OngoingNow() const;

  // The last profile is written (or cannot be): wakes a process that waits for it at exit.
  void AnswerExit() const;
  // The table is copied: releases a process that waits before its exit handlers. Returns false if the process had already
  // continued, so that the copy may show the state after the handlers.
  bool AnswerExitMoment() const;
  // Whether the target waits at its end for a leak check.
  bool AwaitsLeakCheck() const;
  // kBegun: it must wait longer. kDone: releases it.
  void AnswerLeakCheck(LeakCheckState state) const;
  void AnswerSnapshot(uint32_t request) const;
  void SetExporterPid(int32_t pid) const;
  void SetBeat(uint32_t beat) const;
  // Sets whether the exporter checks which live blocks are resident. Returns false if the table could not be written.
  bool SetResident(bool wanted) const;
  bool WantsResident() const;
  // The same for the kind `wall`, for which the exporter looks at all threads.
  bool SetWall(bool wanted) const;
  bool WantsWall() const;  // false after a detach
  // When the process executed this program, by our CLOCK_MONOTONIC. Nothing: not known, as after an attach.
  std::optional<int64_t> ExecutedAt() const;
  // The process ends, or the library was detached: the next snapshot may be the last one.
  bool RecordsNoMore() const;
  // Returns whether the table's process is a subreaper.
  bool TakesOrphans() const;

  // ---- Requests of a user, from the tool ----

  // Asks the table's exporter for a snapshot now. Returns the number that `snapshot_done` reaches when the snapshot is
  // written.
  absl::StatusOr<uint32_t> RequestSnapshot() const;
  // Sets the interval for the heap, or for locks, and so for the profiles in `kinds` (bits of ProfileKind). Returns
  // true if the interval changed. ResourceExhausted: the table has no room for another change.
  enum class IntervalOf : uint8_t { kHeap, kLocks, kCpu };
  absl::StatusOr<bool> ChangeInterval(IntervalOf of, uint64_t interval, uint32_t kinds) const;

 private:
  void WriteWord(size_t offset, uint32_t value) const;
  void WriteWordAndWake(size_t offset, uint32_t value) const;
  // Returns when the process ended, by the wall clock; now, if unknown.
  int64_t EndedAt() const;
  absl::StatusOr<FileDescriptor> OpenForWriting() const;

  FileDescriptor file_;  // read only: a descriptor open for writing would look like a mapping
  std::string name_, out_, program_, snapshot_when_;
  TableOwner owner_;
  FolderId out_id_{};
  bool merge_ = false, peak_ = false;
  uint64_t snapshot_every_ns_ = 0;
};

// A table as the commands see it.
struct FoundTable {
  std::string name;
  std::string out;
  FolderId out_id{};
  std::string program;
  TableOwner owner;
  Liveness liveness = Liveness::kUnknown;
  uid_t user = geteuid();
};

// Returns the default folders for tables: /dev/shm and XDG_RUNTIME_DIR, if they exist.
std::vector<std::string> DefaultTableFolders();

// Returns the names of this user's table files in `folder`, including unreadable ones, or of our other files by suffix.
// A program in a user namespace may have used its user id there in the name.
std::vector<std::string> ListTableNames(const FileDescriptor& folder, const char* suffix = kTableSuffix,
                                        uid_t user = geteuid());
// Whether a table of a small process is among these names.
bool AnySmall(const std::vector<std::string>& names);
// Gives the tables of small processes that have ended without removing them, or are in `due`, their final names
// (sampler/process/small_process.h). Returns the names of the others.
// `suffix`: of the names to look at.
std::set<std::string> ShowSmallTables(const FileDescriptor& folder, uid_t user = geteuid(),
                                      const std::set<std::string>& due = {}, const char* suffix = kSmallSuffix);
// Returns all names that begin like our files', whoever made them.
std::vector<std::string> NamesOfOurs(const FileDescriptor& folder);
// Lists readable tables. Returns none for an unreadable folder.
std::vector<FoundTable> ListTables(const std::string& folder);
// Returns the other users with tables in the folder, from the file names. Returns nothing unless we are root, because
// only root can read them.
std::vector<uid_t> OtherUsersOfTables(const FileDescriptor& folder);
// Like ListTables, but for the tables of all users that we may open. For other users only the header is read, and it is
// untrusted.
std::vector<FoundTable> ListTablesOfAll(const std::string& folder);

// The folder's id as in a table's header; unknown if there is no such folder.
FolderId FolderIdOf(const std::string& path);

// Returns whether any process has this file open or mapped for writing; true if this cannot be determined. `file` must
// be open for reading only.
bool SomebodyWrites(const FileDescriptor& file);

absl::StatusOr<FileDescriptor> OpenFolder(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_TABLE_FOLDER_H_
