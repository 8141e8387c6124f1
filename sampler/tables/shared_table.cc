#include "sampler/tables/shared_table.h"

#include <sys/mman.h>

#include "sampler/contract/syscalls.h"
#include "sampler/tables/table_room.h"

namespace holdfast {

constinit std::atomic<SharedTable*> current_table{nullptr};

namespace {

// Whether there was little room at the last look. Relaxed: a thread that sees it late looks some steps later.
constinit std::atomic<bool> scarce{true};

bool HasRoom(uint64_t bytes) {
  const Room room = RoomForTables(bytes);
  scarce.store(room != Room::kPlenty, std::memory_order_relaxed);
  return room != Room::kNone;
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
    // Small steps where room is scarce: processes that grow at the same moment do not see each other's.
    const bool careful = scarce.load(std::memory_order_relaxed);
    uint64_t step = (careful ? kGrowStepBytes / 4 : kGrowStepBytes) / kUnit;
    if (backed + step > cap_units) step = cap_units - backed;
    // A page of a full tmpfs that nothing backs would be SIGBUS in the program: ask first. Threads that come here
    // together ask for the same pages, which is harmless; so nobody waits for anybody.
    char* start = reinterpret_cast<char*>(this) + uint64_t{backed} * kUnit;
    head.counters[0].table_steps.fetch_add(1, std::memory_order_relaxed);
    // The room itself is looked at before each step where it is scarce, and elsewhere for every 4 MiB.
    const bool looks = careful || backed / (kGrowStepBytes / kUnit) % 16 == 0;
    if ((looks && !HasRoom(step * kUnit)) ||
        SyscallFailed(RawSyscall(SYS_madvise, start, step * kUnit, MADV_POPULATE_WRITE))) {
      Count(Loss::kGrowthFailed);
      return false;
    }
    uint32_t expected = backed;
    head.backed.compare_exchange_strong(expected, static_cast<uint32_t>(backed + step), std::memory_order_relaxed);
  }
}

void* SharedTable::Allocate(uint32_t bytes) {
  TableHeader& head = *header();
  const uint32_t units = (bytes + kUnit - 1) / kUnit;
  uint32_t at = head.used.load(std::memory_order_relaxed);
  do {
    if (uint64_t{at} + units > head.backed.load(std::memory_order_relaxed) && !Back(units * kUnit)) return nullptr;
    // `used` may have moved while the table grew: only what is backed at the moment of taking is taken.
    if (uint64_t{at} + units > head.backed.load(std::memory_order_relaxed)) {
      at = head.used.load(std::memory_order_relaxed);
      continue;
    }
    if (head.used.compare_exchange_weak(at, at + units, std::memory_order_relaxed)) {
      return reinterpret_cast<char*>(this) + uint64_t{at} * kUnit;  // pages of a new file are zero
    }
  } while (true);
}

}  // namespace holdfast
