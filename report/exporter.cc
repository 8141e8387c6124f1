#include "report/exporter.h"

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
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "report/file_descriptor.h"
#include "report/output_folder.h"
#include "report/symbolizer.h"
#include "report/table_exporter.h"
#include "report/table_folder.h"
#include "sampler/spawn_exporter.h"

namespace holdfast {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;
constexpr int64_t kTick = 50 * kMs;          // how often the words of live tables are read: a bell may not ring (chroot)
constexpr int64_t kLookAround = kSecond;     // how often all processes and the folder are looked at
constexpr int64_t kGrace = 200 * kMs;        // without a table before the exporter ends: a shell's next command may follow
constexpr int64_t kDay = 24 * 3600 * kSecond;
constexpr int kMostFailures = 3;             // of the last export of a dead process's table; then it is left for collect

int64_t NowNs(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

// The lock of an output folder, see the header.
class Lock {
 public:
  explicit Lock(const ExporterOptions& options) {
    char path[700];
    ExporterLockPath(options.tables.c_str(), options.out.c_str(), geteuid(), path, sizeof path);
    path_ = path;
  }

  bool Take() {
    // A shim that only asks whether the lock is held holds it for some microseconds: so, a few attempts.
    for (int attempt = 0; attempt < 5; ++attempt) {
      FileDescriptor file(open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
      if (!file.valid()) return false;
      if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
        struct stat held, named;
        if (fstat(file.get(), &held) == 0 && stat(path_.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
            held.st_dev == named.st_dev) {
          file_ = std::move(file);
          return true;
        }
      } else {
        const timespec pause = {0, 2 * kMs};
        nanosleep(&pause, nullptr);
      }
    }
    return false;
  }

  void Release() {
    unlink(path_.c_str());
    file_.Close();
  }

 private:
  std::string path_;
  FileDescriptor file_;
};

struct Served {
  TableExporter exporter;
  FileDescriptor process;        // pidfd; invalid where the process is out of reach
  int64_t next_snapshot = 0;
  uint32_t requests_answered = 0;
  bool exit_answered = false;
  int failures = 0;
  bool gone = false;             // its process ended or runs another image
  bool finished = false;         // nothing more to do
};

class Exporter {
 public:
  Exporter(const ExporterOptions& options, FileDescriptor tables, absl::StatusOr<OutputFolder> output)
      : options_(options), tables_(std::move(tables)), output_(std::move(output)) {
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
        const bool thorough = now >= next_look;
        if (thorough) next_look = now + kLookAround;
        for (const auto& served : served_) LookAtProcess(*served, thorough);
      }
      for (const auto& served : served_) Attend(*served, NowNs());
      std::erase_if(served_, [](const auto& served) { return served->finished; });
      if (!served_.empty() || ParentLives()) idle_since = NowNs();
      if (NowNs() - idle_since >= kGrace) return;
      Wait();
    }
  }

  // Whether a table came while the lock was being given up.
  bool HasWork() {
    FindNewTables();
    return !served_.empty();
  }

 private:
  static FileDescriptor OpenProcess(pid_t pid) { return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

  static bool Ended(const FileDescriptor& process) {
    pollfd entry = {process.get(), POLLIN, 0};
    return process.valid() && poll(&entry, 1, 0) == 1;
  }

  bool ParentLives() const { return parent_.valid() && !Ended(parent_); }

  // True when something happened in the folder of tables.
  bool DrainEvents() const {
    alignas(inotify_event) char buffer[4096];
    bool any = false;
    while (read(events_.get(), buffer, sizeof buffer) > 0) any = true;
    return any;
  }

  void FindNewTables() {
    for (const std::string& name : ListTableNames(tables_)) {
      if (known_.contains(name)) continue;
      absl::StatusOr<TableFile> table = TableFile::Open(tables_, name);
      if (absl::IsUnavailable(table.status()) && !table.ok()) continue;  // still being made
      known_.insert(name);
      if (!table.ok() || table->out() != options_.out) continue;
      Add(*std::move(table));
    }
  }

  void Add(TableFile table) {
    const TableOwner& owner = table.owner();
    // exec keeps the pid: the image that made an older table of this process is gone.
    for (const auto& other : served_) {
      const TableOwner& old = other->exporter.table().owner();
      if (old.pid == owner.pid && old.pid_ns == owner.pid_ns && old.start_ticks == owner.start_ticks) other->gone = true;
    }
    table.SetExporterPid(getpid());
    auto served = std::make_unique<Served>(Served{.exporter = TableExporter(std::move(table)), .process = {}});
    const TableFile& added = served->exporter.table();
    if (const auto pid = FindProcess(added.owner()); pid.has_value()) served->process = OpenProcess(*pid);
    // The pid may have come back as another process between its table and our look.
    served->gone = LivenessOf(added.owner(), true) == Liveness::kDead;
    if (added.snapshot_every_ns() != 0) served->next_snapshot = NowNs() + static_cast<int64_t>(added.snapshot_every_ns());
    served_.push_back(std::move(served));
  }

  static void LookAtProcess(Served& served, bool thorough) {
    if (served.gone) return;
    served.gone = Ended(served.process) ||
                  (thorough && LivenessOf(served.exporter.table().owner(), true) == Liveness::kDead);
  }

  bool Export(Served& served) {
    if (!output_.ok()) return false;
    const absl::StatusOr<int> written = served.exporter.Export(*output_, symbolizer_);
    return written.ok();
  }

  void Attend(Served& served, int64_t now) {
    const TableFile& table = served.exporter.table();
    if (Ended(served.process)) served.gone = true;
    if (served.gone) return Finish(served);
    const absl::StatusOr<ControlWords> words = table.ReadWords();
    if (!words.ok()) {
      served.finished = true;  // not a table any more: nothing can be had from it
      return;
    }
    if (words->exit_request != 0 && !served.exit_answered) {
      Export(served);
      table.AnswerExit();  // also after a failure: waiting would not help the target
      served.exit_answered = true;
    }
    if (words->snapshot_request != served.requests_answered) {
      if (Export(served)) {
        served.requests_answered = words->snapshot_request;
        table.AnswerSnapshot(words->snapshot_request);
      } else {
        served.requests_answered = words->snapshot_request;  // the next interval tries again
      }
    }
    if (served.next_snapshot != 0 && now >= served.next_snapshot) {
      Export(served);
      // From now on, not from the due time: a slow export must not lead to one after the other.
      served.next_snapshot = NowNs() + static_cast<int64_t>(table.snapshot_every_ns());
    }
  }

  void Finish(Served& served) {
    if (Export(served)) {
      unlinkat(tables_.get(), served.exporter.table().name().c_str(), 0);
      served.finished = true;
    } else if (!output_.ok() || ++served.failures >= kMostFailures) {
      served.finished = true;  // the table stays, for `holdfast collect`
    }
  }

  void Wait() const {
    std::vector<pollfd> entries = {{events_.get(), POLLIN, 0}};
    if (parent_.valid() && !Ended(parent_)) entries.push_back({parent_.get(), POLLIN, 0});
    for (const auto& served : served_) {
      if (served->process.valid() && !Ended(served->process)) entries.push_back({served->process.get(), POLLIN, 0});
    }
    const bool only_waiting = served_.empty() && ParentLives();
    poll(entries.data(), entries.size(), static_cast<int>((only_waiting ? kLookAround : kTick) / kMs));
  }

  const ExporterOptions& options_;
  FileDescriptor tables_;
  absl::StatusOr<OutputFolder> output_;
  FileDescriptor events_;
  FileDescriptor parent_;
  Symbolizer symbolizer_;
  std::vector<std::unique_ptr<Served>> served_;
  std::set<std::string> known_;  // tables that were looked at: served, finished, or another folder's
};

}  // namespace

absl::Status RunExporter(const ExporterOptions& options) {
  Lock lock(options);
  if (!lock.Take()) return absl::OkStatus();
  absl::StatusOr<FileDescriptor> tables = OpenFolder(options.tables);
  if (!tables.ok()) return tables.status();
  absl::StatusOr<OutputFolder> output = OutputFolder::Open(options.out);
  const absl::Status output_status = output.status();
  SweepOldTables(options.tables);
  Exporter exporter(options, *std::move(tables), std::move(output));
  do {
    exporter.Serve();
    lock.Release();
  } while (exporter.HasWork() && lock.Take());
  return output_status;
}

int SweepOldTables(const std::string& path) {
  const absl::StatusOr<FileDescriptor> tables = OpenFolder(path);
  if (!tables.ok()) return 0;
  int removed = 0;
  for (const std::string& name : ListTableNames(*tables)) {
    const absl::StatusOr<TableFile> table = TableFile::Open(*tables, name);
    if (!table.ok() || NowNs(CLOCK_REALTIME) - table->modified_ns() < kDay) continue;
    if (LivenessOf(table->owner(), true) != Liveness::kDead) continue;
    removed += unlinkat(tables->get(), name.c_str(), 0) == 0;
  }
  return removed;
}

}  // namespace holdfast
