#include "report/holders/unreachable.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "report/holders/block_map.h"
#include "report/holders/block_marker.h"
#include "report/holders/references.h"

namespace holdfast {
namespace {

constexpr double kMaxExpectedFalse = 0.001;
constexpr int kMaxUnknownScans = 3;
// A pointer that moves among k places is missed with probability (1 − 1/k)^k, if the places are read at independent
// times: at most 1/e.
constexpr double kMissed = 0.37;
constexpr size_t kMaxTogether = 256;  // blocks: 4 MiB at most

// The blocks that no scan has reached so far.
class Candidates {
 public:
  void Add(const MemoryRange& block) { blocks_.push_back(block); }
  size_t size() const { return blocks_.size(); }
  const std::vector<MemoryRange>& blocks() const { return blocks_; }

  // Prepares for Find and Reach.
  void Index() {
    next_.clear();
    lowest_ = blocks_.empty() ? 0 : blocks_.front().start;
    span_ = blocks_.empty() ? 0 : blocks_.back().end - lowest_;
    pages_ = std::make_unique<Bits>(std::min(span_ / kSmallestPage + 2, kMaxPages));
    for (const MemoryRange& block : blocks_) {
      for (uint64_t page = block.start / kSmallestPage; page <= (block.end - 1) / kSmallestPage; ++page)
        pages_->Set(BitOfPage(page));
    }
    reached_.assign(blocks_.size(), false);
  }
  uint64_t lowest() const { return lowest_; }
  uint64_t span() const { return span_; }

  static constexpr size_t kNone = SIZE_MAX;
  size_t Find(uint64_t word) const {
    if (word - lowest_ >= span_ || !pages_->Get(BitOfPage(word / kSmallestPage))) return kNone;
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
  size_t DropReached(AddressSpace* space) {
    BlockReader reader(space);
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
  size_t BitOfPage(uint64_t page) const { return (page - lowest_ / kSmallestPage) % kMaxPages; }
  std::unique_ptr<Bits> pages_;
  uint64_t lowest_ = 0, span_ = 0;
};

// Words in glibc's heaps that lead to candidates, found while the heaps are walked. Which block contains a word, and
// whether this block is in use, is known after the walk.
class WordsOfHeaps {
 public:
  explicit WordsOfHeaps(const Candidates& candidates) : candidates_(candidates) {}

  void Search(uint64_t at, std::span<const uint64_t> words) {
    const uint64_t lowest = candidates_.lowest(), span = candidates_.span();
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] - lowest < span) Add(at + i * sizeof(uint64_t), words[i]);
    }
  }
  // More words than are kept lead to candidates: the heaps must be searched a second time.
  bool is_full() const { return is_full_; }
  void Reach(const BlockMap& map, Candidates* candidates) const {
    for (const auto& [place, candidate] : found_) {
      const BlockMap::Block block = map.Find(place);
      if (block.number != BlockMap::kNone && !block.unused) candidates->Reach(candidate);
    }
  }

 private:
  static constexpr size_t kMost = size_t{1} << 17;  // 2 MiB

  void Add(uint64_t place, uint64_t word) {
    const size_t candidate = candidates_.Find(word);
    if (candidate == Candidates::kNone || candidates_.Find(place) != Candidates::kNone) return;
    if (found_.size() < kMost) {
      found_.emplace_back(place, candidate);
    } else {
      is_full_ = true;
    }
  }

  const Candidates& candidates_;
  std::vector<std::pair<uint64_t, size_t>> found_;
  bool is_full_ = false;
};

// Searches everything except candidates for pointers to candidates, after Index. Returns how many were dropped.
size_t SearchAgain(AddressSpace* space, const HeapBlocks& heap, const std::vector<RootRange>& roots,
                   const WordsOfHeaps& words_of_heaps, Candidates* candidates) {
  // A candidate must still be the same block.
  for (size_t i = 0; i < candidates->size(); ++i) {
    const MemoryRange& range = candidates->blocks()[i];
    const BlockMap::Block block = heap.map.Find(range.start);
    if (block.number == BlockMap::kNone || block.unused || block.range.start != range.start ||
        block.range.end != range.end)
      candidates->Reach(i);
  }
  for (const RootRange& root : roots) {
    ForEachRootWord(space, root, candidates->lowest(), candidates->span(),
                    [&](uint64_t, uint64_t word) { candidates->ReachWord(word); });
  }
  ForEachRegister(*space, [&](uint32_t, uint64_t word) { candidates->ReachWord(word); });
  for (const uint64_t word : space->kernel_words()) candidates->ReachWord(word);
  words_of_heaps.Reach(heap.map, candidates);
  const std::vector<MemoryRange> searched = words_of_heaps.is_full() ? std::vector<MemoryRange>() : heap.visited;
  const uint64_t lowest = candidates->lowest(), span = candidates->span();
  const auto search = [&](const BlockMap::Block& block, uint64_t, std::span<const uint64_t> words) {
    bool is_known = false, is_candidate = false;
    for (const uint64_t word : words) {
      if (word - lowest >= span) continue;
      const size_t found = candidates->Find(word);
      if (found == Candidates::kNone) continue;
      if (!std::exchange(is_known, true)) is_candidate = candidates->Find(block.range.start) != Candidates::kNone;
      if (is_candidate) return;
      candidates->Reach(found);
    }
  };
  ForEachBlockPiece(space, heap.map, searched, search);
  return candidates->DropReached(space);
}

// Reads the words of blocks in ascending order, near ones together.
class NearBlocks {
 public:
  NearBlocks(AddressSpace* space, const std::vector<MemoryRange>& blocks) : space_(*space), blocks_(blocks) {}

