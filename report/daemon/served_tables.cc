#include "report/daemon/served_tables.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "report/base/folder_names.h"
#include "report/base/inotify_events.h"
#include "report/daemon/exporter_lock.h"
#include "report/observe/table/table_destination.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

constexpr size_t kMaxAtLimit = 3;                  // processes of a control group near its limit
constexpr ptrdiff_t kMaxTablesOfOtherUser = 1024;  // tables of another user at a time
// How long to wait for the last look after the normal end of an invisible process.
constexpr int64_t kUnseenRest = 10 * kSecond;

FileDescriptor OpenPid(pid_t pid) { return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

bool HasProcessEnded(const FileDescriptor& process) {
  pollfd entry = {process.get(), POLLIN, 0};
  return process.valid() && poll(&entry, 1, 0) == 1;
}

// Returns the names of tables that begin with "holdfast.<uid>.", without a look at the files.
std::vector<std::string> TableNamesOf(uid_t user, const std::vector<std::string>& all) {
  std::vector<std::string> names;
  const std::string prefix = absl::StrCat(kTablePrefix, user, ".");
  for (const std::string& name : all) {
    if (absl::StartsWith(name, prefix) && absl::EndsWith(name, kTableSuffix)) names.push_back(name);
  }
  return names;
}

}  // namespace

bool ServedTable::HasEnded() {
  has_ended = has_ended || HasProcessEnded(process);
  return has_ended;
}

int64_t ServedTable::BeatPeriod() const {
  return std::min<int64_t>(kBeatNs, PatienceNs(table().snapshot_every_ns()) / 3);
}

// Bounds the period, because the header may be hostile.
int64_t ServedTable::SnapshotPeriod() const {
  const uint64_t least = user == geteuid() ? kMs : kSecond;
  const auto period = static_cast<int64_t>(std::clamp<uint64_t>(table().snapshot_every_ns(), least, uint64_t{1} << 60));
  // The first periods are shorter, so that five minutes are enough to judge whether a program grows.
  const int first = is_exact ? kFirstOfExact : kFirstSnapshots;
  return std::min(period, std::max(period >> first, kSecond) << std::min(snapshots, first));
}

ServedTables::ServedTables(const ExporterOptions& options, FileDescriptor folder, EndedFiles* ended)
    : options_(options),
      folder_(std::move(folder)),
      ended_(ended),
      events_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      users_(options.tables, options.out, options.out_id),
      own_user_(geteuid()),
      own_prefix_(absl::StrCat(kTablePrefix, own_user_, ".")),
      own_hash_(absl::StrFormat(".%016x", OutHash(options.out.c_str()))) {
  if (options_.parent != 0) parent_ = OpenPid(options_.parent);
}

bool ServedTables::ParentLives() const { return parent_.valid() && !HasProcessEnded(parent_); }

bool ServedTables::MayHaveWork() const { return !empty() || !became_others_.empty() || parent_.valid(); }

void ServedTables::WatchLock(const std::string& path) {
  lock_watch_ = events_.valid() ? inotify_add_watch(events_.get(), path.c_str(), IN_ATTRIB) : -1;
  announcing_ = {lock_watch_};
  if (own_user_ == 0 && events_.valid())
    folder_watch_ = inotify_add_watch(events_.get(), options_.tables.c_str(), IN_MOVED_TO);
}

bool ServedTables::TakeNotifications() {
  bool any = false;
  ForEachEvent(events_.get(), [&](const inotify_event& event) {
    const bool missed = (event.mask & IN_Q_OVERFLOW) != 0;
    if (missed) {
      for (const auto& served : served_) served->touched = true;
    }
    const auto found = watched_.find(event.wd);
    const bool of_table = (event.mask & IN_IGNORED) == 0 && found != watched_.end();
    if (of_table) found->second->touched = true;
    if (event.len > 0 && event.wd == folder_watch_) {
      const std::string name = event.name;
      const bool is_strangers = absl::StartsWith(name, kTablePrefix) && !absl::StartsWith(name, own_prefix_);
      stranger_named_ = stranger_named_ || (is_strangers && !IsOfAnotherFolder(name));
      any = any || stranger_named_;
      return;
    }
    announced_ = announced_ || missed || announcing_.contains(event.wd);
    any = any || of_table || announced_;
  });
  return any;
}

