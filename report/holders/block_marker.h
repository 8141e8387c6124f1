// Marks all blocks to which pointers lead, from the roots on, in bounded memory: two bits for each block. Reads the
// contents of many blocks at once, and whole pieces of the heap if many of their blocks are still to be read. Where the
// pointers lead back and forth, as in a list that was sorted, each block would be read alone: then the heap is read once
// in ascending order, and its pointers are kept, about 8 bytes for each block, if there is so much memory.
//
//    Marker marker(space, map, {}, most_bytes);
//    for (const RootRange& root : roots) marker.MarkRoot(root);
//    marker.Follow();
//    marker.IsMarked(block.number)
#ifndef HOLDFAST_REPORT_HOLDERS_BLOCK_MARKER_H_
#define HOLDFAST_REPORT_HOLDERS_BLOCK_MARKER_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "report/holders/address_space.h"
#include "report/holders/block_map.h"
#include "report/holders/heap_blocks.h"
#include "report/holders/references.h"

namespace holdfast {

// One bit for each number.
class Bits {
 public:
  explicit Bits(size_t count) : words_((count + 63) / 64 + 1) {}
  bool Get(size_t i) const { return (words_[i / 64] >> i % 64 & 1) != 0; }
  void Set(size_t i) { words_[i / 64] |= uint64_t{1} << i % 64; }
  void Clear(size_t i) { words_[i / 64] &= ~(uint64_t{1} << i % 64); }
  size_t CountIn(size_t from, size_t to) const {
    size_t count = 0;
    ForEachIn(from, to, [&count](size_t) { ++count; });
    return count;
  }
  template <typename Visit>
  void ForEachIn(size_t from, size_t to, const Visit& visit) const {
    for (size_t word = from / 64; word * 64 < to; ++word) {
      uint64_t bits = words_[word];
      if (word == from / 64) bits &= ~uint64_t{0} << from % 64;
      for (; bits != 0; bits &= bits - 1) {
        const size_t i = word * 64 + static_cast<size_t>(std::countr_zero(bits));
        if (i >= to) return;
        visit(i);
      }
    }
  }

 private:
  std::vector<uint64_t> words_;
};

// Reads the words of many blocks, those of small blocks together.
class BlockReader {
 public:
  static constexpr uint64_t kSmallBlock = uint64_t{16} << 10;  // read together with others

  explicit BlockReader(AddressSpace* space) : space_(*space) {}

  // visit(word): for each word of these blocks.
  template <typename Visit>
  void ForEachWord(const std::vector<MemoryRange>& blocks, const Visit& visit) {
    small_.clear();
    size_t bytes = 0;
    for (const MemoryRange& block : blocks) {
      const MemoryRange whole{(block.start + 7) & ~uint64_t{7}, block.end & ~uint64_t{7}};
      if (whole.start >= whole.end) continue;
      if (whole.end - whole.start > kSmallBlock) {
        ForEachPiece(&space_, whole.start, whole.end, [&](uint64_t, std::span<const uint64_t> words) {
          for (const uint64_t word : words) visit(word);
        });
      } else {
        small_.push_back(whole);
        bytes += whole.end - whole.start;
      }
    }
    words_.resize(bytes / sizeof(uint64_t));
    for (size_t done = 0; done < small_.size();) {
      const std::span<const MemoryRange> rest(small_.data() + done, small_.size() - done);
      const size_t got = space_.ReadEach(rest, reinterpret_cast<char*>(words_.data()));
      size_t count = 0;
      for (size_t i = 0; i < got; ++i) count += (rest[i].end - rest[i].start) / sizeof(uint64_t);
      for (size_t i = 0; i < count; ++i) visit(words_[i]);
      done += got;
      if (done < small_.size()) {  // a part of this block cannot be read
        ForEachPiece(&space_, small_[done].start, small_[done].end, [&](uint64_t, std::span<const uint64_t> words) {
          for (const uint64_t word : words) visit(word);
        });
        ++done;
      }
    }
  }

