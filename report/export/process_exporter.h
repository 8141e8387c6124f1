// One table and the profiles that are made of it: the snapshots of one process, of every kind.
#ifndef HOLDFAST_REPORT_EXPORT_PROCESS_EXPORTER_H_
#define HOLDFAST_REPORT_EXPORT_PROCESS_EXPORTER_H_

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/base/time_budget.h"
#include "report/export/ended_files.h"
#include "report/export/loaded_modules.h"
#include "report/export/output_folder.h"
#include "report/export/profile_builder.h"
#include "report/export/program_files.h"
#include "report/export/running_program.h"
#include "report/peak/peak_watch.h"
#include "report/symbolize/module_symbolizer.h"
#include "report/table/table_folder.h"

namespace holdfast {

// Why a snapshot is taken, and how much may be done for it.
struct SnapshotOccasion {
  std::vector<std::string> reasons;  // Snapshot::reasons; none: its time has come, or somebody asked
  // One of those that come at each interval, which count as unchanged where they change nothing.
  bool is_regular = false;
  // The process has ended: no later snapshot will show what did not change.
  bool is_last = false;
  // Little memory is left: the heap alone, without names. `holdfast symbolize` adds them, and so does the next one.
  bool lean = false;
  // The kernel may kill who builds it, for want of memory: so a child does, which calls this first. Null: no child.
  void (*begin_child)() = nullptr;
};

class ProcessExporter {
 public:
  static constexpr std::chrono::milliseconds kLinesTime{400};  // of all kinds of one snapshot

  explicit ProcessExporter(TableFile table, std::optional<uint64_t> max_disk_bytes = std::nullopt)
      : table_(std::move(table)), max_disk_bytes_(max_disk_bytes) {}

  const TableFile& table() const { return table_; }
  void Renamed(const std::string& name) { table_.Renamed(name); }

  // Writes a profile of each kind that has something new since its last one. All kinds of one snapshot share a seq.
  // Returns the files that were written; on failure the next call writes what is missing. Old snapshots of this process
  // are thinned by its own `keep`, the folder by its `max_disk_bytes`; both and failed writes are told in the comments
  // of the next file.
  // `max_disk_bytes` of the folder is the user's word to who exports; the table's own is taken where that said nothing.
  // As root, a table whose program is another user is read by a child with that user's rights, and what that hands over is
  // written here, as a profile of the program that the table named when it was found.
  // Source lines are looked up until `lines_by`: the program may wait for its last files, for 2 s in all. What is not
  // in time is in the next snapshot, or is left to `holdfast symbolize`.
  absl::StatusOr<std::vector<ProfileName>> Export(const OutputFolder& output, ModuleSymbolizer& symbolizer,
                                                  const Deadline& lines_by = Deadline::In(kLinesTime),
                                                  const SnapshotOccasion& occasion = {});
  // Copies the table of a target that waits before its exit handlers, and lets the target go on. Export writes the copy,
  // ahead of the newest state, once the handlers have freed anything.
  void CopyBeforeExit();
  // Whether a copy waits to be written.
  bool has_copy() const { return before_exit_.has_value(); }
  // Of a process that has ended, and of which no file was written: adds its only profiles to those of its program.
  absl::Status Share(const OutputFolder& output, ModuleSymbolizer& symbolizer, ProgramFiles* shared);
  bool has_files() const;
  // Whether it wrote files without all their names and lines, for want of time or memory.
  bool HasIncompleteFiles() const;
  // Adds what they lack, however long that takes: for a child of the exporter. The newest file first.
  void CompleteFiles(const OutputFolder& output, ModuleSymbolizer& symbolizer);
  // That was tried: the files stay as they are.
  void FilesAreCompleted();
  // Whether its records differ from those of the last export, at its orderly end: most programs do nothing behind that.
  bool HasNewsSinceItsEnd() const;
  // Told in the next file: a snapshot that was due was not made, for want of memory.
  void PutOff() { ++put_off_; }
  // Its heap's highest state, to be looked for often while it runs.
  PeakWatch& peak() { return peak_; }
  // What also may go where the folder is full, of processes that have ended.
  void set_ended(EndedFiles* ended) { ended_ = ended; }
  // Holds the files of its modules open, together with those of other processes.
  void set_open_files(std::shared_ptr<OpenFiles> open) { open_files_ = std::move(open); }
  // Opens the files of the modules that are new in the table. False: none is.
  bool LookAtModules() { return modules_.Look(table_, open_files_.get()); }
  // The process has ended, and no more files come: all of its may go when others need the room.
  void HandOver(EndedFiles* ended) const;

