#include "report/daemon/exporter.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/proc_file.h"
#include "report/base/time_budget.h"
#include "report/builder/ended_files.h"
#include "report/builder/output_folder.h"
#include "report/builder/program_files.h"
#include "report/daemon/exporter_lock.h"
#include "report/daemon/push_companion.h"
#include "report/daemon/resident_memory.h"
#include "report/daemon/rest_delay.h"
#include "report/daemon/served_tables.h"
#include "report/daemon/served_users.h"
#include "report/daemon/snapshot_command.h"
#include "report/daemon/sweep_tables.h"
#include "report/daemon/work_beat.h"
#include "report/names/symbolize/module_symbolizer.h"
#include "report/observe/table/memory_room.h"
#include "report/observe/table/noted_folders.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/table_destination.h"
#include "report/observe/table/table_folder.h"

namespace holdfast {
namespace {

constexpr int64_t kGrace = 200 * kMs;  // without a table before the exporter ends: a shell's next command may follow
// For reading a table with another user's rights. That user may stop the reader.
constexpr int64_t kSlow = 5 * kSecond;
constexpr int kMaxSlowLooks = 3;
// For names that were not ready: how long a table is kept for them, and how much CPU time a child may use.
constexpr int64_t kMaxCompleteWait = 3 * kSecond;
constexpr rlim_t kMaxCompleteSeconds = 120;
constexpr size_t kMaxToComplete = 16;  // ended processes
constexpr uint64_t kMaxUnpackedForNames = 1 << 30;
constexpr int64_t kShareOfCompleting = 20;
constexpr size_t kMaxEnvironment = 1 << 20;
constexpr int kMaxFailures = 3;  // for the last export of a dead process's table; then the table is left for collect

class Exporter {
 public:
  Exporter(const ExporterOptions& options, absl::StatusOr<OutputFolder> output, FileDescriptor tables,
           PushCompanion* pusher, SnapshotCommand* command, WorkBeat* beat)
      : options_(options),
        pusher_(pusher),
        command_(command),
        beat_(beat),
        output_(std::move(output)),
        tables_(options, std::move(tables), &ended_) {
    if (output_.ok()) output_->RemoveStaleTemporaries();
  }

  // Runs until there has been nothing to do for the grace period.
  void Serve() {
    int64_t idle_since = NowNs();
    int64_t next_look = 0, next_tick = 0;
    while (true) {
      const int64_t now = NowNs();
      // Words are read at each tick as well, in case there are no notifications (chroot).
      const bool is_tick = now >= next_tick - kEarlyTick;
      if (is_tick) next_tick = now + kTick;
      const bool announced = tables_.TakeAnnouncements();
      const bool look_at_all = tables_.TakeStranger() || now >= next_look || (is_tick && tables_.HasNewStrangers());
      if (announced || look_at_all) {
        beat_->Begin();
        tables_.Find(Output(), look_at_all ? TableLook::kAll : TableLook::kAnnounced);
      }
      if (now >= next_look) {
        // Without notifications, look for new tables at each tick.
        next_look = now + (tables_.is_notified() ? kLookAround : kTick);
        tables_.LookAtProcesses();
      }
      for (const auto& served : tables_.all()) {
        if (!is_tick && !served->NeedsAttention(now)) continue;
        served->touched = false;
        if (std::exchange(served->is_new, false)) LookAtEnvironment(*served);
        Attend(*served, NowNs());
      }
      pusher_->Poll(now);
      command_->Poll(now);
      WriteShared();
      CompleteNames();
      tables_.DropFinished();
      if (tables_.MayHaveWork()) idle_since = NowNs();
      if (NowNs() - idle_since >= kGrace) {
        tables_.Find(Output());  // a last time, while the marks exist
        if (tables_.empty()) return;
      }
      Rest();
      beat_->End();
      tables_.Wait();
    }
  }

  void WatchLock(const std::string& path) { tables_.WatchLock(path); }

  // The last error, if any.
  absl::Status status() const { return output_.ok() ? last_failure_ : output_.status(); }

  // Returns whether a table appeared while the lock was being released.
  bool HasWork() {
    tables_.users().TakeBack(tables_.folder());
    tables_.Find(Output());
    return !tables_.empty();
  }
  // Call before releasing the lock.
  void ReleaseUsers() { tables_.users().Release(); }

 private:
  const OutputFolder* Output() const { return output_.ok() ? &*output_ : nullptr; }

