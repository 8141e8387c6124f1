#include "report/show/threads_without_looks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/analysis/locks/lock_list.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/analysis/profiles/short_name.h"
#include "report/analysis/profiles/thread_start.h"
#include "report/analysis/thread_names.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/thread_name.h"
#include "report/base/value_units.h"
#include "report/daemon/find_tables.h"
#include "report/observe/outside/thread_lives.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

constexpr int64_t kMuchOlder = 2'000'000'000;
constexpr size_t kThreadNameLength = 15;  // TASK_COMM_LEN without the terminating zero

// Threads of one name, or one thread.
struct KnownThreads {
  std::string program, name;
  uint32_t tid = 0;
  uint64_t threads = 0;                                         // 0: no list has them, so their times are not known
  int64_t lived_ns = 0, cpu_ns = 0, runnable_ns = 0;            // CPU times 0: not known
  double waited_ns = 0, waits = 0;                              // for locks; estimates. waited_ns: also in progress
  uint64_t waiting = 0;                                         // in progress
  std::map<std::pair<std::string, std::string>, double> locks;  // by lock and holder
};

// The profiles of one process.
struct OfProcess {
  std::string program;
  const ProfileFile* newest = nullptr;
  const ProfileFile* waits = nullptr;  // of kind block, otherwise mutex
  const ProfileFile* lives = nullptr;  // the newest with a list of threads
  const ProfileFile* threads = nullptr;
  bool records_waits = false, records_wall = false;
};

bool WantsWall(pid_t pid) {
  if (pid == 0) return false;
  const absl::StatusOr<ProcessTable> table = FindTableOf(pid, {});
  return table.ok() && table->table.WantsWall();
}

// Whether the block profile has every wait of the process, and none is for a lock.
bool ProvesThatNobodyWaited(const OfProcess& of) {
  if (of.waits == nullptr || of.waits->kind != "block") return false;
  const Profile& profile = *of.waits->profile;
  if (UnlistedLockSamplesOf(profile) > 0 || !LockLossesOf(profile).empty()) return false;
  const LockList list = ReadLockList(profile, nullptr);
  WaitTotals listed;
  for (const LockList::Lock& lock : list.locks) {
    if (lock.rank == WaitRank::kLock) return false;
    listed.Add(lock);
  }
  const WaitTotals all = WaitTotalsOf(profile, list);
  return all.contentions <= listed.contentions && all.waiting <= listed.waiting;
}

std::map<std::string, OfProcess> ByProcess(const ProfileSet& set) {
  std::map<std::string, OfProcess> processes;
  for (const ProfileGroup& group : set.groups) {
    const ProfileFile* file = group.NewestCumulative();
    if (file == nullptr || file->profile == nullptr || group.process.empty()) continue;
    OfProcess& of = processes[group.process];
    of.program = file->program;
    if (of.newest == nullptr || of.newest->steady_nanos < file->steady_nanos) of.newest = file;
    if (group.kind == "block" || (group.kind == "mutex" && of.waits == nullptr)) of.waits = file;
    if (group.kind == "threads") of.threads = file;
    const std::vector<std::string>& recorded = file->profile->process().profiled;
    of.records_waits |= std::ranges::find(recorded, "block") != recorded.end();
    of.records_wall |= of.newest == file && std::ranges::find(recorded, "wall") != recorded.end();
    if (file->profile->records().thread_times.has_value() &&
        (of.lives == nullptr || of.lives->steady_nanos < file->steady_nanos))
      of.lives = file;
  }
  return processes;
}

std::string ProgramName(const Profile& profile) {
  return std::string(std::string_view(profile.process().program).substr(0, kThreadNameLength));
}

class Known {
 public:
  Known(const ThreadsOptions& options, std::map<pid_t, std::shared_ptr<const ThreadTimes>> live)
      : options_(options), live_(std::move(live)) {}

  void Add(const OfProcess& of) {
    AddLives(of);
    if (of.waits != nullptr) AddWaits(of);
    const std::string& process = of.newest->process;
    const auto first = groups_.lower_bound({process, "", 0});
    if (first == groups_.end() || std::get<0>(first->first) != process) Group(of, ProgramName(*of.newest->profile), 0);
  }

