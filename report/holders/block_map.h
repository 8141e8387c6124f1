// Maps addresses to blocks of the heap: one bit for each 16 bytes, with ranks.
//
//    heap 0x7f00…0000 ─ 0x7f00…0400          1,024 bytes: one word of 64 bits
//      block at +0x10, 24 bytes                bit 1
//      block at +0x30, 104 bytes               bit 3
//      block at +0xa0, …                       bit 10
//    Find(+0x35) counts the bits up to bit 3: the second block, if +0x35 is before the block's end
//
// A block extends to the next one, minus `tail` bytes (glibc's size field before each block). So all memory of a heap is
// in blocks: free chunks and gaps are blocks with a mark. 10 million blocks in 1 GiB need 16 MiB for starts and marks,
// and 0.5 MiB for ranks. A heap with a single block has no bits.
//
// Add all heaps, Seal, add all blocks, then Number. Any thread may read afterwards.
#ifndef HOLDFAST_REPORT_HOLDERS_BLOCK_MAP_H_
#define HOLDFAST_REPORT_HOLDERS_BLOCK_MAP_H_

#include <bit>
#include <cstdint>
#include <vector>

#include "report/holders/address_space.h"

namespace holdfast {

class BlockMap {
 public:
  static constexpr uint64_t kGrain = 16;
  static constexpr uint32_t kNone = 0xffffffff;

  // `single`: the heap has one block, which begins at `first`.
  void AddHeap(MemoryRange range, uint64_t tail, uint64_t single = 0);
  // Sorts the heaps, and drops overlapping ones.
  void Seal();
  // `address`: in a heap; rounded down to 16 bytes.
  void AddBlock(uint64_t address);
  void Number();

  struct Heap {
    MemoryRange range;
    uint64_t tail = 0, single = 0;
    uint32_t first = 0, count = 0;  // numbers of its blocks
    bool single_is_unused = false;
    std::vector<uint64_t> starts, unused;
    std::vector<uint32_t> ranks;  // for every kRanked words: blocks of this heap before them
  };
  const std::vector<Heap>& heaps() const { return heaps_; }
  // Null: the address is in no heap.
  const Heap* HeapAt(uint64_t address) const {
    if (address - lowest_ >= span_) return nullptr;
    if (last_heap_ < heaps_.size() && heaps_[last_heap_].range.Contains(address)) return &heaps_[last_heap_];
    return SearchHeap(address);
  }
  // Returns the first heap that ends after `address`; null: none.
  const Heap* HeapAfter(uint64_t address) const;
  bool MayContain(uint64_t address) const { return address - lowest_ < span_; }
  uint64_t lowest() const { return lowest_; }
  uint64_t span() const { return span_; }

  uint32_t size() const { return count_; }

  struct Block {
    uint32_t number = kNone;
    MemoryRange range;
    bool unused = false;  // free, or a gap
  };
  // Returns the block that contains `address`; number kNone: none does.
  Block Find(uint64_t address) const;
  Block Get(uint32_t number) const;
  // Returns the number of the first block of a heap that begins at or after `address`.
  static uint32_t FirstFrom(const Heap& heap, uint64_t address);
  // Marks the block as free or as a gap.
  void MarkUnused(uint64_t start);

  // Calls visit(block) for all blocks, by number and by address.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const Heap& heap : heaps_) ForEachOf(heap, heap.range.start, heap.range.end, visit);
  }
  // Of one heap, those that begin in [from, to).
  template <typename Visit>
  void ForEachOf(const Heap& heap, uint64_t from, uint64_t to, const Visit& visit) const;

  uint64_t memory_bytes() const;
  // The same before Seal, so that a caller can refuse.
  uint64_t expected_bytes() const;

 private:
  static constexpr uint64_t kWordBytes = kGrain * 64;
  static constexpr uint64_t kRanked = 8;  // words

  const Heap* SearchHeap(uint64_t address) const;
  // The address of a heap's block, by its number in the heap.
  static uint64_t StartOf(const Heap& heap, uint32_t index);
  // The address of the next block after one that begins at `bit` and has number `index` in the heap; the heap's end if
  // there is none.
  static uint64_t NextStart(const Heap& heap, uint64_t bit, uint32_t index);
  static Block BlockAt(const Heap& heap, uint64_t start, uint32_t index);

  std::vector<Heap> heaps_;
  mutable size_t last_heap_ = 0;
  uint64_t lowest_ = 0, span_ = 0;
  uint32_t count_ = 0;
};

template <typename Visit>
void BlockMap::ForEachOf(const Heap& heap, uint64_t from, uint64_t to, const Visit& visit) const {
  if (heap.single != 0) {
    if (heap.single >= from && heap.single < to)
      visit(Block{heap.first, {heap.single, heap.range.end - heap.tail}, heap.single_is_unused});
    return;
  }
  from = std::max(from, heap.range.start);
  to = std::min(to, heap.range.end);
  if (from >= to) return;
  Block block;
  bool has = false;
  const auto end_at = [&](uint64_t next) {
    block.range.end = next - (next == heap.range.end ? 0 : std::min(heap.tail, next - block.range.start));
    visit(block);
  };
  const uint64_t first_bit = (from - heap.range.start + kGrain - 1) / kGrain;
  uint64_t word = first_bit / 64;
  if (word >= heap.starts.size()) return;
  uint64_t bits = heap.starts[word] & (~uint64_t{0} << first_bit % 64);
  uint32_t number = heap.first + heap.ranks[word / kRanked];
  for (uint64_t i = word / kRanked * kRanked; i < word; ++i)
    number += static_cast<uint32_t>(std::popcount(heap.starts[i]));
  number += static_cast<uint32_t>(std::popcount(heap.starts[word] & ~(~uint64_t{0} << first_bit % 64)));
  for (;;) {
    while (bits == 0) {
      if (++word >= heap.starts.size()) {
        if (has) end_at(heap.range.end);
        return;
      }
      bits = heap.starts[word];
    }
    const uint64_t bit = word * 64 + static_cast<uint64_t>(std::countr_zero(bits));
    const uint64_t start = heap.range.start + bit * kGrain;
    if (has) end_at(start);
    if (start >= to) return;
    block = {number++, {start, start}, (heap.unused[word] >> bit % 64 & 1) != 0};
    has = true;
    bits &= bits - 1;
  }
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_BLOCK_MAP_H_