  bool HasOutput() {
    // A folder that could not be created or opened may be available now. A folder that was removed, for example between
    // two runs, is created again.
    if (!output_.ok() || output_->IsRemoved()) output_ = OutputFolder::Open(options_.out);
    return output_.ok();
  }

  static std::unique_ptr<ModuleSymbolizer> MakeSymbolizer() {
    // Unpacking takes time, so limit it.
    auto made = std::make_unique<ModuleSymbolizer>(DebugFileFinder::Options{.max_unpacked = 64 << 20});
    made->BelieveFor(kTick);
    return made;
  }

  void BeginWork() {
    beat_->Begin();
    last_work_ = NowNs();
    if (symbolizer_ != nullptr) return;
    SetBadness(kBadnessAtWork);
    symbolizer_ = MakeSymbolizer();
    rest_delay_.Begin(last_work_);
  }

  // Frees everything needed for the last snapshots, after a period without work.
  void Rest() {
    if (last_work_ != 0 && NowNs() - last_work_ >= (memory_is_limited_ ? kTick : rest_delay_.ns())) RestNow();
  }
  void RestNow() {
    last_work_ = 0;
    knows_room_ = false;
    if (symbolizer_ != nullptr) rest_delay_.Rest(NowNs());
    symbolizer_.reset();
    if (output_.ok()) output_->ForgetListing();
    SetBadness(kBadnessAtRest);
    GiveBackMemory();  // last, because calls after it make pages resident again
  }

  // Returns whether there is memory for one more snapshot. While the exporter is working the check is not repeated: it
  // reads a dozen files, and a build has thousands of processes.
  bool HasRoomFor(const TableFile& table) {
    if (symbolizer_ != nullptr && knows_room_) return true;
    const std::optional<MemoryRoom> room = MemoryRoomOf("self");
    knows_room_ = true;
    memory_is_limited_ = room.has_value();
    if (!room.has_value() || symbolizer_ != nullptr) return true;  // most of that memory is already allocated
    return room->left_bytes >= kSnapshotBytes + static_cast<int64_t>(4 * table.bytes());
  }

  // `shares`: adds to the sum of its program, for an ended process without files of its own. `wrote`: whether anything
  // was new.
  bool Export(ServedTable& served, bool shares = false, const SnapshotOccasion& occasion = {}, bool* wrote = nullptr) {
    if (IsNoted(tables_.folder(), served.reader)) return true;  // the process only reads the tool's output
    LabelIfRequested(served);
    if (!HasOutput()) return false;
    const auto rights = served.table().ReadWith();
    if (rights.has_value() && !MayServe(served, rights->user)) return false;
    const auto of_child = occasion.begin_child != nullptr ? MakeSymbolizer() : nullptr;
    if (of_child == nullptr) BeginWork();
    const int64_t start = NowNs();
    absl::Status done;
    if (shares) {
      done = served.exporter.Share(*output_, *symbolizer_, &shared_);
    } else {
      const auto written = served.exporter.ExportWith(rights, *output_, of_child != nullptr ? *of_child : *symbolizer_,
                                                      Deadline::In(ProcessExporter::kLinesTime), occasion);
      done = written.status();
      // Never for a file with contents that another user's program determines.
      const bool is_own = !rights.has_value() && served.user == geteuid();
      for (size_t i = 0; written.ok() && is_own && i < written->size(); ++i) command_->Add((*written)[i].ToString());
      if (wrote != nullptr) *wrote = written.ok() && !written->empty();
    }
    if (!done.ok()) last_failure_ = done;
    if (rights.has_value() && NowNs() - start > kSlow) ++slow_[rights->user];
    if (of_child == nullptr) last_work_ = NowNs();
    return done.ok();
  }

  // A process requests a pusher, or labels, in its environment.
  void LookAtEnvironment(ServedTable& served) {
    if (served.user != geteuid() || (!pusher_->MayLook() && options_.label_blocks == nullptr)) return;
    const std::optional<pid_t> pid = FindProcess(served.table().owner());
    if (!pid.has_value()) return;
    const std::string environment = ReadProcFile(fmt::format("/proc/{}/environ", *pid), kMaxEnvironment);
    pusher_->Look(served.table(), environment);
    served.requests_holders = options_.label_blocks != nullptr && RequestsHolders('\0' + environment);
  }

