#include "report/show/locks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/how_to_name.h"
#include "report/analysis/locks/lock_classes.h"
#include "report/analysis/locks/lock_costs.h"
#include "report/analysis/locks/lock_list.h"
#include "report/analysis/locks/stuck.h"
#include "report/analysis/profiles/filtered_stacks.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/analysis/profiles/short_name.h"
#include "report/analysis/profiles/spinning_locks.h"
#include "report/analysis/profiles/zero_profile.h"
#include "report/base/pattern.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/profile/lock_record_limits.h"
#include "report/profile/typed_records.h"
#include "report/profile/unrecorded_blocks.h"
#include "report/show/text_table.h"
#include "sampler/contract/records.h"

namespace holdfast {
namespace {

struct OneProfile {
  const ProfileFile* file;
  std::shared_ptr<Plumbing> plumbing;  // null: show functions as they are
  LockList list;
  std::vector<std::string> names;  // per lock; a sum of locks has one for each
  WaitTotals totals = {};          // including locks that are not in the list
};

std::string Top(const OneProfile& one, const LockList::Lock& lock, LockSide side) {
  return TopFunctionOf(*one.file->profile, one.list, lock.number, side, one.plumbing.get());
}

// Shows the short name to people; JSON and CSV get the whole name.
Cell NameCell(const std::string& name) { return Cell::Text(ShortName(name), name); }
Cell WaitTimeCell(int64_t ns) { return Cell::Number(FormatTimeNs(ns), ns); }

// Two digits suffice, because half a bucket of the histogram is 12 %.
Cell LengthCell(int64_t ns) { return ns < 0 ? Cell::Real("-", std::nan("")) : Cell::Number(FormatRoughTimeNs(ns), ns); }

// Waiting time by the state of the holder (label `holder_state`); the last part is not known.
constexpr std::array<const char*, 8> kHolderParts = {"holder_cpu_ns",     "holder_runnable_ns", "holder_lock_ns",
                                                     "holder_io_ns",      "holder_sleep_ns",    "holder_call_ns",
                                                     "holder_stopped_ns", "holder_unknown_ns"};
int64_t HolderPart(const LockList::Lock& lock, size_t part) {
  constexpr std::array<std::string_view, 5> kStates = {"cpu", "runnable", "lock", "io", "sleep"};
  int64_t sum = 0;
  for (const auto& [state, ns] : lock.holder_does) {
    const size_t place = std::find(kStates.begin(), kStates.end(), state) - kStates.begin();
    const size_t other = state.starts_with("syscall:") ? 5 : state == "stopped" ? 6 : 7;
    if (part == (place < kStates.size() ? place : other)) sum = WrappedSum(sum, ns);
  }
  return sum;
}

// Returns the lines under a row: the unabridged texts, and the lengths of waits and holds. The lengths are exact for
// the lock, and estimates for the two call sites.
std::vector<std::string> Details(const OneProfile& one, const LockList::Lock& lock) {
  const Profile& profile = *one.file->profile;
  std::vector<std::string> lines = {
      fmt::format("lock    {}, {}", LockKindOf(lock.kind), LockNameOf(profile, one.list, lock, one.plumbing.get()))};
  const auto add = [&](const char* what, const std::string& lengths) {
    if (!lengths.empty()) lines.push_back(fmt::format("{:<8}{}", what, lengths));
  };
  add("waits", lock.wait_times.LengthsText(lock.longest_ns));
  if (lock.waiting > 0) {
    lines.push_back(fmt::format("now     {} waiting, {} so far, the longest {}", lock.waiting,
                                FormatTimeNs(lock.waiting_ns), FormatTimeNs(lock.longest_waiting_ns)));
  }
  add("held", lock.hold_times.LengthsText(lock.longest_held_ns));
  if (lock.alone_ns > 0) {
    lines.push_back(fmt::format("readers the last reader was the only one for {} of {}", FormatTimeNs(lock.alone_ns),
                                FormatTimeNs(lock.held_ns)));
  }
  if (lock.call_cpu_ns.has_value())
    lines.push_back(fmt::format("cpu     {} in calls that lock and unlock it", FormatTimeNs(*lock.call_cpu_ns)));
  // Of whichever thread held it: the function below may be another's.
  if (const std::string does = HolderStatesText(lock.holder_does); !does.empty()) {
    int64_t looked_at_ns = 0;
    for (const auto& [state, ns] : lock.holder_does) looked_at_ns = WrappedSum(looked_at_ns, ns);
    add("holders", fmt::format("{}; of {} of waits", does, FormatTimeNs(looked_at_ns)));
  }
  for (const LockSide side : {LockSide::kHolder, LockSide::kWaiter}) {
    const std::string function = Top(one, lock, side);
    lines.push_back(fmt::format("{}  {}", side == LockSide::kHolder ? "holder" : "waiter", function));
    const SiteLengths lengths = LengthsAtSites(profile, one.list, lock, side, function, one.plumbing.get());
    add(side == LockSide::kHolder ? "  held" : "  waits", lengths.times.LengthsText(lengths.longest_ns));
    if (lengths.alone_ns > 0) {
      lines.push_back(
          fmt::format("  alone it was the only reader for {:.0f} % of the waited time",
                      100.0 * static_cast<double>(lengths.alone_ns) / static_cast<double>(lengths.delay_ns)));
    }
  }
  return lines;
}

// Says what the block profile has in total: "1.3s in 38 waits: 36 ended, 2 go on (96ms so far)".
void AddTotals(const WaitTotals& totals, const WaitTotals& listed, bool lacks_locks, TextTable* table) {
  const int64_t waits = WrappedSum(totals.contentions, totals.waiting);
  const int64_t delay_ns = WrappedSum(totals.delay_ns, totals.waiting_ns);
  if (waits == 0) return;
  std::string text = fmt::format("total    {} in {} wait{}", FormatTimeNs(delay_ns), waits, waits == 1 ? "" : "s");
  if (totals.waiting > 0) {
    text += fmt::format(": {} ended, {} go{} on ({} so far)", totals.contentions, totals.waiting,
                        totals.waiting == 1 ? "es" : "", FormatTimeNs(totals.waiting_ns));
  }
  const int64_t left_waits = WrappedDifference(waits, WrappedSum(listed.contentions, listed.waiting));
  const int64_t left_ns = WrappedDifference(delay_ns, WrappedSum(listed.delay_ns, listed.waiting_ns));
  if (left_waits > 0) {
    text += fmt::format("; {} of these, {}, have no row: joins{} idle threads{}", left_waits,
                        FormatTimeNs(std::max<int64_t>(0, left_ns)), lacks_locks ? "," : " and",
                        lacks_locks ? " and locks that had no room" : "");
  }
  table->header.push_back(std::move(text));
  for (const auto& [key, value] : {std::pair("contentions", totals.contentions),
                                   {"delay_ns", totals.delay_ns},
                                   {"waiting", totals.waiting},
                                   {"waiting_ns", totals.waiting_ns}})
    table->members.push_back({key, fmt::format("{}", value)});
}

// Whether a profile of any kind is of a process that was attached.
bool HasAttached(const ProfileSet& set) {
  return std::ranges::any_of(set.groups, [](const ProfileGroup& group) {
    return !group.files.empty() && group.newest().profile != nullptr && WasAttached(*group.newest().profile);
  });
}

TextTable LockTable(const std::vector<OneProfile>& profiles, bool has_attached, size_t count) {
  TextTable table;
  table.has_details = true;
  WaitTotals totals;
  for (const OneProfile& one : profiles) totals.Add(one.totals);
  const bool goes_on = totals.waiting > 0;
  const auto with_locks =
      std::count_if(profiles.begin(), profiles.end(), [](const OneProfile& one) { return !one.list.locks.empty(); });
  // The columns that answer the question come first and are always shown; the others are shown if there is room.
  table.columns = {{"kind", "kind", Column::kLeft, 0, 1, 100},
                   {"contentions", "waits", Column::kRight, 0, 2},
                   {"delay_ns", "total", Column::kRight, 0, 2},
                   {"", goes_on ? "now" : "", Column::kRight, 0, 2},
                   {"", goes_on ? "so far" : "", Column::kRight, 0, 2},
                   {"mean_ns", "", Column::kRight, 0, 2},
                   {"p50_ns", "p50", Column::kRight, 0, 2, 120},
                   {"p90_ns", "p90", Column::kRight, 0, 2, 140},
                   {"p99_ns", "p99", Column::kRight, 0, 2},
                   {"longest_ns", "longest", Column::kRight, 0, 2, 100},
                   {"held_ns", "held", Column::kRight, 0, 2, 100},
                   {"held_p50_ns", "held p50", Column::kRight, 0, 2, 140},
                   {"held_p90_ns", "", Column::kRight, 0, 2},
                   {"held_p99_ns", "held p99", Column::kRight, 0, 2, 120},
                   {"held_longest_ns", "", Column::kRight, 0, 2},
                   {"top_holder", "top holder", Column::kLeft, 0, 2, 0, true},
                   {"top_waiter", "top waiter", Column::kLeft, 0, 2, 0, true},
                   {"name", "lock", Column::kLeft, 0, 2, 0, true},
                   {"program", with_locks > 1 ? "program" : "", Column::kLeft, 0, 2, 140},
                   {"alone_ns", "", Column::kRight, 0, 2},
                   {"locks", "", Column::kRight, 0, 2},
                   {"hottest_ns", "", Column::kRight, 0, 2},
                   {"waiting", "", Column::kRight, 0, 2},
                   {"waiting_ns", "", Column::kRight, 0, 2},
                   {"longest_waiting_ns", "", Column::kRight, 0, 2},
                   {"call_cpu_ns", "", Column::kRight, 0, 2}};
  for (const char* part : kHolderParts) table.columns.push_back({part, "", Column::kRight, 0, 2});
  std::vector<std::pair<const OneProfile*, const LockList::Lock*>> locks;
  double everything = 0;
  bool capped = false;
  WaitTotals listed;
  for (const OneProfile& one : profiles) {
    capped = capped || one.list.locks.size() >= kMaxLocksWritten;
    for (const LockList::Lock& lock : one.list.locks) {
      // Skip locks for which only idle threads wait and that nobody has acquired.
      if (lock.rank == WaitRank::kIdle && lock.contentions == 0) continue;
      locks.emplace_back(&one, &lock);
      everything += static_cast<double>(lock.all_delay_ns());
      listed.Add(lock);
    }
  }
  uint64_t unlisted_samples = 0;
  for (const OneProfile& one : profiles) unlisted_samples += UnlistedLockSamplesOf(*one.file->profile);
  AddTotals(totals, listed, unlisted_samples > 0, &table);
  table.members.push_back({"unlisted_samples", fmt::format("{}", unlisted_samples)});
  std::stable_sort(locks.begin(), locks.end(), [](const auto& a, const auto& b) {
    return a.second->rank != b.second->rank ? a.second->rank < b.second->rank
                                            : a.second->all_delay_ns() > b.second->all_delay_ns();
  });
  const bool may_have_others = locks.empty() && unlisted_samples > 0;
  if (!may_have_others && (locks.empty() || locks[0].second->rank != WaitRank::kLock)) {
    table.header.push_back(fmt::format("note     no thread waited for a lock{}{}",
                                       locks.empty() ? "" : ": these waits are for things that nobody holds",
                                       has_attached ? "; waits that began before the attach are not recorded" : ""));
  }
  if (std::any_of(locks.begin(), locks.end(), [](const auto& lock) { return lock.second->rank == WaitRank::kLock; })) {
    table.header.push_back("note     uncontended acquisitions are not counted; held: while a thread waited");
  }
  if (count != 0 && locks.size() > count) {
    table.header.push_back(fmt::format("showing  {} of {}{} locks", count, capped ? "the hottest " : "", locks.size()));
    locks.resize(count);
  }
  if (std::any_of(locks.begin(), locks.end(), [](const auto& lock) {
        return !lock.second->wait_times.complete() || !lock.second->hold_times.complete();
      })) {
    table.header.push_back(
        "some waits have no recorded length (raise --max-memory), so their locks have no percentiles");
  }
  for (const auto& [one, lock] : locks) {
    const auto waited = [lock = lock](double share) {
      return LengthCell(lock->wait_times.Percentile(share, lock->longest_ns));
    };
    const auto held = [lock = lock](double share) {
      return LengthCell(lock->hold_times.Percentile(share, lock->longest_held_ns));
    };
    const int64_t mean = lock->contentions > 0 ? lock->delay_ns / lock->contentions : 0;
    const auto of_holder = [lock = lock](size_t part) {
      return lock->holder_does.empty() ? Cell::Real("", std::nan("")) : Cell::Number("", HolderPart(*lock, part));
    };
    table.rows.push_back(
        {{Cell::Text(LockKindOf(lock->kind)),
          Cell::Number(fmt::format("{}", lock->contentions), lock->contentions),
          WaitTimeCell(lock->delay_ns),
          lock->waiting > 0 ? Cell::Number(fmt::format("{}", lock->waiting), lock->waiting) : Cell::Number("-", 0),
          lock->waiting > 0 ? WaitTimeCell(lock->waiting_ns) : Cell::Number("-", 0),
          WaitTimeCell(mean),
          waited(0.5),
          waited(0.9),
          waited(0.99),
          WaitTimeCell(lock->longest_ns),
          lock->held_ns > 0 ? WaitTimeCell(lock->held_ns) : Cell::Number("-", 0),
          held(0.5),
          held(0.9),
          held(0.99),
          WaitTimeCell(lock->longest_held_ns),
          NameCell(Top(*one, *lock, LockSide::kHolder)),
          NameCell(Top(*one, *lock, LockSide::kWaiter)),
          NameCell(LockNameOf(*one->file->profile, one->list, *lock, one->plumbing.get())),
          Cell::Text(one->file->program),
          WaitTimeCell(lock->alone_ns),
          Cell::Number(fmt::format("{}", lock->locks), lock->locks),
          WaitTimeCell(lock->locks > 1 ? lock->hottest_ns : lock->all_delay_ns()),
          Cell::Number("", lock->waiting),
          WaitTimeCell(lock->waiting_ns),
          WaitTimeCell(lock->longest_waiting_ns),
          lock->call_cpu_ns.has_value() ? WaitTimeCell(*lock->call_cpu_ns) : Cell::Real("", std::nan("")),
          of_holder(0),
          of_holder(1),
          of_holder(2),
          of_holder(3),
          of_holder(4),
          of_holder(5),
          of_holder(6),
          of_holder(7)},
         everything > 0 ? static_cast<double>(lock->all_delay_ns()) / everything : 0,
         Details(*one, *lock)});
  }
  return table;
}

// Whether any function of a stack matches, including inlined ones.
bool StackMatches(const Profile& profile, const std::vector<uint32_t>& stack, const Pattern& pattern) {
  return std::ranges::any_of(stack, [&](uint32_t location) {
    return std::ranges::any_of(profile.LinesOf(profile.locations[location]), [&](const Profile::Line& line) {
      return line.function != Profile::kNone && pattern.Matches(profile.strings[profile.functions[line.function].name]);
    });
  });
}

// Lists the functions on the other side of all pairs in which the given side's stack has a matching function.
TextTable OtherSide(const std::vector<OneProfile>& profiles, const Pattern& pattern, LockSide given, size_t count) {
  const bool holders = given == LockSide::kHolder;
  struct Sum {
    double contentions = 0, delay_ns = 0;
    WaitRank rank = WaitRank::kLock;
  };
  std::map<std::tuple<std::string, std::string, std::string>, Sum> sums;
  double everything = 0;
  for (const OneProfile& one : profiles) {
    const Profile& profile = *one.file->profile;
    for (const LockList::Pair& pair : one.list.pairs) {
      const int mine = holders ? pair.holder : pair.waiter, other = holders ? pair.waiter : pair.holder;
      if (mine == LockList::kUnknown || pair.holder == LockList::kUnknown) continue;
      const auto& stack = one.list.stacks[static_cast<size_t>(mine)];
      if (!StackMatches(profile, stack, pattern)) continue;
      const auto lock = std::find_if(one.list.locks.begin(), one.list.locks.end(),
                                     [&](const LockList::Lock& l) { return l.number == pair.lock; });
      if (lock == one.list.locks.end()) continue;
      const std::string name =
          other == LockList::kUnknown
              ? "[not captured]"
              : FunctionOf(profile, one.list.stacks[static_cast<size_t>(other)], one.plumbing.get());
      Sum& sum = sums[{name, FunctionOf(profile, stack, one.plumbing.get()),
                       LockNameOf(profile, one.list, *lock, one.plumbing.get())}];
      sum.rank = lock->rank;
      sum.contentions += pair.contentions;
      sum.delay_ns += pair.delay_ns;
      everything += pair.delay_ns;
    }
  }
  std::vector<std::pair<std::tuple<std::string, std::string, std::string>, Sum>> rows(sums.begin(), sums.end());
  // Locks with a holder come first, as in the list of locks.
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.rank != b.second.rank ? a.second.rank < b.second.rank : a.second.delay_ns > b.second.delay_ns;
  });
  TextTable table;
  table.columns = {{"delay_ns", "delay", Column::kRight},
                   {"contentions", "holds", Column::kRight, 0, 2},
                   {holders ? "waiter" : "holder", holders ? "waiter" : "holder", Column::kLeft, 0, 2, 0, true},
                   {holders ? "holder" : "waiter", holders ? "holder" : "waiter", Column::kLeft, 0, 2, 0, true},
                   {"lock", "lock", Column::kLeft, 0, 2, 0, true}};
  if (count != 0 && rows.size() > count) {
    table.header.push_back(fmt::format("showing  {} of {}", count, rows.size()));
    rows.resize(count);
  }
  for (const auto& [names, sum] : rows) {
    table.rows.push_back({{WaitTimeCell(static_cast<int64_t>(sum.delay_ns)),
                           Cell::Real(fmt::format("{:.0f}", sum.contentions), sum.contentions),
                           NameCell(std::get<0>(names)), NameCell(std::get<1>(names)), NameCell(std::get<2>(names))},
                          everything > 0 ? sum.delay_ns / everything : 0});
  }
  return table;
}

