#include "report/lock_records/lock_comments.h"

#include <algorithm>
#include <cmath>
#include <map>
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
      const LockInfo& lock = *locks[i];
      numbers_[static_cast<uint32_t>(&lock - snapshot_.locks_known.data())] = i + 1;
      profile_.AddComment(fmt::format("lock {}: {} 0x{:x} contentions {} delay_ns {} longest_ns {} holds {} hold_ns {}",
                                      i + 1, kWaitKindNames[static_cast<int>(lock.kind)], lock.address, lock.waits,
                                      lock.wait_ns, lock.longest_ns, lock.holds, lock.hold_ns));
      if (lock.waits != 0) {
        profile_.AddComment(fmt::format("lock {} wait_times: {}", i + 1, CountsOf(lock.wait_times).Text()));
      }
      if (lock.holds != 0) {
        profile_.AddComment(fmt::format("lock {} hold_times: held_ns {} longest_ns {} {}", i + 1, lock.held_ns,
                                        lock.longest_held_ns, CountsOf(lock.hold_times).Text()));
      }
      if (lock.alone_ns != 0) profile_.AddComment(fmt::format("lock {} alone: {}", i + 1, lock.alone_ns));
      if (lock.waiting != 0) {
        profile_.AddComment(fmt::format("lock {} waiting: {} delay_ns {} longest_ns {}", i + 1, lock.waiting,
                                        lock.waiting_ns, lock.longest_waiting_ns));
      }
      if (lock.thread_offset != 0) {
        profile_.AddComment(fmt::format("lock {} thread-local: {}", i + 1, lock.thread_offset));
      } else if (lock.block_stack != kNoStack && lock.block_bytes == 0) {
        profile_.AddComment(fmt::format("lock {} frame: {} into it, stack {}", i + 1, lock.block_offset,
                                        StackNumber(lock.block_stack)));
      } else if (lock.block_stack != kNoStack) {
        profile_.AddComment(fmt::format("lock {} block: {} bytes, {} into it, stack {}", i + 1, lock.block_bytes,
                                        lock.block_offset, StackNumber(lock.block_stack)));
      }
    }
    WritePairs();
    WriteSites();
  }

 private:
  void WritePairs() {
    std::vector<const LockPairInfo*> pairs;
    for (const LockPairInfo& pair : snapshot_.lock_pairs) {
      if (numbers_.contains(pair.lock) && pair.delay_ns + pair.contentions > 0) pairs.push_back(&pair);
    }
    std::stable_sort(pairs.begin(), pairs.end(),
                     [](const LockPairInfo* a, const LockPairInfo* b) { return a->delay_ns > b->delay_ns; });
    // Of one lock by the same calls, whatever the labels of its threads are.
    struct Pair {
      size_t lock, holder, waiter;
      double contentions = 0, delay_ns = 0;
    };
    std::vector<Pair> written;
    std::map<std::tuple<size_t, size_t, size_t>, size_t> places;
    for (const LockPairInfo* pair : pairs) {
      if (written.size() == kMostPairsWritten) break;
      const std::tuple key(numbers_[pair->lock], StackNumber(pair->holder), StackNumber(pair->waiter));
      const auto [place, added] = places.emplace(key, written.size());
      if (added) written.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key)});
      written[place->second].contentions += pair->contentions;
      written[place->second].delay_ns += pair->delay_ns;
    }
    std::stable_sort(written.begin(), written.end(),
                     [](const Pair& a, const Pair& b) { return a.delay_ns > b.delay_ns; });
    const auto or_none = [](size_t stack) { return stack == 0 ? std::string("-") : fmt::format("{}", stack); };
    for (size_t i = 0; i < written.size(); ++i) {
      const Pair& pair = written[i];
      profile_.AddComment(fmt::format("lock pair {}: lock {} holder {} waiter {} contentions {:.2f} delay_ns {:.0f}",
                                      i + 1, pair.lock, or_none(pair.holder), or_none(pair.waiter), pair.contentions,
                                      pair.delay_ns));
    }
  }

  // Of the stacks that pairs name, as waiters and as holders. Readers and writers of one lock wait for one kind.
  void WriteSites() {
    struct Site {
      TimeCounts times;
      double longest_ns = 0, delay_ns = 0, alone_ns = 0;
    };
    std::map<std::tuple<size_t, bool, WaitKind>, Site> sites;
    for (const RowInfo& row : snapshot_.rows) {
      const auto stack = stacks_.find(row.stack);
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

  // The same for stacks that differ in labels alone. 0: not known.
  size_t StackNumber(uint32_t stack) {
    if (stack == kNoStack) return 0;
    if (const auto found = stacks_.find(stack); found != stacks_.end()) return found->second;
    const auto [place, added] = by_frames_.emplace(frames_(stack), by_frames_.size() + 1);
    if (added) {
      profile_.AddComment(fmt::format("lock stack {}:{}", place->second, StackText(profile_, place->first)));
    }
    return stacks_[stack] = place->second;
  }

  const Snapshot& snapshot_;
  const FramesOfStack& frames_;
  Profile& profile_;
  absl::flat_hash_map<uint32_t, size_t> numbers_;  // index into locks_known → number in the file
  absl::flat_hash_map<uint32_t, size_t> stacks_;   // their numbers in the file, from 1
  absl::flat_hash_map<std::vector<uint32_t>, size_t> by_frames_;
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
