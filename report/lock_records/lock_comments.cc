#include "report/lock_records/lock_comments.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "report/pprof/stack_text.h"

namespace holdfast {
namespace {

class Writer {
 public:
  Writer(const Snapshot& snapshot, const FramesOfStack& frames, Profile* profile)
      : snapshot_(snapshot), frames_(frames), profile_(*profile) {}

  void Write() {
    const std::vector<const LockInfo*> locks = LocksToWrite(snapshot_);
    for (size_t i = 0; i < locks.size(); ++i) {
      numbers_[IndexOf(*locks[i])] = i + 1;
      WriteLock(i + 1, *locks[i], CountsOf(locks[i]->wait_times), CountsOf(locks[i]->hold_times));
    }
    WriteSums(locks.size());
    WritePairs();
    WriteSites();
  }

 private:
  // A sum of locks that are not written singly: they are at one place in blocks from one stack, or have the same holder
  // and waiter.
  struct Sum {
    LockInfo all;
    TimeCounts wait_times, hold_times;
    uint64_t locks = 0, hottest_ns = 0;
    std::vector<uint32_t> members;  // indices into locks_known

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

  uint32_t IndexOf(const LockInfo& lock) const { return static_cast<uint32_t>(&lock - snapshot_.locks_known.data()); }

  void WriteLock(size_t number, const LockInfo& lock, const TimeCounts& wait_times, const TimeCounts& hold_times) {
    const auto add = [&](const std::string& text) { profile_.AddComment(fmt::format("lock {}{}", number, text)); };
    add(fmt::format(": {} 0x{:x} contentions {} delay_ns {} longest_ns {} holds {} hold_ns {}",
                    kWaitKindNames[static_cast<int>(lock.kind)], lock.address, lock.waits, lock.wait_ns,
                    lock.longest_ns, lock.holds, lock.hold_ns));
    if (lock.waits != 0) add(" wait_times: " + wait_times.Text());
    if (lock.holds != 0) {
      add(fmt::format(" hold_times: held_ns {} longest_ns {} {}", lock.held_ns, lock.longest_held_ns,
                      hold_times.Text()));
    }
    if (lock.alone_ns != 0) add(fmt::format(" alone: {}", lock.alone_ns));
    if (lock.waiting != 0) {
      add(fmt::format(" waiting: {} delay_ns {} longest_ns {}", lock.waiting, lock.waiting_ns,
                      lock.longest_waiting_ns));
    }
    if (lock.thread_offset != 0) {
      add(fmt::format(" thread-local: {}", lock.thread_offset));
    } else if (lock.block_stack != kNoStack && lock.block_bytes == 0) {
      add(fmt::format(" frame: {} into it, stack {}", lock.block_offset, StackNumber(lock.block_stack)));
    } else if (lock.block_stack != kNoStack) {
      add(fmt::format(" block: {} bytes, {} into it, stack {}", lock.block_bytes, lock.block_offset,
                      StackNumber(lock.block_stack)));
    }
  }

