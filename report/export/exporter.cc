#include "report/export/exporter.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "report/base/file_descriptor.h"
#include "report/export/ended_files.h"
#include "report/export/exporter_lock.h"
#include "report/export/output_folder.h"
#include "report/export/process_exporter.h"
#include "report/export/program_files.h"
#include "report/export/resident_memory.h"
#include "report/export/served_users.h"
#include "report/export/sweep_tables.h"
#include "report/symbolize/module_symbolizer.h"
#include "report/table/memory_room.h"
#include "report/table/process_info.h"
#include "report/table/table_folder.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;
constexpr int64_t kTick = 100 * kMs;      // how often the words of live tables are read: a bell may not ring (chroot)
constexpr int64_t kLookAround = kSecond;  // how often all processes and the folder are looked at
constexpr int64_t kGrace = 200 * kMs;     // without a table before the exporter ends: a shell's next command may follow
constexpr ptrdiff_t kMostOfAnother = 1024;  // tables of another user at a time
constexpr int64_t kSlow =
    5 * kSecond;  // for reading a table with another user's rights, that may be stopped by that user
constexpr int kMostSlow = 3;
constexpr int kMostFailures = 3;  // of the last export of a dead process's table; then it is left for collect
constexpr int64_t kUnseenRest =
    10 * kSecond;  // after the orderly end of a process that we cannot see, before its last look

