// Visits all words that may be pointers to blocks, in roots and in blocks. Any word that is an address in a used block
// counts as a pointer, also to the middle of the block: this may keep a block alive by mistake, and never loses one.
// Only words at multiples of 8 count, except in code.
#ifndef HOLDFAST_REPORT_HOLDERS_REFERENCES_H_
#define HOLDFAST_REPORT_HOLDERS_REFERENCES_H_

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "report/holders/address_space.h"
#include "report/holders/block_map.h"
#include "report/holders/heap_blocks.h"

namespace holdfast {

// Calls visit(address, word) for the words of a root that are at least `lowest` and less than `lowest` + `span`.
template <typename Visit>
void ForEachRootWord(AddressSpace* space, const RootRange& root, uint64_t lowest, uint64_t span, const Visit& visit) {
  ForEachPiece(space, root.range.start, root.range.end, [&](uint64_t at, std::span<const uint64_t> words) {
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] - lowest < span) visit(at + i * sizeof(uint64_t), words[i]);
    }
    if (!root.every_byte) return;
    const auto* bytes = reinterpret_cast<const char*>(words.data());
    for (size_t i = 0; i + sizeof(uint64_t) <= words.size_bytes(); ++i) {
      uint64_t word;
      memcpy(&word, bytes + i, sizeof word);
      if (i % sizeof word != 0 && word - lowest < span) visit(at + i, word);
    }
  });
}

// Calls visit(thread, word) for all known registers. `thread`: index into AddressSpace::threads.
template <typename Visit>
void ForEachRegister(const AddressSpace& space, const Visit& visit) {
  for (uint32_t i = 0; i < space.threads().size(); ++i) {
    for (const uint64_t word : space.threads()[i].registers) visit(i, word);
    visit(i, space.threads()[i].sp);  // a coroutine's stack may be a block
  }
}

// Passes the words of all used blocks to visit(block, address, words), in ascending order. A block in several pieces is
// visited several times; a block without existing pages not at all. `skipped`: heaps to leave out.
template <typename Visit>
void ForEachBlockPiece(AddressSpace* space, const BlockMap& map, const std::vector<MemoryRange>& skipped,
                       const Visit& visit) {
  for (const BlockMap::Heap& heap : map.heaps()) {
    if (std::any_of(skipped.begin(), skipped.end(),
                    [&](const MemoryRange& range) { return range.end == heap.range.end; }))
      continue;
    ForEachPiece(space, heap.range.start, heap.range.end, [&](uint64_t at, std::span<const uint64_t> words) {
      const uint64_t end = at + words.size_bytes();
      const auto pass = [&](const BlockMap::Block& block) {
        const uint64_t from = std::max(block.range.start, at), to = std::min(block.range.end, end);
        if (block.unused || from >= to) return;
        visit(block, from, words.subspan((from - at) / sizeof(uint64_t), (to - from) / sizeof(uint64_t)));
      };
      const BlockMap::Block first = map.Find(at);  // may begin before the piece
      if (first.number != BlockMap::kNone && first.range.start < at) pass(first);
      map.ForEachOf(heap, at, end, pass);
    });
  }
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_REFERENCES_H_
