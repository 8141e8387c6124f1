#include "report/holders/block_map.h"

#include <algorithm>
#include <utility>

namespace holdfast {
namespace {

constexpr int kNear = 4;  // words to look at one by one; large blocks have more

// std::popcount without the call of a library function, which x86-64 needs without its newer instructions.
uint32_t OnesIn(uint64_t word) {
  word -= word >> 1 & 0x5555555555555555;
  word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
  return static_cast<uint32_t>(((word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f) * 0x0101010101010101 >> 56);
}

// Returns the last place of ascending `ranks` with a value of at most `index`. The first rank is 0. Blocks are usually spread
// evenly, so the search begins near the place where they would be then.
size_t RankPlaceOf(const std::vector<uint32_t>& ranks, uint32_t index, uint32_t count) {
  size_t low = 0, high = ranks.size();  // ranks[low] <= index, and ranks[high] > index or high is the end
  const size_t guess = static_cast<size_t>(uint64_t{index} * ranks.size() / std::max(count, index + 1));
  for (size_t step = 1, at = guess; low < at && at < high; step *= 4) {
    if (ranks[at] <= index) {
      low = at;
      at += step;
    } else {
      high = at;
      at -= std::min(at, step);
    }
  }
  const auto begin = ranks.begin() + static_cast<ptrdiff_t>(low), end = ranks.begin() + static_cast<ptrdiff_t>(high);
  return static_cast<size_t>(std::upper_bound(begin, end, index) - ranks.begin()) - 1;
}

}  // namespace

void BlockMap::AddHeap(MemoryRange range, uint64_t tail, uint64_t single) {
  range.start = range.start / kGrain * kGrain;
  if (range.start >= range.end) return;
  Heap heap;
  heap.range = range;
  heap.tail = tail;
  heap.single = single;
  heaps_.push_back(std::move(heap));
}

void BlockMap::Seal() {
  std::sort(heaps_.begin(), heaps_.end(), [](const Heap& a, const Heap& b) { return a.range.start < b.range.start; });
  uint64_t end = 0;
  std::erase_if(heaps_, [&end](const Heap& heap) {
    if (heap.range.start < end) return true;
    end = heap.range.end;
    return false;
  });
  for (Heap& heap : heaps_) {
    if (heap.single != 0) continue;
    const uint64_t words = (heap.range.end - heap.range.start + kWordBytes - 1) / kWordBytes;
    heap.starts.resize(words);
    heap.unused.resize(words);
  }
  lowest_ = heaps_.empty() ? 0 : heaps_.front().range.start;
  span_ = heaps_.empty() ? 0 : heaps_.back().range.end - lowest_;
}

void BlockMap::AddBlock(uint64_t address) {
  const Heap* found = HeapAt(address);
  if (found == nullptr || found->single != 0) return;
  Heap& heap = heaps_[static_cast<size_t>(found - heaps_.data())];
  const uint64_t bit = (address - heap.range.start) / kGrain;
  heap.starts[bit / 64] |= uint64_t{1} << bit % 64;
}

void BlockMap::Number() {
  uint32_t number = 0;
  for (Heap& heap : heaps_) {
    heap.first = number;
    heap.count = heap.single != 0 ? 1 : 0;
    heap.ranks.assign((heap.starts.size() + kRanked - 1) / kRanked, 0);
    for (size_t i = 0; i < heap.starts.size(); ++i) {
      if (i % kRanked == 0) heap.ranks[i / kRanked] = heap.count;
      heap.count += OnesIn(heap.starts[i]);
    }
    number += heap.count;
  }
  count_ = number;
}

const BlockMap::Heap* BlockMap::SearchHeap(uint64_t address) const {
  const Heap* heap = HeapAfter(address);
  if (heap == nullptr || address < heap->range.start) return nullptr;
  last_heap_ = static_cast<size_t>(heap - heaps_.data());
  return heap;
}

const BlockMap::Heap* BlockMap::HeapAfter(uint64_t address) const {
  const auto found = std::upper_bound(heaps_.begin(), heaps_.end(), address,
                                      [](uint64_t at, const Heap& heap) { return at < heap.range.end; });
  return found == heaps_.end() ? nullptr : &*found;
}

uint64_t BlockMap::StartOf(const Heap& heap, uint32_t index) {
  const size_t place = RankPlaceOf(heap.ranks, index, heap.count);
  uint64_t word = place * kRanked;
  index -= heap.ranks[place];
  for (uint32_t here; index >= (here = OnesIn(heap.starts[word])); ++word) index -= here;
  uint64_t bits = heap.starts[word];
  for (; index > 0; --index) bits &= bits - 1;
  return heap.range.start + (word * 64 + static_cast<uint64_t>(std::countr_zero(bits))) * kGrain;
}

uint64_t BlockMap::NextStart(const Heap& heap, uint64_t bit, uint32_t index) {
  if (index + 1 >= heap.count) return heap.range.end;
  uint64_t word = (bit + 1) / 64;
  uint64_t bits = heap.starts[word] & (~uint64_t{0} << (bit + 1) % 64);
  for (int i = 0; i < kNear && bits == 0; ++i) bits = heap.starts[++word];  // there is a next block
  if (bits == 0) return StartOf(heap, index + 1);
  return heap.range.start + (word * 64 + static_cast<uint64_t>(std::countr_zero(bits))) * kGrain;
}

BlockMap::Block BlockMap::BlockAt(const Heap& heap, uint64_t start, uint32_t index) {
  const uint64_t bit = (start - heap.range.start) / kGrain, next = NextStart(heap, bit, index);
  const uint64_t tail = next == heap.range.end ? 0 : std::min(heap.tail, next - start);
  return {heap.first + index, {start, next - tail}, (heap.unused[bit / 64] >> bit % 64 & 1) != 0};
}

BlockMap::Block BlockMap::Find(uint64_t address) const {
  const Heap* heap = HeapAt(address);
  if (heap == nullptr) return {};
  if (heap->single != 0) {
    if (address < heap->single || address >= heap->range.end - heap->tail) return {};
    return {heap->first, {heap->single, heap->range.end - heap->tail}, heap->single_is_unused};
  }
  const uint64_t bit = (address - heap->range.start) / kGrain;
  uint64_t word = bit / 64;
  uint64_t bits = heap->starts[word] & (~uint64_t{0} >> (63 - bit % 64));
  uint32_t before = heap->ranks[word / kRanked];
  for (uint64_t i = word / kRanked * kRanked; i < word; ++i) before += OnesIn(heap->starts[i]);
  before += OnesIn(bits);
  if (before == 0) return {};
  for (int i = 0; i < kNear && bits == 0 && word > 0; ++i) bits = heap->starts[--word];
  const uint64_t start =
      bits == 0 ? StartOf(*heap, before - 1)
                : heap->range.start + (word * 64 + static_cast<uint64_t>(std::bit_width(bits)) - 1) * kGrain;
  const Block block = BlockAt(*heap, start, before - 1);
  return address < block.range.end ? block : Block{};
}

BlockMap::Block BlockMap::Get(uint32_t number) const {
  const auto next = std::upper_bound(heaps_.begin(), heaps_.end(), number,
                                     [](uint32_t at, const Heap& heap) { return at < heap.first + heap.count; });
  if (next == heaps_.end()) return {};
  const Heap& heap = *next;
  if (heap.single != 0) return {number, {heap.single, heap.range.end - heap.tail}, heap.single_is_unused};
  return BlockAt(heap, StartOf(heap, number - heap.first), number - heap.first);
}

uint32_t BlockMap::FirstFrom(const Heap& heap, uint64_t address) {
  if (heap.single != 0) return heap.first + (address > heap.single ? 1 : 0);
  if (address <= heap.range.start) return heap.first;
  const uint64_t bit = (address - heap.range.start + kGrain - 1) / kGrain, word = bit / 64;
  if (word >= heap.starts.size()) return heap.first + heap.count;
  uint32_t number = heap.first + heap.ranks[word / kRanked];
  for (uint64_t i = word / kRanked * kRanked; i < word; ++i) number += OnesIn(heap.starts[i]);
  return number + OnesIn(heap.starts[word] & ~(~uint64_t{0} << bit % 64));
}

void BlockMap::MarkUnused(uint64_t start) {
  const Heap* found = HeapAt(start);
  if (found == nullptr) return;
  Heap& heap = heaps_[static_cast<size_t>(found - heaps_.data())];
  if (heap.single != 0) {
    heap.single_is_unused = true;
    return;
  }
  const uint64_t bit = (start - heap.range.start) / kGrain;
  heap.unused[bit / 64] |= uint64_t{1} << bit % 64;
}

uint64_t BlockMap::memory_bytes() const {
  uint64_t bytes = 0;
  for (const Heap& heap : heaps_)
    bytes += sizeof heap + (heap.starts.size() * 2) * sizeof(uint64_t) + heap.ranks.size() * sizeof(uint32_t);
  return bytes;
}

uint64_t BlockMap::expected_bytes() const {
  uint64_t bytes = 0;
  for (const Heap& heap : heaps_) {
    const uint64_t words = heap.single != 0 ? 0 : (heap.range.end - heap.range.start) / kWordBytes + 1;
    bytes += sizeof heap + words * 2 * sizeof(uint64_t) + words / kRanked * sizeof(uint32_t);
  }
  return bytes;
}

}  // namespace holdfast
