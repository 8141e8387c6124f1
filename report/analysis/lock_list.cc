#include "report/analysis/lock_list.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "fmt/format.h"
#include "report/analysis/comment_words.h"
#include "report/analysis/waiting_list.h"
#include "report/base/value_units.h"
#include "report/pprof/lock_comment_limits.h"
#include "report/pprof/stack_text.h"
#include "report/profiles/filtered_stacks.h"
#include "report/profiles/metric.h"

namespace holdfast {
namespace {

constexpr int kMostStacks = 100'000;

class ListReader {
 public:
  explicit ListReader(const Profile& profile) : profile_(profile), by_address_(LocationsByAddressOf(profile)) {}

  LockList Read() {
    for (const StringId comment : profile_.comments) {
      const std::string_view text = profile_.strings[comment];
      if (text.starts_with("lock ")) ReadLine(text.substr(5));
    }
    const auto known = [this](int* stack) {
      if (*stack >= static_cast<int>(list_.stacks.size())) *stack = LockList::kUnknown;
    };
    for (LockList::Lock& lock : list_.locks) known(&lock.block_stack);
    std::erase_if(list_.sites,
                  [this](const LockList::Site& site) { return site.stack >= static_cast<int>(list_.stacks.size()); });
    for (LockList::Pair& pair : list_.pairs) {
      known(&pair.holder);
      known(&pair.waiter);
    }
    return std::move(list_);
  }

 private:
  void ReadLine(std::string_view text) {
    CommentWords words(text);
    CommentWords ahead = words;
    const std::string_view first = ahead.Next();
    if (first == "stack") return ReadStack(ahead);
    if (first == "pair") return ReadPair(ahead);
    if (first == "site") return ReadSite(ahead);
    LockList::Lock lock;
    if (!words.Take(&lock.number)) return;
    if (first.ends_with(':')) {
      lock.kind = words.Next();
      lock.address = words.Next();
      if (words.Is("contentions") && words.Take(&lock.contentions) && words.Is("delay_ns") &&
          words.Take(&lock.delay_ns) && words.Is("longest_ns") && words.Take(&lock.longest_ns) && words.Is("holds") &&
          words.Take(&lock.holds) && words.Is("hold_ns") && words.Take(&lock.hold_ns)) {
        list_.locks.push_back(std::move(lock));
      }
      return;
    }
    LockList::Lock* known = Find(lock.number);
    if (known == nullptr) return;
    const std::string_view what = words.Next();
    if (what == "name:") known->name = words.rest();
    if (what == "member:") known->member = words.rest();
    if (what == "waiting:" && words.Take(&lock.waiting) && words.Is("delay_ns") && words.Take(&lock.waiting_ns)) {
      known->waiting = std::max<int64_t>(0, lock.waiting);
      known->waiting_ns = std::max<int64_t>(0, lock.waiting_ns);
      if (words.Is("longest_ns") && words.Take(&lock.longest_waiting_ns))
        known->longest_waiting_ns = std::clamp<int64_t>(lock.longest_waiting_ns, 0, known->waiting_ns);
    }
    if (what == "thread-local:" && words.Take(&lock.thread_offset)) known->thread_offset = lock.thread_offset;
    if (what == "alone:") words.Take(&known->alone_ns);
    if (what == "locks:" && words.Take(&lock.locks) && lock.locks > 1 && words.Is("hottest_ns") &&
        words.Take(&lock.hottest_ns)) {
      known->locks = lock.locks;
      known->hottest_ns = lock.hottest_ns;
    }
    if (what == "wait_times:") known->wait_times = TimeCounts::FromText(words.rest());
    if (what == "hold_times:" && words.Is("held_ns") && words.Take(&lock.held_ns) && words.Is("longest_ns") &&
        words.Take(&lock.longest_held_ns)) {
      known->held_ns = lock.held_ns;
      known->longest_held_ns = lock.longest_held_ns;
      known->hold_times = TimeCounts::FromText(words.rest());
    }
    int stack = LockList::kUnknown;
    if (what == "block:" && words.Take(&lock.block_bytes) && words.Is("bytes,") && words.Take(&lock.block_offset) &&
        words.Is("into") && words.Is("it,") && words.Is("stack") && words.Take(&stack) && stack >= 0) {
      known->block_bytes = lock.block_bytes;
      known->block_offset = lock.block_offset;
      known->block_stack = stack;
    }
    if (what == "frame:" && words.Take(&lock.block_offset) && words.Is("into") && words.Is("it,") &&
        words.Is("stack") && words.Take(&stack) && stack >= 0) {
      known->block_offset = lock.block_offset;
      known->block_stack = stack;
    }
  }