  // The process's memory is read with our rights, so it must be our own user's.
  void LabelIfRequested(ServedTable& served) {
    if (!served.requests_holders || served.user != geteuid()) return;
    served.requests_holders = false;
    served.exporter.set_label_blocks([this, owner = served.table().owner()](ProcessState* state) {
      if (const std::optional<pid_t> now = FindProcess(owner); now.has_value()) options_.label_blocks(*now, state);
    });
  }
  // Each variable is preceded and followed by a zero.
  static bool RequestsHolders(const std::string& environment) {
    using std::string_view_literals::operator""sv;
    constexpr std::string_view kVariable = "\0HOLDFAST_SNAPSHOT_HOLDERS="sv;
    // Searched, not split: there may be a hundred variables, and thousands of processes.
    const size_t at = environment.find(kVariable);
    if (at == std::string::npos) return false;
    const std::string value = environment.c_str() + at + kVariable.size();
    return value == "yes" || value == "1" || value == "true" || value == "on";
  }

  static bool Shares(const ServedTable& served) {
    const TableFile& table = served.table();
    // Another user's table is read with that user's rights, into files of its own.
    return table.merge() && !served.exporter.has_files() && table.owner().pid != 1 && !table.ReadWith().has_value();
  }

  // The tables of the merged processes are removed after the files are written.
  void WriteShared() {
    const auto is_shared = [](const auto& served) { return served->shared; };
    const auto& all = tables_.all();
    const bool others = !std::all_of(all.begin(), all.end(), is_shared);
    if (std::none_of(all.begin(), all.end(), is_shared) || (others && NowNs() < next_shared_)) return;
    BeginWork();
    if (!HasOutput()) return;
    const absl::Status written = shared_.Write(*output_);
    next_shared_ = NowNs() + kSecond;
    if (!written.ok()) last_failure_ = written;
    ended_.Shrink(*output_, options_.max_disk_bytes, geteuid());
    for (const auto& served : all) {
      if (!served->shared) continue;
      if (written.ok()) {
        tables_.RemoveTable(*served);
        served->finished = true;
      } else if (++served->failures >= kMaxFailures) {
        served->finished = true;
      }
    }
  }

  // Excludes a table that was root's and now belongs to a user without a mark: that user's own exporter serves it. Also
  // excludes users who delayed us before, perhaps on purpose: their tables stay for `holdfast collect`.
  bool MayServe(ServedTable& served, uid_t user) {
    if (slow_[user] >= kMaxSlowLooks) {
      served.finished = true;
      return false;
    }
    if (served.table().user() == 0 || tables_.users().Has(user)) return true;
    tables_.users().Look(tables_.folder());
    served.finished = !tables_.users().Has(user);
    return !served.finished;
  }

  void Attend(ServedTable& served, int64_t now) {
    const TableFile& table = served.table();
    if (served.shared || served.is_ended) return;
    if (served.HasEnded()) served.gone = true;
    if (served.gone) return Finish(served);
    // Open files as soon as they are seen: they may be replaced or removed before the next snapshot. The memory that this
    // took, and that a new table took to be found, is freed after a second.
    const bool is_new = served.beat == 0;
    if ((served.exporter.LookAtModules() || is_new) && last_work_ == 0) last_work_ = NowNs();
    if (now >= served.next_beat) {
      table.SetBeat(++served.beat);
      served.next_beat = now + served.BeatPeriod();
    }
    const absl::StatusOr<ControlWords> words = table.ReadWords();
    if (!words.ok()) {
      served.finished = true;  // the table is damaged: nothing can be read from it
      return;
    }
    if (words->exit_moment == ExitMoment::kAsked && served.exit_moment_ns == 0) {
      served.exit_moment_ns = now;
      // With other threads, it waits for the last profile here, which then needs no copy.
      if (words->exit_request == 0) served.exporter.CopyBeforeExit();
    }
    // The exit handlers take long, or never end.
    if (served.exporter.has_copy() && words->exit_request == 0 && now - served.exit_moment_ns >= kLookAround)
      Export(served);
    if (words->exit_request != 0 && served.exit_answered == 0) {
      // The end of PID 1 also ends this process, so its table must be removed before; what PID 1 does after the answer
      // is lost. For other processes, the profile is written later if memory is low now, or if they share a file.
      const bool now_or_never = table.owner().pid == 1;
      if (!Shares(served) && (now_or_never || HasRoomFor(table)) && Export(served) && now_or_never)
        tables_.RemoveTable(served);
      table.AnswerExitMoment();  // if it waits before its exit handlers: later files show what these leave
      table.AnswerExit();        // also after a failure: waiting would not help the process
      served.exit_answered = NowNs();
    }
    if (words->snapshot_request != served.requests_answered) {
      // After a failure the next interval tries again; the requester gets no answer.
      if (Export(served)) table.AnswerSnapshot(words->snapshot_request);
      served.requests_answered = words->snapshot_request;
    }
    if (served.IsExtraDue(now)) ExportExtra(served);
    if (served.next_snapshot != 0 && now >= served.next_snapshot) {
      if (HasRoomFor(table)) {
        Export(served, false, {.reasons = {}, .is_regular = true});
      } else {
        served.exporter.PutOff();
      }
      // Count from now, not from the due time, so that slow exports do not follow each other without pause.
      ++served.snapshots;
      served.next_snapshot = NowNs() + served.SnapshotPeriod();
    }
  }

