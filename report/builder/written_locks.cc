#include "report/builder/written_locks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

class Writer {
 public:
  Writer(const ProcessState& state, bool earlier, const FramesOfStack& frames, Profile* profile)
      : state_(state),
        pairs_(earlier ? state.table->lock_pairs : std::span<const LockPairInfo>()),
        frames_(frames),
        locks_(LocksOf(profile)) {}

  void Write() {
    const std::vector<const LockInfo*> locks = LocksToWrite(state_);
    for (size_t i = 0; i < locks.size(); ++i) {
      numbers_[IndexOf(*locks[i])] = i + 1;
      WriteLock(i + 1, *locks[i], CountsOf(locks[i]->wait_times), CountsOf(locks[i]->hold_times));
    }
    WriteSums(locks.size());
    WritePairs();
    WriteSites();
  }

 private:
  // A sum of locks that are not written singly: they are at one place in blocks from one stack, in one symbol or array,
  // or have the same holder and waiter.
  struct Sum {
    LockInfo all;
    TimeCounts wait_times, hold_times;
    uint64_t locks = 0, hottest_ns = 0;
    std::vector<uint32_t> members;  // indices into WaitGraph::locks

    void Add(const LockInfo& lock, uint32_t index) {
      if (locks++ == 0) {
        all = lock;
      } else {
        all.waits += lock.waits;
        all.wait_ns += lock.wait_ns;
        all.holds += lock.holds;
        all.hold_ns += lock.hold_ns;
        all.held_ns += lock.held_ns;
        all.alone_ns += lock.alone_ns;
        all.waiting += lock.waiting;
        all.waiting_ns += lock.waiting_ns;
        all.longest_ns = std::max(all.longest_ns, lock.longest_ns);
        all.longest_held_ns = std::max(all.longest_held_ns, lock.longest_held_ns);
        all.longest_waiting_ns = std::max(all.longest_waiting_ns, lock.longest_waiting_ns);
      }
      wait_times.Add(CountsOf(lock.wait_times));
      hold_times.Add(CountsOf(lock.hold_times));
      hottest_ns = std::max(hottest_ns, lock.wait_ns);
      members.push_back(index);
    }
  };

  static record::Locks& LocksOf(Profile* profile) {
    std::optional<record::Locks>& locks = profile->mutable_records()->locks;
    return locks.has_value() ? *locks : locks.emplace();
  }

  uint32_t IndexOf(const LockInfo& lock) const { return static_cast<uint32_t>(&lock - state_.waits.locks.data()); }

  const LockClass& ClassOf(uint32_t lock) const {
    static const LockClass no_class;
    return lock < state_.waits.lock_classes.size() ? state_.waits.lock_classes[lock] : no_class;
  }

  record::Lock& WriteLock(size_t number, const LockInfo& lock, TimeCounts wait_times, TimeCounts hold_times) {
    record::Lock& written = locks_.lock.emplace_back();
    written.number = static_cast<uint32_t>(number);
    written.kind = kWaitKindNames[static_cast<int>(lock.kind)];
    written.address = lock.address;
    written.contentions = Signed(lock.waits);
    written.delay_ns = Signed(lock.wait_ns);
    written.longest_ns = Signed(lock.longest_ns);
    written.holds = Signed(lock.holds);
    written.hold_ns = Signed(lock.hold_ns);
    written.wait_times = std::move(wait_times);
    if (lock.holds != 0) {
      written.held_ns = Signed(lock.held_ns);
      written.longest_held_ns = Signed(lock.longest_held_ns);
      written.hold_times = std::move(hold_times);
    }
    written.alone_ns = Signed(lock.alone_ns);
    if (lock.waiting != 0) {
      written.waiting = Signed(lock.waiting);
      written.waiting_ns = Signed(lock.waiting_ns);
      written.longest_waiting_ns = Signed(lock.longest_waiting_ns);
    }
    if (lock.thread_offset != 0) {
      written.thread_offset = static_cast<int64_t>(lock.thread_offset);
    } else if (lock.block_stack != kNoStack) {
      written.block_bytes = Signed(lock.block_bytes);
      written.block_offset = Signed(lock.block_offset);
      written.block_stack = StackNumber(lock.block_stack);
    }
    return written;
  }