  std::vector<KnownThreads> Take() {
    std::vector<KnownThreads> all;
    for (auto& [key, group] : groups_) all.push_back(std::move(group));
    std::ranges::stable_sort(all, [](const KnownThreads& a, const KnownThreads& b) {
      return std::tuple(a.waited_ns, a.cpu_ns, a.lived_ns) > std::tuple(b.waited_ns, b.cpu_ns, b.lived_ns);
    });
    return all;
  }
  // Threads that were created, and that no list has.
  uint64_t unlisted() const { return unlisted_; }
  // Threads that have ended, with the times of the last snapshot that saw them.
  uint64_t ended() const { return ended_; }
  // How much older than its newest file a process's list is, at most.
  int64_t age_ns() const { return age_ns_; }

 private:
  static constexpr uint32_t kSeveral = UINT32_MAX;  // instead of a thread's id: of threads with one name

  std::string Shown(const std::string& thread) const {
    return options_.each ? Printable(thread) : FoldedThreadName(Printable(thread));
  }
  KnownThreads& Group(const OfProcess& of, const std::string& thread, uint32_t tid) {
    const std::string name = Shown(thread);
    KnownThreads& group = groups_[{of.newest->process, name, options_.each ? tid : 0}];
    group.program = of.program;
    group.name = name;
    group.tid = options_.each && tid != kSeveral ? tid : 0;
    return group;
  }

  void AddLives(const OfProcess& of) {
    const Profile& newest = *of.newest->profile;
    if (newest.records().merged.has_value()) return;  // a sum of processes has no list
    uint64_t listed = 0;
    const auto add = [&](const std::string& name, uint32_t tid, uint64_t threads, int64_t lived_ns, int64_t cpu_ns,
                         int64_t runnable_ns) {
      KnownThreads& group = Group(of, name, tid);
      tids_[{of.newest->process, group.name}].insert(tid);
      names_[of.newest->process].insert(name);
      if (tid != 0 && tid == newest.process().pid) main_name_[of.newest->process] = name;
      group.threads += threads;
      group.lived_ns = WrappedSum(group.lived_ns, lived_ns);
      group.cpu_ns = WrappedSum(group.cpu_ns, cpu_ns);
      group.runnable_ns = WrappedSum(group.runnable_ns, runnable_ns);
      listed += threads;
    };
    const auto live = live_.find(static_cast<pid_t>(newest.process().pid));
    if (of.lives != nullptr) {
      if (live == live_.end())
        age_ns_ = std::max(age_ns_, WrappedDifference(of.newest->steady_nanos, of.lives->steady_nanos));
      for (const record::ThreadTime& one : of.lives->profile->records().thread_times->thread) {
        if (one.tid != 0 && live != live_.end() && MayLive(*live->second, static_cast<uint32_t>(one.tid))) continue;
        if (one.tid == 0 || live != live_.end()) ended_ += one.threads;
        add(one.name, one.tid, one.threads, one.lived_ns, one.cpu_ns, one.runnable_ns);
      }
    }
    if (live != live_.end()) {
      for (const ThreadTime& one : live->second->threads) {
        const auto ns = [&one](ThreadDoes does) { return static_cast<int64_t>(one.ns[static_cast<int>(does)]); };
        add(live->second->names[one.name], one.id, one.threads, static_cast<int64_t>(one.lived_ns),
            ns(ThreadDoes::kCpu), ns(ThreadDoes::kRunnable));
      }
    }
    if (of.threads == nullptr) return;
    const auto created = FindMetric(*of.threads->profile, "created");
    const int64_t all = WrappedSum(1, created.ok() ? of.threads->profile->Total(*created) : 0);
    if (all <= static_cast<int64_t>(listed)) return;
    unlisted_ += static_cast<uint64_t>(all) - listed;
    has_unlisted_.insert(of.newest->process);
  }

