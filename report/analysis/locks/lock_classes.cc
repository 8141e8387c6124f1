#include "report/analysis/locks/lock_classes.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "fmt/format.h"
#include "report/base/value_units.h"
#include "report/profile/lock_record_limits.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

// "server.accounts_[3].mutex (server)" → "server.accounts_[*].mutex (server)"
std::string WithoutIndices(std::string_view name) {
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    text += name[i];
    size_t end = i + 1;
    while (name[i] == '[' && end < name.size() && isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
    if (end == i + 1 || end == name.size() || name[end] != ']') continue;
    text += '*';
    i = end - 1;
  }
  return text;
}

// "queues+64 (server)" → "queues (server)"
std::string WithoutOffset(const std::string& name) {
  const size_t file = name.rfind(" (");
  if (file == std::string::npos) return name;
  size_t plus = file;
  while (plus > 0 && isdigit(static_cast<unsigned char>(name[plus - 1])) != 0) --plus;
  return plus > 1 && plus < file && name[plus - 1] == '+' ? name.substr(0, plus - 1) + name.substr(file) : name;
}

void AddValue(int64_t value, int64_t* sum) {
  if (__builtin_add_overflow(*sum, value, sum)) *sum = INT64_MAX;
}

void AddLock(const LockList::Lock& lock, LockList::Lock* sum) {
  sum->locks += lock.locks;
  AddValue(lock.contentions, &sum->contentions);
  AddValue(lock.delay_ns, &sum->delay_ns);
  AddValue(lock.holds, &sum->holds);
  AddValue(lock.hold_ns, &sum->hold_ns);
  AddValue(lock.held_ns, &sum->held_ns);
  AddValue(lock.alone_ns, &sum->alone_ns);
  AddValue(lock.waiting, &sum->waiting);
  AddValue(lock.waiting_ns, &sum->waiting_ns);
  sum->longest_ns = std::max(sum->longest_ns, lock.longest_ns);
  sum->longest_held_ns = std::max(sum->longest_held_ns, lock.longest_held_ns);
  sum->longest_waiting_ns = std::max(sum->longest_waiting_ns, lock.longest_waiting_ns);
  sum->hottest_ns = std::max(sum->hottest_ns, lock.hottest_ns);
  sum->wait_times.Add(lock.wait_times);
  sum->hold_times.Add(lock.hold_times);
  if (lock.call_cpu_ns.has_value()) {
    if (!sum->call_cpu_ns.has_value()) sum->call_cpu_ns = 0;
    AddValue(*lock.call_cpu_ns, &*sum->call_cpu_ns);
  }
  for (const auto& [state, ns] : lock.holder_does) AddValue(ns, &sum->holder_does[state]);
  // A part would look like the whole.
  sum->lacks_holders |= lock.lacks_holders;
  if (sum->lacks_holders) sum->holder_does.clear();
}

constexpr double kParkedShare = 0.95;

bool ParksThreads(const Profile& profile, const LockList& list, const LockList::Lock& lock, Plumbing* plumbing) {
  const int64_t waits = lock.contentions + lock.waiting;
  if (lock.locks < 2 || lock.kind != kWaitKindNames[static_cast<int>(WaitKind::kMutex)] || waits == 0) return false;
  if ((lock.delay_ns + lock.waiting_ns) / waits < kParkedNs || lock.waiting > lock.locks) return false;
  // Several threads waited at the same time.
  if (lock.hold_ns / 10 > lock.held_ns / 10 + lock.held_ns / 100) return false;
  // The thread that parks others sometimes waits for them itself.
  double waited_ns = 0, parked_ns = 0;
  for (const LockList::Pair& pair : list.pairs) {
    if (pair.lock != lock.number || pair.waiter == LockList::kUnknown) continue;
    waited_ns += pair.delay_ns;
    if (IsInOwnLoop(profile, list.stacks[static_cast<size_t>(pair.waiter)], false, plumbing))
      parked_ns += pair.delay_ns;
  }
  return waited_ns > 0 && parked_ns >= kParkedShare * waited_ns;
}

}  // namespace

std::string LockClassOf(const Profile& profile, const LockList& list, const LockList::Lock& lock, Plumbing* plumbing) {
  if (!lock.name.empty()) return IsNameless(lock.name) ? "" : WithoutIndices(WithoutOffset(lock.name));
  if (lock.thread_offset > 0) return fmt::format("thread-local -{}", lock.thread_offset);
  if (lock.block_stack == LockList::kUnknown) return "";
  const std::string function = FunctionOf(profile, list.stacks[static_cast<size_t>(lock.block_stack)], plumbing);
  if (lock.is_in_frame()) return fmt::format("{} into frames of {}", lock.block_offset, function);
  if (!lock.member.empty()) return fmt::format("{} in blocks from {}", WithoutIndices(lock.member), function);
  if (lock.block_offset == kManyOffsets)
    return fmt::format("in blocks of {} from {}", FormatSize(lock.block_bytes), function);
  return fmt::format("{} into blocks of {} from {}", lock.block_offset, FormatSize(lock.block_bytes), function);
}