bool ServedTables::HasNewStrangers() {
  constexpr int64_t kGrain = 20 * kMs;  // of file times
  struct stat info;
  if (own_user_ != 0 || fstat(folder_.get(), &info) != 0) return false;
  const int64_t changed_ns = info.st_mtim.tv_sec * kSecond + info.st_mtim.tv_nsec;
  if (changed_ns == folder_changed_ns_ && listed_ns_ - changed_ns >= kGrain) return false;
  folder_changed_ns_ = changed_ns;
  listed_ns_ = NowNs(CLOCK_REALTIME);
  std::set<std::string> there;
  ForEachName(folder_.get(), [&](const char* name) {
    const bool is_ours = absl::StartsWith(name, own_prefix_) || !absl::StartsWith(name, kTablePrefix);
    if (!is_ours && (absl::EndsWith(name, kTableSuffix) || absl::EndsWith(name, ".lock"))) there.insert(name);
  });
  const bool any = !std::includes(strangers_.begin(), strangers_.end(), there.begin(), there.end());
  strangers_ = std::move(there);
  return any;
}

// Returns whether the name has the hash of another output folder.
bool ServedTables::IsOfAnotherFolder(const std::string& name) const {
  constexpr ptrdiff_t kDots = 6;  // holdfast.<uid>.<pid>.<start-ticks>.<image>.<hash of out>.table
  return std::count(name.begin(), name.end(), '.') == kDots &&
         !absl::EndsWith(absl::StripSuffix(name, kTableSuffix), own_hash_);
}

void ServedTables::Find(const OutputFolder* output, TableLook look) {
  const std::vector<std::string> all = NamesOfOurs(folder_);
  const bool any_small = look == TableLook::kAll && AnySmall(all);
  std::set<std::string> due;
  std::map<std::string, int64_t> small;
  const int64_t now_ns = NowNs();
  for (const auto& [name, since_ns] : small_) {
    if (now_ns - since_ns >= kSmallForNs) due.insert(name);
  }
  users_.Look(folder_, all);
  if (own_user_ == 0 && output != nullptr && look == TableLook::kAll)
    users_.VouchForDescendants(folder_, RootsProcesses(), *output);
  // A look opens no mark that exists, so it causes no event.
  users_.ForEachMark([this](const FileDescriptor& mark) {
    if (events_.valid())
      announcing_.insert(inotify_add_watch(events_.get(), absl::StrCat("/proc/self/fd/", mark.get()).c_str(), IN_OPEN));
  });
  std::set<std::string> there;
  users_.ForEach([&](uid_t user) {
    if (any_small) {
      const std::string ours = absl::StrCat(own_hash_, kTableSuffix, kSmallSuffix);
      for (const std::string& name : ShowSmallTables(folder_, user, due, ours.c_str())) {
        const auto known = small_.find(name);
        small[name] = known != small_.end() ? known->second : now_ns;
      }
    }
    // Another user's tables are listed after the mark is locked: later ones are announced.
    const auto names = look == TableLook::kAll ? ListTableNames(folder_, kTableSuffix, user)
                                               : TableNamesOf(user, user == own_user_ ? all : NamesOfOurs(folder_));
    for (const std::string& name : names) {
      if (known_.contains(name)) {
        there.insert(name);
        continue;
      }
      if (IsOfAnotherFolder(name)) continue;
      absl::StatusOr<TableFile> table = TableFile::Open(folder_, name, user);
      // Out of descriptors: try again at the next look.
      if (!table.ok() && (absl::IsUnavailable(table.status()) || absl::IsResourceExhausted(table.status()))) continue;
      const bool is_for_us = table.ok() && GoesTo(*table, options_.out, options_.out_id) && !WasRenamed(*table, user);
      if (is_for_us && !TakesAnother(user)) continue;
      // Named by another user id, in a user namespace: the exporter there serves it while its program runs.
      if (is_for_us && user == own_user_ && !absl::StartsWith(name, own_prefix_) &&
          (table->liveness() != Liveness::kDead || IsServedElsewhere(name))) {
        continue;
      }
      there.insert(name);
      if (!is_for_us) continue;
      Add(*std::move(table), user);
    }
  });
  if (look == TableLook::kAll) small_ = std::move(small);
  if (look == TableLook::kAnnounced) there.insert(known_.begin(), known_.end());
  known_ = std::move(there);
}

// Returns the processes that certainly are or were root's.
std::vector<TableOwner> ServedTables::RootsProcesses() const {
  std::vector<TableOwner> processes;
  if (ParentLives()) processes.emplace_back().pid = static_cast<uint32_t>(options_.parent);
  for (const auto& served : served_) {
    if (served->user == 0 && served->process.valid() && !served->HasEnded())
      processes.push_back(served->table().owner());
  }
  return processes;
}

// Recognizes one of our tables after its program became another user.
bool ServedTables::WasRenamed(const TableFile& table, uid_t user) {
  for (const auto& served : served_) {
    if (!served->table().IsSameFile(table)) continue;
    served->exporter.Renamed(table.name());
    served->user = user;
    return true;
  }
  return false;
}