 private:
  AddressSpace& space_;
  std::vector<MemoryRange> small_;
  std::vector<uint64_t> words_;
};

// Words that are in no used block and in this range are passed to `visit`: a caller may also search for other memory.
struct OtherTargets {
  MemoryRange range;
  std::function<void(uint64_t)> visit;
};

// `waiting_`: marked blocks with contents not yet searched; some of them are also in `next_`, to be read one after the
// other.
class Marker {
 public:
  // `most_bytes`: for the pointers of the whole heap; 0: they are never kept.
  Marker(AddressSpace* space, const BlockMap& map, OtherTargets others = {}, uint64_t most_bytes = 0)
      : space_(*space),
        map_(map),
        others_(std::move(others)),
        most_bytes_(others_.visit ? 0 : most_bytes),
        marked_(map.size()),
        waiting_(map.size()),
        reader_(space) {
    lowest_ = map.lowest();
    uint64_t end = map.lowest() + map.span();
    if (others_.range.start < others_.range.end) {
      lowest_ = map.span() == 0 ? others_.range.start : std::min(lowest_, others_.range.start);
      end = std::max(end, others_.range.end);
    }
    span_ = end - lowest_;
  }

  void Mark(uint64_t word) {
    if (word - lowest_ >= span_) return;
    const BlockMap::Block block = map_.Find(word);
    if (block.number == BlockMap::kNone || block.unused) {
      if (others_.range.Contains(word)) others_.visit(word);
      return;
    }
    MarkBlock(block.number);
  }
  void MarkRoot(const RootRange& root) {
    ForEachRootWord(&space_, root, lowest_, span_, [this](uint64_t, uint64_t word) { Mark(word); });
  }
  // Marks everything to which marked blocks lead.
  void Follow() {
    while (any_waits_) {
      any_waits_ = false;
      for (const BlockMap::Heap& heap : map_.heaps()) Sweep(heap);
      FollowNext();
      if (!ReadsTooMuchSingly() || FollowKept()) continue;
      most_bytes_ = 0;
      any_waits_ = true;
    }
  }

  bool IsMarked(uint32_t block) const { return marked_.Get(block); }

 private:
  static constexpr uint64_t kWindow = uint64_t{256} << 10;
  static constexpr size_t kFew = 48;  // reading these singly is cheaper than the whole window
  static constexpr size_t kMaxNext = 1 << 16;
  static constexpr size_t kMaxTogether = 256;  // blocks: 4 MiB at most
  static constexpr int kMaxRounds = 8;
  static constexpr uint64_t kNearBytes = uint64_t{64} << 10;
  static constexpr int kMinNear = 8;

  // Limits how many blocks are read singly. Each costs as much as 20 that are read in ascending order.
  static constexpr uint64_t kMostSingly = 4096, kSinglyShare = 32;

  void MarkBlock(uint32_t block) {
    if (marked_.Get(block)) return;
    marked_.Set(block);
    waiting_.Set(block);
    any_waits_ = true;
    if (next_.size() < kMaxNext) next_.push_back(block);
  }
  bool ReadsTooMuchSingly() const { return most_bytes_ > 0 && read_singly_ > kMostSingly + map_.size() / kSinglyShare; }
  // Goes through a heap and searches waiting blocks, where there are many.
  void Sweep(const BlockMap::Heap& heap);
  // Reads one block. The nodes of a list are often close to each other: then their surroundings are read together.
  void FollowOne(const MemoryRange& block);
  // Follows pointers, many blocks at a time.
  void FollowNext();
  // Reads the whole heap, keeps the pointers, and marks everything. Returns false if there is too little memory.
  bool FollowKept();

  AddressSpace& space_;
  const BlockMap& map_;
  const OtherTargets others_;
  uint64_t most_bytes_, read_singly_ = 0;
  uint64_t lowest_ = 0, span_ = 0;  // of words that may be pointers
  Bits marked_, waiting_;
  BlockReader reader_;
  std::vector<uint32_t> next_;
  std::vector<uint64_t> window_, surroundings_;
  uint64_t surroundings_start_ = UINT64_MAX, last_one_ = 0;
  int near_ = 0;
  bool any_waits_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_BLOCK_MARKER_H_
