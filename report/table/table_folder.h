// Table files: finding, opening, reading and removing them. See sampler/contract/layout.h for what they hold.
//
// A table is another program's file in a folder that others may write to: it is opened without following links, must be
// a regular file of our own user (also when we are root), and is only ever read by copying, never through a mapping
// that a truncation could turn into SIGBUS.
#ifndef HOLDFAST_REPORT_TABLE_TABLE_FOLDER_H_
#define HOLDFAST_REPORT_TABLE_TABLE_FOLDER_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"
#include "report/table/process_info.h"
#include "report/table/snapshot.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// The words through which target and exporter talk.
struct ControlWords {
  uint32_t exit_request = 0, exported = 0, snapshot_request = 0, snapshot_done = 0;
  ExitMoment exit_moment = ExitMoment::kNone;
};

class TableFile {
 public:
  // `name` is the file's name in `folder`. NotFound when it is gone, PermissionDenied when it is not that user's,
  // Unavailable while it is being made.
  static absl::StatusOr<TableFile> Open(const FileDescriptor& folder, const std::string& name, uid_t user = geteuid());

  // As root: whose rights its records may be read with, where root's would be too many: the program is another user now,
  // and may be hostile to root. Nothing: this user's own.
  struct Rights {
    uid_t user;
    gid_t group;
  };
  std::optional<Rights> ReadWith() const;
  // It has another name by now: its program became another user.
  void Renamed(const std::string& name);

  const std::string& name() const { return name_; }
  const TableOwner& owner() const { return owner_; }
  const std::string& out() const { return out_; }
  // The folder of that path where the program runs. Not known: the one that is there by our own eyes.
  FolderId out_id() const { return out_id_; }
  FolderId OutIdHere() const;
  const std::string& program() const { return program_; }
  bool merge() const { return merge_; }
  bool peak() const { return peak_; }  // is wanted
  // Conditions under which a snapshot is taken besides (sampler/contract/triggers.h); "": none. The program's word.
  const std::string& snapshot_when() const { return snapshot_when_; }
  uint64_t bytes() const;  // of memory that the file takes
  uint64_t snapshot_every_ns() const { return snapshot_every_ns_; }
  // Tells this file from every other, whatever path leads to it. Each container's /dev/shm counts its inodes from the same number.
  std::string key() const;
  bool IsSameFile(const TableFile& other) const;
  uid_t user() const;  // whose the file is now
  int descriptor() const { return file_.get(); }
  int64_t modified_ns() const;  // of the file, wall clock

  // Whether the process that made it still runs as that image. Besides /proc it looks whether anybody still maps the
  // file: nobody does once the process has ended or executed another program, also where the process cannot be seen (in
  // another container) and where exec cannot be told from addresses. A forked child may hold on to its parent's table.
  Liveness liveness() const;

  absl::StatusOr<ControlWords> ReadWords() const;
  absl::StatusOr<Snapshot> TakeSnapshot() const;
  // Of all its records, as Snapshot::records_hash: while that stays the same, nothing is new. Nothing: it cannot be read.
  std::optional<uint64_t> RecordsHash() const;
  // The modules recorded after the one at `*newest` (0: all), the newest first. Sets `*newest` for the next call, which
  // costs one pread while nothing is recorded.
  std::vector<ModuleInfo> ModulesSince(uint32_t* newest) const;
  // Whose slot that is now, of those that hold the waits that go on: OngoingWaitInfo::owner as long as it is the same wait.
  uint64_t OngoingOwnerAt(uint64_t place) const;

  // The last profile is in place (or cannot be had): wakes a target that waits for it at its end.
  void AnswerExit() const;
  // The table is copied: lets a target go on that waits before its exit handlers. False: it went on before, so the copy may
  // show what the handlers left.
  bool AnswerExitMoment() const;
  void AnswerSnapshot(uint32_t request) const;
  void SetExporterPid(int32_t pid) const;
  void SetBeat(uint32_t beat) const;
  // Whether the exporter is to look which live blocks are resident. False: it could not be written.
  bool SetResident(bool wanted) const;
  bool WantsResident() const;
  // Whether its process is a subreaper.
  bool TakesOrphans() const;

  // ---- Wishes of a user, from the tool ----

  // Asks whoever exports this table for a snapshot now: the number that `snapshot_done` reaches once it is written.
  absl::StatusOr<uint32_t> RequestSnapshot() const;
  // Makes `interval` the one in force for the heap, or for locks, and so for the profiles in `kinds` (bits of
  // ProfileKind). True: it is another than before. ResourceExhausted: it was changed so often that the table has no room
  // for another change.
  absl::StatusOr<bool> ChangeInterval(bool heap, uint64_t interval, uint32_t kinds) const;

 private:
  void WriteWord(size_t offset, uint32_t value) const;
  void WriteWordAndWake(size_t offset, uint32_t value) const;
  // By the wall clock, when its process ended; now, where nothing tells.
  int64_t EndedAt() const;
  absl::StatusOr<FileDescriptor> OpenForWriting() const;

  FileDescriptor file_;  // for reading only: one open for writing would look like a mapping
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

// Where tables lie when nobody says otherwise: /dev/shm and XDG_RUNTIME_DIR, as far as they are there.
std::vector<std::string> DefaultTableFolders();

// Names of this user's table files in `folder` (also those that cannot be read), or of others of ours by their suffix. A
// program in a user namespace may have named its file after the id that it has in there.
std::vector<std::string> ListTableNames(const FileDescriptor& folder, const char* suffix = kTableSuffix,
                                        uid_t user = geteuid());
// The readable ones. An unreadable folder holds none.
std::vector<FoundTable> ListTables(const std::string& folder);
// The other users that have tables there, by the names of these. Nothing unless we are root, who alone can read them.
std::vector<uid_t> OtherUsersOfTables(const FileDescriptor& folder);
// As ListTables, with the tables of all users as far as we may open them. Of the others' only what stands at their heads is
// read, and it is their word.
std::vector<FoundTable> ListTablesOfAll(const std::string& folder);

// As in a table's header; not known where there is no such folder.
FolderId FolderIdOf(const std::string& path);

// Whether anybody has this file, which is open here for reading only, open or mapped for writing; also where that cannot be known.
bool SomebodyWrites(const FileDescriptor& file);

absl::StatusOr<FileDescriptor> OpenFolder(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_TABLE_FOLDER_H_