// Another user could make any number of tables; those above the limit wait until others have ended.
bool ServedTables::TakesAnother(uid_t user) const {
  return user == own_user_ || std::count_if(served_.begin(), served_.end(), [user](const auto& served) {
                                return served->user == user;
                              }) < kMaxTablesOfOtherUser;
}

// For "holdfast.0.4242.…": returns whether user 0's exporter holds the lock.
bool ServedTables::IsServedElsewhere(const std::string& name) const {
  uint32_t user = 0;
  const size_t start = sizeof kTablePrefix - 1;
  return absl::SimpleAtoi(name.substr(start, name.find('.', start) - start), &user) &&
         IsLockHeld(options_.tables, options_.out, options_.out_id, user);
}

void ServedTables::Add(TableFile table, uid_t user) {
  auto served = std::make_unique<ServedTable>(ProcessExporter(std::move(table), options_.max_disk_bytes), user);
  const TableFile& added = served->table();
  served->exporter.set_ended(ended_);
  served->exporter.set_open_files(open_files_);
  const auto pid = FindProcess(added.owner());
  if (pid.has_value()) served->process = OpenProcess(added.owner(), *pid);
  const std::optional<ProcStat> stat = pid.has_value() ? ReadProcStat(*pid) : std::nullopt;
  if (stat.has_value()) served->reader = ReaderOf(*pid, *stat);
  served->triggers = TriggerWatch(added.snapshot_when(), pid, added.owner().start_monotonic_ns);
  if (pid.has_value()) served->group = limits_.GroupOf(*pid);
  next_limit_ns_ = 0;
  // Read after opening the process: its pid may be reused at any time.
  served->gone = added.liveness(pid, stat) == Liveness::kDead;
  // Not for an ended process: a write would change the file's time, which tells when it ended.
  if (!served->gone) added.SetExporterPid(getpid());
  served->next_beat = NowNs() + served->BeatPeriod();  // by then most processes of a build have ended
  served->added_ns = NowNs();
  if (added.snapshot_every_ns() != 0) served->next_snapshot = NowNs() + served->SnapshotPeriod();
  // exec keeps the pid: the older image of a process is gone.
  for (const auto& other : served_) {
    const TableOwner& old = other->table().owner();
    // Trust another user's table only about that user's processes.
    if (!old.SameProcess(added.owner()) || other->user != user) continue;
    (old.start_monotonic_ns < added.owner().start_monotonic_ns ? *other : *served).gone = true;
  }
  if (events_.valid() && !served->gone) {
    const std::string path = absl::StrCat("/proc/self/fd/", served->table().descriptor());
    served->watch = inotify_add_watch(events_.get(), path.c_str(), IN_ATTRIB);
    if (served->watch >= 0) watched_[served->watch] = served.get();
  }
  served_.push_back(std::move(served));
}

void ServedTables::LookAtProcesses() {
  for (const auto& served : served_) {
    if (served->gone) continue;
    const Liveness liveness = served->table().liveness();
    // An invisible process that has announced its end is not waited for longer than an end may take.
    served->gone = liveness == Liveness::kDead || (liveness == Liveness::kUnknown && served->exit_answered != 0 &&
                                                   NowNs() - served->exit_answered > kUnseenRest);
  }
}

void ServedTables::DropFinished() {
  std::erase_if(served_, [this](const auto& served) {
    if (!served->finished || served->is_completing) return false;
    // A removed file ends its watch when it is closed here, others end with the exporter.
    watched_.erase(served->watch);
    return true;
  });
  std::erase_if(became_others_, HasProcessEnded);
}

void ServedTables::RemoveTable(const ServedTable& served) const {
  unlinkat(folder_.get(), served.table().name().c_str(), 0);
}

void ServedTables::AwaitSuccessor(ServedTable& served, const OutputFolder* output) {
  if (served.became_another || own_user_ != 0 || !served.process.valid() || served.HasEnded()) return;
  served.became_another = true;
  const std::optional<uid_t> user = OtherUserThanRoot(served.table().owner());
  if (!user.has_value()) return;
  became_others_.push_back(FileDescriptor(dup(served.process.get())));
  if (served.user == own_user_ && output != nullptr) users_.Vouch(folder_, *user, *output);
}