namespace {

// "held by drain, waited for by serve"; "" if both are unknown.
std::string SidesOf(const Profile& profile, const LockList& list, const LockList::Lock& lock, Plumbing* plumbing) {
  const std::string holder = TopFunctionOf(profile, list, lock.number, LockSide::kHolder, plumbing);
  const std::string waiter = TopFunctionOf(profile, list, lock.number, LockSide::kWaiter, plumbing);
  return holder == "-" && waiter == "-" ? "" : fmt::format("held by {}, waited for by {}", holder, waiter);
}

// Finds blocks that are arrays of locks, if their members are unnamed: "blocks of 1.88KiB from make_shards". An array
// has locks at kMinArray or more offsets, and the same functions hold them and wait for them.
constexpr size_t kMinArray = 3;
std::map<int, std::string> ArraysOf(const Profile& profile, const LockList& list, Plumbing* plumbing) {
  struct Array {
    std::set<int64_t> offsets;
    std::vector<int> locks;
    std::string name;
  };
  std::map<std::tuple<std::string, WaitRank, std::string, std::string>, Array> arrays;
  for (const LockList::Lock& lock : list.locks) {
    if (!lock.name.empty() || !lock.member.empty() || !lock.is_in_block() || lock.thread_offset > 0) continue;
    const std::string sides = SidesOf(profile, list, lock, plumbing);
    if (sides.empty()) continue;
    const std::string name =
        fmt::format("blocks of {} from {}", FormatSize(lock.block_bytes),
                    FunctionOf(profile, list.stacks[static_cast<size_t>(lock.block_stack)], plumbing));
    Array& array = arrays[{LockKindOf(lock.kind), lock.rank, name, sides}];
    array.offsets.insert(lock.block_offset);
    array.locks.push_back(lock.number);
    array.name = name;
  }
  std::map<int, std::string> names;  // by lock
  for (const auto& [key, array] : arrays) {
    if (array.offsets.size() < kMinArray && !array.offsets.contains(kManyOffsets)) continue;
    for (const int lock : array.locks) names[lock] = "in " + array.name;
  }
  return names;
}

}  // namespace

LockList GroupByClass(const Profile& profile, LockList list, Plumbing* plumbing) {
  const std::map<int, std::string> arrays = ArraysOf(profile, list, plumbing);
  std::map<std::tuple<std::string, WaitRank, std::string>, size_t> places;
  std::map<int, int> numbers;  // lock number → class number
  std::vector<LockList::Lock> classes;
  for (LockList::Lock& lock : list.locks) {
    const auto array = arrays.find(lock.number);
    std::string name = array != arrays.end() ? array->second : LockClassOf(profile, list, lock, plumbing);
    std::string key = name.empty() ? SidesOf(profile, list, lock, plumbing) : name;
    if (key.empty()) key = lock.address;  // nothing else is known
    const auto [place, added] = places.try_emplace({LockKindOf(lock.kind), lock.rank, key}, classes.size());
    if (lock.locks == 1) lock.hottest_ns = lock.all_delay_ns();
    if (added) {
      numbers[lock.number] = lock.number;
      lock.class_name = name;
      classes.push_back(std::move(lock));
    } else {
      LockList::Lock& sum = classes[place->second];
      numbers[lock.number] = sum.number;
      AddLock(lock, &sum);
    }
  }
  for (LockList::Pair& pair : list.pairs) {
    if (const auto found = numbers.find(pair.lock); found != numbers.end()) pair.lock = found->second;
  }
  for (LockList::Waiter& waiter : list.waiters) {
    if (const auto found = numbers.find(waiter.lock); found != numbers.end()) waiter.lock = found->second;
  }
  std::optional<Plumbing> own;
  if (plumbing == nullptr) plumbing = &own.emplace(Plumbing::Make(profile, {}).value());
  for (LockList::Lock& lock : classes) {
    if (ParksThreads(profile, list, lock, plumbing)) lock.rank = WaitRank::kIdle;
  }
  list.locks = std::move(classes);
  std::stable_sort(list.locks.begin(), list.locks.end(), [](const auto& a, const auto& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.all_delay_ns() > b.all_delay_ns();
  });
  return list;
}

}  // namespace holdfast
