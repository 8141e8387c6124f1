#include "report/show/threads_without_looks.h"

#include <algorithm>
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
#include "report/observe/outside/thread_lives.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

constexpr size_t kThreadNameLength = 15;  // TASK_COMM_LEN without the terminating zero

// Threads of one name, or one thread.
struct KnownThreads {
  std::string program, name;
  uint32_t tid = 0;
  uint64_t threads = 0;
  int64_t lived_ns = 0, cpu_ns = 0, runnable_ns = 0;            // 0: not known
  double waited_ns = 0, waits = 0;                              // for locks; estimates
  std::map<std::pair<std::string, std::string>, double> locks;  // by lock and holder
};

// The profiles of one process.
struct OfProcess {
  std::string program;
  const ProfileFile* newest = nullptr;
  const ProfileFile* waits = nullptr;  // of kind block, otherwise mutex
  const ProfileFile* lives = nullptr;  // the newest with a list of threads
  const ProfileFile* threads = nullptr;
  bool records_waits = false;
};

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
  }

  std::vector<KnownThreads> Take() {
    std::vector<KnownThreads> all;
    for (auto& [key, group] : groups_) all.push_back(std::move(group));
    std::ranges::stable_sort(all, [](const KnownThreads& a, const KnownThreads& b) {
      return std::tuple(a.waited_ns, a.cpu_ns, a.lived_ns) > std::tuple(b.waited_ns, b.cpu_ns, b.lived_ns);
    });
    return all;
  }
  uint64_t unlisted() const { return unlisted_; }

 private:
  KnownThreads& Group(const OfProcess& of, const std::string& thread, uint32_t tid) {
    const std::string name = options_.each ? Printable(thread) : FoldedThreadName(Printable(thread));
    KnownThreads& group = groups_[{of.newest->process, name, options_.each ? tid : 0}];
    group.program = of.program;
    group.name = name;
    group.tid = options_.each ? tid : 0;
    return group;
  }

  void AddLives(const OfProcess& of) {
    uint64_t listed = 0;
    const auto add = [&](const std::string& name, uint32_t tid, uint64_t threads, int64_t lived_ns, int64_t cpu_ns,
                         int64_t runnable_ns) {
      KnownThreads& group = Group(of, name, tid);
      tids_[{of.newest->process, group.name}].insert(tid);
      group.threads += threads;
      group.lived_ns = WrappedSum(group.lived_ns, lived_ns);
      group.cpu_ns = WrappedSum(group.cpu_ns, cpu_ns);
      group.runnable_ns = WrappedSum(group.runnable_ns, runnable_ns);
      listed += threads;
    };
    const Profile& newest = *of.newest->profile;
    const auto live = live_.find(static_cast<pid_t>(newest.process().pid));
    if (of.lives != nullptr) {
      // Since that file no thread has begun or ended: otherwise there would be a newer one.
      const int64_t since_ns = std::max<int64_t>(0, WrappedDifference(of.newest->steady_nanos, of.lives->steady_nanos));
      for (const record::ThreadTime& one : of.lives->profile->records().thread_times->thread) {
        if (one.tid != 0 && live != live_.end()) continue;
        add(one.name, one.tid, one.threads, WrappedSum(one.lived_ns, one.tid != 0 ? since_ns : 0), one.cpu_ns,
            one.runnable_ns);
      }
    }
    if (live != live_.end()) {
      for (const ThreadTime& one : live->second->threads) {
        const auto ns = [&one](ThreadDoes does) { return static_cast<int64_t>(one.ns[static_cast<int>(does)]); };
        add(live->second->names[one.name], one.id, one.threads, static_cast<int64_t>(one.lived_ns),
            ns(ThreadDoes::kCpu), ns(ThreadDoes::kRunnable));
      }
    }
    if (listed == 0) add(ProgramName(newest), newest.process().pid, 1, newest.process().elapsed_ns, 0, 0);
    if (of.threads == nullptr) return;
    const auto created = FindMetric(*of.threads->profile, "created");
    const int64_t all = WrappedSum(1, created.ok() ? of.threads->profile->Total(*created) : 0);
    if (all > static_cast<int64_t>(listed)) unlisted_ += static_cast<uint64_t>(all) - listed;
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
    const auto add = [&](int number, std::span<const uint32_t> stack, double waits, double delay_ns) {
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
      group.waited_ns += delay_ns;
      group.locks[text->second] += delay_ns;
    };
    for (const LockList::Pair& pair : list.pairs) {
      if (pair.waiter != LockList::kUnknown)
        add(pair.lock, list.stacks[static_cast<size_t>(pair.waiter)], pair.contentions, pair.delay_ns);
    }
    for (const LockList::Waiter& waiter : list.waiters)
      add(waiter.lock, waiter.stack, 1, static_cast<double>(waiter.delay_ns));
  }

  // The threads that a function was started with, if they have one name; otherwise the function.
  KnownThreads& GroupOfWaiter(const OfProcess& of, const std::string& start, const ThreadNames& names) {
    std::set<std::string> shown;
    if (const auto known = names.find(start); known != names.end()) {
      for (const std::string& name : known->second) shown.insert(options_.each ? name : FoldedThreadName(name));
    }
    // A thread without a name of its own has the program's.
    if (shown.empty() && (start == "main" || names.empty())) shown.insert(ProgramName(*of.newest->profile));
    if (shown.size() != 1) return Group(of, AsCall(start), 0);
    const auto tids = tids_.find({of.newest->process, Group(of, *shown.begin(), 0).name});
    const bool is_one = options_.each && tids != tids_.end() && tids->second.size() == 1;
    return Group(of, *shown.begin(), is_one ? *tids->second.begin() : 0);
  }

  const ThreadsOptions& options_;
  const std::map<pid_t, std::shared_ptr<const ThreadTimes>> live_;
  std::map<std::tuple<std::string, std::string, uint32_t>, KnownThreads> groups_;  // by process, name and thread
  std::map<std::pair<std::string, std::string>, std::set<uint32_t>> tids_;
  uint64_t unlisted_ = 0;
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

