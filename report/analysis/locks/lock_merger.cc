#include "report/analysis/locks/lock_merger.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "fmt/format.h"
#include "report/profile/lock_record_limits.h"
#include "report/profile/typed_records.h"
#include "sampler/contract/time_buckets.h"

namespace holdfast {
namespace {

// Files may contain anything: keep sums between 0 and the largest value.
void AddTo(int64_t* sum, int64_t value, int sign) {
  value = std::max<int64_t>(0, value);
  if (sign < 0) {
    *sum = std::max<int64_t>(0, *sum - value);
  } else if (__builtin_add_overflow(*sum, value, sum)) {
    *sum = std::numeric_limits<int64_t>::max();
  }
}

void AddTo(double* sum, double value, int sign) { *sum = std::max(0.0, *sum + sign * value); }

void AddTo(TimeCounts* sum, const TimeCounts& times, int sign) { sign < 0 ? sum->Subtract(times) : sum->Add(times); }

// What is true at one moment, as a wait in progress, is not subtracted.
void AddState(int64_t* sum, int64_t value, int sign) {
  if (sign > 0) AddTo(sum, value, sign);
}

// After `earlier` was subtracted: the longest of the rest is at most as long as the longest bucket that has counts left.
int64_t LongestOf(const TimeCounts& times, const TimeCounts& earlier, int64_t longest_ns) {
  if (!times.complete() || earlier.empty()) return longest_ns;
  for (auto at = times.counts().rbegin(); at != times.counts().rend(); ++at) {
    if (at->second > 0) return std::min(longest_ns, static_cast<int64_t>(TimeBucketStart(at->first + 1)));
  }
  return 0;
}

// Returns the entry for `key`; appends a new one to `list` if necessary.
template <typename T, typename Key>
T& EntryOf(std::map<Key, size_t>* places, const Key& key, std::vector<T>* list) {
  const auto [place, added] = places->emplace(key, list->size());
  if (added) list->emplace_back();
  return (*list)[place->second];
}

}  // namespace

int LockMerger::StackNumber(const std::vector<uint32_t>& stack) {
  const auto [place, added] = stacks_.emplace(stack, static_cast<int>(sum_.stacks.size()));
  if (added) sum_.stacks.push_back(stack);
  return place->second;
}

void LockMerger::AddSigned(const Profile& from, const std::string& process, int sign) {
  const LockList list = ReadLockList(from, nullptr);
  std::vector<int> stacks;  // by their number in `from`
  for (const auto& stack : merger_.StacksIn(from, list.stacks)) stacks.push_back(StackNumber(stack));
  const auto stack_in_sum = [&](int stack) {
    return stack == LockList::kUnknown ? stack : stacks[static_cast<size_t>(stack)];
  };
  std::map<int, int> numbers;
  for (const LockList::Lock& lock : list.locks) {
    const int block_stack = stack_in_sum(lock.block_stack);
    // A frame is known only while its thread sleeps, so use the address instead.
    const bool has_block = lock.is_in_block();
    const std::string which = !lock.name.empty() ? lock.name
                              : has_block ? fmt::format("{} {} {}", lock.block_bytes, lock.block_offset, block_stack)
                                          : lock.address;
    const std::tuple key(lock.kind, which, lock.name.empty() && !has_block ? process : "");
    LockList::Lock& sum = EntryOf(&locks_, key, &sum_.locks);
    if (sum.kind.empty()) {
      sum.number = static_cast<int>(sum_.locks.size());
      sum.kind = lock.kind;
      sum.address = lock.address;
      sum.address_value = lock.address_value;
      sum.name = lock.name;
      sum.file = lock.file;
      sum.file_address = lock.file_address;
      sum.locks = lock.locks;
    }
    sum.hottest_ns = std::max(sum.hottest_ns, lock.hottest_ns);
    if (sum.block_stack == LockList::kUnknown) {
      sum.block_bytes = lock.block_bytes;
      sum.block_offset = lock.block_offset;
      sum.block_stack = block_stack;
    }
    if (sum.member.empty()) sum.member = lock.member;
    if (sum.thread_offset == 0) sum.thread_offset = lock.thread_offset;
    numbers[lock.number] = sum.number;
    AddTo(&sum.contentions, lock.contentions, sign);
    AddTo(&sum.delay_ns, lock.delay_ns, sign);
    AddTo(&sum.holds, lock.holds, sign);
    AddTo(&sum.hold_ns, lock.hold_ns, sign);
    AddTo(&sum.held_ns, lock.held_ns, sign);
    AddTo(&sum.alone_ns, lock.alone_ns, sign);
    AddState(&sum.waiting, lock.waiting, sign);
    AddState(&sum.waiting_ns, lock.waiting_ns, sign);
    if (sign > 0) sum.longest_waiting_ns = std::max(sum.longest_waiting_ns, lock.longest_waiting_ns);
    AddTo(&sum.wait_times, lock.wait_times, sign);
    AddTo(&sum.hold_times, lock.hold_times, sign);
    sum.longest_ns = sign > 0 ? std::max(sum.longest_ns, lock.longest_ns)
                              : LongestOf(sum.wait_times, lock.wait_times, sum.longest_ns);
    sum.longest_held_ns = sign > 0 ? std::max(sum.longest_held_ns, lock.longest_held_ns)
                                   : LongestOf(sum.hold_times, lock.hold_times, sum.longest_held_ns);
  }
  for (const LockList::Pair& pair : list.pairs) {
    const auto lock = numbers.find(pair.lock);
    if (lock == numbers.end()) continue;
    const std::tuple key(lock->second, stack_in_sum(pair.holder), stack_in_sum(pair.waiter));
    LockList::Pair& sum = EntryOf(&pairs_, key, &sum_.pairs);
    std::tie(sum.lock, sum.holder, sum.waiter) = key;
    AddTo(&sum.contentions, pair.contentions, sign);
    AddTo(&sum.delay_ns, pair.delay_ns, sign);
  }
  for (const LockList::Site& site : list.sites) {
    const std::tuple key(stack_in_sum(site.stack), site.kind, site.is_holder);
    LockList::Site& sum = EntryOf(&sites_, key, &sum_.sites);
    std::tie(sum.stack, sum.kind, sum.is_holder) = key;
    AddTo(&sum.delay_ns, site.delay_ns, sign);
    AddTo(&sum.alone_ns, site.alone_ns, sign);
    AddTo(&sum.times, site.times, sign);
    sum.longest_ns =
        sign > 0 ? std::max(sum.longest_ns, site.longest_ns) : LongestOf(sum.times, site.times, sum.longest_ns);
  }
}

void LockMerger::WriteTo(Profile* profile) {
  std::erase_if(sum_.locks,
                [](const LockList::Lock& lock) { return lock.contentions + lock.holds + lock.waiting <= 0; });
  std::stable_sort(sum_.locks.begin(), sum_.locks.end(), [](const LockList::Lock& a, const LockList::Lock& b) {
    return a.all_delay_ns() > b.all_delay_ns();
  });
  const auto number_of = [](int stack) { return stack == LockList::kUnknown ? 0 : static_cast<uint32_t>(stack + 1); };
  record::Locks written;
  written.stack = sum_.stacks;
  std::map<int, uint32_t> numbers;
  for (const LockList::Lock& lock : sum_.locks) {
    if (numbers.size() == kMaxLocksWritten) break;
    const auto number = static_cast<uint32_t>(numbers.size() + 1);
    numbers[lock.number] = number;
    written.lock.push_back({.number = number,
                            .kind = lock.kind,
                            .address = lock.address_value,
                            .contentions = lock.contentions,
                            .delay_ns = lock.delay_ns,
                            .longest_ns = lock.longest_ns,
                            .holds = lock.holds,
                            .hold_ns = lock.hold_ns,
                            .held_ns = lock.held_ns,
                            .longest_held_ns = lock.longest_held_ns,
                            .alone_ns = lock.alone_ns,
                            .wait_times = lock.wait_times,
                            .hold_times = lock.hold_times,
                            .waiting = lock.waiting,
                            .waiting_ns = lock.waiting_ns,
                            .longest_waiting_ns = std::min(lock.longest_waiting_ns, lock.waiting_ns),
                            .name = lock.file.empty() ? lock.name : "",
                            .file = lock.file,
                            .file_address = lock.file_address,
                            .member = lock.member,
                            .block_bytes = lock.block_bytes,
                            .block_offset = lock.block_offset,
                            .block_stack = number_of(lock.block_stack),
                            .thread_offset = lock.thread_offset,
                            .locks = lock.locks > 1 ? lock.locks : 0,
                            .hottest_ns = lock.hottest_ns});
  }
  std::stable_sort(sum_.pairs.begin(), sum_.pairs.end(),
                   [](const LockList::Pair& a, const LockList::Pair& b) { return a.delay_ns > b.delay_ns; });
  for (const LockList::Pair& pair : sum_.pairs) {
    const auto lock = numbers.find(pair.lock);
    if (lock == numbers.end() || pair.contentions + pair.delay_ns <= 0) continue;
    if (written.pair.size() == kMaxPairsWritten) break;
    written.pair.push_back(
        {lock->second, number_of(pair.holder), number_of(pair.waiter), pair.contentions, pair.delay_ns});
  }
  for (const LockList::Site& site : sum_.sites) {
    if (site.times.empty()) continue;
    const bool has_readers = site.alone_ns > 0 && site.alone_ns <= site.delay_ns;
    written.site.push_back({.stack = number_of(site.stack),
                            .kind = site.kind,
                            .is_holder = site.is_holder,
                            .longest_ns = site.longest_ns,
                            .times = site.times,
                            .delay_ns = has_readers ? site.delay_ns : 0,
                            .alone_ns = has_readers ? site.alone_ns : 0});
  }
  profile->mutable_records()->locks = std::move(written);
}

}  // namespace holdfast