 private:
  struct HandedOver;
  absl::StatusOr<std::vector<ProfileName>> Write(Snapshot snapshot, const OutputFolder& output,
                                                 ModuleSymbolizer& symbolizer, const Deadline& lines_by,
                                                 const SnapshotOccasion& occasion);
  absl::StatusOr<std::vector<ProfileName>> ExportHere(const OutputFolder& output, ModuleSymbolizer& symbolizer,
                                                      const Deadline& lines_by, const SnapshotOccasion& occasion);
  // `rights`: with which the child reads the table; none: with ours.
  absl::StatusOr<std::vector<ProfileName>> ExportInChild(const std::optional<TableFile::Rights>& rights,
                                                         const OutputFolder& output, ModuleSymbolizer& symbolizer,
                                                         const Deadline& lines_by, const SnapshotOccasion& occasion);
  // First of this process, never the newest of a kind; then of processes of `user` that have ended.
  void Shrink(const OutputFolder& output, uid_t user);

  struct Written {
    ProfileName name;
    int64_t time_ns = 0;
    std::vector<int64_t> totals;  // of each metric; only of files that were adopted
    uid_t user = geteuid();       // who the program was when this was read
    bool is_incomplete = false;   // there was no time, or no memory, for all names and lines
  };
  struct Kind {
    uint64_t fingerprint = 0;    // of the rows that the last file was made of
    std::vector<Written> files;  // oldest first
    uint64_t unchanged = 0;      // snapshots since the newest file that were not written, as nothing had changed
  };

  void AdoptEarlierFiles(const OutputFolder& output, const Snapshot& snapshot);
  // Whether an earlier exporter's last file of this kind holds just this: every counter only grows, so equal totals are
  // equal profiles.
  static bool WasWrittenBefore(const Kind& kind, const Profile& profile);
  // Whether the last file of this kind holds a state in which more was in use.
  static bool WasHigherBefore(const Kind& kind, const Profile& profile);
  static void TakeEarlierNames(const OutputFolder& output, const Kind& kind, Profile* profile);
  void KeepPeak(Snapshot* snapshot);
  // The account of resident memory, where it is cheap enough by now.
  void AddAccount(const Snapshot& snapshot, Profile* profile);
  void Thin(const OutputFolder& output, uint32_t keep, int index);

  TableFile table_;
  PeakWatch peak_;
  RunningProgram program_;
  std::array<Kind, kFileKinds> kinds_;
  bool peak_is_told_ = false;
  int64_t next_account_ns_ = 0;
  bool adopted_ = false;
  std::optional<Snapshot> before_exit_;
  std::optional<uint64_t> exported_records_;  // at the orderly end, when nothing waited
  uint64_t failed_writes_ = 0, removed_snapshots_ = 0, put_off_ = 0;
  std::optional<uint64_t> max_disk_bytes_;
  uint64_t tables_max_disk_bytes_ = 0;  // as the table has it
  uint32_t keep_ = 0;
  EndedFiles* ended_ = nullptr;
  std::shared_ptr<OpenFiles> open_files_ = std::make_shared<OpenFiles>();
  LoadedModules modules_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORT_PROCESS_EXPORTER_H_
