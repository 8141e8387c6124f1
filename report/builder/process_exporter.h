// Makes profiles from one table: the snapshots of one process, of every kind.
#ifndef HOLDFAST_REPORT_BUILDER_PROCESS_EXPORTER_H_
#define HOLDFAST_REPORT_BUILDER_PROCESS_EXPORTER_H_

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/base/time_budget.h"
#include "report/builder/ended_files.h"
#include "report/builder/file_kinds.h"
#include "report/builder/loaded_modules.h"
#include "report/builder/output_folder.h"
#include "report/builder/program_files.h"
#include "report/names/symbolize/module_symbolizer.h"
#include "report/observe/observe.h"
#include "report/observe/peak/heap_course.h"
#include "report/observe/peak/peak_watch.h"
#include "report/observe/table/table_folder.h"

namespace holdfast {

// Why a snapshot is taken, and how much work it may cause.
struct SnapshotOccasion {
  std::vector<std::string> reasons;  // ProcessState::reasons; empty: regular, or on request
  // A regular snapshot, which counts as unchanged if nothing changed.
  bool is_regular = false;
  // The process has ended: no later snapshot will show that something did not change.
  bool is_last = false;
  // Little memory is left: write only the heap, without names. `holdfast symbolize` adds them, and so does the next
  // snapshot.
  bool lean = false;
  // The kernel may kill the builder because memory is low: so a child builds the snapshot and calls this first. Null:
  // no child.
  void (*begin_child)() = nullptr;
};

class ProcessExporter {
 public:
  static constexpr std::chrono::milliseconds kLinesTime{400};  // for all kinds of one snapshot

  explicit ProcessExporter(TableFile table, std::optional<uint64_t> max_disk_bytes = std::nullopt)
      : table_(std::move(table)), max_disk_bytes_(max_disk_bytes) {}

  const TableFile& table() const { return table_; }
  void Renamed(const std::string& name) { table_.Renamed(name); }

  // Writes a profile of each kind that changed since its last one. All kinds of one snapshot share a seq. Returns the
  // files written; after a failure the next call writes what is missing. Thins old snapshots of this process by the
  // table's `keep`, and the folder by `max_disk_bytes`; the next file's comments report removed files and failed
  // writes.
  // `max_disk_bytes` of the exporter's command line has precedence over the table's.
  // If we are root and the program is another user, a child with that user's rights reads the table. Its result is
  // written here, as a profile of the program that the table named when it was found.
  // Source lines are looked up until `lines_by`: the program may wait for its last files, for 2 s in total. The rest is
  // in the next snapshot, or left to `holdfast symbolize`.
  absl::StatusOr<std::vector<ProfileName>> Export(const OutputFolder& output, ModuleSymbolizer& symbolizer,
                                                  const Deadline& lines_by = Deadline::In(kLinesTime),
                                                  const SnapshotOccasion& occasion = {});
  // The same, with the rights that ReadWith returned just now.
  absl::StatusOr<std::vector<ProfileName>> ExportWith(const std::optional<TableFile::Rights>& rights,
                                                      const OutputFolder& output, ModuleSymbolizer& symbolizer,
                                                      const Deadline& lines_by, const SnapshotOccasion& occasion);
  // Copies the table of a process that waits before its exit handlers, and releases the process. If the handlers have
  // freed anything, Export writes the copy before the newest state.
  void CopyBeforeExit();
  // Whether a copy is waiting to be written.
  bool has_copy() const { return before_exit_.has_value(); }
  // For an ended process without a file: adds its only profiles to those of its program.
  absl::Status Share(const OutputFolder& output, ModuleSymbolizer& symbolizer, ProgramFiles* shared);
  bool has_files() const;
  // Whether files lack names or lines, because time or memory was short.
  bool HasIncompleteFiles() const;
  // Completes these files, newest first, however long that takes: for a child of the exporter.
  void CompleteFiles(const OutputFolder& output, ModuleSymbolizer& symbolizer);
  // Records that completion was tried: the files are final.
  void FilesAreCompleted();
  // Whether the records differ from those of the last export, which was at its normal end. Most programs do nothing
  // after that.
  bool HasNewsSinceItsEnd() const;
  // Counts a snapshot that was due but skipped because memory was low; the next file reports it.
  void PutOff() { ++put_off_; }
  // Watches the heap's peak; call often while the program runs.
  PeakWatch& peak() { return peak_; }
  // Looks at all threads if the table requests it; call often while the program runs.
  void LookAtThreads();
  // When the next look is due: CLOCK_MONOTONIC; the largest value: never.
  int64_t next_thread_look_ns() const;
  // Watches the course of a heap with every allocation recorded; call often while the program runs.
  void LookAtCourse();
  const HeapCourse& course() const { return course_; }
  // Files of exited processes that may be deleted when the folder is over quota.
  void set_ended(EndedFiles* ended) { ended_ = ended; }
  // Adds what holds live blocks to each snapshot (ProcessState::labelled_blocks). The heap profile is then always written.
  void set_label_blocks(std::function<void(ProcessState*)> label) { label_blocks_ = std::move(label); }
  // Keeps files of modules open, shared with other processes.
  void set_open_files(std::shared_ptr<OpenFiles> open) { open_files_ = std::move(open); }
  // Opens the files of modules that are new in the table. Returns false if there are none.
  bool LookAtModules() {
    if (open_files_ == nullptr) open_files_ = std::make_shared<OpenFiles>();
    return modules_.Look(table_, open_files_.get());
  }
  // The process has ended, and no more files will come: all its files may be removed when others need space.
  void HandOver(EndedFiles* ended) const;

