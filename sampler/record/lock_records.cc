#include "sampler/record/lock_records.h"

#include "sampler/table/stack_table.h"

namespace holdfast {
namespace {

uint64_t Mix(uint64_t x) {
  x *= 0x9e3779b97f4a7c15;
  return x ^ (x >> 32);
}

// Readers and writers wait for the same lock.
WaitKind KindOfLock(WaitKind kind) { return kind == WaitKind::kRwlockRead ? WaitKind::kRwlockWrite : kind; }

// Returns the record of `list` for which `same` is true; else a new one made by `fill`, if the limit allows.
template <typename T, typename Same, typename Fill>
T* FindOrAdd(SharedTable* table, std::atomic<Offset>& list, std::atomic<uint32_t>& count, uint32_t most, Same same,
             Fill fill) {
  Offset first = list.load(std::memory_order_acquire), seen = 0;
  T* mine = nullptr;
  while (true) {
    for (Offset at = first; at != seen && at != 0;) {
      T* record = table->At<T>(at);
      if (same(*record)) return record;  // ours, if made, stays unused: a few bytes lost to a race
      at = record->next;
    }
    seen = first;
    if (mine == nullptr) {
      if (count.load(std::memory_order_relaxed) >= most || (mine = table->New<T>()) == nullptr) {
        table->Count(Loss::kLockTableFull);
        return nullptr;
      }
      fill(mine);
    }
    mine->next = first;
    // Release: a reader that finds the offset finds the filled record. Acquire on failure: so do we, before comparing.
    if (list.compare_exchange_weak(first, table->OffsetOf(mine), std::memory_order_release,
                                   std::memory_order_acquire)) {
      count.fetch_add(1, std::memory_order_relaxed);
      return mine;
    }
  }
}

}  // namespace

LockRecord* FindLockRecord(SharedTable* table, const void* lock, WaitKind kind) {
  TableHeader& head = *table->header();
  const uint64_t address = reinterpret_cast<uintptr_t>(lock);
  kind = KindOfLock(kind);
  return FindOrAdd<LockRecord>(
      table, head.lock_heads[Mix(address + static_cast<uint64_t>(kind)) % kLockHeads], head.lock_count, kMaxLocks,
      [=](const LockRecord& record) { return record.lock == address && record.kind == kind; },
      [=, &head](LockRecord* record) {
        record->number = static_cast<uint16_t>(head.lock_number.fetch_add(1, std::memory_order_relaxed) + 1);
        record->lock = address;
        record->kind = kind;
      });
}

LockPairRecord* FindLockPair(SharedTable* table, Offset holder, Offset waiter, LockRecord* record) {
  TableHeader& head = *table->header();
  const Offset lock = table->OffsetOf(record);
  return FindOrAdd<LockPairRecord>(
      table, head.pair_heads[Mix(Mix(holder) ^ Mix(waiter + 0x9e37u) ^ lock) % kPairHeads], head.pair_count, kMaxPairs,
      [=](const LockPairRecord& pair) { return pair.holder == holder && pair.waiter == waiter && pair.lock == lock; },
      [=](LockPairRecord* pair) {
        pair->holder = holder;
        pair->waiter = waiter;
        pair->lock = lock;
      });
}

void AddToPair(SharedTable* table, LockPairRecord* pair, const Weight& weight, uint64_t parts) {
  if (pair == nullptr) return;
  AddTo(table, &pair->contentions, weight.count / parts);
  AddTo(table, &pair->delay, weight.amount / parts);
}

}  // namespace holdfast