  void WriteSums(size_t number) {
    absl::flat_hash_map<uint32_t, const LockPairInfo*> largest;  // largest pair of each lock
    for (const LockPairInfo& pair : pairs_) {
      const LockPairInfo*& known = largest[pair.lock];
      if (known == nullptr || pair.delay_ns > known->delay_ns) known = &pair;
    }
    // A block with locks at many offsets is an array. Members of a structure are at a few offsets in many blocks.
    struct Places {
      std::set<uint64_t> offsets;
      size_t locks = 0;
      bool are_of_array() const { return offsets.size() > 2 && 2 * offsets.size() > locks; }
    };
    std::map<std::tuple<WaitKind, uint32_t, uint64_t>, Places> places;
    for (const LockInfo& lock : state_.waits.locks) {
      if (lock.block_stack == kNoStack || lock.waits + lock.holds + lock.waiting == 0) continue;
      Places& of_blocks = places[{lock.kind, lock.block_stack, lock.block_bytes}];
      of_blocks.offsets.insert(lock.block_offset);
      ++of_blocks.locks;
    }
    std::map<std::tuple<WaitKind, uint32_t, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t, LockClass>, Sum> sums;
    for (const LockInfo& lock : state_.waits.locks) {
      if (lock.waits + lock.holds + lock.waiting == 0 || numbers_.contains(IndexOf(lock))) continue;
      const LockClass& lock_class = ClassOf(IndexOf(lock));
      const bool has_place = lock.block_stack != kNoStack || lock.thread_offset != 0 || !lock_class.name.empty();
      const auto pair = has_place ? largest.end() : largest.find(IndexOf(lock));
      const bool has_offset = has_place && !(lock.block_stack != kNoStack &&
                                             places[{lock.kind, lock.block_stack, lock.block_bytes}].are_of_array());
      sums[{lock.kind, lock.block_stack, lock.block_bytes, has_offset ? lock.block_offset : 0, lock.thread_offset,
            pair == largest.end() ? kNoStack : WithoutLabels(pair->second->holder),
            pair == largest.end() ? kNoStack : WithoutLabels(pair->second->waiter), lock_class}]
          .Add(lock, IndexOf(lock));
    }
    std::vector<Sum> hottest;
    for (auto& [key, sum] : sums) hottest.push_back(std::move(sum));
    std::stable_sort(hottest.begin(), hottest.end(),
                     [](const Sum& a, const Sum& b) { return a.all.wait_ns > b.all.wait_ns; });
    std::map<WaitKind, Sum> others;  // sums for which there is no room
    for (size_t i = kMaxSumsWritten; i < hottest.size(); ++i) {
      for (const uint32_t member : hottest[i].members) {
        LockInfo lock = state_.waits.locks[member];
        lock.block_stack = kNoStack;
        lock.thread_offset = 0;
        others[lock.kind].Add(lock, member);
      }
    }
    hottest.resize(std::min(hottest.size(), kMaxSumsWritten));
    for (auto& [kind, sum] : others) hottest.push_back(std::move(sum));
    for (const Sum& sum : hottest) {
      ++number;
      record::Lock& written = WriteLock(number, sum.all, sum.wait_times, sum.hold_times);
      // WriteLockNames adds the file.
      const LockClass& lock_class = ClassOf(sum.members.front());
      const bool is_one_class =
          std::ranges::all_of(sum.members, [&](uint32_t member) { return ClassOf(member) == lock_class; });
      if (is_one_class) written.name = lock_class.name;
      if (written.block_stack != 0 && std::ranges::any_of(sum.members, [&](uint32_t member) {
            return state_.waits.locks[member].block_offset != sum.all.block_offset;
          }))
        written.block_offset = kManyOffsets;
      if (sum.locks > 1) {
        written.locks = static_cast<int32_t>(sum.locks);
        written.hottest_ns = Signed(sum.hottest_ns);
      }
      for (const uint32_t member : sum.members) numbers_[member] = number;
    }
  }

