#include "sampler/table/shared_table.h"

#include <sys/mman.h>

#include <algorithm>

#include "sampler/contract/syscalls.h"
#include "sampler/contract/table_share.h"
#include "sampler/table/table_room.h"

namespace holdfast {

constinit std::atomic<SharedTable*> current_table{nullptr};

namespace {

// RecordShard::room while a thread takes more. Nothing fits into it.
constexpr uint64_t kBeingTaken = UINT64_MAX;

// Whether there was little room at the last check. Relaxed: a thread that sees it late checks some steps later.
constinit std::atomic<bool> scarce{true};

bool HasRoom(uint64_t bytes) {
  const Room room = RoomForTables(bytes);
  scarce.store(room != Room::kPlenty, std::memory_order_relaxed);
  return room != Room::kNone;
}

// How much to grow, in units: a quarter of what is backed, in whole pages. Most forked children use little of their table.
constexpr uint64_t StepFor(uint32_t backed, uint64_t most_bytes) {
  constexpr uint64_t kPage = kLargestPageBytes / kUnit;
  constexpr uint64_t kLeast = std::max<uint64_t>(kLargestPageBytes, 16 << 10) / kUnit;
  return std::clamp(backed / 4 / kPage * kPage, kLeast, most_bytes / kUnit);
}

}  // namespace

bool SharedTable::Back(uint32_t bytes) {
  TableHeader& head = *header();
  const uint64_t cap_units = head.cap_bytes / kUnit;
  const uint64_t wanted = uint64_t{head.used.load(std::memory_order_relaxed)} + bytes / kUnit;
  while (true) {
    const uint32_t backed = head.backed.load(std::memory_order_relaxed);
    if (backed >= wanted) return true;
    if (wanted > cap_units) return false;
    if (no_system_calls.load(std::memory_order_relaxed)) {
      Count(Loss::kNoSystemCalls);
      return false;
    }
    // Small steps if room is scarce: processes that grow at the same moment do not see each other's steps. A forked child
    // has its parent's `scarce`.
    const bool careful = scarce.load(std::memory_order_relaxed) || backed <= kFirstTableBytes / kUnit;
    uint64_t step = StepFor(backed, careful ? kGrowStepBytes / 4 : kGrowStepBytes);
    if (backed + step > cap_units) step = cap_units - backed;
    // A page of a full tmpfs without backing would raise SIGBUS in the program: ask first. Threads that come here
    // together ask for the same pages, which is harmless; so no thread waits for another.
    char* start = reinterpret_cast<char*>(this) + uint64_t{backed} * kUnit;
    head.counters[0].table_steps.fetch_add(1, std::memory_order_relaxed);
    // Check the room before each step if it is scarce, otherwise every 4 MiB.
    constexpr uint64_t kBetweenLooks = 16 * kGrowStepBytes / kUnit;
    const bool looks = careful || backed / kBetweenLooks != (backed + step) / kBetweenLooks;
    if ((looks && !HasRoom(step * kUnit)) ||
        SyscallFailed(RawSyscall(SYS_madvise, start, step * kUnit, MADV_POPULATE_WRITE))) {
      Count(Loss::kGrowthFailed);
      return false;
    }
    uint32_t expected = backed;
    head.backed.compare_exchange_strong(expected, static_cast<uint32_t>(backed + step), std::memory_order_relaxed);
  }
}

HOLDFAST_WARM void* SharedTable::Allocate(uint32_t bytes, Offset behind) {
  const uint32_t units = (bytes + kUnit - 1) / kUnit;
  std::atomic<uint64_t>& room = shard().room;
  uint64_t left = room.load(std::memory_order_relaxed);
  const auto fits = [&] { return static_cast<Offset>(left) + uint64_t{units} <= left >> 32; };
  while (fits() && static_cast<Offset>(left) >= behind) {
    if (room.compare_exchange_weak(left, left + units, std::memory_order_relaxed))
      return At<void>(static_cast<Offset>(left));
  }
  // Large records take no room in advance, nor does a record if there is room that precedes its parent. One thread of
  // the shard reserves at a time; the others, and handlers, take what they need, because one of two reservations would
  // stay unused. After a handler jumps out of here, nothing is reserved any more.
  const bool takes_room = bytes <= kRoomBytes / 4 && !fits() && left != kBeingTaken &&
                          room.compare_exchange_strong(left, kBeingTaken, std::memory_order_relaxed);
  uint32_t taken = takes_room ? kRoomBytes / kUnit : units;
  const Offset at = Take(units, &taken);
  if (at == 0 || taken == units) {
    if (takes_room) room.store(left, std::memory_order_relaxed);
    return at != 0 ? At<void>(at) : nullptr;
  }
  // The rest of the previous reservation stays unused, unless the new one follows it directly.
  const bool follows = left >> 32 == at && static_cast<Offset>(left) >= behind;
  const Offset record = follows ? static_cast<Offset>(left) : at;
  room.store((uint64_t{at} + taken) << 32 | (record + units), std::memory_order_relaxed);
  return At<void>(record);
}

HOLDFAST_WARM Offset SharedTable::Take(uint32_t units, uint32_t* taken) {
  TableHeader& head = *header();
  uint32_t at = head.used.load(std::memory_order_relaxed);
  for (;;) {
    // `used` may move while the table grows: take only what is backed at that moment.
    const uint32_t backed = head.backed.load(std::memory_order_relaxed);
    if (uint64_t{at} + units > backed) {
      if (!Back(units * kUnit)) return 0;
      at = head.used.load(std::memory_order_relaxed);
      continue;
    }
    const uint32_t most = *taken < backed - at ? *taken : backed - at;
    if (head.used.compare_exchange_weak(at, at + most, std::memory_order_relaxed)) {
      *taken = most;
      return at;  // pages of a new file are zero
    }
  }
}

}  // namespace holdfast