  // Whether the list of live threads has this one, or leaves threads out.
  static bool MayLive(const ThreadTimes& live, uint32_t tid) {
    return std::ranges::any_of(live.threads, [tid](const ThreadTime& one) { return one.id == tid || one.id == 0; });
  }

  void AddWaits(const OfProcess& of) {
    const Profile& profile = *of.waits->profile;
    absl::StatusOr<Plumbing> plumbing = Plumbing::Make(profile, {});
    if (!plumbing.ok()) return;
    ThreadNames names;
    for (const ProfileFile* file : {of.waits, of.threads, of.newest}) {
      if (file != nullptr) AddThreadNames(*file->profile, &names);
    }
    const LockList list = ReadLockList(profile, &*plumbing);
    std::map<int, const LockList::Lock*> locks;
    for (const LockList::Lock& lock : list.locks) locks[lock.number] = &lock;
    std::map<int, std::pair<std::string, std::string>> texts;  // lock and holder
    const auto add = [&](int number, std::span<const uint32_t> stack, double waits, uint64_t waiting, double delay_ns) {
      const auto lock = locks.find(number);
      if (lock == locks.end() || lock->second->rank != WaitRank::kLock) return;
      auto [text, is_new] = texts.try_emplace(number);
      if (is_new) {
        std::string holder = TopFunctionOf(profile, list, number, LockSide::kHolder, &*plumbing);
        if (holder == "-" || holder == "?") holder.clear();
        text->second = {LockNameOf(profile, list, *lock->second, &*plumbing), std::move(holder)};
      }
      KnownThreads& group = GroupOfWaiter(of, ThreadStartOf(profile, stack), names);
      group.waits += waits;
      group.waiting += waiting;
      group.waited_ns += delay_ns;
      group.locks[text->second] += delay_ns;
    };
    for (const LockList::Pair& pair : list.pairs) {
      // Pairs with a holder repeat a part of these waits.
      if (pair.waiter != LockList::kUnknown && pair.holder == LockList::kUnknown)
        add(pair.lock, list.stacks[static_cast<size_t>(pair.waiter)], pair.contentions, 0, pair.delay_ns);
    }
    for (const LockList::Waiter& waiter : list.waiters)
      add(waiter.lock, waiter.stack, 0, 1, static_cast<double>(waiter.delay_ns));
  }

  // The threads that a function was started with, if they have one name; otherwise the function.
  KnownThreads& GroupOfWaiter(const OfProcess& of, const std::string& start, const ThreadNames& names) {
    std::set<std::string> shown;
    if (const auto known = names.find(start); known != names.end()) {
      for (const std::string& name : known->second) shown.insert(options_.each ? name : FoldedThreadName(name));
    }
    const std::string& process = of.newest->process;
    const auto main_name = main_name_.find(process);
    const std::string of_main = main_name != main_name_.end() ? main_name->second : ProgramName(*of.newest->profile);
    if (shown.empty() && (start == "main" || (names.empty() && AllHaveName(process, of_main)))) shown.insert(of_main);
    if (shown.size() != 1) return Group(of, AsCall(start), kSeveral);
    if (start == "main" && main_name != main_name_.end() && *shown.begin() == of_main)
      return Group(of, of_main, static_cast<uint32_t>(of.newest->profile->process().pid));
    const auto tids = tids_.find({process, Shown(*shown.begin())});
    const bool is_one = tids != tids_.end() && tids->second.size() == 1;
    return Group(of, *shown.begin(), is_one ? *tids->second.begin() : kSeveral);
  }

  // Threads that no list has may have had other names.
  bool AllHaveName(const std::string& process, const std::string& name) const {
    const auto names = names_.find(process);
    return names != names_.end() && names->second == std::set<std::string>{name} && !has_unlisted_.contains(process);
  }

  const ThreadsOptions& options_;
  const std::map<pid_t, std::shared_ptr<const ThreadTimes>> live_;
  std::map<std::tuple<std::string, std::string, uint32_t>, KnownThreads> groups_;  // by process, name and thread
  std::map<std::pair<std::string, std::string>, std::set<uint32_t>> tids_;
  // By process.
  std::map<std::string, std::string> main_name_;
  std::map<std::string, std::set<std::string>> names_;
  std::set<std::string> has_unlisted_;
  uint64_t unlisted_ = 0, ended_ = 0;
  int64_t age_ns_ = 0;
};

