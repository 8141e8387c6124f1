#include "report/show/thread_table.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/locks/lock_costs.h"
#include "report/analysis/locks/wait_rank.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/thread_name.h"
#include "report/base/value_units.h"
#include "report/profile/typed_records.h"
#include "report/show/text_table.h"
#include "report/show/threads_without_looks.h"

namespace holdfast {
namespace {

// As in the label `state`; any other value is a system call.
enum State { kOnCpu, kWantsCpu, kForLock, kInIo, kAsleep, kInCall, kHeldUp, kNotSeen, kStates };
constexpr std::string_view kStateNames[kStates] = {"cpu",   "runnable", "lock",    "io",
                                                   "sleep", "syscall",  "stopped", "unknown"};

struct Group {
  std::string program, name;
  uint32_t tid = 0;
  uint64_t threads = 0;
  int64_t ns[kStates] = {};
  std::map<std::pair<std::string, std::string>, int64_t> locks;  // by lock and holder
  std::map<std::string, int64_t> calls;                          // by "io", "sleep" or the call's name
  int64_t futex_ns = 0;                                          // of `calls`: nobody knows what for
  int64_t lock_call_ns = 0;                                      // of `locks`: system calls in functions that lock
  // What the holder did meanwhile, by lock and holder.
  std::map<std::pair<std::string, std::string>, LockList::HolderStates> holder_does;

  int64_t open_ns = 0;   // of their lives, blocked in what the looks have not divided yet
  std::string one_name;  // of the threads, if all have the same
  bool several_names = false;