  void ReadStack(CommentWords words) {
    int number = 0;
    if (!words.Take(&number) || number < 0 || number > kMostStacks) return;
    if (list_.stacks.size() <= static_cast<size_t>(number)) list_.stacks.resize(static_cast<size_t>(number) + 1);
    ReadStackText(words.rest(), by_address_, &list_.stacks[static_cast<size_t>(number)]);
  }

  void ReadPair(CommentWords words) {
    int number = 0;
    LockList::Pair pair;
    if (words.Take(&number) && words.Is("lock") && words.Take(&pair.lock) && words.Is("holder") &&
        words.TakeOrNone(&pair.holder) && words.Is("waiter") && words.TakeOrNone(&pair.waiter) &&
        words.Is("contentions") && words.Take(&pair.contentions) && words.Is("delay_ns") &&
        words.Take(&pair.delay_ns) && pair.holder >= LockList::kUnknown && pair.waiter >= LockList::kUnknown) {
      list_.pairs.push_back(pair);
    }
  }

  void ReadSite(CommentWords words) {
    LockList::Site site;
    if (!words.Take(&site.stack) || site.stack < 0) return;
    site.kind = words.Next();
    const std::string_view what = words.Next();
    if (what == "alone:") return ReadAlone(words, site);
    site.is_holder = what == "hold_times:";
    if ((!site.is_holder && what != "wait_times:") || !words.Is("longest_ns") || !words.Take(&site.longest_ns)) return;
    site.times = TimeCounts::FromText(words.rest());
    list_.sites.push_back(std::move(site));
  }

  // This comment follows the lengths of the same site.
  void ReadAlone(CommentWords words, const LockList::Site& site) {
    int64_t alone_ns = 0, delay_ns = 0;
    if (!words.Take(&alone_ns) || !words.Is("of") || !words.Take(&delay_ns) || alone_ns < 0 || delay_ns < alone_ns)
      return;
    for (LockList::Site& known : list_.sites) {
      if (!known.is_holder || known.stack != site.stack || known.kind != site.kind) continue;
      known.delay_ns = delay_ns;
      known.alone_ns = alone_ns;
    }
  }

  LockList::Lock* Find(int number) {
    for (LockList::Lock& lock : list_.locks) {
      if (lock.number == number) return &lock;
    }
    return nullptr;
  }

  const Profile& profile_;
  LockList list_;
  const LocationsByAddress by_address_;
};

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
  for (const LockList::Lock& lock : list.locks) {
    totals.contentions = WrappedSum(totals.contentions, lock.contentions);
    totals.delay_ns = WrappedSum(totals.delay_ns, lock.delay_ns);
    totals.waiting = WrappedSum(totals.waiting, lock.waiting);
    totals.waiting_ns = WrappedSum(totals.waiting_ns, lock.waiting_ns);
  }
  const auto contentions = FindMetric(profile, "contentions"), delay = FindMetric(profile, "delay");
  if (profile.CommentValue("kind") != "block" || !contentions.ok() || !delay.ok()) return totals;
  // The process's counters include every wait, sampled or not.
  int64_t counted = 0;
  CommentWords waits(profile.CommentValue("contentions")), waited(profile.CommentValue("delay_ns"));
  if (waits.Take(&counted)) totals.contentions = counted;
  if (waited.Take(&counted)) totals.delay_ns = counted;
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
  LockList list = ListReader(profile).Read();
  const WaitingList waiting = ReadWaitingList(profile);
  for (const WaitingList::Wait& wait : waiting.waits) {
    if (wait.lock == WaitingList::kUnknown || wait.stack < 0 ||
        static_cast<size_t>(wait.stack) >= waiting.stacks.size())
      continue;
    list.waiters.push_back({wait.lock, waiting.stacks[static_cast<size_t>(wait.stack)], wait.delay_ns});
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

std::string LockKindOf(const LockList::Lock& lock) { return lock.kind.starts_with("rwlock") ? "rwlock" : lock.kind; }

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
  WaitRank unheld = WaitRank::kIdle;  // one waiter in the middle of work is enough
  for (const LockList::Pair& pair : list.pairs) {
    if (pair.lock != lock.number) continue;
    const auto stack_of = [&](int stack) -> const std::vector<uint32_t>& {
      return list.stacks[static_cast<size_t>(stack)];
    };
    if (pair.holder != LockList::kUnknown) wakes.insert(FunctionOf(profile, stack_of(pair.holder), plumbing));
    if (pair.waiter == LockList::kUnknown) continue;
    waits.insert(FunctionOf(profile, stack_of(pair.waiter), plumbing));
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
