#include "sampler/table/live_threads.h"

#include <bit>

namespace holdfast {
namespace {

constexpr uint32_t kMaxSlotsPerLook = 64;

// The start of the search for a free slot: after the one taken last.
constinit std::atomic<uint32_t> next_slot{0};

uint32_t SlotsBefore(int segment) { return kThreadSlots0 * ((1u << segment) - 1); }
int SegmentOf(uint32_t number) { return std::bit_width(number / kThreadSlots0 + 1) - 1; }

int Segments(SharedTable* table) {
  int made = 0;
  while (made < kThreadSegments && table->header()->thread_segments[made].load(std::memory_order_acquire) != 0) ++made;
  return made;
}

bool MakeSegment(SharedTable* table, int segment) {
  void* made = table->Allocate((kThreadSlots0 << segment) * static_cast<uint32_t>(sizeof(LiveThread)));
  if (made == nullptr) return false;
  Offset none = 0;
  // Lost to a race: ours stays unused.
  table->header()->thread_segments[segment].compare_exchange_strong(none, table->OffsetOf(made),
                                                                    std::memory_order_release);
  return true;
}

bool Take(LiveThread* thread, uint64_t from, uint64_t to) {
  if (!thread->who.compare_exchange_strong(from, to, std::memory_order_acq_rel)) return false;
  thread->when_ns.store(0, std::memory_order_relaxed);
  return true;
}

uint32_t TakeFree(SharedTable* table, uint32_t slots, uint64_t to) {
  const uint32_t first = next_slot.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < slots; ++i) {
    const uint32_t number = (first + i) % slots;
    LiveThread* thread = LiveThreadAt(table, number);
    if (thread->who.load(std::memory_order_relaxed) != 0 || !Take(thread, 0, to)) continue;
    next_slot.store(number + 1, std::memory_order_relaxed);
    return number;
  }
  return kNoLiveThread;
}

uint32_t TakeLeft(SharedTable* table, uint32_t slots, uint64_t to, bool (*is_gone)(uint32_t), void (*ended)(Row*)) {
  const uint32_t first = next_slot.fetch_add(kMaxSlotsPerLook, std::memory_order_relaxed);
  for (uint32_t i = 0; i < kMaxSlotsPerLook && i < slots; ++i) {
    const uint32_t number = (first + i) % slots;
    LiveThread* thread = LiveThreadAt(table, number);
    const uint64_t who = thread->who.load(std::memory_order_relaxed);
    if (static_cast<uint32_t>(who) == 0 || !is_gone(static_cast<uint32_t>(who)) || !Take(thread, who, to)) continue;
    ended(table->At<Row>(static_cast<Offset>(who >> kNotedRowShift)));
    return number;
  }
  return kNoLiveThread;
}

}  // namespace

uint32_t LiveThreadSlots(SharedTable* table) { return SlotsBefore(Segments(table)); }

LiveThread* LiveThreadAt(SharedTable* table, uint32_t number) {
  const int segment = SegmentOf(number);
  const Offset at = table->header()->thread_segments[segment].load(std::memory_order_acquire);
  return table->At<LiveThread>(at) + (number - SlotsBefore(segment));
}

uint32_t TakeLiveThread(SharedTable* table, const Row* row, bool (*is_gone)(uint32_t), void (*ended)(Row*)) {
  const uint64_t to = uint64_t{table->OffsetOf(row)} << kNotedRowShift;
  for (int made = Segments(table);; ++made) {
    const uint32_t slots = SlotsBefore(made);
    uint32_t number = TakeFree(table, slots, to);
    if (number == kNoLiveThread) number = TakeLeft(table, slots, to, is_gone, ended);
    if (number != kNoLiveThread) return number;
    if (made == kThreadSegments || !MakeSegment(table, made)) break;
  }
  table->Count(Loss::kThreadsFull);
  return kNoLiveThread;
}

void BeginLiveThread(LiveThread* thread, uint32_t id, int64_t now_ns) {
  thread->when_ns.store(now_ns, std::memory_order_relaxed);
  thread->who.fetch_or(id, std::memory_order_release);
}

bool EndLiveThread(LiveThread* thread, uint64_t who) {
  return thread->who.compare_exchange_strong(who, 0, std::memory_order_acq_rel);
}

uint32_t FindLiveThread(SharedTable* table, uint32_t id) {
  const uint32_t slots = SlotsBefore(Segments(table));
  for (uint32_t number = 0; number < slots; ++number) {
    if (static_cast<uint32_t>(LiveThreadAt(table, number)->who.load(std::memory_order_relaxed)) == id) return number;
  }
  return kNoLiveThread;
}

}  // namespace holdfast