  int64_t lived_ns() const { return std::accumulate(std::begin(ns), std::end(ns), int64_t{0}); }
  double ShareOf(int64_t part) const {
    const int64_t all = lived_ns();
    return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
  }
};

State StateNamed(std::string_view name) {
  for (int i = 0; i < kStates; ++i) {
    if (name == kStateNames[i]) return static_cast<State>(i);
  }
  return name.starts_with("syscall:") ? kInCall : kNotSeen;
}

std::string NameOfGroup(std::string_view thread, bool each) {
  return each ? Printable(thread) : FoldedThreadName(Printable(thread));
}

// Of a lock that libc does not know, only the function that waits for it is known.
constexpr std::string_view kLockIn = "a lock in ";

// The time blocked that the looks have not divided yet.
int64_t OpenTimeOf(const record::ThreadTime& one) {
  return std::max<int64_t>(0, one.lived_ns - one.cpu_ns - one.runnable_ns - one.lock_ns - one.io_ns - one.sleep_ns -
                                  one.call_ns - one.stopped_ns - one.unknown_ns);
}

// By program and name.
using Groups = std::map<std::pair<std::string, std::string>, Group>;

// The groups of one process, by name; by folded name without `each`.
void AddSamplesOf(const ProfileFile& file, bool each, Groups* groups) {
  const Profile& profile = *file.profile;
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    std::string thread, lock, holder, address;
    std::string_view state, holder_state;
    bool is_known_wait = false;
    for (const Profile::Label& label : profile.LabelsOf(profile.samples[i])) {
      const std::string_view key = profile.strings[label.key], text = profile.strings[label.text];
      if (key == "thread") thread = text;
      if (key == "state") state = text;
      if (key == "holder_state") holder_state = text;
      if (key == "wait") is_known_wait = true;
      if (key == "lock") lock = text;
      if (key == "holder") holder = text;
      if (key == "lock_address") address = text;
    }
    const std::string name = NameOfGroup(thread, each);
    Group& group = (*groups)[{file.program, name}];
    group.program = file.program;
    group.name = name;
    group.several_names = group.several_names || (!group.one_name.empty() && group.one_name != thread);
    group.one_name = thread;
    const int64_t ns = profile.ValuesOf(i)[0];
    State what = StateNamed(state);
    const auto frames = profile.FramesOf(profile.samples[i]);
    if (state == "syscall:futex" && TakesALock(profile, frames)) {
      what = kForLock;
      group.lock_call_ns += ns;
      const auto plumbing = PlumbingOf(file, {});
      if (plumbing.ok()) lock = fmt::format("{}{}", kLockIn, AsCall((*plumbing)->OwnerName(frames)));
    }
    group.ns[what] += ns;
    if (what == kForLock) {
      const std::pair place(lock.empty() ? address : lock, holder);
      group.locks[place] += ns;
      group.holder_does[place][std::string(holder_state)] += ns;
    }
    if (state == "syscall:futex" && what == kInCall && !is_known_wait && !WaitsForAnEvent(profile, frames))
      group.futex_ns += ns;
    if (what == kInCall && state.size() > 8) group.calls[std::string(state.substr(8))] += ns;
  }
  if (!profile.records().thread_times.has_value()) return;
  for (const record::ThreadTime& one : profile.records().thread_times->thread) {
    const auto group = groups->find({file.program, NameOfGroup(one.name, each)});
    if (group == groups->end()) continue;
    group->second.threads += one.threads;
    group->second.open_ns += OpenTimeOf(one);
  }
}

// One group for each thread. Samples have names but no thread ids: several threads with one name have no lock here, unless
// all of them wait for one. A sum of many has those of all like-named threads.
std::vector<Group> EachThread(const ProfileFile& file, const Groups& by_name, const Groups& by_folded_name) {
  std::vector<Group> threads;
  if (!file.profile->records().thread_times.has_value()) return threads;
  for (const record::ThreadTime& one : file.profile->records().thread_times->thread) {
    Group& thread = threads.emplace_back();
    thread.program = file.program;
    thread.name = one.name;
    thread.tid = one.tid;
    thread.threads = one.threads;
    thread.open_ns = OpenTimeOf(one);
    const int64_t times[kStates] = {one.cpu_ns,   one.runnable_ns, one.lock_ns,    one.io_ns,
                                    one.sleep_ns, one.call_ns,     one.stopped_ns, one.unknown_ns};
    std::copy(std::begin(times), std::end(times), std::begin(thread.ns));
    const auto find = [&](const Groups& groups, bool each) -> const Group* {
      const auto found = groups.find({file.program, NameOfGroup(one.name, each)});
      return found != groups.end() ? &found->second : nullptr;
    };
    const Group* group = find(by_name, true);
    if (group == nullptr && one.tid == 0) group = find(by_folded_name, false);
    if (group == nullptr) continue;
    // The samples know calls only by name.
    const int64_t of_group = group->ns[kInCall] + group->lock_call_ns;
    const double part = static_cast<double>(one.call_ns) / static_cast<double>(std::max<int64_t>(1, of_group));
    const auto lock_call_ns = static_cast<int64_t>(part * static_cast<double>(group->lock_call_ns));
    thread.ns[kInCall] -= lock_call_ns;
    thread.ns[kForLock] += lock_call_ns;
    thread.futex_ns = static_cast<int64_t>(part * static_cast<double>(group->futex_ns));
    if (thread.ns[kForLock] > 0 && (one.tid == 0 || group->threads == 1 || group->locks.size() == 1)) {
      thread.locks = group->locks;
      thread.holder_does = group->holder_does;
    }
    for (const auto& [name, ns] : group->calls)
      thread.calls[name] = static_cast<int64_t>(part * static_cast<double>(ns));
  }
  return threads;
}

template <typename Key>
const std::pair<const Key, int64_t>* LargestOf(const std::map<Key, int64_t>& sums) {
  const auto most =
      std::max_element(sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == sums.end() ? nullptr : &*most;
}

// The lock with most of a group's waits, and its most frequent holder.
struct MainLock {
  const std::pair<std::string, std::string>* place = nullptr;  // lock and holder; null: no waits
  int64_t ns = 0;                                              // of this holder
  double part = 1;  // of the group's waits for locks, with any holder; 1 if it is nearly all of them
};
MainLock MainLockOf(const Group& group) {
  constexpr double kNearlyAll = 0.9;
  std::map<std::string_view, int64_t> by_lock;
  double all = 0;
  for (const auto& [place, ns] : group.locks) {
    by_lock[place.first] += ns;
    all += static_cast<double>(ns);
  }
  MainLock main;
  const auto* most = LargestOf(by_lock);
  if (most == nullptr) return main;
  for (const auto& [place, ns] : group.locks) {
    if (place.first == most->first && (main.place == nullptr || main.ns < ns)) main.place = &place, main.ns = ns;
  }
  const auto of_main = static_cast<double>(most->second);
  if (of_main < kNearlyAll * all) main.part = of_main / all;
  return main;
}

std::string LockText(const MainLock& lock) {
  if (lock.place == nullptr) return "";
  const auto& [name, holder] = *lock.place;
  if (name.starts_with(kLockIn)) return name;
  return holder.empty() ? std::string(ShortName(name)) : fmt::format("{}, held by {}", ShortName(name), AsCall(holder));
}

// "; whoever holds it is asleep for 93 % of that": the holder of the text is only the most frequent one. "" if the
// holder does nothing for long, or if not known.
std::string WhatHolderDoes(const Group& group, const MainLock& lock) {
  constexpr double kLong = 0.3;
  const auto known = lock.place != nullptr ? group.holder_does.find(*lock.place) : group.holder_does.end();
  if (known == group.holder_does.end() || lock.place->second.empty()) return "";
  const auto* most = LargestOf(known->second);
  const double share = static_cast<double>(most->second) / static_cast<double>(std::max<int64_t>(1, lock.ns));
  if (share < kLong || most->first.empty() || most->first == "free") return "";
  return fmt::format("; whoever holds it is {} for {:.0f} % of that", HolderStateText(most->first), 100 * share);
}

std::string CallShares(const Group& group) {
  std::vector<std::pair<int64_t, std::string>> calls;
  for (const auto& [name, ns] : group.calls) calls.emplace_back(ns, name);
  std::sort(calls.rbegin(), calls.rend());
  std::vector<std::string> texts;
  for (const auto& [ns, name] : calls) {
    const double share = group.ShareOf(ns);
    if (texts.size() < 3 && share >= 0.005) texts.push_back(fmt::format("{} {:.0f}%", name, 100 * share));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

// CPU time of threads that lived too shortly to be seen has this instead of a thread's name.
constexpr std::string_view kBetweenLooks = "[between looks]";

const Group* LargestFutex(const std::vector<Group>& groups) {
  const Group* most = nullptr;
  for (const Group& group : groups) {
    if (group.futex_ns > 0 && (most == nullptr || most->futex_ns < group.futex_ns)) most = &group;
  }
  return most;
}

// "8 threads worker-* spend 61 % of their time waiting for cache_mutex, held by evict()". What holds threads up comes
// first: the most time waiting for locks, where each second counts as three, for CPUs, or in input and output. If the calls are known, the shares are of the time that was seen;
// otherwise nearly all time is unknown. Threads are left out if more of their time on a CPU may be between looks than was seen.
std::string MostImportant(const std::vector<Group>& groups, bool calls_known, bool locks_known) {
  constexpr double kWorthSaying = 0.05;
  const auto whole = [calls_known](const Group& group) {
    return static_cast<double>((calls_known ? group.lived_ns() - group.ns[kNotSeen] : group.lived_ns()) +
                               group.open_ns);
  };
  int64_t between_looks_ns = 0;
  for (const Group& group : groups) between_looks_ns += group.name == kBetweenLooks ? group.ns[kOnCpu] : 0;
  const auto is_mostly_seen = [](const Group& group) {
    return 2 * group.ns[kNotSeen] <= group.lived_ns() + group.open_ns;
  };
  const auto may_be_named = [&](const Group& group) {
    return group.name != kBetweenLooks && (is_mostly_seen(group) || group.ns[kOnCpu] >= between_looks_ns);
  };
  const auto share_of = [&whole](const Group& group, State state) {
    return group.ns[state] == 0 ? 0 : static_cast<double>(group.ns[state]) / whole(group);
  };
  struct Choice {
    State state;
    double least, weight;
    const Group* most = nullptr;
  };
  // Locks are what a program can change, so a little time is worth saying.
  Choice choices[] = {{kForLock, kWorthSaying, 3}, {kWantsCpu, 2 * kWorthSaying, 1}, {kInIo, 2 * kWorthSaying, 1}};
  Choice computing = {kOnCpu, kWorthSaying, 1};
  const auto find = [&](Choice* choice) {
    for (const Group& group : groups) {
      if (!may_be_named(group) || share_of(group, choice->state) < choice->least) continue;
      if (choice->most == nullptr || choice->most->ns[choice->state] < group.ns[choice->state]) choice->most = &group;
    }
  };
  const auto rank = [](const Choice& choice) {
    return choice.most == nullptr ? 0 : choice.weight * static_cast<double>(choice.most->ns[choice.state]);
  };
  const auto who = [](const Group& group) {
    const bool several = group.threads > 1 || group.several_names;
    return group.threads > 1 ? fmt::format("{} threads {} spend", group.threads, group.name)
           : several         ? fmt::format("Threads {} spend", group.name)
                             : fmt::format("Thread {} spends", group.name);
  };
  const auto share_text = [&](const Group& group, double share) {
    const bool several = group.threads > 1 || group.several_names;
    const bool is_seen = !calls_known || is_mostly_seen(group);
    return fmt::format("{:.0f} % of {}", 100 * share,
                       is_seen ? (several ? "their time" : "its time")
                               : (several ? "the time in which they were seen" : "the time in which it was seen"));
  };
  for (Choice& choice : choices) find(&choice);
  find(&computing);
  const Choice* best = &computing;
  for (const Choice& choice : choices) {
    if (choice.most != nullptr && (best == &computing || rank(choice) > rank(*best))) best = &choice;
  }
  if (const Group* most = best->most; most != nullptr) {
    const std::string begins = fmt::format("{} {}", who(*most), share_text(*most, share_of(*most, best->state)));
    switch (best->state) {
      case kForLock: {
        const MainLock lock = MainLockOf(*most);
        const std::string which =
            lock.part < 1 ? fmt::format("locks, {:.2g} % for ", 100 * lock.part * share_of(*most, kForLock)) : "";
        return fmt::format("{} waiting for {}{}{}", begins, which, LockText(lock), WhatHolderDoes(*most, lock));
      }
      case kWantsCpu:
        return fmt::format(
            "{} waiting for a CPU: more threads are ready to run than there are CPUs for them, or a quota of CPU time is "
            "used up",
            begins);
      case kInIo:
        return begins + " in input and output";
      default:
        return begins + " on a CPU";
    }
  }
  const auto* futex = LargestFutex(groups);
  if (futex != nullptr && calls_known && may_be_named(*futex)) {
    const double share = static_cast<double>(futex->futex_ns) / std::max(1.0, whole(*futex));
    if (share >= kWorthSaying) {
      return fmt::format("{} {} in futex waits that were not recorded: these may be for locks", who(*futex),
                         share_text(*futex, share));
    }
  }
  double all = 0, idle = 0, lived = 0, unseen = 0;
  for (const Group& group : groups) {
    all += whole(group);
    lived += static_cast<double>(group.lived_ns());
    unseen += static_cast<double>(group.ns[kNotSeen]);
    idle += static_cast<double>(group.ns[kAsleep]) + static_cast<double>(group.ns[kInCall]) +
            static_cast<double>(group.open_ns);
  }
  if (!calls_known || 2 * idle <= all) return "";
  const std::string which =
      2 * unseen > lived ? fmt::format(", in the {:.2g} % of it that was seen", 100 * (1 - unseen / lived)) : "";
  return fmt::format("No threads spend much of their time on a CPU, waiting for {}, or in input and output{}",
                     locks_known ? "a lock or a CPU" : "a CPU", which);
}

// `unknown`: why system calls could not be read; "": they could.
TextTable TableOf(std::vector<Group> groups, const std::string& unknown, bool locks_known,
                  const ThreadsOptions& options) {
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    const auto busy = [](const Group& group) {
      return group.ns[kOnCpu] + group.ns[kWantsCpu] + group.ns[kForLock] + group.ns[kInIo];
    };
    return std::pair(busy(a), a.lived_ns()) > std::pair(busy(b), b.lived_ns());
  });
  std::set<std::string> programs;
  bool any_stopped = false, any_unseen = false;
  int64_t everything = 0;
  for (const Group& group : groups) {
    programs.insert(group.program);
    any_stopped |= group.ns[kHeldUp] > 0;
    any_unseen |= group.ShareOf(group.ns[kNotSeen]) >= 0.005;
    everything += group.lived_ns();
  }
  TextTable table;
  table.columns = FirstThreadColumns(options.each);
  table.columns.insert(table.columns.end(),
                       {{"lock_ns", "lock", Column::kRight, 0, 2},
                        {"io_ns", "io", Column::kRight, 0, 2},
                        {"sleep_ns", "sleep", Column::kRight, 0, 2},
                        {"syscall_ns", "other calls", Column::kRight, 0, 2},
                        {"stopped_ns", any_stopped ? "stopped" : "", Column::kRight, 0, 2},
                        {"unknown_ns", any_unseen ? "not seen" : "", Column::kRight, 0, 2},
                        {"lock", "waits most for", Column::kLeft, 0, 2, 0, true},
                        {"holder", "", Column::kLeft, 0, 2},
                        {"calls", "calls", Column::kLeft, 0, 2, 120, true},
                        {"program", programs.size() > 1 ? "program" : "", Column::kLeft, 0, 2, 140}});
  const std::string sentence = MostImportant(groups, unknown.empty(), locks_known);
  if (!sentence.empty()) {
    table.header.push_back(sentence);
    table.members.push_back({"summary", JsonString(sentence)});
  }
  if (!unknown.empty()) table.members.push_back({"calls_unknown", JsonString(unknown)});
  if (options.count != 0 && groups.size() > options.count) {
    table.header.push_back(fmt::format("showing  {} of {}", options.count, groups.size()));
    groups.resize(options.count);
  }
  for (const Group& group : groups) {
    const auto share = [&group](State state) {
      const int64_t ns = group.ns[state];
      return Cell::Number(ns == 0 ? "-" : fmt::format("{:.1f}%", 100 * group.ShareOf(ns)), ns);
    };
    const MainLock lock = MainLockOf(group);
    table.rows.push_back(
        {{Cell::Text(group.name), Cell::Number(group.tid != 0 ? fmt::format("{}", group.tid) : "-", group.tid),
          Cell::Number(group.threads != 0 ? fmt::format("{}", group.threads) : "-",
                       static_cast<int64_t>(group.threads)),
          Cell::Number(FormatTimeNs(group.lived_ns()), group.lived_ns()), share(kOnCpu), share(kWantsCpu),
          share(kForLock), share(kInIo), share(kAsleep), share(kInCall), share(kHeldUp), share(kNotSeen),
          Cell::Text(lock.place == nullptr && group.ns[kForLock] > 0
                         ? "not known"
                         : (lock.part < 1 ? fmt::format("{:.0f}% ", 100 * lock.part) : "") + LockText(lock),
                     lock.place != nullptr ? lock.place->first : ""),
          Cell::Text(lock.place != nullptr ? lock.place->second : ""), Cell::Text(CallShares(group)),
          Cell::Text(group.program)},
         everything > 0 ? static_cast<double>(group.lived_ns()) / static_cast<double>(everything) : 0});
  }
  return table;
}

}  // namespace

std::vector<Column> FirstThreadColumns(bool each) {
  return {{"thread", "thread", Column::kLeft, 0, 1, 0, true},
          {"tid", each ? "tid" : "", Column::kRight, 0, 2},
          {"threads", each ? "" : "threads", Column::kRight, 0, 2},
          {"lived_ns", "lived", Column::kRight, 0, 2},
          {"cpu_ns", "on CPU", Column::kRight, 0, 2},
          {"runnable_ns", "wants CPU", Column::kRight, 0, 2}};
}

int RunThreads(const ThreadsOptions& options, std::ostream& out, std::ostream& err) {
  const auto wrong = [&err](const absl::Status& status, int code) {
    SayTo(err, std::string(status.message()));
    return code;
  };
  auto style = StyleFor(options.format, options.color);
  if (!style.ok()) return wrong(style.status(), kWrongUsage);
  if (options.width != 0) style->width = options.width;
  if (options.wide) style->width = 0;
  const auto set = ReadProfileSet(options.files, {});
  if (!set.ok()) return wrong(set.status(), kCouldNot);
  for (const std::string& warning : set->warnings) SayTo(err, warning);
  Groups by_name, by_folded_name;
  std::vector<const ProfileFile*> files;
  std::string unknown;
  uint64_t unlisted = 0;
  bool locks_known = true;
  std::set<std::string> processes, with_looks;
  for (const ProfileGroup& group : set->groups) {
    if (!group.process.empty()) (group.kind == "wall" ? with_looks : processes).insert(group.process);
    if (group.kind != "wall") continue;
    for (const ProfileFile& file : group.files) {
      if (file.profile == nullptr || !group.Counts(file)) continue;
      files.push_back(&file);
      AddSamplesOf(file, options.each, &by_name);
      if (options.each) AddSamplesOf(file, false, &by_folded_name);
      if (const auto& times = file.profile->records().thread_times; times.has_value()) {
        if (!times->unknown.empty()) unknown = Printable(times->unknown);
        unlisted += times->most_unlisted;
        locks_known = locks_known && !times->lacks_locks;
      }
    }
  }
  if (files.empty()) return ShowThreadsWithoutLooks(*set, *style, options, out, err);
  std::vector<Group> groups;
  if (options.each) {
    for (const ProfileFile* file : files) {
      const std::vector<Group> threads = EachThread(*file, by_name, by_folded_name);
      groups.insert(groups.end(), threads.begin(), threads.end());
    }
  } else {
    for (auto& [name, group] : by_name) {
      if (!group.several_names && !group.one_name.empty()) group.name = Printable(group.one_name);
      groups.push_back(std::move(group));
    }
  }
  TextTable table = TableOf(std::move(groups), unknown, locks_known, options);
  if (!unknown.empty()) table.header.push_back("calls    not known: " + unknown);
  if (!locks_known) {
    table.header.push_back(
        "note     waits for locks were not always recorded (--lock-interval 0, --profiles, or holdfast set PID lock=off): "
        "those that were not are in other calls, as futex");
  }
  table.members.push_back({"locks_known", locks_known ? "true" : "false"});
  if (unlisted > 0) {
    table.header.push_back(
        fmt::format("note     up to {} thread{} could not be looked at, because the exporter had no descriptors left "
                    "(ulimit -n): only {} CPU time is known, in {}",
                    unlisted, unlisted == 1 ? "" : "s", unlisted == 1 ? "its" : "their", kBetweenLooks));
    table.members.push_back({"threads_unlisted", fmt::format("{}", unlisted)});
  }
  std::erase_if(processes, [&with_looks](const std::string& process) { return with_looks.contains(process); });
  if (const size_t others = processes.size(); others > 0) {
    table.header.push_back(
        fmt::format("note     {} process{} without a wall profile {} not shown: give only {} files to see {} threads",
                    others, others == 1 ? "" : "es", others == 1 ? "is" : "are", others == 1 ? "its" : "their",
                    others == 1 ? "its" : "their"));
    table.members.push_back({"processes_without_wall", fmt::format("{}", others)});
  }
  Print(table, *style, out);
  return kFine;
}

}  // namespace holdfast
