#include "report/holders/block_marker.h"

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
      reader_.ForEachWord(blocks, [this](uint64_t word) { Mark(word); });
    }
    if (next_.size() > kMaxNext / 2) return;  // a sweep is cheaper now
  }
}

}  // namespace holdfast