 private:
  struct HandedOver;
  absl::StatusOr<std::vector<ProfileName>> Write(TableSnapshot snapshot, const OutputFolder& output,
                                                 ModuleSymbolizer& symbolizer, const Deadline& lines_by,
                                                 const SnapshotOccasion& occasion);
  absl::StatusOr<std::vector<ProfileName>> ExportHere(const OutputFolder& output, ModuleSymbolizer& symbolizer,
                                                      const Deadline& lines_by, const SnapshotOccasion& occasion);
  // `rights`: the rights with which the child reads the table; none: our own.
  absl::StatusOr<std::vector<ProfileName>> ExportInChild(const std::optional<TableFile::Rights>& rights,
                                                         const OutputFolder& output, ModuleSymbolizer& symbolizer,
                                                         const Deadline& lines_by, const SnapshotOccasion& occasion);
  // Removes files of this process first, except the newest of each kind; then those of ended processes of `user`.
  void Shrink(const OutputFolder& output, uid_t user);

  struct Written {
    ProfileName name;
    int64_t time_ns = 0;
    std::vector<int64_t> totals;  // of each metric; only for adopted files
    uid_t user = geteuid();       // the program's user when this was read
    bool is_incomplete = false;   // lacks names or lines, because time or memory was short
  };
  struct Kind {
    uint64_t fingerprint = 0;    // of the rows in the last file
    uint64_t resident = 0;       // bytes of the whole process, in the last file
    std::vector<Written> files;  // oldest first
    uint64_t unchanged = 0;      // snapshots since the newest file that were not written because nothing changed
  };

  void AdoptEarlierFiles(const OutputFolder& output, const TableSnapshot& snapshot);
  // Returns whether an earlier exporter's last file of this kind is equal: every counter only grows, so equal totals
  // mean equal profiles.
  static bool WasWrittenBefore(const Kind& kind, const Profile& profile);
  // Returns whether the last file of this kind has a state with more in use.
  static bool WasHigherBefore(const Kind& kind, const Profile& profile);
  static void TakeEarlierNames(const OutputFolder& output, const Kind& kind, Profile* profile);
  void KeepPeak(ProcessState* state);
  bool NeedsCourse() const;
  // Adds the account of resident memory, if its cost is acceptable now.
  void AddAccount(ProcessState* state, Profile* profile);
  void Thin(const OutputFolder& output, uint32_t keep, int index);

  TableFile table_;
  PeakWatch peak_;
  HeapCourse course_;
  std::unique_ptr<ThreadLooks> thread_looks_;  // null: not requested
  int64_t next_wall_wish_ns_ = 0;              // when the table is asked again whether looks are requested
  ProcessObserver observer_;
  std::array<Kind, kFileKindCount> kinds_;  // as kFileKinds
  int64_t next_account_ns_ = 0;
  bool adopted_ = false, is_child_ = false;
  std::optional<TableSnapshot> before_exit_;
  std::optional<uint64_t> exported_records_;  // at the normal end, with no ongoing wait
  uint64_t failed_writes_ = 0, removed_snapshots_ = 0, put_off_ = 0;
  std::optional<uint64_t> max_disk_bytes_;
  uint64_t tables_max_disk_bytes_ = 0;  // from the table
  uint32_t keep_ = 0;
  EndedFiles* ended_ = nullptr;
  std::function<void(ProcessState*)> label_blocks_;
  std::shared_ptr<OpenFiles> open_files_;  // null: of this process alone, and not needed yet
  LoadedModules modules_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_PROCESS_EXPORTER_H_
