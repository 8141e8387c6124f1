// Finds records of the table by a hash of what they hold: a stack by its frames, of what one has many of each (children.h).
//
//     hash 0x5c1f9d03… ──► newest generation, 8,192 slots:   … │ 0x5c1f9d03 → record │ free │ …
//                          the one before,     4,096 slots:   … │ 0x5c1f9d03 → record │ 0x5c3307ee → record │ …
//
// A slot is one word, the upper half of the hash and where the record lies; its place is among the kWindow slots from the hash's
// topmost bits on. Where all of these are taken a generation of twice as many slots is made and becomes the newest (where none
// can be had, there are kLastWindow); whoever comes next copies a part of the older one to it, until that is not looked at any more.
// So a record is found by one cache line, however many there are.
//
// Each record is there once, also where threads add it at the same moment: what counts is who comes first in the newest generation, and
// who has come first looks whether that is the newest still. Two threads that came first in two generations: the second one found
// nothing in the older one after its own had become the newest; so the first one came later, and sees that.
//
// In private memory, of which only pages that are used are touched: 12 to 40 bytes a record, of each index at most a quarter of the table's cap. Readers
// of the table come by lists. Any thread, lock-free, also in signal handlers. Who jumps out of one while it copies a part leaves that
// generation, and all that come after it, to be looked at for good: nothing is lost, what is not there costs more.
#ifndef HOLDFAST_SAMPLER_TABLES_HASH_INDEX_H_
#define HOLDFAST_SAMPLER_TABLES_HASH_INDEX_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sampler/tables/shared_table.h"

namespace holdfast {

// A hash whose bits are all as good as any other's.
inline uint64_t Mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xe9846af9b1a615d;
  x ^= x >> 32;
  return x;
}

class HashIndex {
 public:
  static constexpr int kFirstBits = 12, kGenerations = 16;
  static constexpr uint32_t kWindow = 128, kLastWindow = 1024;
  // A generation that would take more of the cap is not made. Stacks take 120 bytes with a row, nodes 48: there is room for all of them.
  static constexpr uint64_t kMostOfCap = 4;

  // The record for which `same(offset)` holds among those of this hash, or what `make()` gives, which is called at most once. 0: it
  // is not there, and cannot be added: make() gave 0, or there is no room.
  template <typename Same, typename Make>
  Offset FindOrAdd(SharedTable* table, uint64_t hash, Same same, Make make) {
    Offset made = 0;
    for (;;) {
      // Sequentially consistent, here and below: see above. The oldest first: read after it, the newest is never older.
      const int oldest = oldest_.load(), newest = newest_.load();
      const uint32_t window = Window();
      const Place place = Look(newest, window, hash, same);
      if (place.found != 0) {
        if (LIKELY(newest_.load() == newest)) return place.found;
        continue;
      }
      Offset record = 0;
      if (UNLIKELY(oldest != newest)) {
        for (int older = newest - 1; older >= oldest && record == 0; --older)
          record = Look(older, window, hash, same).found;
        CopyPart(table, oldest);
      }
      if (UNLIKELY(place.free == nullptr)) {
        if (Grow(table, newest, window)) continue;
        return record;
      }
      if (record == 0) {
        if (made == 0) made = make();
        if (made == 0) return 0;
        record = made;
      }
      uint64_t free = 0;
      if (place.free->compare_exchange_strong(free, WordOf(hash, record)) && newest_.load() == newest) return record;
    }
  }

  // Which are looked at for what is not there.
  int generations_in_use() const { return newest_.load() - oldest_.load() + 1; }

  // In a child of fork, which has another table: nothing is there. While no other thread uses it.
  void Forget();

 private:
  using Slot = std::atomic<uint64_t>;
  struct Place {
    Slot* free;  // where it may be added; null: nowhere
    Offset found;
  };
  struct Copied {
    std::atomic<uint32_t> begun, done;  // parts, from the first on
  };
  static constexpr size_t kPart = 64;  // slots

  static constexpr size_t SlotsOf(int generation) { return size_t{1} << (kFirstBits + generation); }
  static uint64_t WordOf(uint64_t hash, Offset record) { return hash >> 32 << 32 | record; }
  static size_t FirstPlace(int generation, uint64_t hash) { return hash >> (64 - kFirstBits - generation); }
  Slot* SlotsFrom(int generation) {
    return generation == 0 ? first_ : more_[generation].load(std::memory_order_acquire);
  }
  uint32_t Window() const { return kWindow + widened_.load(std::memory_order_relaxed); }
  template <typename Same>
  Place Look(int generation, uint32_t window, uint64_t hash, Same same) {
    Slot* const slots = SlotsFrom(generation);
    const size_t first = FirstPlace(generation, hash), end = first + window;
    for (size_t at = first; at != end; ++at) {
      Slot& slot = slots[at % SlotsOf(generation)];
      const uint64_t word = slot.load();
      if (word == 0) return {&slot, 0};
      if ((word ^ hash) >> 32 == 0 && same(static_cast<Offset>(word))) return {nullptr, static_cast<Offset>(word)};
    }
    return {nullptr, 0};
  }

  // After the newest one is full where a record belongs, as far as `window`. False: there can be no other, nor is there more of this one.
  bool Grow(SharedTable* table, int newest, uint32_t window);
  bool MakeGeneration(SharedTable* table, int generation);
  // Of an older generation to the newest.
  void CopyPart(SharedTable* table, int from);
  bool Copy(SharedTable* table, uint64_t word);

  alignas(4096) Slot first_[size_t{1} << kFirstBits] = {};  // generation 0
  std::atomic<Slot*> more_[kGenerations] = {};              // [0]: none. Null: not made yet
  std::atomic<int> newest_{0}, oldest_{0};
  std::atomic<uint32_t> widened_{0};  // slots beyond kWindow. All is 0 at first: so that it lies in no file
  Copied copied_[kGenerations] = {};
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLES_HASH_INDEX_H_
