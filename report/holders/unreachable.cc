#include "report/holders/unreachable.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "report/holders/block_map.h"
#include "report/holders/references.h"

namespace holdfast {
namespace {

constexpr double kMaxExpectedFalse = 0.001;
constexpr int kMaxUnknownScans = 3;
// A pointer that moves among k places is missed with probability (1 − 1/k)^k, if the places are read at independent
// times: at most 1/e.
constexpr double kMissed = 0.37;
constexpr uint64_t kSmallBlock = uint64_t{16} << 10;  // read together with others
constexpr size_t kMaxTogether = 256;                  // blocks: 4 MiB at most

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
  explicit BlockReader(MemoryImage* image) : image_(*image) {}

  // visit(word): for each word of these blocks.
  template <typename Visit>
  void ForEachWord(const std::vector<MemoryRange>& blocks, const Visit& visit) {
    small_.clear();
    size_t bytes = 0;
    for (const MemoryRange& block : blocks) {
      const MemoryRange whole{(block.start + 7) & ~uint64_t{7}, block.end & ~uint64_t{7}};
      if (whole.start >= whole.end) continue;
      if (whole.end - whole.start > kSmallBlock) {
        ForEachPiece(&image_, whole.start, whole.end, [&](uint64_t, std::span<const uint64_t> words) {
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
      const size_t got = image_.ReadEach(rest, reinterpret_cast<char*>(words_.data()));
      size_t count = 0;
      for (size_t i = 0; i < got; ++i) count += (rest[i].end - rest[i].start) / sizeof(uint64_t);
      for (size_t i = 0; i < count; ++i) visit(words_[i]);
      done += got;
      if (done < small_.size()) {  // a part of this block cannot be read
        ForEachPiece(&image_, small_[done].start, small_[done].end, [&](uint64_t, std::span<const uint64_t> words) {
          for (const uint64_t word : words) visit(word);
        });
        ++done;
      }
    }
  }

 private:
  MemoryImage& image_;
  std::vector<MemoryRange> small_;
  std::vector<uint64_t> words_;
};

// Marks all blocks that roots reach. `waiting_`: marked blocks with contents not yet searched; some of them are also in
// `next_`, to be read one after the other.
class Marker {
 public:
  Marker(MemoryImage* image, const BlockMap& map)
      : image_(*image), map_(map), marked_(map.size()), waiting_(map.size()), reader_(image) {}

  void Mark(uint64_t word) {
    if (!map_.MayContain(word)) return;
    const BlockMap::Block block = map_.Find(word);
    if (block.number == BlockMap::kNone || block.unused || marked_.Get(block.number)) return;
    marked_.Set(block.number);
    waiting_.Set(block.number);
    any_waits_ = true;
    if (next_.size() < kMaxNext) next_.push_back(block.number);
  }

  void MarkAll(const std::vector<RootRange>& roots) {
    for (const RootRange& root : roots) {
      ForEachRootWord(&image_, root, map_.lowest(), map_.span(), [this](uint64_t, uint64_t word) { Mark(word); });
    }
    ForEachRegister(image_, [this](uint32_t, uint64_t word) { Mark(word); });
    while (std::exchange(any_waits_, false)) {
      for (const BlockMap::Heap& heap : map_.heaps()) Sweep(heap);
      Follow();
    }
  }

  bool IsMarked(uint32_t block) const { return marked_.Get(block); }

 private:
  static constexpr uint64_t kWindow = uint64_t{256} << 10;
  static constexpr size_t kFew = 48;  // reading these singly is cheaper than the whole window
  static constexpr size_t kMaxNext = 1 << 16;
  static constexpr int kMaxRounds = 8;
  static constexpr uint64_t kNearBytes = uint64_t{64} << 10;
  static constexpr int kMinNear = 8;

  // Goes through a heap and searches waiting blocks, where there are many.
  void Sweep(const BlockMap::Heap& heap) {
    for (uint64_t at = heap.range.start; at < heap.range.end; at += kWindow) {
      const uint64_t end = std::min(at + kWindow, heap.range.end);
      const uint32_t first = BlockMap::FirstFrom(heap, at), last = BlockMap::FirstFrom(heap, end);
      const size_t waiting = waiting_.CountIn(first, last);
      if (waiting == 0) continue;
      if (waiting < kFew) {
        waiting_.ForEachIn(first, last, [this](size_t block) {
          if (next_.size() < kMaxNext) next_.push_back(static_cast<uint32_t>(block));
          any_waits_ = true;
        });
        continue;
      }
      window_.assign(kWindow / sizeof(uint64_t), 0);
      ForEachPiece(&image_, at, end, [&](uint64_t from, std::span<const uint64_t> words) {
        std::copy(words.begin(), words.end(), window_.begin() + static_cast<ptrdiff_t>((from - at) / sizeof(uint64_t)));
      });
      for (int round = 0; round < kMaxRounds && waiting_.CountIn(first, last) > 0; ++round) {
        map_.ForEachOf(heap, at, end, [&](const BlockMap::Block& block) {
          if (!waiting_.Get(block.number)) return;
          waiting_.Clear(block.number);
          const uint64_t from = (block.range.start + 7) & ~uint64_t{7}, to = std::min(block.range.end, end);
          for (uint64_t place = from; place + 8 <= to; place += 8) Mark(window_[(place - at) / sizeof(uint64_t)]);
          if (block.range.end > end) {
            reader_.ForEachWord({{std::max(end, from), block.range.end}}, [this](uint64_t word) { Mark(word); });
          }
        });
      }
    }
  }

  // Reads one block. The nodes of a list are often close to each other: then their surroundings are read together.
  void FollowOne(const MemoryRange& block) {
    const uint64_t from = (block.start + 7) & ~uint64_t{7}, end = block.end & ~uint64_t{7};
    const uint64_t distance = from > last_one_ ? from - last_one_ : last_one_ - from;
    near_ = distance < kNearBytes / 2 ? near_ + 1 : 0;
    last_one_ = from;
    const uint64_t start = from / kNearBytes * kNearBytes;
    if (near_ < kMinNear || end > start + kNearBytes) {
      reader_.ForEachWord({block}, [this](uint64_t word) { Mark(word); });
      return;
    }
    if (start != surroundings_start_) {
      surroundings_start_ = start;
      surroundings_.assign(kNearBytes / sizeof(uint64_t), 0);
      ForEachPiece(&image_, start, start + kNearBytes, [&](uint64_t at, std::span<const uint64_t> words) {
        std::copy(words.begin(), words.end(),
                  surroundings_.begin() + static_cast<ptrdiff_t>((at - start) / sizeof(uint64_t)));
      });
    }
    for (uint64_t at = from; at < end; at += sizeof(uint64_t)) Mark(surroundings_[(at - start) / sizeof(uint64_t)]);
  }

  // Follows pointers, many blocks at a time.
  void Follow() {
    std::vector<MemoryRange> blocks;
    surroundings_start_ = UINT64_MAX;
    while (!next_.empty()) {
      blocks.clear();
      while (!next_.empty() && blocks.size() < kMaxTogether) {
        const uint32_t block = next_.back();
        next_.pop_back();
        if (!waiting_.Get(block)) continue;
        waiting_.Clear(block);
        blocks.push_back(map_.Get(block).range);
      }
      if (blocks.size() == 1) {
        FollowOne(blocks[0]);
      } else {
        reader_.ForEachWord(blocks, [this](uint64_t word) { Mark(word); });
      }
      if (next_.size() > kMaxNext / 2) return;  // a sweep is cheaper now
    }
  }

  MemoryImage& image_;
  const BlockMap& map_;
  Bits marked_, waiting_;
  BlockReader reader_;
  std::vector<uint32_t> next_;
  std::vector<uint64_t> window_, surroundings_;
  uint64_t surroundings_start_ = UINT64_MAX, last_one_ = 0;
  int near_ = 0;
  bool any_waits_ = false;
};

// The blocks that no scan has reached so far.
class Candidates {
 public:
  void Add(const MemoryRange& block) { blocks_.push_back(block); }
  size_t size() const { return blocks_.size(); }
  const std::vector<MemoryRange>& blocks() const { return blocks_; }

  void Index() {
    lowest_ = blocks_.empty() ? 0 : blocks_.front().start;
    span_ = blocks_.empty() ? 0 : blocks_.back().end - lowest_;
    pages_ = std::make_unique<Bits>(std::min(span_ / kPage + 2, kMaxPages));
    for (const MemoryRange& block : blocks_) {
      for (uint64_t page = block.start / kPage; page <= (block.end - 1) / kPage; ++page) pages_->Set(BitOfPage(page));
    }
    reached_.assign(blocks_.size(), false);
  }
  uint64_t lowest() const { return lowest_; }
  uint64_t span() const { return span_; }

  static constexpr size_t kNone = SIZE_MAX;
  size_t Find(uint64_t word) const {
    if (word - lowest_ >= span_ || !pages_->Get(BitOfPage(word / kPage))) return kNone;
    const auto next = std::upper_bound(blocks_.begin(), blocks_.end(), word,
                                       [](uint64_t at, const MemoryRange& block) { return at < block.start; });
    if (next == blocks_.begin() || word >= std::prev(next)->end) return kNone;
    return static_cast<size_t>(std::prev(next) - blocks_.begin());
  }
  void Reach(size_t candidate) {
    if (reached_[candidate]) return;
    reached_[candidate] = true;
    next_.push_back(candidate);
  }
  void ReachWord(uint64_t word) {
    if (const size_t found = Find(word); found != kNone) Reach(found);
  }

  // Reaches everything that reached candidates lead to, and drops it. Returns how many were dropped.
  size_t DropReached(MemoryImage* image) {
    BlockReader reader(image);
    std::vector<MemoryRange> some;
    while (!next_.empty()) {
      some.clear();
      for (; !next_.empty() && some.size() < kMaxTogether; next_.pop_back()) some.push_back(blocks_[next_.back()]);
      reader.ForEachWord(some, [this](uint64_t word) { ReachWord(word); });
    }
    size_t kept = 0;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (!reached_[i]) blocks_[kept++] = blocks_[i];
    }
    const size_t dropped = blocks_.size() - kept;
    blocks_.resize(kept);
    return dropped;
  }

 private:
  std::vector<MemoryRange> blocks_;  // by address
  std::vector<bool> reached_;
  std::vector<size_t> next_;
  // One bit for many pages if blocks are far apart, as in [heap] and in mappings: 512 KiB cover 16 GiB exactly.
  static constexpr uint64_t kMaxPages = uint64_t{1} << 22;
  size_t BitOfPage(uint64_t page) const { return (page - lowest_ / kPage) % kMaxPages; }
  std::unique_ptr<Bits> pages_;
  uint64_t lowest_ = 0, span_ = 0;
};

// Searches everything except candidates for pointers to candidates. Returns how many were dropped.
size_t SearchAgain(MemoryImage* image, const HeapBlocks& heap, const std::vector<RootRange>& roots,
                   Candidates* candidates) {
  candidates->Index();
  // A candidate must still be the same block.
  for (size_t i = 0; i < candidates->size(); ++i) {
    const MemoryRange& range = candidates->blocks()[i];
    const BlockMap::Block block = heap.map.Find(range.start);
    if (block.number == BlockMap::kNone || block.unused || block.range.start != range.start ||
        block.range.end != range.end)
      candidates->Reach(i);
  }
  for (const RootRange& root : roots) {
    ForEachRootWord(image, root, candidates->lowest(), candidates->span(),
                    [&](uint64_t, uint64_t word) { candidates->ReachWord(word); });
  }
  ForEachRegister(*image, [&](uint32_t, uint64_t word) { candidates->ReachWord(word); });
  const uint64_t lowest = candidates->lowest(), span = candidates->span();
  ForEachBlockPiece(image, heap.map, [&](const BlockMap::Block& block, uint64_t, std::span<const uint64_t> words) {
    bool is_known = false, is_candidate = false;
    for (const uint64_t word : words) {
      if (word - lowest >= span) continue;
      const size_t found = candidates->Find(word);
      if (found == Candidates::kNone) continue;
      if (!std::exchange(is_known, true)) is_candidate = candidates->Find(block.range.start) != Candidates::kNone;
      if (is_candidate) return;
      candidates->Reach(found);
    }
  });
  return candidates->DropReached(image);
}

// Separates blocks that nothing leads to from those that other unreachable blocks lead to. Of a cycle one block is
// direct.
std::vector<UnreachableBlock> DirectFirst(MemoryImage* image, Candidates* candidates) {
  candidates->Index();
  const std::vector<MemoryRange>& blocks = candidates->blocks();
  const size_t count = blocks.size();
  std::vector<uint32_t> start(count + 1), to;
  BlockReader reader(image);
  for (size_t i = 0; i < count; ++i) {
    start[i] = static_cast<uint32_t>(to.size());
    reader.ForEachWord({blocks[i]}, [&](uint64_t word) {
      const size_t found = candidates->Find(word);
      if (found == Candidates::kNone || found == i) return;
      if (to.size() == start[i] || to.back() != found) to.push_back(static_cast<uint32_t>(found));
    });
  }
  start[count] = static_cast<uint32_t>(to.size());
  // In the reverse order in which a depth-first search leaves them, the first block of each source component comes
  // before everything it leads to.
  std::vector<uint32_t> left, cursor(start.begin(), start.end() - 1), path;
  std::vector<bool> seen(count);
  const auto search = [&](uint32_t from, const auto& leave) {
    seen[from] = true;
    path.assign(1, from);
    while (!path.empty()) {
      const uint32_t at = path.back();
      while (cursor[at] < start[at + 1] && seen[to[cursor[at]]]) ++cursor[at];
      if (cursor[at] < start[at + 1]) {
        seen[to[cursor[at]]] = true;
        path.push_back(to[cursor[at]]);
      } else {
        leave(at);
        path.pop_back();
      }
    }
  };
  for (uint32_t i = 0; i < count; ++i) {
    if (!seen[i]) search(i, [&](uint32_t block) { left.push_back(block); });
  }
  seen.assign(count, false);
  std::copy(start.begin(), start.end() - 1, cursor.begin());
  std::vector<UnreachableBlock> result;
  for (const MemoryRange& block : blocks) result.push_back({block, false});
  for (auto block = left.rbegin(); block != left.rend(); ++block) {
    if (seen[*block]) continue;
    result[*block].direct = true;
    search(*block, [](uint32_t) {});
  }
  return result;
}

uint32_t HiddenRegisters(const MemoryImage& image) {
#if defined(__aarch64__)
  constexpr uint32_t kOfSleeping = kPreservedOfAarch64, kOfRunning = kAllOfAarch64;
#else
  constexpr uint32_t kOfSleeping = kPreservedRegisters, kOfRunning = kAllRegisters;
#endif
  uint32_t hidden = 0;
  for (const ImageThread& thread : image.threads()) {
    if (!thread.has_all_registers) hidden += thread.sp == 0 ? kOfRunning : kOfSleeping;
  }
  return hidden;
}

}  // namespace

double ExpectedFalse(const std::vector<uint64_t>& dropped) {
  double last = 1, before = 0;
  size_t unchanged = 0;
  for (const uint64_t count : dropped) {
    if (count == 0) {
      ++unchanged;
      continue;
    }
    before = unchanged == 0 ? last : 0;
    last = static_cast<double>(count);
    unchanged = 0;
  }
  const double factor = before > 0 && dropped.size() > 1 ? std::clamp(last / before, kMissed, 0.9) : kMissed;
  const double now = dropped.empty() ? INFINITY : dropped.size() == unchanged ? 1 : last * factor / (1 - factor);
  return now * std::pow(factor, static_cast<double>(unchanged));
}

absl::StatusOr<Unreachable> FindUnreachable(MemoryImage* image,
                                            const std::function<absl::StatusOr<HeapBlocksInput>()>& prepare,
                                            const std::function<std::optional<uint64_t>()>& asleep) {
  Unreachable result;
  Candidates candidates;
  std::vector<uint64_t> dropped;
  int unknown_scans = 0;
  for (;;) {
    const std::optional<uint64_t> before = asleep ? asleep() : std::nullopt;
    const absl::StatusOr<HeapBlocksInput> input = prepare();
    if (!input.ok()) return input.status();
    const absl::StatusOr<HeapBlocks> heap = FindHeapBlocks(image, *input);
    if (!heap.ok()) return heap.status();
    const std::vector<RootRange> roots = FindRoots(image, *heap, *input);
    ++result.scans;
    // The allocator's state was being changed while it was read: this scan says nothing.
    if (result.scans > 1 && heap->map.size() == 0 && result.all_blocks > 0 && result.scans < kMaxScans) continue;
    result.all_blocks = result.all_bytes = 0;
    if (result.scans == 1) {
      Marker marker(image, heap->map);
      marker.MarkAll(roots);
      const uint64_t most_candidates = input->most_bytes / sizeof(MemoryRange);
      heap->map.ForEach([&](const BlockMap::Block& block) {
        if (!block.unused && !marker.IsMarked(block.number) && candidates.size() <= most_candidates)
          candidates.Add(block.range);
      });
      if (candidates.size() > most_candidates) {
        return absl::ResourceExhaustedError(absl::StrCat("the scan needs more than ", input->most_bytes >> 20,
                                                         " MiB of memory. Allow more with --scan-memory"));
      }
    } else {
      dropped.push_back(SearchAgain(image, *heap, roots, &candidates));
    }
    heap->map.ForEach([&](const BlockMap::Block& block) {
      if (block.unused) return;
      ++result.all_blocks;
      result.all_bytes += block.range.end - block.range.start;
    });
    result.source = heap->source;
    result.knows_free = heap->knows_free;
    result.heap_bytes = heap->heap_bytes;
    result.unknown_bytes = heap->unknown_bytes;
    result.hidden_registers = HiddenRegisters(*image);
    result.exact = !asleep || (before.has_value() && asleep() == before);
    result.settled = result.exact || candidates.size() == 0 || ExpectedFalse(dropped) < kMaxExpectedFalse;
    // A list of free blocks that changes while it is followed is understood the next time.
    if (!heap->knows_free && !result.exact && ++unknown_scans < kMaxUnknownScans) continue;
    if (result.settled || result.scans == kMaxScans) break;
  }
  result.blocks = DirectFirst(image, &candidates);
  return result;
}

}  // namespace holdfast