// The lock that the threads waited for most, and its holder; "": none.
std::pair<std::string, std::string> MostWaitedFor(const KnownThreads& group) {
  const auto most = std::ranges::max_element(group.locks, {}, [](const auto& lock) { return lock.second; });
  return most != group.locks.end() ? most->first : std::pair<std::string, std::string>();
}

std::string LockOf(const KnownThreads& group) {
  const auto [name, holder] = MostWaitedFor(group);
  return holder.empty() ? std::string(ShortName(name)) : fmt::format("{}, held by {}", ShortName(name), AsCall(holder));
}

// A file may contain any number.
int64_t Nanoseconds(double ns) { return ns > 0 ? static_cast<int64_t>(std::min(ns, 9e18)) : 0; }

std::string FirstSentence(const std::vector<KnownThreads>& groups, bool nobody_waited) {
  if (groups.empty() || groups[0].waited_ns <= 0) return nobody_waited ? "No thread waited for a lock" : "";
  const KnownThreads& most = groups[0];
  const bool several = most.threads > 1 || most.name.ends_with('*');
  const std::string who = most.threads > 1            ? fmt::format("{} threads {}", most.threads, most.name)
                          : most.name.ends_with("()") ? fmt::format("Threads that begin with {}", most.name)
                          : several                   ? fmt::format("Threads {}", most.name)
                          : most.threads == 0         ? fmt::format("Threads with the name {}", most.name)
                                                      : fmt::format("Thread {}", most.name);
  return fmt::format("{} waited {} for locks, most for {}", who, FormatTimeNs(Nanoseconds(most.waited_ns)),
                     LockOf(most));
}

TextTable KnownTable(Known* known, bool nobody_waited, const ThreadsOptions& options) {
  std::vector<KnownThreads> groups = known->Take();
  bool any_listed = false, any_waiting = false;
  std::set<std::string> programs;
  double everything = 0;
  for (const KnownThreads& group : groups) {
    programs.insert(group.program);
    everything += group.waited_ns;
    any_listed |= group.threads > 0;
    any_waiting |= group.waiting > 0;
  }
  TextTable table;
  table.columns = FirstThreadColumns(options.each);
  table.columns.insert(table.columns.end(),
                       {{"waits", "waits", Column::kRight, 0, 2},
                        {"waiting", any_waiting ? "now" : "", Column::kRight, 0, 2},
                        {"waited_ns", "for locks", Column::kRight, 0, 2},
                        {"lock", "waits most for", Column::kLeft, 0, 2, 0, true},
                        {"holder", "", Column::kLeft, 0, 2},
                        {"program", programs.size() > 1 ? "program" : "", Column::kLeft, 0, 2, 140}});
  if (const std::string sentence = FirstSentence(groups, nobody_waited); !sentence.empty()) {
    table.header.push_back(sentence);
    table.members.push_back({"summary", JsonString(sentence)});
  }
  if (known->unlisted() > 0) {
    table.header.push_back(
        any_listed
            ? fmt::format("note     no snapshot lists {} more threads, such as short-lived ones", known->unlisted())
            : fmt::format("note     the process created {} threads, and no file lists them", known->unlisted()));
    table.members.push_back({"unlisted_threads", fmt::format("{}", known->unlisted())});
  }
  if (known->ended() > 0) {
    table.header.push_back(
        fmt::format("note     {} thread{} ended: {} time after the last snapshot that saw {} is missing",
                    known->ended(), known->ended() == 1 ? " has" : "s have", known->ended() == 1 ? "its" : "their",
                    known->ended() == 1 ? "it" : "them"));
    table.members.push_back({"ended_threads", fmt::format("{}", known->ended())});
  }
  if (known->age_ns() >= kMuchOlder) {
    table.header.push_back(fmt::format("note     lifetimes and CPU times are those of {} before the newest file",
                                       FormatTimeNs(known->age_ns())));
    table.members.push_back({"lives_age_ns", fmt::format("{}", known->age_ns())});
  }
  if (options.count != 0 && groups.size() > options.count) {
    table.header.push_back(fmt::format("showing  {} of {}", options.count, groups.size()));
    groups.resize(options.count);
  }
  // 0: not known.
  const auto time = [](int64_t ns) {
    return ns == 0 ? Cell::Real("-", std::nan("")) : Cell::Number(FormatTimeNs(ns), ns);
  };
  for (const KnownThreads& group : groups) {
    const auto [lock, holder] = MostWaitedFor(group);
    const int64_t waited_ns = Nanoseconds(group.waited_ns);
    table.rows.push_back(
        {{Cell::Text(group.name), Cell::Number(group.tid != 0 ? fmt::format("{}", group.tid) : "-", group.tid),
          group.threads != 0 ? Cell::Number(fmt::format("{}", group.threads), static_cast<int64_t>(group.threads))
                             : Cell::Real("-", std::nan("")),
          time(group.lived_ns), time(group.cpu_ns), time(group.runnable_ns),
          Cell::Real(group.waits > 0 ? fmt::format("{:.0f}", group.waits) : "-", group.waits),
          Cell::Number(group.waiting > 0 ? fmt::format("{}", group.waiting) : "-", static_cast<int64_t>(group.waiting)),
          Cell::Number(waited_ns == 0 ? "-" : FormatTimeNs(waited_ns), waited_ns), Cell::Text(LockOf(group), lock),
          Cell::Text(holder), Cell::Text(group.program)},
         everything > 0 ? group.waited_ns / everything : 0});
  }
  return table;
}

}  // namespace