  // Near a memory limit a snapshot without names is written first: it takes a tenth of the time and a quarter of the
  // memory. If there is enough memory, one with names follows. A child builds it: the kernel kills the builder first,
  // and then perhaps the program, so that this process survives to write the last profile.
  void ExportExtra(ServedTable& served) {
    SnapshotOccasion occasion;
    const bool asked = served.triggers.IsDue(NowNs()), near_limit = !served.near_limit.empty();
    if (asked) occasion.reasons = served.triggers.Reasons();
    if (near_limit) {
      occasion.reasons.push_back(std::exchange(served.near_limit, ""));
      occasion.begin_child = [] { SetBadness(kBadnessAtWork); };
      RestNow();
    }
    const auto table = static_cast<int64_t>(served.table().bytes());
    const int64_t lean = kLeanSnapshotBytes + 3 * table, whole = kSnapshotBytes + 4 * table;
    std::optional<MemoryRoom> room = MemoryRoomOf("self");
    memory_is_limited_ = room.has_value();
    const auto has = [&room](int64_t bytes) { return !room.has_value() || room->left_bytes >= bytes; };
    bool wrote = false, done = false;
    if (!has(lean / 2)) {
      served.exporter.PutOff();
    } else {
      occasion.lean = near_limit || !has(whole);
      done = Export(served, false, occasion, &wrote);
      if (!done && absl::IsUnavailable(last_failure_)) {  // the process limit is reached
        occasion.begin_child = nullptr;
        done = Export(served, false, occasion, &wrote);
      }
      if (!done && absl::IsAborted(last_failure_)) served.exporter.PutOff();
      room = MemoryRoomOf("self");
      if (done && near_limit && has(2 * whole)) {
        occasion.lean = false;
        done = Export(served, false, occasion, &wrote);
      }
    }
    if (asked) served.triggers.Tried(done, wrote, NowNs());
    if (near_limit) RestNow();  // frees the memory for it at once
  }

  void Finish(ServedTable& served) {
    // The process may have executed another program as another user, with a table that is still to come.
    tables_.AwaitSuccessor(served, Output());
    const bool shares = Shares(served);
    if ((!shares && !served.exporter.HasNewsSinceItsEnd()) ||
        Export(served, shares, {.reasons = {}, .is_last = true})) {
      if ((served.shared = shares)) return;
      served.is_ended = true;
      served.ended_ns = NowNs();
    } else if (!served.finished && ++served.failures >= kMaxFailures) {
      served.finished = true;  // the table stays for `holdfast collect`
      left_[served.user].Add(tables_.folder(), served.table().name(), served.table().bytes());
    }
  }

  void Leave(ServedTable& served) {
    tables_.RemoveTable(served);
    served.finished = true;
    served.exporter.HandOver(&ended_);
  }

  // Adds names and lines that were not ready when files were written: in a child, for one process at a time. Programs
  // that wait for another program's end also wait a moment for its names, because its table exists until then.
  void CompleteNames() {
    if (completing_ != nullptr) LookAtCompleting();
    size_t waiting = 0;
    for (const auto& served : tables_.all()) {
      if (served->finished || served->is_completing) continue;
      if (!served->exporter.HasIncompleteFiles()) {
        if (served->is_ended) Leave(*served);
        continue;
      }
      if (served->is_ended) {
        if (NowNs() - served->ended_ns > kMaxCompleteWait) tables_.RemoveTable(*served);
        if (++waiting > kMaxToComplete) Leave(*served);  // for a build with thousands of processes
      }
      if (completing_ != nullptr || (!served->is_ended && NowNs() < served->complete_again_ns)) continue;
      if (!BeginCompleting(*served)) served->exporter.FilesAreCompleted();
    }
  }