  void WriteSums(size_t number) {
    absl::flat_hash_map<uint32_t, const LockPairInfo*> largest;  // largest pair of each lock
    for (const LockPairInfo& pair : snapshot_.lock_pairs) {
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
    for (const LockInfo& lock : snapshot_.locks_known) {
      if (lock.block_stack == kNoStack || lock.waits + lock.holds + lock.waiting == 0) continue;
      Places& of_blocks = places[{lock.kind, lock.block_stack, lock.block_bytes}];
      of_blocks.offsets.insert(lock.block_offset);
      ++of_blocks.locks;
    }
    std::map<std::tuple<WaitKind, uint32_t, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t>, Sum> sums;
    for (const LockInfo& lock : snapshot_.locks_known) {
      if (lock.waits + lock.holds + lock.waiting == 0 || numbers_.contains(IndexOf(lock))) continue;
      const bool has_place = lock.block_stack != kNoStack || lock.thread_offset != 0;
      const auto pair = has_place ? largest.end() : largest.find(IndexOf(lock));
      const bool has_offset = has_place && !(lock.block_stack != kNoStack &&
                                             places[{lock.kind, lock.block_stack, lock.block_bytes}].are_of_array());
      sums[{lock.kind, lock.block_stack, lock.block_bytes, has_offset ? lock.block_offset : 0, lock.thread_offset,
            pair == largest.end() ? kNoStack : WithoutLabels(pair->second->holder),
            pair == largest.end() ? kNoStack : WithoutLabels(pair->second->waiter)}]
          .Add(lock, IndexOf(lock));
    }
    std::vector<Sum> hottest;
    for (auto& [key, sum] : sums) hottest.push_back(std::move(sum));
    std::stable_sort(hottest.begin(), hottest.end(),
                     [](const Sum& a, const Sum& b) { return a.all.wait_ns > b.all.wait_ns; });
    std::map<WaitKind, Sum> others;  // sums for which there is no room
    for (size_t i = kMostSumsWritten; i < hottest.size(); ++i) {
      for (const uint32_t member : hottest[i].members) {
        LockInfo lock = snapshot_.locks_known[member];
        lock.block_stack = kNoStack;
        lock.thread_offset = 0;
        others[lock.kind].Add(lock, member);
      }
    }
    hottest.resize(std::min(hottest.size(), kMostSumsWritten));
    for (auto& [kind, sum] : others) hottest.push_back(std::move(sum));
    for (const Sum& sum : hottest) {
      ++number;
      WriteLock(number, sum.all, sum.wait_times, sum.hold_times);
      if (sum.locks > 1)
        profile_.AddComment(fmt::format("lock {} locks: {} hottest_ns {}", number, sum.locks, sum.hottest_ns));
      for (const uint32_t member : sum.members) numbers_[member] = number;
    }
  }

  void WritePairs() {
    std::vector<const LockPairInfo*> pairs;
    for (const LockPairInfo& pair : snapshot_.lock_pairs) {
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
    written.resize(std::min(written.size(), kMostPairsWritten));
    const auto or_none = [](size_t stack) { return stack == 0 ? std::string("-") : fmt::format("{}", stack); };
    for (size_t i = 0; i < written.size(); ++i) {
      const Pair& pair = written[i];
      profile_.AddComment(fmt::format("lock pair {}: lock {} holder {} waiter {} contentions {:.2f} delay_ns {:.0f}",
                                      i + 1, pair.lock, or_none(StackNumber(pair.holder)),
                                      or_none(StackNumber(pair.waiter)), pair.contentions, pair.delay_ns));
    }
  }

  // Writes the times of the stacks that pairs contain, as waiters and as holders. Readers and writers of a lock count
  // as one kind.
  void WriteSites() {
    struct Site {
      TimeCounts times;
      double longest_ns = 0, delay_ns = 0, alone_ns = 0;
    };
    std::map<std::tuple<size_t, bool, WaitKind>, Site> sites;
    for (const RowInfo& row : snapshot_.rows) {
      const auto alike = first_alike_.find(row.stack);
      const auto stack = stacks_.find(alike == first_alike_.end() ? row.stack : alike->second);
      if (row.times == kNoIndex || stack == stacks_.end()) continue;
      const WaitKind kind = row.wait == WaitKind::kRwlockRead ? WaitKind::kRwlockWrite : row.wait;
      Site& site = sites[{stack->second, row.profile == ProfileKind::kMutex, kind}];
      site.times.Add(CountsOf(snapshot_.row_times[row.times], kCountFractionBits));
      site.longest_ns = std::max(site.longest_ns, row.sums[kLongest]);
      site.delay_ns += row.sums[kDelay];
      site.alone_ns += row.sums[kAlone];
    }
    for (const auto& [key, site] : sites) {
      const auto& [stack, is_holder, kind] = key;
      profile_.AddComment(fmt::format("lock site {} {} {}_times: longest_ns {:.0f} {}", stack,
                                      kWaitKindNames[static_cast<int>(kind)], is_holder ? "hold" : "wait",
                                      site.longest_ns, site.times.Text()));
      if (is_holder && site.alone_ns > 0) {
        profile_.AddComment(fmt::format("lock site {} {} alone: {:.0f} of {:.0f}", stack,
                                        kWaitKindNames[static_cast<int>(kind)], site.alone_ns, site.delay_ns));
      }
    }
  }

  // Returns the first of the stacks that differ from this one only in labels.
  uint32_t WithoutLabels(uint32_t stack) {
    if (stack == kNoStack) return stack;
    if (const auto found = first_alike_.find(stack); found != first_alike_.end()) return found->second;
    return first_alike_[stack] = first_of_frames_.emplace(frames_(stack), stack).first->second;
  }

  // Returns one number for stacks that differ only in labels. 0: unknown.
  size_t StackNumber(uint32_t labelled) {
    if (labelled == kNoStack) return 0;
    const uint32_t stack = WithoutLabels(labelled);
    const auto [place, added] = stacks_.emplace(stack, stacks_.size() + 1);
    if (added) profile_.AddComment(fmt::format("lock stack {}:{}", place->second, StackText(profile_, frames_(stack))));
    return place->second;
  }

  const Snapshot& snapshot_;
  const FramesOfStack& frames_;
  Profile& profile_;
  absl::flat_hash_map<uint32_t, size_t> numbers_;  // index into locks_known → number in the file
  absl::flat_hash_map<uint32_t, size_t> stacks_;  // first of the stacks with equal frames → number in the file, from 1
  absl::flat_hash_map<uint32_t, uint32_t> first_alike_;
  absl::flat_hash_map<std::vector<uint32_t>, uint32_t> first_of_frames_;
};

}  // namespace

std::vector<const LockInfo*> LocksToWrite(const Snapshot& snapshot) {
  std::vector<const LockInfo*> locks;
  for (const LockInfo& lock : snapshot.locks_known) {
    if (lock.waits + lock.holds + lock.waiting > 0) locks.push_back(&lock);
  }
  const auto is_hotter = [](const LockInfo* a, const LockInfo* b) {
    return std::max(a->wait_ns, a->hold_ns) + a->waiting_ns > std::max(b->wait_ns, b->hold_ns) + b->waiting_ns;
  };
  std::stable_sort(locks.begin(), locks.end(), is_hotter);
  if (locks.size() > kMostLocksWritten) {
    const auto unheld = [](const LockInfo* lock) { return HasNoHolder(lock->kind); };
    const size_t held = locks.size() - static_cast<size_t>(std::count_if(locks.begin(), locks.end(), unheld));
    size_t room = std::max(kMostUnheldWritten, kMostLocksWritten - std::min(kMostLocksWritten, held));
    std::erase_if(locks, [&](const LockInfo* lock) {
      if (!unheld(lock)) return false;
      if (room == 0) return true;
      --room;
      return false;
    });
    std::stable_partition(locks.begin(), locks.end(),
                          [&](const LockInfo* lock) { return lock->waiting != 0 && !unheld(lock); });
    locks.resize(std::min(locks.size(), kMostLocksWritten));
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

void AddLockComments(const Snapshot& snapshot, const FramesOfStack& frames, Profile* profile) {
  Writer(snapshot, frames, profile).Write();
}

}  // namespace holdfast
