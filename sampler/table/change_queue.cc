#include "sampler/table/change_queue.h"

#include <time.h>

#include <atomic>

#include "sampler/arch/processor.h"
#include "sampler/contract/syscalls.h"
#include "sampler/table/range_list.h"

namespace holdfast {
namespace {

constexpr uint64_t kSlots = 1024;
constexpr int kQuickLooks = 100, kLooks = kQuickLooks + 2000;

// In lap n a slot is free at turn 2n and filled at turn 2n + 1, so that zeroed memory is an empty queue.
struct Slot {
  std::atomic<uint64_t> turn;
  MappingChange change;
};
constinit Slot slots[kSlots] = {};  // only used pages get memory
constinit std::atomic<uint64_t> tail{0};
constinit std::atomic<uint64_t> head{0};  // changed by the thread that uses the list
constinit std::atomic<bool> busy{false};

uint64_t FreeTurn(uint64_t place) { return place / kSlots * 2; }

// False: it is full.
bool Enqueue(const MappingChange& change) {
  uint64_t place = tail.load(std::memory_order_relaxed);
  while (true) {
    Slot& slot = slots[place % kSlots];
    // Acquire: the thread that emptied it has read it.
    const uint64_t turn = slot.turn.load(std::memory_order_acquire);
    if (turn == FreeTurn(place)) {
      if (!tail.compare_exchange_weak(place, place + 1, std::memory_order_relaxed)) continue;
      slot.change = change;
      // Sequentially consistent, as TryTake and Release are: either we find the list free, or the thread that used it
      // finds this change.
      slot.turn.store(turn + 1);
      return true;
    }
    const uint64_t now = tail.load(std::memory_order_relaxed);
    if (now == place) return false;
    place = now;
  }
}

bool TryTake() { return !busy.load() && !busy.exchange(true); }
void Release() { busy.store(false); }

bool HasFilled() {
  const uint64_t place = head.load(std::memory_order_relaxed);
  return slots[place % kSlots].turn.load() == FreeTurn(place) + 1;
}

void Drain(SharedTable* table) {
  for (; HasFilled(); head.fetch_add(1, std::memory_order_relaxed)) {
    const uint64_t place = head.load(std::memory_order_relaxed);
    Slot& slot = slots[place % kSlots];
    ApplyChange(table, slot.change);
    slot.turn.store(FreeTurn(place) + 2, std::memory_order_release);
  }
}

// Also counts threads that have a place and have not filled it yet.
bool IsEmpty() { return tail.load(std::memory_order_acquire) == head.load(std::memory_order_relaxed); }

}  // namespace

void SubmitChange(SharedTable* table, const MappingChange& change) {
  bool done = false;
  for (int look = 0; look < kLooks;) {
    if (TryTake()) {
      Drain(table);
      if (!done && IsEmpty()) {
        ApplyChange(table, change);
        done = true;
      }
      Release();
      if (done && !HasFilled()) return;
      if (done) continue;  // another change came too late for us to see, while we used the list
    } else if (done) {
      return;
    }
    // After changes that already have a place: this one may undo one of them.
    done = Enqueue(change);
    if (done) continue;
    if (++look > kQuickLooks && !no_system_calls.load(std::memory_order_relaxed))
      SleepShortly(100'000);
    else
      SpinPause();
  }
  table->Count(Loss::kMappingsFull);
}

void ForgetMappings() {
  busy.store(false, std::memory_order_relaxed);
  if (tail.load(std::memory_order_relaxed) != 0) {
    for (Slot& slot : slots) slot.turn.store(0, std::memory_order_relaxed);
  }
  tail.store(0, std::memory_order_relaxed);
  head.store(0, std::memory_order_relaxed);
  ForgetRanges();
}

}  // namespace holdfast