// Returns the interval of looks, longer for many tables: together they take at most 0.2 % of a core.
int64_t ServedTables::LookEvery(int64_t now_ns) const {
  const auto is_watched = [](const auto& served) {
    return (served->table().peak() || served->triggers.is_wanted()) && !served->gone;
  };
  const auto watched = std::count_if(served_.begin(), served_.end(), is_watched);
  const bool any_exact = std::any_of(served_.begin(), served_.end(), [](const auto& served) {
    return served->table().peak() && served->exporter.peak().is_exact() && !served->gone;
  });
  const bool all_quiet = std::all_of(served_.begin(), served_.end(), [&](const auto& served) {
    return !is_watched(served) || (served->exporter.peak().is_quiet(now_ns) && !served->triggers.is_wanted());
  });
  constexpr int64_t kOfOne = 500'000;  // 500 times the cost of one look
  if (all_quiet && !any_exact) return watched == 0 ? kLookAround : kTick;
  return std::clamp(watched * kOfOne, any_exact ? kLookAtExactPeak : kLookAtPeak, kTick);
}

// Chooses the largest processes of a group near its limit, because there is neither time nor memory for all.
void ServedTables::LookAtLimits(int64_t now_ns) {
  if (now_ns < next_limit_ns_) return;
  uint64_t largest = 0;
  for (const auto& served : served_) {
    if (!served->gone) largest = std::max(largest, served->table().bytes());
  }
  for (const auto& [group, text] : limits_.Look(kLeanSnapshotBytes + 3 * static_cast<int64_t>(largest), now_ns)) {
    std::vector<ServedTable*> in_it;
    for (const auto& served : served_) {
      if (served->group.get() == group && !served->gone) in_it.push_back(served.get());
    }
    const auto in_use = [](ServedTable* served) { return served->exporter.peak().in_use().value_or(0); };
    std::stable_sort(in_it.begin(), in_it.end(), [&](ServedTable* a, ServedTable* b) { return in_use(a) > in_use(b); });
    if (in_it.size() > kMaxAtLimit) in_it.resize(kMaxAtLimit);
    for (ServedTable* served : in_it) served->near_limit = text;
  }
  next_limit_ns_ = limits_.NextLookNs(now_ns + kLookAround);
}

bool ServedTables::LookAtAll() {
  const int64_t now_ns = NowNs();
  bool due = false;
  for (const auto& served : served_) {
    if (served->gone) continue;
    PeakWatch& peak = served->exporter.peak();
    if (served->table().peak() || served->triggers.wants_in_use()) peak.Look(served->table());
    if (peak.is_exact()) served->exporter.LookAtCourse();
    if (peak.is_exact() && !served->is_exact) {
      served->is_exact = true;
      if (served->snapshots == 0 && served->next_snapshot != 0)
        served->next_snapshot = std::min(served->next_snapshot, served->added_ns + served->SnapshotPeriod());
    }
    served->triggers.Look(served->table(), peak.in_use(), now_ns);
    served->exporter.LookAtThreads();
  }
  LookAtLimits(now_ns);
  for (const auto& served : served_) due = due || (!served->gone && served->IsExtraDue(now_ns));
  return due;
}

void ServedTables::Wait() {
  // Also drops the events of this loop's own work.
  if (TakeNotifications()) return;
  // A negative descriptor is ignored.
  std::vector<pollfd> entries = {{events_.get(), POLLIN, 0}, {parent_.get(), POLLIN, 0}};
  int64_t timeout = kTick;  // a longer sleep would look like a hang (sampler/contract/exporter_progress.h)
  for (const FileDescriptor& process : became_others_) entries.push_back({process.get(), POLLIN, 0});
  const size_t others = entries.size();
  const int64_t now_ns = NowNs();
  for (const auto& served : served_) {
    entries.push_back({served->gone ? -1 : served->process.get(), POLLIN, 0});
    if (served->next_snapshot != 0) timeout = std::clamp<int64_t>(served->next_snapshot - now_ns, kMs, timeout);
  }
  const int64_t every = LookEvery(now_ns), end = now_ns + timeout;
  for (int64_t left = timeout;; left = end - NowNs()) {
    // A group near its limit is checked more often.
    int64_t next_look = next_limit_ns_;
    for (const auto& served : served_) {
      if (!served->gone) next_look = std::min(next_look, served->exporter.next_thread_look_ns());
    }
    const int64_t wait = std::clamp<int64_t>(std::min(left, next_look - NowNs()), 0, every);
    const bool notified = poll(entries.data(), entries.size(), static_cast<int>((wait + kMs - 1) / kMs)) != 0;
    if (LookAtAll() || notified || left - wait <= kEarlyTick) break;
  }
  if (entries[1].revents != 0) parent_.Close();  // the parent has ended
  for (size_t i = 0; i < served_.size(); ++i) {
    const bool has_ended = entries[others + i].revents != 0;
    served_[i]->has_ended |= has_ended;
    served_[i]->touched |= has_ended;
  }
  if (entries[0].revents != 0) TakeNotifications();
}

}  // namespace holdfast
