// Finds records of the table by a hash of their contents: a stack by its frames, and the many children of one parent
// (children.h).
//
//     hash 0x5c1f9d03… ──► newest generation, 8,192 slots:   … │ 0x5c1f9d03 → record │ free │ …
//                          the one before,     4,096 slots:   … │ 0x5c1f9d03 → record │ 0x5c3307ee → record │ …
//
// A slot is one word, the upper half of the hash and the record's offset. Its place is among the kWindow slots that
// begin at the hash's highest bits. When all of these are in use, a generation of twice as many slots (the second: of
// eight times as many) is made and becomes the newest (if none can be had, the window grows to kLastWindow). Every later caller copies a part of the
// older one, until the older one is no longer searched. So a look-up reads one cache line, however many records there
// are.
//
// Each record exists once, even if several threads add it at the same moment: the first one in the newest generation
// counts, and checks that its generation is still the newest. Suppose two threads are first in two generations. The
// second one found nothing in the older one after its own had become the newest; so the first one came later, and sees
// that.
//
// In private memory, touched only as used: 12 to 40 bytes a record, and at most a quarter of the table's cap for each
// index. Readers of the table use lists instead. Any thread, lock-free, also in signal handlers. A thread that jumps
// out while it copies a part leaves that generation, and all later ones, to be searched for good: nothing is lost, but
// searches for absent records cost more.
#ifndef HOLDFAST_SAMPLER_TABLE_HASH_INDEX_H_
#define HOLDFAST_SAMPLER_TABLE_HASH_INDEX_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sampler/table/shared_table.h"

namespace holdfast {

// Mixes the hash, so that all its bits are equally good.
inline uint64_t Mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xe9846af9b1a615d;
  x ^= x >> 32;
  return x;
}

class HashIndex {
 public:
  // The first generation is a page, enough for a short process; the second is eight times as large.
  static constexpr int kFirstBits = 9, kSecondBits = 12, kGenerations = 17;
  static constexpr uint32_t kWindow = 128, kLastWindow = 1024;
  // A generation that would take a larger part of the cap is not made. Stacks take 120 bytes with a row, nodes 48: all
  // of them have room.
  static constexpr uint64_t kMaxPartOfCap = 4;

  // Returns the record with this hash for which `same(offset)` is true, or the result of `make()`, which is called at
  // most once. 0: it is absent and cannot be added: make() returned 0, or there is no room.
  template <typename Same, typename Make>
  Offset FindOrAdd(SharedTable* table, uint64_t hash, Same same, Make make) {
    Offset made = 0;
    for (;;) {
      // Sequentially consistent, here and below: see above. Reads the oldest first: the newest, read after it, is never
      // older.
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

  // Makes the second generation, for a process that can map nothing later.
  void Prepare(SharedTable* table) { MakeGeneration(table, 1); }

  // Generations that are searched for an absent record.
  int generations_in_use() const { return newest_.load() - oldest_.load() + 1; }

  // For a child of fork, which has another table: empties the index. No other thread may use it meanwhile.
  void Forget();

 private:
  using Slot = std::atomic<uint64_t>;
  struct Place {
    Slot* free;  // where it may be added; null: nowhere
    Offset found;
  };
  struct Copied {
    std::atomic<uint32_t> begun, done;  // parts, in order
  };
  static constexpr size_t kPart = 64;  // slots

  static constexpr int BitsOf(int generation) { return generation == 0 ? kFirstBits : kSecondBits + generation - 1; }
  static constexpr size_t SlotsOf(int generation) { return size_t{1} << BitsOf(generation); }
  static uint64_t WordOf(uint64_t hash, Offset record) { return hash >> 32 << 32 | record; }
  static size_t FirstPlace(int generation, uint64_t hash) { return hash >> (64 - BitsOf(generation)); }
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

  // Call when the newest generation is full in a record's `window`. False: neither another generation nor a larger
  // window can be had.
  bool Grow(SharedTable* table, int newest, uint32_t window);
  bool MakeGeneration(SharedTable* table, int generation);
  // Copies a part of an older generation to the newest.
  void CopyPart(SharedTable* table, int from);
  bool Copy(SharedTable* table, uint64_t word);

  alignas(4096) Slot first_[size_t{1} << kFirstBits] = {};  // generation 0
  std::atomic<Slot*> more_[kGenerations] = {};              // [0]: none. Null: not made yet
  std::atomic<int> newest_{0}, oldest_{0};
  std::atomic<uint32_t> widened_{0};  // slots beyond kWindow. All is 0 at first, so that it takes no space in the file
  Copied copied_[kGenerations] = {};
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_HASH_INDEX_H_