std::string FirstSentence(const std::vector<KnownThreads>& groups, bool records_waits) {
  if (groups.empty() || groups[0].waited_ns <= 0) return records_waits ? "No thread waited for a lock" : "";
  const KnownThreads& most = groups[0];
  const bool several = most.threads > 1 || most.name.ends_with('*');
  const std::string who = most.threads > 1            ? fmt::format("{} threads {}", most.threads, most.name)
                          : most.name.ends_with("()") ? fmt::format("Threads that begin with {}", most.name)
                          : several                   ? fmt::format("Threads {}", most.name)
                                                      : fmt::format("Thread {}", most.name);
  return fmt::format("{} waited {} for locks, most for {}", who, FormatTimeNs(Nanoseconds(most.waited_ns)),
                     LockOf(most));
}

TextTable KnownTable(std::vector<KnownThreads> groups, bool records_waits, uint64_t unlisted,
                     const ThreadsOptions& options) {
  std::set<std::string> programs;
  double everything = 0;
  for (const KnownThreads& group : groups) {
    programs.insert(group.program);
    everything += group.waited_ns;
  }
  TextTable table;
  table.columns = {{"thread", "thread", Column::kLeft, 0, 1, 0, true},
                   {"tid", options.each ? "tid" : "", Column::kRight, 0, 2},
                   {"threads", options.each ? "" : "threads", Column::kRight, 0, 2},
                   {"lived_ns", "lived", Column::kRight, 0, 2},
                   {"cpu_ns", "on CPU", Column::kRight, 0, 2},
                   {"runnable_ns", "wants CPU", Column::kRight, 0, 2},
                   {"waits", "waits", Column::kRight, 0, 2},
                   {"waited_ns", "for locks", Column::kRight, 0, 2},
                   {"lock", "waits most for", Column::kLeft, 0, 2, 0, true},
                   {"holder", "", Column::kLeft, 0, 2},
                   {"program", programs.size() > 1 ? "program" : "", Column::kLeft, 0, 2, 140}};
  if (const std::string sentence = FirstSentence(groups, records_waits); !sentence.empty()) {
    table.header.push_back(sentence);
    table.members.push_back({"summary", JsonString(sentence)});
  }
  if (unlisted > 0) {
    table.header.push_back(fmt::format("note     {} more threads began and ended between two snapshots", unlisted));
    table.members.push_back({"unlisted_threads", fmt::format("{}", unlisted)});
  }
  if (options.count != 0 && groups.size() > options.count) {
    table.header.push_back(fmt::format("showing  {} of {}", options.count, groups.size()));
    groups.resize(options.count);
  }
  const auto time = [](int64_t ns) { return Cell::Number(ns == 0 ? "-" : FormatTimeNs(ns), ns); };
  for (const KnownThreads& group : groups) {
    const auto [lock, holder] = MostWaitedFor(group);
    table.rows.push_back(
        {{Cell::Text(group.name), Cell::Number(group.tid != 0 ? fmt::format("{}", group.tid) : "-", group.tid),
          Cell::Number(group.threads != 0 ? fmt::format("{}", group.threads) : "-",
                       static_cast<int64_t>(group.threads)),
          time(group.lived_ns), time(group.cpu_ns), time(group.runnable_ns),
          Cell::Real(group.waits > 0 ? fmt::format("{:.0f}", group.waits) : "-", group.waits),
          time(Nanoseconds(group.waited_ns)), Cell::Text(LockOf(group), lock), Cell::Text(holder),
          Cell::Text(group.program)},
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
  bool records_waits = false;
  for (const auto& [process, of] : processes) {
    known.Add(of);
    records_waits |= of.records_waits;
  }
  const std::string more = fmt::format("holdfast run --wall -- PROGRAM, or while it runs: holdfast set {} wall=on",
                                       running != 0 ? fmt::format("{}", running) : "PID");
  if (processes.empty()) {
    SayTo(err,
          fmt::format("{}: says nothing about threads. To record where their time goes: {}", options.files[0], more));
    return kCouldNot;
  }
  TextTable table = KnownTable(known.Take(), records_waits, known.unlisted(), options);
  const std::string rest =
      fmt::format("what else the threads did, such as system calls, is not recorded. To record it: {}{}", more,
                  records_waits ? "" : "; waits for locks need --profiles with block");
  table.members.push_back({"not_recorded", JsonString(rest)});
  Print(table, style, out);
  if (style.format == Format::kTable) out << "note     " << rest << "\n";
  return kFine;
}

}  // namespace holdfast