int64_t NowNs(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

struct Served {
  TableExporter exporter;
  FileDescriptor process;  // pidfd; invalid where the process is out of reach
  int64_t next_snapshot = 0;
  uint32_t requests_answered = 0;
  int64_t exit_answered = 0;  // when; 0 = it did not ask
  int failures = 0;
  uint32_t beat = 0;
  int64_t next_beat = 0;
  bool shared = false;     // in the sum of its program, which is still to be written
  bool gone = false;       // its process ended or runs another image
  bool finished = false;   // nothing more to do
  uid_t user = geteuid();  // whose table it is
  bool became_another = false;
};

bool IsFor(const TableFile& table, const ExporterOptions& options) {
  return table.out() == options.out &&
         (!table.out_id().known() || !options.out_id.known() || table.out_id() == options.out_id);
}

class Exporter {
 public:
  Exporter(const ExporterOptions& options, FileDescriptor tables)
      : options_(options),
        tables_(std::move(tables)),
        output_(OutputFolder::Open(options.out)),
        users_(options.tables, options.out) {
    if (output_.ok()) output_->RemoveStaleTemporaries();
    events_ = FileDescriptor(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (events_.valid()) inotify_add_watch(events_.get(), options_.tables.c_str(), IN_MOVED_TO | IN_ATTRIB);
    if (options_.parent != 0) parent_ = OpenProcess(options_.parent);
  }

  // Until there has been nothing to do for the grace period.
  void Serve() {
    int64_t idle_since = NowNs();
    int64_t next_look = 0;
    while (true) {
      const bool bell = DrainEvents();
      const int64_t now = NowNs();
      if (bell || now >= next_look) {
        FindNewTables();
        if (now >= next_look) {
          // Where nothing tells of new tables, look for them at each tick.
          next_look = now + (events_.valid() ? kLookAround : kTick);
          for (const auto& served : served_) LookAtProcess(*served);
        }
      }
      for (const auto& served : served_) Attend(*served, NowNs());
      WriteShared();
      std::erase_if(served_, [](const auto& served) { return served->finished; });
      std::erase_if(became_others_, Ended);
      if (!served_.empty() || !became_others_.empty() || ParentLives()) idle_since = NowNs();
      if (NowNs() - idle_since >= kGrace) {
        FindNewTables();  // a last time while the marks are there
        if (served_.empty()) return;
      }
      Rest();
      Wait();
    }
  }

  // The last thing that went wrong, if anything.
  absl::Status status() const { return output_.ok() ? last_failure_ : output_.status(); }

  // Whether a table came while the lock was being given up.
  bool HasWork() {
    users_.TakeBack(tables_);
    FindNewTables();
    return !served_.empty();
  }
  // Before the lock is given up.
  void ReleaseUsers() { users_.Release(); }

 private:
  static FileDescriptor OpenProcess(pid_t pid) {
    return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  }

  static bool Ended(const FileDescriptor& process) {
    pollfd entry = {process.get(), POLLIN, 0};
    return process.valid() && poll(&entry, 1, 0) == 1;
  }

  bool ParentLives() const { return parent_.valid() && !Ended(parent_); }

  // True when something happened to a table of this user; others may be busy in the same folder.
  bool DrainEvents() const {
    alignas(inotify_event) char buffer[4096];
    // Root also serves users that it learns of here.
    const std::string prefix = geteuid() == 0 ? kTablePrefix : absl::StrCat(kTablePrefix, geteuid(), ".");
    bool any = false;
    for (ssize_t got; (got = read(events_.get(), buffer, sizeof buffer)) > 0;) {
      for (const char* at = buffer; at < buffer + got;) {
        const auto* event = reinterpret_cast<const inotify_event*>(at);
        any = any || (event->mask & IN_Q_OVERFLOW) != 0 || (event->len > 0 && absl::StartsWith(event->name, prefix));
        at += sizeof(inotify_event) + event->len;
      }
    }
    return any;
  }

  void FindNewTables() {
    users_.Look(tables_);
    if (geteuid() == 0 && output_.ok()) users_.VouchForDescendants(tables_, RootsProcesses(), *output_);
    std::set<std::string> there;
    users_.ForEach([&](uid_t user) {
      for (const std::string& name : ListTableNames(tables_, kTableSuffix, user)) {
        if (known_.contains(name)) {
          there.insert(name);
          continue;
        }
        absl::StatusOr<TableFile> table = TableFile::Open(tables_, name, user);
        // Out of descriptors: at the next look.
        if (!table.ok() && (absl::IsUnavailable(table.status()) || absl::IsResourceExhausted(table.status()))) continue;
        const bool is_for_us = table.ok() && IsFor(*table, options_) && !WasRenamed(*table, user);
        if (is_for_us && !TakesAnother(user)) continue;
        // Named after another user id, in a user namespace: its own exporter serves it while it runs.
        if (is_for_us && user == geteuid() && !absl::StartsWith(name, own_prefix_) &&
            (table->liveness() != Liveness::kDead || IsServedElsewhere(name))) {
          continue;
        }
        there.insert(name);
        if (!is_for_us) continue;
        Add(*std::move(table), user);
      }
    });
    known_ = std::move(there);
  }

  // Of which it is sure that they are root's, or were.
  std::vector<TableOwner> RootsProcesses() const {
    std::vector<TableOwner> processes;
    if (ParentLives()) processes.emplace_back().pid = static_cast<uint32_t>(options_.parent);
    for (const auto& served : served_) {
      if (served->user == 0 && served->process.valid() && !Ended(served->process))
        processes.push_back(served->exporter.table().owner());
    }
    return processes;
  }

  // One of ours, whose program became another user.
  bool WasRenamed(const TableFile& table, uid_t user) {
    for (const auto& served : served_) {
      if (served->exporter.table().inode() != table.inode()) continue;
      served->exporter.Renamed(table.name());
      served->user = user;
      return true;
    }
    return false;
  }

  // Another user could make any number of tables; what is too much waits until others have ended.
  bool TakesAnother(uid_t user) const {
    return user == geteuid() || std::count_if(served_.begin(), served_.end(), [user](const auto& served) {
                                  return served->user == user;
                                }) < kMostOfAnother;
  }

  // Of "holdfast.0.4242.…": whether the exporter of user 0 holds its lock.
  bool IsServedElsewhere(const std::string& name) const {
    uint32_t user = 0;
    const size_t start = sizeof kTablePrefix - 1;
    return absl::SimpleAtoi(name.substr(start, name.find('.', start) - start), &user) &&
           IsLockHeld(options_.tables, options_.out, options_.out_id, user);
  }

  void Add(TableFile table, uid_t user) {
    auto served = std::make_unique<Served>(
        Served{.exporter = TableExporter(std::move(table), options_.max_disk_bytes), .process = {}, .user = user});
    const TableFile& added = served->exporter.table();
    served->exporter.set_ended(&ended_);
    added.SetExporterPid(getpid());
    if (const auto pid = FindProcess(added.owner()); pid.has_value()) served->process = OpenProcess(*pid);
    // After the process was opened: its pid may come back as another one at any time.
    served->gone = added.liveness() == Liveness::kDead;
    served->next_beat = NowNs() + BeatPeriod(added);  // most processes of a build have ended by then
    if (added.snapshot_every_ns() != 0) served->next_snapshot = NowNs() + PeriodOf(*served);
    // exec keeps the pid: of two images of one process the older is gone.
    for (const auto& other : served_) {
      const TableOwner& old = other->exporter.table().owner();
      // What another user's table says of itself is said of that user's processes only.
      if (!old.SameProcess(added.owner()) || other->user != user) continue;
      (old.start_monotonic_ns < added.owner().start_monotonic_ns ? *other : *served).gone = true;
    }
    served_.push_back(std::move(served));
  }

  static int64_t BeatPeriod(const TableFile& table) {
    return std::min<int64_t>(kBeatNs, PatienceNs(table.snapshot_every_ns()) / 3);
  }

  // A hostile header may ask for anything.
  static int64_t PeriodOf(const Served& served) {
    const uint64_t least = served.user == geteuid() ? kMs : kSecond;
    return static_cast<int64_t>(
        std::clamp<uint64_t>(served.exporter.table().snapshot_every_ns(), least, uint64_t{1} << 60));
  }

  static void LookAtProcess(Served& served) {
    if (served.gone) return;
    const Liveness liveness = served.exporter.table().liveness();
    // A process that cannot be seen, and that said that it ends, is not waited for longer than an end may take.
    served.gone = liveness == Liveness::kDead || (liveness == Liveness::kUnknown && served.exit_answered != 0 &&
                                                  NowNs() - served.exit_answered > kUnseenRest);
  }

  bool HasOutput() {
    // A folder that could not be made or opened may be there by now; one that was removed (between two runs into the same
    // place, say) is made again.
    if (!output_.ok() || output_->IsRemoved()) output_ = OutputFolder::Open(options_.out);
    return output_.ok();
  }

  void BeginWork() {
    if (last_work_ == 0) SetBadness(kBadnessAtWork);
    // What is compressed takes time.
    if (symbolizer_ == nullptr)
      symbolizer_ = std::make_unique<Symbolizer>(DebugFiles::Options{.max_unpacked = 64 << 20});
    last_work_ = NowNs();
  }

  // Lets go of all that the last snapshots needed, once nothing has been to do for a while.
  void Rest() {
    if (last_work_ == 0 || NowNs() - last_work_ < (memory_is_limited_ ? kTick : kLookAround)) return;
    last_work_ = 0;
    symbolizer_.reset();
    if (output_.ok()) output_->ForgetListing();
    SetBadness(kBadnessAtRest);
    GiveBackMemory();  // last: what runs after it comes back
  }

  // Whether there is room for what one more snapshot takes.
  bool HasRoomFor(const TableFile& table) {
    const std::optional<MemoryRoom> room = MemoryRoomOf("self");
    memory_is_limited_ = room.has_value();
    if (!room.has_value() || symbolizer_ != nullptr) return true;  // it has taken most of it already
    return room->left_bytes >= kSnapshotBytes + static_cast<int64_t>(4 * table.bytes());
  }

  // `shares`: into the sum of its program. It has ended, and left no file of its own.
  bool Export(Served& served, bool shares = false) {
    if (!HasOutput()) return false;
    const auto rights = served.exporter.table().ReadWith();
    if (rights.has_value() && !MayServe(served, rights->user)) return false;
    BeginWork();
    const int64_t start = NowNs();
    const absl::Status done = shares ? served.exporter.Share(*output_, *symbolizer_, &shared_)
                                     : served.exporter.Export(*output_, *symbolizer_).status();
    if (!done.ok()) last_failure_ = done;
    if (rights.has_value() && NowNs() - start > kSlow) ++slow_[rights->user];
    last_work_ = NowNs();
    return done.ok();
  }

  static bool Shares(const Served& served) {
    const TableFile& table = served.exporter.table();
    // What another user's table says is read with that user's rights, for a file of its own.
    return table.merge() && !served.exporter.has_files() && table.owner().pid != 1 && !table.ReadWith().has_value();
  }

  // The tables of the processes in them are removed once the files are there.
  void WriteShared() {
    const auto is_shared = [](const auto& served) { return served->shared; };
    const bool others =
        std::any_of(served_.begin(), served_.end(), [&](const auto& served) { return !is_shared(served); });
    if (std::none_of(served_.begin(), served_.end(), is_shared) || (others && NowNs() < next_shared_)) return;
    BeginWork();
    if (!HasOutput()) return;
    const absl::Status written = shared_.Write(*output_);
    next_shared_ = NowNs() + kSecond;
    if (!written.ok()) last_failure_ = written;
    for (const auto& served : served_) {
      if (!served->shared) continue;
      if (written.ok()) {
        unlinkat(tables_.get(), served->exporter.table().name().c_str(), 0);
        served->finished = true;
      } else if (++served->failures >= kMostFailures) {
        served->finished = true;
      }
    }
    std::erase_if(served_, [](const auto& served) { return served->finished; });
  }

  // Not a table that was root's and now is a user's of whom no mark tells: that user's own exporter takes it. And not one of
  // a user who held us up before, on purpose perhaps: it stays, for `holdfast collect`.
  bool MayServe(Served& served, uid_t user) {
    if (slow_[user] >= kMostSlow) {
      served.finished = true;
      return false;
    }
    if (served.exporter.table().user() == 0 || users_.Has(user)) return true;
    users_.Look(tables_);
    served.finished = !users_.Has(user);
    return !served.finished;
  }

  void Attend(Served& served, int64_t now) {
    const TableFile& table = served.exporter.table();
    if (served.shared) return;
    if (Ended(served.process)) served.gone = true;
    if (served.gone) return Finish(served);
    if (now >= served.next_beat) {
      table.SetBeat(++served.beat);
      served.next_beat = now + BeatPeriod(table);
    }
    const absl::StatusOr<ControlWords> words = table.ReadWords();
    if (!words.ok()) {
      served.finished = true;  // not a table any more: nothing can be had from it
      return;
    }
    if (words->exit_request != 0 && served.exit_answered == 0) {
      // The end of a PID 1 takes us with it: its table must be gone before. What it does after its answer is lost
      // there. Of any other, for which there is no room while it lives, or that shares a file, the profile comes afterwards.
      const bool now_or_never = table.owner().pid == 1;
      if (!Shares(served) && (now_or_never || HasRoomFor(table)) && Export(served) && now_or_never)
        unlinkat(tables_.get(), table.name().c_str(), 0);
      table.AnswerExit();  // also after a failure: waiting would not help the target
      served.exit_answered = NowNs();
    }
    if (words->snapshot_request != served.requests_answered) {
      // After a failure the next interval tries again; who asked sees no answer.
      if (Export(served)) table.AnswerSnapshot(words->snapshot_request);
      served.requests_answered = words->snapshot_request;
    }
    if (served.next_snapshot != 0 && now >= served.next_snapshot) {
      if (HasRoomFor(table)) {
        Export(served);
      } else {
        served.exporter.PutOff();
      }
      // From now on, not from the due time: a slow export must not lead to one after the other.
      served.next_snapshot = NowNs() + PeriodOf(served);
    }
  }

  void Finish(Served& served) {
    // It may have executed another program as another user, whose table is still to come.
    if (!served.became_another && geteuid() == 0 && served.process.valid() && !Ended(served.process)) {
      served.became_another = true;
      const auto user = UserOfProcess(served.exporter.table().owner());
      if (user.has_value() && *user != 0) {
        became_others_.push_back(FileDescriptor(dup(served.process.get())));
        if (served.user == geteuid() && output_.ok()) users_.Vouch(tables_, *user, *output_);
      }
    }
    const bool shares = Shares(served);
    if (Export(served, shares)) {
      if ((served.shared = shares)) return;
      unlinkat(tables_.get(), served.exporter.table().name().c_str(), 0);
      served.finished = true;
      served.exporter.HandOver(&ended_);
    } else if (!served.finished && ++served.failures >= kMostFailures) {
      served.finished = true;  // the table stays, for `holdfast collect`
      left_[served.user].Add(tables_, served.exporter.table().name(), served.exporter.table().bytes());
    }
  }

  void Wait() const {
    std::vector<pollfd> entries = {{events_.get(), POLLIN, 0}};
    if (ParentLives()) entries.push_back({parent_.get(), POLLIN, 0});
    int64_t timeout = served_.empty() && ParentLives() ? kLookAround : kTick;
    for (const FileDescriptor& process : became_others_) entries.push_back({process.get(), POLLIN, 0});
    for (const auto& served : served_) {
      if (served->process.valid() && !Ended(served->process)) entries.push_back({served->process.get(), POLLIN, 0});
      if (served->next_snapshot != 0) timeout = std::clamp<int64_t>(served->next_snapshot - NowNs(), kMs, timeout);
    }
    poll(entries.data(), entries.size(), static_cast<int>(timeout / kMs));
  }

  const ExporterOptions& options_;
  FileDescriptor tables_;
  absl::StatusOr<OutputFolder> output_;
  FileDescriptor events_;
  FileDescriptor parent_;
  ServedUsers users_;
  const std::string own_prefix_ = absl::StrCat(kTablePrefix, geteuid(), ".");
  std::unique_ptr<Symbolizer> symbolizer_;  // null: at rest
  int64_t last_work_ = 1;  // 0: nothing since it last rested. At first there is its own start to let go of
  bool memory_is_limited_ = false;
  ProgramFiles shared_;
  int64_t next_shared_ = 0;
  std::map<uid_t, LeftTables> left_;  // by user: one's do not push another's out
  EndedFiles ended_;
  std::vector<std::unique_ptr<Served>> served_;
  std::vector<FileDescriptor> became_others_;
  std::map<uid_t, int> slow_;  // how often reading with a user's rights took long
  absl::Status last_failure_;
  std::set<std::string> known_;  // the tables that are there and were looked at: served, finished, another folder's
};

bool HasTables(const FileDescriptor& tables, const ExporterOptions& options) {
  for (const std::string& name : ListTableNames(tables)) {
    const absl::StatusOr<TableFile> table = TableFile::Open(tables, name);
    if (table.ok() && IsFor(*table, options)) return true;
  }
  return false;
}

}  // namespace

absl::Status RunExporter(const ExporterOptions& given) {
  absl::StatusOr<FileDescriptor> tables = OpenFolder(given.tables);
  if (!tables.ok()) return tables.status();
  ExporterOptions options = given;
  if (!options.out_id.known()) {
    if (const absl::StatusOr<OutputFolder> output = OutputFolder::Open(options.out); output.ok())
      options.out_id = output->id();
  }
  ExporterLock lock(options.tables, options.out, options.out_id);
  while (!lock.Take()) {
    // A program that entered a pid namespace of its own can start no exporter any more once that has ended, and the
    // namespace's own exporter ends with it. So who was started outside stays until the work is done.
    if (!lock.HeldElsewhere() || !HasTables(*tables, options)) return absl::OkStatus();
    poll(nullptr, 0, static_cast<int>(kTick / kMs));
  }
  SweepOldTables(options.tables);
  Exporter exporter(options, *std::move(tables));
  do {
    exporter.Serve();
    exporter.ReleaseUsers();
    lock.Release();
  } while (exporter.HasWork() && lock.Take());
  return exporter.status();
}

}  // namespace holdfast
