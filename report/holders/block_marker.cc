#include "report/holders/block_marker.h"

#include "report/holders/big_array.h"

namespace holdfast {

void Marker::Sweep(const BlockMap::Heap& heap) {
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
    ForEachPiece(&space_, at, end, [&](uint64_t from, std::span<const uint64_t> words) {
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

void Marker::FollowOne(const MemoryRange& block) {
  const uint64_t from = (block.start + 7) & ~uint64_t{7}, end = block.end & ~uint64_t{7};
  const uint64_t distance = from > last_one_ ? from - last_one_ : last_one_ - from;
  near_ = distance < kNearBytes / 2 ? near_ + 1 : 0;
  last_one_ = from;
  const uint64_t start = from / kNearBytes * kNearBytes;
  if (near_ < kMinNear || end > start + kNearBytes) {
    ++read_singly_;
    reader_.ForEachWord({block}, [this](uint64_t word) { Mark(word); });
    return;
  }
  if (start != surroundings_start_) {
    surroundings_start_ = start;
    surroundings_.assign(kNearBytes / sizeof(uint64_t), 0);
    ForEachPiece(&space_, start, start + kNearBytes, [&](uint64_t at, std::span<const uint64_t> words) {
      std::copy(words.begin(), words.end(),
                surroundings_.begin() + static_cast<ptrdiff_t>((at - start) / sizeof(uint64_t)));
    });
  }
  for (uint64_t at = from; at < end; at += sizeof(uint64_t)) Mark(surroundings_[(at - start) / sizeof(uint64_t)]);
}

void Marker::FollowNext() {
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
      read_singly_ += blocks.size();
      reader_.ForEachWord(blocks, [this](uint64_t word) { Mark(word); });
    }
    if (next_.size() > kMaxNext / 2 || ReadsTooMuchSingly()) return;  // a sweep is cheaper now
  }
}

bool Marker::FollowKept() {
  ScanBudget budget{.most_bytes = most_bytes_};
  BigArray<uint32_t> start, to;  // of block i: to[start[i]] … to[start[i + 1] - 1]
  uint64_t most = 0;
  for (const BlockMap::Heap& heap : map_.heaps()) most += (heap.range.end - heap.range.start) / sizeof(uint64_t);
  if (!start.Reserve(size_t{map_.size()} + 1, &budget) || !to.Reserve(std::min<uint64_t>(most, UINT32_MAX), &budget))
    return false;
  const auto start_up_to = [&](uint32_t block) {
    while (start.size() <= block) {
      if (!start.Add(static_cast<uint32_t>(to.size()))) return false;
    }
    return true;
  };
  bool fits = true;
  ForEachBlockPiece(&space_, map_, {}, [&](const BlockMap::Block& block, uint64_t, std::span<const uint64_t> words) {
    const bool is_reached = marked_.Get(block.number);
    if (!fits || (is_reached && !waiting_.Get(block.number))) return;
    if (!start_up_to(block.number)) fits = false;
    uint32_t last = block.number;
    for (const uint64_t word : words) {
      if (!map_.MayContain(word)) continue;
      const BlockMap::Block found = map_.Find(word);
      if (found.number == BlockMap::kNone || found.unused || found.number == last || marked_.Get(found.number))
        continue;
      last = found.number;
      if (is_reached) {
        MarkBlock(last);
      } else if (!to.Add(last)) {
        fits = false;
      }
    }
  });
  if (!fits || !start_up_to(map_.size())) return false;
  // Blocks that were reached before they were read have no kept pointers: those are marked already.
  next_.clear();
  while (waiting_.CountIn(0, map_.size()) > 0) {
    waiting_.ForEachIn(0, map_.size(), [&](size_t first) {
      next_.push_back(static_cast<uint32_t>(first));
      while (!next_.empty()) {
        const uint32_t block = next_.back();
        next_.pop_back();
        if (!waiting_.Get(block)) continue;
        waiting_.Clear(block);
        for (uint32_t i = start[block]; i < start[block + 1]; ++i) MarkBlock(to[i]);
      }
    });
  }
  any_waits_ = false;
  return true;
}

}  // namespace holdfast
