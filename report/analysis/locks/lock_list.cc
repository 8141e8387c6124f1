#include "report/analysis/locks/lock_list.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "fmt/format.h"
#include "report/analysis/locks/waiting_list.h"
#include "report/analysis/profiles/filtered_stacks.h"
#include "report/analysis/profiles/metric.h"
#include "report/base/value_units.h"
#include "report/profile/lock_record_limits.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

// Files may say anything: what is not in range becomes unknown.
int StackIndexOf(uint32_t number, size_t count) {
  return number == 0 || number > count ? LockList::kUnknown : static_cast<int>(number - 1);
}

LockList::Lock LockOf(const record::Lock& read, size_t stacks) {
  LockList::Lock lock;
  lock.number = static_cast<int>(std::min<uint32_t>(read.number, INT32_MAX));
  lock.kind = read.kind;
  lock.address = fmt::format("0x{:x}", read.address);
  lock.address_value = read.address;
  lock.contentions = read.contentions;
  lock.delay_ns = read.delay_ns;
  lock.longest_ns = read.longest_ns;
  lock.holds = read.holds;
  lock.hold_ns = read.hold_ns;
  lock.held_ns = read.held_ns;
  lock.longest_held_ns = read.longest_held_ns;
  lock.alone_ns = read.alone_ns;
  lock.wait_times = read.wait_times;
  lock.hold_times = read.hold_times;
  lock.waiting = std::max<int64_t>(0, read.waiting);
  lock.waiting_ns = std::max<int64_t>(0, read.waiting_ns);
  lock.longest_waiting_ns = std::clamp<int64_t>(read.longest_waiting_ns, 0, lock.waiting_ns);
  lock.name = read.name;
  if (read.name.empty() && !read.file.empty()) {
    lock.file = read.file;
    lock.file_address = read.file_address;
    lock.name = fmt::format("{}!0x{:x}", read.file, read.file_address);
  }
  lock.block_bytes = read.block_bytes;
  lock.block_offset = read.block_offset;
  lock.block_stack = StackIndexOf(read.block_stack, stacks);
  lock.thread_offset = read.thread_offset;
  lock.member = read.member;
  if (read.locks > 1) {
    lock.locks = read.locks;
    lock.hottest_ns = read.hottest_ns;
  }
  return lock;
}

LockList ListOf(const record::Locks& read) {
  LockList list;
  list.stacks = read.stack;
  const size_t stacks = read.stack.size();
  for (const record::Lock& lock : read.lock) list.locks.push_back(LockOf(lock, stacks));
  for (const record::LockPair& pair : read.pair) {
    list.pairs.push_back({static_cast<int>(std::min<uint32_t>(pair.lock, INT32_MAX)), StackIndexOf(pair.holder, stacks),
                          StackIndexOf(pair.waiter, stacks), pair.contentions, pair.delay_ns});
  }
  for (const record::LockSite& site : read.site) {
    const int stack = StackIndexOf(site.stack, stacks);
    if (stack == LockList::kUnknown) continue;
    list.sites.push_back({stack, site.kind, site.is_holder, site.longest_ns, site.times});
    if (site.alone_ns < 0 || site.delay_ns < site.alone_ns) continue;
    list.sites.back().delay_ns = site.delay_ns;
    list.sites.back().alone_ns = site.alone_ns;
  }
  return list;
}

std::string_view NameAt(const Profile& profile, uint32_t location) {
  const auto lines = profile.LinesOf(profile.locations[location]);
  if (lines.empty() || lines[0].function == Profile::kNone) return "?";
  return profile.strings[profile.functions[lines[0].function].name];
}

}  // namespace

int64_t LockList::Lock::all_delay_ns() const {
  int64_t sum = 0;
  return __builtin_add_overflow(delay_ns, waiting_ns, &sum) ? INT64_MAX : sum;
}