// Says how much of the waiting time is in code without names, and how to get the names.
std::string NamesOf(const ProfileFile& file, const LocksOptions& options) {
  auto plumbing = Plumbing::Make(*file.profile, options.plumbing);
  const auto delay = FindMetric(*file.profile, "delay");
  if (!plumbing.ok() || !delay.ok()) return "";
  return HowToName(UnnamedCodeOf(*file.profile, *delay, &*plumbing), options.files);
}

// The same for locks without names, over all processes.
std::string LockNamesOf(const std::vector<OneProfile>& profiles, const LocksOptions& options, std::string_view said) {
  std::vector<NamesOfLocks> processes;
  for (const OneProfile& one : profiles) processes.push_back({one.file->profile.get(), one.names});
  return HowToNameLocks(processes, options.files, said);
}

// Returns where else threads waited at the last snapshots: "3 in OpenMP, 1 in malloc" per process; "" if nowhere.
std::string UnseenWaitsIn(const ProfileSet& set) {
  std::map<std::string, std::pair<int64_t, std::string>> newest;  // by process
  for (const ProfileGroup& group : set.groups) {
    const ProfileFile* file = group.NewestCumulative();
    if (file == nullptr || file->profile == nullptr) continue;
    auto& [time, waits] = newest[group.process];
    if (file->time_nanos < time) continue;
    time = file->time_nanos;
    waits = file->profile->process().unseen_waits;
  }
  std::set<std::string> all;
  for (const auto& [process, found] : newest) {
    if (!found.second.empty()) all.insert(Printable(found.second));
  }
  return fmt::format("{}", fmt::join(all, "; "));
}