  // visit(word): for each word of block `i`. Call with ascending `i`.
  template <typename Visit>
  void ForEachWord(size_t i, const Visit& visit) {
    const MemoryRange block{(blocks_[i].start + 7) & ~uint64_t{7}, blocks_[i].end & ~uint64_t{7}};
    if (block.start >= block.end) return;
    if (block.end - block.start > kNearBytes) {
      ForEachPiece(&space_, block.start, block.end, [&](uint64_t, std::span<const uint64_t> words) {
        for (const uint64_t word : words) visit(word);
      });
      return;
    }
    if (block.start < loaded_.start || block.end > loaded_.end) Load(i, block);
    for (uint64_t at = block.start; at < block.end; at += sizeof(uint64_t))
      visit(words_[(at - loaded_.start) / sizeof(uint64_t)]);
  }

 private:
  static constexpr uint64_t kNearBytes = uint64_t{64} << 10;

  // Reads up to the last block that ends within kNearBytes. What cannot be read is 0.
  void Load(size_t i, const MemoryRange& block) {
    loaded_ = block;
    while (i + 1 < blocks_.size() && blocks_[i + 1].end - loaded_.start <= kNearBytes) ++i;
    loaded_.end = std::max(loaded_.end, blocks_[i].end & ~uint64_t{7});
    words_.assign((loaded_.end - loaded_.start) / sizeof(uint64_t), 0);
    ForEachPiece(&space_, loaded_.start, loaded_.end, [&](uint64_t at, std::span<const uint64_t> words) {
      std::copy(words.begin(), words.end(),
                words_.begin() + static_cast<ptrdiff_t>((at - loaded_.start) / sizeof(uint64_t)));
    });
  }

  AddressSpace& space_;
  const std::vector<MemoryRange>& blocks_;
  MemoryRange loaded_{0, 0};
  std::vector<uint64_t> words_;
};

// Separates blocks that nothing leads to from those that other unreachable blocks lead to. Of a cycle one block is
// direct.
std::vector<UnreachableBlock> DirectFirst(AddressSpace* space, Candidates* candidates) {
  candidates->Index();
  const std::vector<MemoryRange>& blocks = candidates->blocks();
  const size_t count = blocks.size();
  std::vector<uint32_t> start(count + 1), to;
  NearBlocks reader(space, blocks);
  for (size_t i = 0; i < count; ++i) {
    start[i] = static_cast<uint32_t>(to.size());
    reader.ForEachWord(i, [&](uint64_t word) {
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

uint32_t HiddenRegisters(const AddressSpace& space) {
#if defined(__aarch64__)
  constexpr uint32_t kOfSleeping = kPreservedOfAarch64, kOfRunning = kAllOfAarch64;
#else
  constexpr uint32_t kOfSleeping = kPreservedRegisters, kOfRunning = kAllRegisters;
#endif
  uint32_t hidden = 0;
  for (const TargetThread& thread : space.threads()) {
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

absl::StatusOr<Unreachable> FindUnreachable(AddressSpace* space,
                                            const std::function<absl::StatusOr<HeapBlocksInput>()>& prepare,
                                            const std::function<std::optional<uint64_t>()>& asleep) {
  Unreachable result;
  Candidates candidates;
  std::vector<uint64_t> dropped;
  int unknown_scans = 0;
  bool has_candidates = false;  // a scan has found the first ones
  for (;;) {
    const std::optional<uint64_t> before = asleep ? asleep() : std::nullopt;
    absl::StatusOr<HeapBlocksInput> input = prepare();
    if (!input.ok()) return input.status();
    WordsOfHeaps words_of_heaps(candidates);
    if (has_candidates) {
      candidates.Index();
      input->visit_words = [&](uint64_t at, std::span<const uint64_t> words) { words_of_heaps.Search(at, words); };
    }
    const absl::StatusOr<HeapBlocks> heap = FindHeapBlocks(space, *input);
    if (!heap.ok()) return heap.status();
    const std::vector<RootRange> roots = FindRoots(space, *heap, *input, &result.unknown_stacks);
    ++result.scans;
    result.exact = !asleep || (before.has_value() && asleep() == before);
    // The allocator's state was being changed while it was read: this scan says nothing.
    const bool is_void = !result.exact && (!heap->is_complete || (heap->map.size() == 0 && result.all_blocks > 0));
    if (is_void && result.scans < kMaxScans) continue;
    if (is_void) {
      result.is_complete = result.settled = false;
      break;
    }
    result.all_blocks = result.all_bytes = 0;
    if (!std::exchange(has_candidates, true)) {
      Marker marker(space, heap->map, {}, input->most_bytes - std::min(input->most_bytes, heap->map.memory_bytes()));
      for (const RootRange& root : roots) marker.MarkRoot(root);
      ForEachRegister(*space, [&](uint32_t, uint64_t word) { marker.Mark(word); });
      for (const uint64_t word : space->kernel_words()) marker.Mark(word);
      marker.Follow();
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
      dropped.push_back(SearchAgain(space, *heap, roots, words_of_heaps, &candidates));
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
    result.hidden_registers = HiddenRegisters(*space);
    result.settled = result.exact || candidates.size() == 0 || ExpectedFalse(dropped) < kMaxExpectedFalse;
    // A list of free blocks that changes while it is followed is understood the next time.
    if (!heap->knows_free && !result.exact && ++unknown_scans < kMaxUnknownScans) continue;
    if (result.settled || result.scans == kMaxScans) break;
  }
  result.blocks = DirectFirst(space, &candidates);
  return result;
}

}  // namespace holdfast