  void WritePairs() {
    std::vector<const LockPairInfo*> pairs;
    for (const LockPairInfo& pair : pairs_) {
      if (numbers_.contains(pair.lock) && pair.delay_ns + pair.contentions > 0) pairs.push_back(&pair);
    }
    std::stable_sort(pairs.begin(), pairs.end(),
                     [](const LockPairInfo* a, const LockPairInfo* b) { return a->delay_ns > b->delay_ns; });
    // The sum of one lock's pairs with equal frames, whatever the labels of the threads are.
    struct Pair {
      size_t lock;
      uint32_t holder, waiter;  // stacks of the snapshot
      double contentions = 0, delay_ns = 0;
    };
    std::vector<Pair> written;
    std::map<std::tuple<size_t, uint32_t, uint32_t>, size_t> places;
    for (const LockPairInfo* pair : pairs) {
      const std::tuple key(numbers_[pair->lock], WithoutLabels(pair->holder), WithoutLabels(pair->waiter));
      const auto [place, added] = places.emplace(key, written.size());
      if (added) written.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key)});
      written[place->second].contentions += pair->contentions;
      written[place->second].delay_ns += pair->delay_ns;
    }
    std::stable_sort(written.begin(), written.end(),
                     [](const Pair& a, const Pair& b) { return a.delay_ns > b.delay_ns; });
    written.resize(std::min(written.size(), kMaxPairsWritten));
    for (const Pair& pair : written) {
      // Whole nanoseconds and hundredths: estimates are not surer than that.
      locks_.pair.push_back({.lock = static_cast<uint32_t>(pair.lock),
                             .holder = StackNumber(pair.holder),
                             .waiter = StackNumber(pair.waiter),
                             .contentions = std::round(pair.contentions * 100) / 100,
                             .delay_ns = std::round(pair.delay_ns)});
    }
  }

  // Writes the times of the stacks that pairs contain, as waiters and as holders. Readers and writers of a lock count
  // as one kind.
  void WriteSites() {
    struct Site {
      TimeCounts times;
      double longest_ns = 0, delay_ns = 0, alone_ns = 0;
    };
    std::map<std::tuple<uint32_t, bool, WaitKind>, Site> sites;
    for (const RowInfo& row : state_.table->rows) {
      const auto alike = first_alike_.find(row.stack);
      const auto stack = stacks_.find(alike == first_alike_.end() ? row.stack : alike->second);
      if (row.times == kNoIndex || stack == stacks_.end()) continue;
      const WaitKind kind = row.wait == WaitKind::kRwlockRead ? WaitKind::kRwlockWrite : row.wait;
      Site& site = sites[{stack->second, row.profile == ProfileKind::kMutex, kind}];
      site.times.Add(CountsOf(state_.table->row_times[row.times], kCountFractionBits));
      site.longest_ns = std::max(site.longest_ns, row.sums[kLongest]);
      site.delay_ns += row.sums[kDelay];
      site.alone_ns += row.sums[kAlone];
    }
    for (const auto& [key, site] : sites) {
      const auto& [stack, is_holder, kind] = key;
      record::LockSite& written = locks_.site.emplace_back();
      written.stack = stack;
      written.kind = kWaitKindNames[static_cast<int>(kind)];
      written.is_holder = is_holder;
      written.longest_ns = Rounded(site.longest_ns);
      written.times = site.times;
      if (!is_holder || !(site.alone_ns > 0)) continue;
      written.delay_ns = Rounded(site.delay_ns);
      written.alone_ns = Rounded(site.alone_ns);
    }
  }

  // Returns the first of the stacks that differ from this one only in labels.
  uint32_t WithoutLabels(uint32_t stack) {
    if (stack == kNoStack) return stack;
    if (const auto found = first_alike_.find(stack); found != first_alike_.end()) return found->second;
    return first_alike_[stack] = first_of_frames_.emplace(frames_(stack), stack).first->second;
  }

  // Returns one number for stacks that differ only in labels. 0: unknown.
  uint32_t StackNumber(uint32_t labelled) {
    if (labelled == kNoStack) return 0;
    const uint32_t stack = WithoutLabels(labelled);
    const auto [place, added] = stacks_.emplace(stack, static_cast<uint32_t>(stacks_.size() + 1));
    if (added) locks_.stack.push_back(frames_(stack));
    return place->second;
  }

  static int64_t Signed(uint64_t value) { return static_cast<int64_t>(std::min(value, kMaxValue)); }
  // Saturates: llround is undefined from 2^63 on.
  static int64_t Rounded(double value) {
    return value < static_cast<double>(kMaxValue) ? std::llround(value) : static_cast<int64_t>(kMaxValue);
  }

  const ProcessState& state_;
  const std::span<const LockPairInfo> pairs_;
  const FramesOfStack& frames_;
  record::Locks& locks_;
  absl::flat_hash_map<uint32_t, size_t> numbers_;  // index into WaitGraph::locks → number in the file
  absl::flat_hash_map<uint32_t, uint32_t>
      stacks_;  // first of the stacks with equal frames → number in the file, from 1
  absl::flat_hash_map<uint32_t, uint32_t> first_alike_;
  absl::flat_hash_map<std::vector<uint32_t>, uint32_t> first_of_frames_;
};

}  // namespace