// Whether the files prove that no thread waited, although none of them lists a lock.
std::string SpinningLocksOf(const ProfileSet& set) {
  std::vector<std::string_view> all;
  for (const ProfileGroup& group : set.groups) {
    const ProfileFile* file = group.NewestCumulative();
    if (file == nullptr || file->profile == nullptr) continue;
    for (const std::string_view one : SpinningLocksIn(*file->profile)) {
      if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
    }
  }
  return SpinningText(all);
}

bool SaysThatNobodyWaited(const ProfileSet& set, const std::vector<std::string>& files) {
  const auto is_of_waits = [](const ProfileGroup& group) { return group.kind == "block" || group.kind == "mutex"; };
  return std::any_of(set.groups.begin(), set.groups.end(), is_of_waits) || ZeroProfileIn(files, "block").has_value();
}

absl::StatusOr<std::shared_ptr<Plumbing>> PlumbingToFold(const Profile& profile, const LocksOptions& options) {
  if (!options.fold) return nullptr;
  auto plumbing = Plumbing::Make(profile, options.plumbing);
  if (!plumbing.ok()) return plumbing.status();
  return std::make_shared<Plumbing>(*std::move(plumbing));
}

}  // namespace

int RunLocks(const LocksOptions& options, std::ostream& out, std::ostream& err) {
  const auto wrong = [&err](const absl::Status& status, int code) {
    SayTo(err, std::string(status.message()));
    return code;
  };
  auto style = StyleFor(options.format, options.color);
  if (!style.ok()) return wrong(style.status(), kWrongUsage);
  if (options.width != 0) style->width = options.width;
  if (options.wide) style->width = 0;
  style->details = options.details;
  if (!options.holder.empty() && !options.waiter.empty()) {
    return wrong(absl::InvalidArgumentError("--holder and --waiter: give only one. The other side is listed."),
                 kWrongUsage);
  }
  const auto pattern = options.holder.empty() ? Pattern::Compile("--waiter", options.waiter)
                                              : Pattern::Compile("--holder", options.holder);
  if (!pattern.ok()) return wrong(pattern.status(), kWrongUsage);
  const auto set = ReadProfileSet(options.files, {});
  if (!set.ok()) return wrong(set.status(), kCouldNot);
  for (const std::string& warning : set->warnings) SayTo(err, warning);

  // Both kinds of profile agree about the locks of a process, but block profiles count all waits.
  std::map<std::string, const ProfileFile*> counts;  // by process
  for (const ProfileGroup& group : set->groups) {
    if (const ProfileFile* file = group.NewestCumulative();
        group.kind == "block" && file != nullptr && file->profile != nullptr && !group.process.empty())
      counts[group.process] = file;
  }
  const auto of_kind = [&set](const std::string& process, std::string_view kind) -> const Profile* {
    for (const ProfileGroup& group : set->groups) {
      const ProfileFile* file = group.NewestCumulative();
      if (group.kind == kind && group.process == process && file != nullptr && !process.empty())
        return file->profile.get();
    }
    return nullptr;
  };
  std::vector<OneProfile> profiles;
  std::set<std::string> seen;
  for (const ProfileGroup& group : set->groups) {
    const ProfileFile* file = group.NewestCumulative();
    if (file == nullptr && !group.files.empty()) file = &group.newest();  // a difference of two snapshots
    if (file == nullptr || file->profile == nullptr || (group.kind != "mutex" && group.kind != "block")) continue;
    const bool added = seen.insert(group.process).second || group.process.empty();
    auto other = profiles.end();
    if (!added) {
      other = std::find_if(profiles.begin(), profiles.end(),
                           [&](const OneProfile& one) { return one.file->process == group.process; });
      if (other == profiles.end() || other->file->time_nanos >= file->time_nanos) continue;
    }
    auto plumbing = PlumbingToFold(*file->profile, options);
    if (!plumbing.ok()) return wrong(plumbing.status(), kWrongUsage);
    OneProfile one = {file, *plumbing, ReadLockList(*file->profile, plumbing->get()), {}};
    const auto counted = counts.find(group.process);
    const bool has_counts = counted != counts.end() && counted->second->time_nanos >= file->time_nanos;
    one.totals = WaitTotalsOf(has_counts ? *counted->second->profile : *file->profile, one.list);
    for (const LockList::Lock& lock : one.list.locks) {
      LockList::Lock single = lock;
      single.locks = 1;
      one.names.insert(one.names.end(), static_cast<size_t>(std::clamp(lock.locks, 1, static_cast<int>(kMaxLocks))),
                       LockNameOf(*file->profile, one.list, single, one.plumbing.get()));
    }
    // These are of the whole life of the process, and a difference is of an interval.
    if (file->cumulative()) {
      if (const Profile* cpu = of_kind(group.process, "cpu"); cpu != nullptr)
        AddCpuOfCalls(*file->profile, *cpu, &one.list);
      if (const Profile* wall = of_kind(group.process, "wall"); wall != nullptr) AddHolderStates(*wall, &one.list);
    }
    if (!options.each) one.list = GroupByClass(*file->profile, std::move(one.list), one.plumbing.get());
    // A process without locks still has losses and totals.
    if (added) {
      profiles.push_back(std::move(one));
    } else {
      *other = std::move(one);
    }
  }
  const std::string unseen = UnseenWaitsIn(*set);
  if (profiles.empty() && !SaysThatNobodyWaited(*set, options.files)) {
    return wrong(absl::NotFoundError(fmt::format(
                     "{}: contains no locks. Give a mutex or block profile written by holdfast.", options.files[0])),
                 kCouldNot);
  }
  std::vector<HeaderLine> header;
  if (style->format == Format::kTable) {
    // Once is enough: the processes of a server have the same objects.
    std::string how;
    for (const OneProfile& one : profiles) {
      if (how.empty()) how = NamesOf(*one.file, options);
    }
    const std::string locks = LockNamesOf(profiles, options, how);
    if (!how.empty()) header.emplace_back("names    " + how, HeaderLine::kWarning);
    if (!locks.empty()) header.push_back("unnamed  " + locks);
    std::set<std::string> said_deadlocks;
    for (const OneProfile& one : profiles) {
      const std::string deadlocks = DeadlockText(*one.file->profile);
      if (!deadlocks.empty() && said_deadlocks.insert(deadlocks).second) out << deadlocks << "\n";
    }
    for (const OneProfile& one : profiles) {
      for (const std::string& loss : LockLossesOf(*one.file->profile)) {
        header.emplace_back(
            fmt::format("lost     {}{}", profiles.size() > 1 ? Printable(one.file->program) + ": " : "", loss),
            HeaderLine::kWarning);
      }
    }
    if (const std::string spinning = SpinningLocksOf(*set); !spinning.empty())
      header.push_back("note     " + Printable(spinning));
    if (!unseen.empty()) {
      header.push_back("note     other waits at the last snapshot: " + unseen +
                       ". They use system calls directly, which holdfast does not see");
    }
  }
  if (options.holder.empty() && options.waiter.empty()) {
    TextTable table = LockTable(profiles, HasAttached(*set), options.count);
    table.header.insert(table.header.begin(), header.begin(), header.end());
    if (table.rows.empty() && style->format == Format::kTable) table.columns.clear();
    Print(table, *style, out);
  } else {
    const bool holders = !options.holder.empty();
    TextTable table = OtherSide(profiles, *pattern, holders ? LockSide::kHolder : LockSide::kWaiter, options.count);
    if (table.rows.empty()) {
      return wrong(
          absl::NotFoundError(fmt::format("{}: no {} matches. List the names with holdfast locks.",
                                          holders ? "--holder " + options.holder : "--waiter " + options.waiter,
                                          holders ? "holder of a lock" : "waiter for a lock with a known holder")),
          kCouldNot);
    }
    table.header.insert(table.header.begin(), header.begin(), header.end());
    Print(table, *style, out);
  }
  return kFine;
}

}  // namespace holdfast
