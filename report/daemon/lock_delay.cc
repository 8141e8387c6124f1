#include "report/daemon/lock_delay.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "report/observe/peak/table_pages.h"
#include "report/observe/table/snapshot_locks.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

bool IsLock(int kind) {
  switch (static_cast<WaitKind>(kind)) {
    case WaitKind::kMutex:
    case WaitKind::kRwlockRead:
    case WaitKind::kRwlockWrite:
    case WaitKind::kSpin:
    case WaitKind::kCustom:
      return true;
    default:
      return false;
  }
}

bool Waits(const OngoingWait& slot) {
  return static_cast<uint32_t>(CounterValue(slot.owner)) % kTurnStates == kWaiting && IsLock(CounterValue(slot.kind));
}

// A slot that changes while it is read may be missed or counted twice: an error of one wait, until the next look.
uint64_t OngoingNs(const TableFile& table, const TableHeader& head, int64_t now_ns) {
  uint64_t sum = 0;
  for (int segment = 0; segment < kOngoingSegments; ++segment) {
    const uint64_t start = uint64_t{CounterValue(head.ongoing_segments[segment])} * kUnit;
    if (start < sizeof(TableHeader)) continue;
    std::vector<OngoingWait> slots(OngoingSlotsUpTo(segment + 1) - OngoingSlotsUpTo(segment));
    if (!ReadTable(table.descriptor(), slots.data(), start, slots.size() * sizeof slots[0])) continue;
    for (const OngoingWait& slot : slots) {
      const int64_t since = CounterValue(slot.start_ns);
      if (Waits(slot) && since > 0 && since < now_ns) AddSaturating(static_cast<uint64_t>(now_ns - since), &sum);
    }
  }
  return sum;
}

}  // namespace

std::optional<uint64_t> LockDelayNs(const TableFile& table, int64_t now_ns) {
  constexpr size_t kHeadBytes = offsetof(TableHeader, record_shards);
  const auto head = std::make_unique<TableHeader>();
  if (!ReadTable(table.descriptor(), head.get(), 0, kHeadBytes)) return std::nullopt;
  uint64_t sum = OngoingNs(table, *head, now_ns);
  for (const LockCounters& shard : head->lock_counters) {
    for (int kind = 0; kind < kWaitKinds; ++kind) {
      if (IsLock(kind)) AddSaturating(CounterValue(shard.wait_ns[kind]), &sum);
    }
  }
  return sum;
}

}  // namespace holdfast