WaitTotals WaitTotalsOf(const Profile& profile, const LockList& list) {
  WaitTotals totals;
  for (const LockList::Lock& lock : list.locks) totals.Add(lock);
  const auto contentions = FindMetric(profile, "contentions"), delay = FindMetric(profile, "delay");
  if (profile.process().kind != "block" || !contentions.ok() || !delay.ok()) return totals;
  // The counters of the process have every wait, sampled or not.
  if (const auto& locks = profile.records().locks;
      locks.has_value() && (locks->contentions > 0 || locks->delay_ns > 0)) {
    totals.contentions = locks->contentions;
    totals.delay_ns = locks->delay_ns;
  }
  totals.waiting = totals.waiting_ns = 0;
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    if (!profile.IsWaiting(profile.samples[i])) continue;
    totals.waiting = WrappedSum(totals.waiting, profile.ValuesOf(i)[*contentions]);
    totals.waiting_ns = WrappedSum(totals.waiting_ns, profile.ValuesOf(i)[*delay]);
  }
  // In a running program the counters may be read one wait earlier than the samples. If every wait is a sample, the
  // samples are exact, too.
  const std::vector<Interval> intervals = IntervalsOf(profile);
  if (!intervals.empty() &&
      std::all_of(intervals.begin(), intervals.end(), [](const Interval& i) { return i.mean == 1; })) {
    totals.contentions = WrappedDifference(profile.Total(*contentions), totals.waiting);
    totals.delay_ns = WrappedDifference(profile.Total(*delay), totals.waiting_ns);
  }
  return totals;
}