std::string AsCall(std::string_view function) {
  std::string text(ShortName(function));
  if (!text.empty() && text.find('(') == std::string::npos && text.find('[') == std::string::npos) text += "()";
  return text;
}

int ShowThreadsWithoutLooks(const ProfileSet& set, const Style& style, const ThreadsOptions& options, std::ostream& out,
                            std::ostream& err) {
  std::map<pid_t, std::shared_ptr<const ThreadTimes>> live;
  pid_t running = 0;
  for (const std::string& argument : options.files) {
    const std::optional<pid_t> pid = AsProcess(argument);
    if (!pid.has_value()) continue;
    ThreadLives lives;
    lives.Read(*pid, /*other_namespace=*/false);
    if (lives.times() != nullptr) live.emplace(running = *pid, lives.times());
  }
  Known known(options, std::move(live));
  const std::map<std::string, OfProcess> processes = ByProcess(set);
  bool records_waits = true, nobody_waited = true, records_wall = WantsWall(running);
  for (const auto& [process, of] : processes) {
    known.Add(of);
    records_waits &= of.records_waits || of.waits != nullptr;
    records_wall |= of.records_wall;
    nobody_waited = nobody_waited && ProvesThatNobodyWaited(of);
  }
  const std::string more = fmt::format("holdfast run --wall -- PROGRAM, or while it runs: holdfast set {} wall=on",
                                       running != 0 ? fmt::format("{}", running) : "PID");
  if (processes.empty()) {
    SayTo(err,
          fmt::format("{}: says nothing about threads. To record where their time goes: {}", options.files[0], more));
    return kCouldNot;
  }
  TextTable table = KnownTable(&known, nobody_waited, options);
  const std::string rest =
      records_wall
          ? "wall is on, but no profile has yet what else the threads did, such as system calls: ask again in some "
            "seconds. If that does not help, holdfast doctor says what prevents it"
          : fmt::format("what else the threads did, such as system calls, is not recorded. To record it: {}{}", more,
                        records_waits ? "" : "; waits for locks need --profiles with block");
  table.members.push_back({"not_recorded", JsonString(rest)});
  Print(table, style, out);
  if (style.format == Format::kTable) out << "note     " << rest << "\n";
  return kFine;
}

}  // namespace holdfast
