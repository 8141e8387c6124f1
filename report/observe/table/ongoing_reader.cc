#include "report/observe/table/ongoing_reader.h"

#include <string.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "report/base/time_budget.h"
#include "report/observe/table/ordered_read.h"
#include "report/observe/table/snapshot_locks.h"

namespace holdfast {
namespace {

struct Range {
  uint64_t start = 0, bytes = 0;
};

// Returns the place of a segment of slots; empty if there is none. The first `limit` bytes may contain records.
Range SegmentRange(const char* bytes, uint64_t limit, int segment) {
  const auto* head = reinterpret_cast<const TableHeader*>(bytes);
  const Range range = {
      .start = uint64_t{CounterValue(head->ongoing_segments[segment])} * kUnit,
      .bytes = (OngoingSlotsUpTo(segment + 1) - OngoingSlotsUpTo(segment)) * uint64_t{sizeof(OngoingWait)}};
  const bool is_inside =
      range.start >= sizeof(TableHeader) && range.start <= limit && range.bytes <= limit - range.start;
  return is_inside && range.start % alignof(OngoingWait) == 0 ? range : Range{};
}

OngoingState StateOf(uint64_t owner) { return static_cast<OngoingState>(static_cast<uint32_t>(owner) % kTurnStates); }
// Bytes of a slot. Atomics cannot be copied.
struct OngoingSlotCopy {
  alignas(OngoingWait) char bytes[sizeof(OngoingWait)];
};

uint32_t ThreadOf(uint64_t owner) { return static_cast<uint32_t>(owner >> kOngoingThreadShift); }

}  // namespace

int64_t ReadOngoingAgain(int fd, char* bytes, uint64_t used) {
  int64_t now_ns = 0;
  std::vector<char> second;
  for (int segment = 0; segment < kOngoingSegments; ++segment) {
    const Range range = SegmentRange(bytes, used, segment);
    if (range.bytes == 0) continue;
    second.assign(range.bytes, 0);
    const auto read = [&](char* to) { return ReadRange(fd, to, range.start, range.start + range.bytes); };
    const bool whole = read(bytes + range.start);
    now_ns = NowNs();
    const bool again = read(second.data());
    for (uint64_t at = 0; at < range.bytes; at += sizeof(OngoingWait)) {
      if (!whole || !again || memcmp(bytes + range.start + at, second.data() + at, sizeof(OngoingWait)) != 0) {
        memset(bytes + range.start + at, 0, sizeof(OngoingWait));
      }
    }
  }
  return now_ns != 0 ? now_ns : NowNs();
}

void ReadOngoing(const char* bytes, uint64_t limit, const absl::flat_hash_map<Offset, uint32_t>& stack_of_row,
                 TableSnapshot* snapshot) {
  snapshot->exporter_beat_s = CounterValue(reinterpret_cast<const TableHeader*>(bytes)->exporter_beat_s);
  for (int segment = 0; segment < kOngoingSegments; ++segment) {
    const Range range = SegmentRange(bytes, limit, segment);
    for (uint64_t at = range.start; at < range.start + range.bytes; at += sizeof(OngoingWait)) {
      const auto& slot = *reinterpret_cast<const OngoingWait*>(bytes + at);
      const uint64_t owner = CounterValue(slot.owner);
      const auto kind = static_cast<WaitKind>(CounterValue(slot.kind));
      if (CounterValue(slot.kind) == 0 || CounterValue(slot.kind) >= kWaitKinds) continue;
      for (const OngoingWait::Got& got : slot.got) {
        if (CounterValue(got.lock) != 0)
          snapshot->last_got.push_back({CounterValue(got.lock), ThreadOf(owner), CounterValue(got.end_ns)});
      }
      if (StateOf(owner) != kWaiting) continue;
      OngoingWaitInfo wait{.thread_id = ThreadOf(owner),
                           .kind = kind,
                           .lock = CounterValue(slot.lock),
                           .mutex = CounterValue(slot.mutex),
                           .start_ns = CounterValue(slot.start_ns),
                           .since_ns = CounterValue(slot.since_ns),
                           .noted_holder = CounterValue(slot.holder),
                           .place = at,
                           .owner = owner};
      const auto found = stack_of_row.find(CounterValue(slot.row));
      if (found != stack_of_row.end() && !snapshot->stacks[found->second].missing) {
        wait.stack = found->second;
      } else if (CounterValue(slot.caller) != 0) {  // not captured yet, or captured after the stacks were copied
        wait.stack = static_cast<uint32_t>(snapshot->stacks.size());
        snapshot->stacks.push_back({{CounterValue(slot.caller) & kPcMask}, true, false, false});
      }
      if (wait.since_ns <= 0 || wait.since_ns > wait.start_ns) wait.since_ns = wait.start_ns;
      snapshot->ongoing.push_back(wait);
    }
  }
}

std::vector<OngoingWaitInfo> ReadOngoingNow(int fd) {
  Offset segments[kOngoingSegments];
  std::vector<OngoingWaitInfo> waits;
  constexpr auto kPlace = static_cast<off_t>(offsetof(TableHeader, ongoing_segments));
  if (pread(fd, segments, sizeof segments, kPlace) != sizeof segments) return waits;
  std::vector<OngoingSlotCopy> slots;
  for (int segment = 0; segment < kOngoingSegments; ++segment) {
    if (segments[segment] == 0) continue;
    slots.resize(OngoingSlotsUpTo(segment + 1) - OngoingSlotsUpTo(segment));
    const uint64_t start = uint64_t{segments[segment]} * kUnit;
    const ssize_t got = pread(fd, slots.data(), slots.size() * sizeof slots[0], static_cast<off_t>(start));
    if (got < 0) continue;
    slots.resize(static_cast<size_t>(got) / sizeof slots[0]);
    for (const OngoingSlotCopy& copy : slots) {
      const auto& slot = reinterpret_cast<const OngoingWait&>(copy);
      const uint64_t owner = CounterValue(slot.owner);
      const auto kind = static_cast<WaitKind>(CounterValue(slot.kind));
      if (CounterValue(slot.kind) == 0 || CounterValue(slot.kind) >= kWaitKinds || StateOf(owner) != kWaiting) continue;
      waits.push_back({.thread_id = ThreadOf(owner),
                       .kind = kind,
                       .lock = CounterValue(slot.lock),
                       .mutex = CounterValue(slot.mutex),
                       .start_ns = CounterValue(slot.start_ns),
                       .noted_holder = CounterValue(slot.holder),
                       .place = CounterValue(slot.row)});
    }
  }
  return waits;
}

void EndOngoingAt(int64_t monotonic_ns, TableSnapshot* snapshot) {
  snapshot->monotonic_ns = monotonic_ns;
  std::erase_if(snapshot->ongoing,
                [&](const OngoingWaitInfo& wait) { return wait.start_ns <= 0 || wait.start_ns > monotonic_ns; });
  CountWaitersOfLocks(snapshot->ongoing, monotonic_ns, &snapshot->locks_known);
}

void CountWaitersOfLocks(const std::vector<OngoingWaitInfo>& waits, int64_t now_ns, std::vector<LockInfo>* locks) {
  // Readers and writers wait for the same lock.
  const auto kind_of = [](WaitKind kind) { return kind == WaitKind::kRwlockRead ? WaitKind::kRwlockWrite : kind; };
  absl::flat_hash_map<std::pair<uint64_t, WaitKind>, size_t> index;
  for (size_t i = 0; i < locks->size(); ++i) {
    LockInfo& lock = (*locks)[i];
    lock.waiting = lock.waiting_ns = lock.longest_waiting_ns = 0;
    index.emplace(std::pair(lock.address, lock.kind), i);
  }
  for (const OngoingWaitInfo& wait : waits) {
    const WaitKind kind = kind_of(wait.kind);
    if (wait.lock == 0) continue;
    const auto [found, added] = index.emplace(std::pair(wait.lock, kind), locks->size());
    // The table of locks was full, or this is a condition's mutex that nobody had waited for.
    if (added) {
      LockInfo lock{};
      lock.address = wait.lock;
      lock.kind = kind;
      lock.block_stack = kNoStack;
      locks->push_back(lock);
    }
    LockInfo& lock = (*locks)[found->second];
    const auto waited = static_cast<uint64_t>(now_ns - wait.start_ns);
    lock.waiting += 1;
    lock.waiting_ns += waited;
    lock.longest_waiting_ns = std::max(lock.longest_waiting_ns, waited);
  }
}

int64_t LastSignOfLife(const TableSnapshot& snapshot, int64_t now_ns) {
  // The exporter checks the process at least every second, and notices its end about 100 ms later.
  int64_t last_ns = int64_t{snapshot.exporter_beat_s} * kSecond;
  if (last_ns + 3 * kSecond > now_ns && last_ns <= now_ns) return now_ns;
  for (const OngoingWaitInfo& wait : snapshot.ongoing) last_ns = std::max(last_ns, wait.start_ns);
  for (const LastGotInfo& got : snapshot.last_got) last_ns = std::max(last_ns, got.end_ns);
  return std::min(last_ns, now_ns);
}

}  // namespace holdfast