LockList ReadLockList(const Profile& profile, Plumbing* plumbing) {
  const std::optional<record::Locks>& locks = profile.records().locks;
  LockList list = locks.has_value() ? ListOf(*locks) : LockList();
  const WaitingList waiting = ReadWaitingList(profile);
  for (const record::Wait& wait : waiting.waits) {
    if (wait.lock == 0 || wait.stack == 0) continue;
    list.waiters.push_back(
        {static_cast<int>(std::min<uint32_t>(wait.lock, INT32_MAX)), waiting.StackAt(wait.stack), wait.delay_ns});
  }
  // The order is the same whether or not plumbing is shown.
  std::optional<Plumbing> own;
  if (plumbing == nullptr) plumbing = &own.emplace(Plumbing::Make(profile, {}).value());
  for (LockList::Lock& lock : list.locks) lock.rank = RankOf(profile, list, lock, plumbing);
  std::stable_sort(list.locks.begin(), list.locks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return list;
}

std::string FunctionOf(const Profile& profile, std::span<const uint32_t> stack, Plumbing* plumbing) {
  if (plumbing != nullptr) return plumbing->OwnerName(stack);
  return stack.empty() ? "?" : std::string(NameAt(profile, stack[0]));
}

std::optional<std::string> NamedFunctionOf(const Profile& profile, std::span<const uint32_t> stack,
                                           Plumbing* plumbing) {
  if (plumbing != nullptr) return plumbing->NamedOwner(stack);
  return FunctionOf(profile, stack, nullptr);
}

std::vector<std::string> FunctionsOf(const Profile& profile, const std::vector<uint32_t>& stack) {
  std::vector<std::string> names;
  for (const uint32_t location : stack) names.emplace_back(NameAt(profile, location));
  return names;
}

std::string TopFunctionOf(const Profile& profile, const LockList& list, int lock, LockSide side, Plumbing* plumbing) {
  std::map<std::string, double> delays;
  for (const LockList::Pair& pair : list.pairs) {
    const int stack = side == LockSide::kHolder ? pair.holder : pair.waiter;
    // Waiters are known from waits; pairs with a holder name only some of them.
    if (pair.lock != lock || stack == LockList::kUnknown ||
        (side == LockSide::kWaiter && pair.holder != LockList::kUnknown))
      continue;
    delays[FunctionOf(profile, list.stacks[static_cast<size_t>(stack)], plumbing)] += pair.delay_ns;
  }
  for (const LockList::Waiter& waiter : list.waiters) {
    if (waiter.lock == lock && side == LockSide::kWaiter)
      delays[FunctionOf(profile, waiter.stack, plumbing)] += static_cast<double>(waiter.delay_ns);
  }
  const auto most =
      std::max_element(delays.begin(), delays.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == delays.end() ? "-" : most->first;
}

SiteLengths LengthsAtSites(const Profile& profile, const LockList& list, const LockList::Lock& lock, LockSide side,
                           const std::string& function, Plumbing* plumbing) {
  std::set<int> stacks;
  for (const LockList::Pair& pair : list.pairs) {
    const int stack = side == LockSide::kHolder ? pair.holder : pair.waiter;
    if (pair.lock == lock.number && stack != LockList::kUnknown) stacks.insert(stack);
  }
  SiteLengths lengths;
  for (const LockList::Site& site : list.sites) {
    if (site.is_holder != (side == LockSide::kHolder) || site.kind != lock.kind || !stacks.contains(site.stack))
      continue;
    if (FunctionOf(profile, list.stacks[static_cast<size_t>(site.stack)], plumbing) != function) continue;
    lengths.times.Add(site.times);
    lengths.longest_ns = std::max(lengths.longest_ns, site.longest_ns);
    lengths.delay_ns += site.delay_ns;
    lengths.alone_ns += site.alone_ns;
  }
  return lengths;
}

std::string LockKindOf(std::string_view wait) { return std::string(wait.starts_with("rwlock") ? "rwlock" : wait); }

bool IsUnheldKind(std::string_view name) {
  for (int kind = 0; kind < kWaitKinds; ++kind) {
    const auto known = static_cast<WaitKind>(kind);
    if (name == kWaitKindNames[kind]) return HasNoHolder(known) || known == WaitKind::kJoin;
  }
  return false;
}

WaitRank RankOf(const Profile& profile, const LockList& list, const LockList::Lock& lock, Plumbing* plumbing) {
  const bool is_futex = lock.kind == kWaitKindNames[static_cast<int>(WaitKind::kFutex)];
  if (!IsUnheldKind(lock.kind) && !is_futex) return WaitRank::kLock;
  std::set<std::string> waits, wakes;
  // Code without a name may be anything in its object.
  const auto add = [&](const std::vector<uint32_t>& stack, std::set<std::string>* functions) {
    if (const auto name = NamedFunctionOf(profile, stack, plumbing)) functions->insert(*name);
  };
  WaitRank unheld = WaitRank::kIdle;  // one waiter in the middle of work is enough
  for (const LockList::Pair& pair : list.pairs) {
    if (pair.lock != lock.number) continue;
    const auto stack_of = [&](int stack) -> const std::vector<uint32_t>& {
      return list.stacks[static_cast<size_t>(stack)];
    };
    if (pair.holder != LockList::kUnknown) add(stack_of(pair.holder), &wakes);
    if (pair.waiter == LockList::kUnknown) continue;
    if (!WaitsForAnEvent(profile, stack_of(pair.waiter))) add(stack_of(pair.waiter), &waits);
    unheld = std::min(unheld, RankOfUnheld(profile, stack_of(pair.waiter), false, plumbing));
  }
  const auto is_woken = [&](const std::string& name) { return wakes.contains(name); };
  return is_futex && std::any_of(waits.begin(), waits.end(), is_woken) ? WaitRank::kLock : unheld;
}

std::string LockNameOf(const Profile& profile, const LockList& list, const LockList::Lock& lock, Plumbing* plumbing) {
  if (lock.locks > 1) {
    return fmt::format("{} locks{}{}, the hottest {}", lock.locks, lock.class_name.empty() ? " like " : ": ",
                       lock.class_name.empty() ? lock.name.empty() ? lock.address : lock.name : lock.class_name,
                       FormatTimeNs(lock.hottest_ns));
  }
  if (!lock.name.empty()) return lock.name;
  if (lock.thread_offset > 0) return fmt::format("thread-local -{}", lock.thread_offset);
  if (lock.block_stack == LockList::kUnknown) return lock.address;
  const std::string function = FunctionOf(profile, list.stacks[static_cast<size_t>(lock.block_stack)], plumbing);
  if (lock.is_in_frame()) return fmt::format("{} into the frame of {}", lock.block_offset, function);
  if (!lock.member.empty()) return fmt::format("{} in a block from {}", lock.member, function);
  return fmt::format("{} into a block of {} from {}", lock.block_offset, FormatSize(lock.block_bytes), function);
}

}  // namespace holdfast
