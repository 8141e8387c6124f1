#include "sampler/table/hash_index.h"

#include <sys/mman.h>

#include "sampler/contract/own_memory.h"
#include "sampler/contract/syscalls.h"

namespace holdfast {

namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace

bool HashIndex::Grow(SharedTable* table, int newest, uint32_t window) {
  const int next = newest + 1;
  if (next < kGenerations && MakeGeneration(table, next)) {
    int expected = newest;
    newest_.compare_exchange_strong(expected, next);
    return true;
  }
  widened_.store(kLastWindow - kWindow, std::memory_order_relaxed);
  // If another thread has widened it meanwhile, the caller searches again.
  return window != kLastWindow;
}

bool HashIndex::MakeGeneration(SharedTable* table, int generation) {
  std::atomic<Slot*>& slots = more_[generation];
  if (slots.load() != nullptr) return true;
  const size_t bytes = SlotsOf(generation) * sizeof(Slot);
  if (bytes > table->header()->cap_bytes / kMaxPartOfCap || no_system_calls.load(std::memory_order_relaxed))
    return false;
  table->header()->counters[0].table_steps.fetch_add(1, std::memory_order_relaxed);
  auto* made = static_cast<Slot*>(MapLazily(bytes));
  if (made == nullptr) return false;
  // All of its pages will be used soon, each read before it is written: otherwise two faults each and a message to all
  // processors.
  if (bytes >= kHugePageBytes) RawSyscall(SYS_madvise, made, bytes, MADV_HUGEPAGE);
  RawSyscall(SYS_madvise, made, bytes, MADV_POPULATE_WRITE);
  Slot* none = nullptr;
  if (slots.compare_exchange_strong(none, made)) {
    NoteOwnMemory(made, bytes);
  } else {
    RawSyscall(SYS_munmap, made, bytes);
  }
  return true;
}

void HashIndex::CopyPart(SharedTable* table, int from) {
  const auto parts = static_cast<uint32_t>(SlotsOf(from) / kPart);
  Copied& copied = copied_[from];
  if (copied.begun.load(std::memory_order_relaxed) >= parts) return;
  const uint32_t part = copied.begun.fetch_add(1, std::memory_order_relaxed);
  if (part >= parts) return;
  Slot* const slots = SlotsFrom(from) + part * kPart;
  for (size_t i = 0; i < kPart; ++i) {
    const uint64_t word = slots[i].load();
    if (word != 0 && !Copy(table, word)) return;
  }
  // Records added before another generation became the newest are copied. Later callers check for themselves
  // (FindOrAdd).
  if (copied.done.fetch_add(1) + 1 != parts) return;
  int expected = from;
  oldest_.compare_exchange_strong(expected, from + 1);
  // A thread that still searches it finds nothing, and is second in the newest.
  // Only whole pages: pages larger than 4 KiB may have other data beside first_.
  const uintptr_t page = PageBytes(), start = reinterpret_cast<uintptr_t>(SlotsFrom(from));
  const uintptr_t first = (start + page - 1) & ~(page - 1), end = (start + SlotsOf(from) * sizeof(Slot)) & ~(page - 1);
  if (first < end && !no_system_calls.load(std::memory_order_relaxed))
    RawSyscall(SYS_madvise, first, end - first, MADV_DONTNEED);
}

bool HashIndex::Copy(SharedTable* table, uint64_t word) {
  for (;;) {
    const int newest = newest_.load();
    const uint32_t window = Window();
    const Place place = Look(newest, window, word, [=](Offset at) { return at == static_cast<Offset>(word); });
    if (place.found == 0) {
      if (place.free == nullptr) {
        if (Grow(table, newest, window)) continue;
        return false;
      }
      uint64_t free = 0;
      if (!place.free->compare_exchange_strong(free, word)) continue;
    }
    if (newest_.load() == newest) return true;
  }
}

void HashIndex::Forget() {
  for (int i = 0; i < kGenerations; ++i) {
    if (Slot* slots = SlotsFrom(i)) EmptyPages(slots, SlotsOf(i) * sizeof(Slot));
    copied_[i].begun.store(0);
    copied_[i].done.store(0);
  }
  newest_.store(0);
  oldest_.store(0);
  widened_.store(0);
}

}  // namespace holdfast