  bool BeginCompleting(ServedTable& served) {
    if (!HasOutput() || !HasRoomFor(served.table())) return false;
    const pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const rlimit most = {kMaxCompleteSeconds, kMaxCompleteSeconds};
      setrlimit(RLIMIT_CPU, &most);
      SetBadness(kBadnessAtWork);
      ModuleSymbolizer symbolizer(DebugFileFinder::Options{.max_unpacked = kMaxUnpackedForNames});
      served.exporter.CompleteFiles(*output_, symbolizer);
      _exit(0);
    }
    // Files written meanwhile are left to another child.
    served.exporter.FilesAreCompleted();
    completing_ = &served;
    served.is_completing = true;
    completing_child_ = child;
    completing_since_ = NowNs();
    return true;
  }

  void LookAtCompleting() {
    if (waitpid(completing_child_, nullptr, WNOHANG) == 0) {
      if (completing_->is_ended && NowNs() - completing_->ended_ns > kMaxCompleteWait)
        tables_.RemoveTable(*completing_);
      return;
    }
    // For a running program, use only a small part of a core.
    completing_->complete_again_ns = NowNs() + kShareOfCompleting * (NowNs() - completing_since_);
    std::exchange(completing_, nullptr)->is_completing = false;
  }

  const ExporterOptions& options_;
  PushCompanion* const pusher_;
  SnapshotCommand* const command_;
  WorkBeat* const beat_;
  absl::StatusOr<OutputFolder> output_;
  EndedFiles ended_;
  ServedTables tables_;
  std::unique_ptr<ModuleSymbolizer> symbolizer_;  // null: at rest
  RestDelay rest_delay_;
  int64_t last_work_ = 1;              // 0: nothing since the last rest. Initially 1, so that start-up memory is freed
  ServedTable* completing_ = nullptr;  // a child is completing its names
  pid_t completing_child_ = 0;
  int64_t completing_since_ = 0;
  bool memory_is_limited_ = false, knows_room_ = false;
  ProgramFiles shared_;
  int64_t next_shared_ = 0;
  std::map<uid_t, LeftTables> left_;  // by user: one user's tables do not displace another's
  std::map<uid_t, int> slow_;         // how often reading with a user's rights took long
  absl::Status last_failure_;
};

bool HasTables(const FileDescriptor& tables, const ExporterOptions& options) {
  for (const std::string& name : ListTableNames(tables)) {
    const absl::StatusOr<TableFile> table = TableFile::Open(tables, name);
    if (table.ok() && GoesTo(*table, options.out, options.out_id)) return true;
  }
  return false;
}

}  // namespace

absl::Status ServeTables(const ExporterOptions& given) {
  absl::StatusOr<FileDescriptor> tables = OpenFolder(given.tables);
  if (!tables.ok()) return tables.status();
  ExporterOptions options = given;
  // Before the lock is taken: `run` waits for the lock, and then removes an empty folder, which must not be made again.
  absl::StatusOr<OutputFolder> output = OutputFolder::Open(options.out);
  if (!options.out_id.known() && output.ok()) options.out_id = output->id();
  ExporterLock lock(options.tables, options.out, options.out_id);
  const auto tell_served = [&options] {
    if (options.on_served) std::exchange(options.on_served, nullptr)();
  };
  while (!lock.Take()) {
    if (!lock.Barred()) tell_served();
    // A program that entered its own pid namespace can start no exporter after that namespace has ended, and the
    // namespace's exporter ends with it. So an exporter that was started outside stays until the work is done.
    if (!lock.HeldElsewhere() || !HasTables(*tables, options)) return absl::OkStatus();
    poll(nullptr, 0, static_cast<int>(kTick / kMs));
  }
  tell_served();
  GiveBackFreedPagesAtOnce();
  SweepOldTables(options.tables);
  PushCompanion pusher(options);  // destroyed last: waits for the pusher's end when the lock is free again
  SnapshotCommand command(options.on_snapshot, options.out);
  WorkBeat beat;
  Exporter exporter(options, std::move(output), *std::move(tables), &pusher, &command, &beat);
  do {
    beat.CountIn(lock.beat());
    NoteOutputFolder(options.tables, options.out, options.out_id);
    exporter.WatchLock(lock.path());
    exporter.Serve();
    NoteOutputFolder(options.tables, options.out, options.out_id);  // the file may have been created since
    exporter.ReleaseUsers();
    lock.Release();
  } while (exporter.HasWork() && lock.Take());
  command.Finish();
  return exporter.status();
}

}  // namespace holdfast