std::vector<const LockInfo*> LocksToWrite(const ProcessState& state) {
  std::vector<const LockInfo*> locks;
  for (const LockInfo& lock : state.waits.locks) {
    if (lock.waits + lock.holds + lock.waiting > 0) locks.push_back(&lock);
  }
  const auto is_hotter = [](const LockInfo* a, const LockInfo* b) {
    return std::max(a->wait_ns, a->hold_ns) + a->waiting_ns > std::max(b->wait_ns, b->hold_ns) + b->waiting_ns;
  };
  std::stable_sort(locks.begin(), locks.end(), is_hotter);
  if (locks.size() > kMaxLocksWritten) {
    const auto unheld = [](const LockInfo* lock) { return HasNoHolder(lock->kind); };
    const size_t held = locks.size() - static_cast<size_t>(std::count_if(locks.begin(), locks.end(), unheld));
    size_t room = std::max(kMaxUnheldWritten, kMaxLocksWritten - std::min(kMaxLocksWritten, held));
    std::erase_if(locks, [&](const LockInfo* lock) {
      if (!unheld(lock)) return false;
      if (room == 0) return true;
      --room;
      return false;
    });
    std::stable_partition(locks.begin(), locks.end(),
                          [&](const LockInfo* lock) { return lock->waiting != 0 && !unheld(lock); });
    locks.resize(std::min(locks.size(), kMaxLocksWritten));
    std::stable_sort(locks.begin(), locks.end(), is_hotter);
  }
  return locks;
}

TimeCounts CountsOf(const TimesInfo& times, int fraction_bits) {
  TimeCounts counts;
  for (const auto& [bucket, count] : times.counts) {
    counts.Add(bucket, std::ldexp(static_cast<double>(count), -fraction_bits));
  }
  if (!times.complete) counts.set_incomplete();
  return counts;
}

void AddLockRecords(const ProcessState& state, bool earlier, const FramesOfStack& frames, Profile* profile) {
  Writer(state, earlier, frames, profile).Write();
}

}  // namespace holdfast
