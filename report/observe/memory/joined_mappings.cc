#include "report/observe/memory/joined_mappings.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "report/observe/memory/arenas.h"

namespace holdfast {
namespace {

constexpr uint64_t kLargestGuard = uint64_t{64} << 10;
constexpr uint64_t kLargestOwnStack = uint64_t{16} << 20;  // a guess: most have 8 MiB or less
// glibc maps a block of its own for a large size: the block is after a head of two words.
constexpr uint64_t kHead = 16;

struct Part {
  uint64_t start, end;
  bool is_stack;
};

class StackFinder {
 public:
  StackFinder(const KnownMemory& known, std::vector<uint64_t> stack_pointers, PageTable* pages)
      : known_(known), stack_pointers_(std::move(stack_pointers)), pages_(*pages) {
    std::sort(stack_pointers_.begin(), stack_pointers_.end());
  }

  std::set<uint64_t> Find(std::vector<MemoryMapping>* mappings) {
    std::vector<MemoryMapping> parts;
    for (size_t i = 0; i < mappings->size(); ++i) {
      const MemoryMapping& mapping = (*mappings)[i];
      bounds_.clear();
      if (IsPrivateMemory(mapping) && !known_.arenas.contains(mapping.start) && !IsDataAfterFile(*mappings, i)) {
        uint64_t done = mapping.start;  // the end of the last part
        if (HasSmallGuard(*mappings, i)) done = AddStackAt(mapping.start, true, mapping);
        auto sp = std::lower_bound(stack_pointers_.begin(), stack_pointers_.end(), done);
        for (; sp != stack_pointers_.end() && *sp < mapping.end; ++sp) {
          if (*sp >= done) done = AddStackAt(*sp, false, mapping);
        }
      }
      CutAt(bounds_, mapping, &pages_, &parts);
    }
    *mappings = std::move(parts);
    return std::move(stacks_);
  }

 private:
  bool HasSmallGuard(std::span<const MemoryMapping> mappings, size_t index) const {
    if (!HasGuardBelow(mappings, index)) return false;
    const MemoryMapping& guard = mappings[index - 1];
    // The unused end of an arena's heap looks the same.
    const auto above = known_.arenas.upper_bound(guard.start);
    const bool is_of_arena = above != known_.arenas.begin() && guard.start - *std::prev(above) < kArenaHeapBytes;
    return guard.end - guard.start <= kLargestGuard && !is_of_arena;
  }

  // Returns the end of the part of `mapping` around `place`.
  uint64_t AddStackAt(uint64_t place, bool has_guard, const MemoryMapping& mapping) {
    const Part part = PartAround(place, has_guard, mapping);
    if (!part.is_stack) return part.end;
    if (pages_.is_denied()) {
      stacks_.insert(mapping.start);
      return mapping.end;
    }
    stacks_.insert(part.start);
    if (part.start > mapping.start) bounds_.insert(part.start);
    if (part.end < mapping.end) bounds_.insert(part.end);
    return part.end;
  }

  Part PartAround(uint64_t place, bool has_guard, const MemoryMapping& mapping) const {
    Part part{mapping.start, mapping.end, true};
    const uint64_t page = pages_.page_bytes();
    const auto range = std::partition_point(known_.ranges.begin(), known_.ranges.end(),
                                            [&](const OwnRange& each) { return each.start <= place; });
    const auto block = std::partition_point(known_.blocks.begin(), known_.blocks.end(),
                                            [&](const LiveBlock& each) { return each.address <= place; });
    if (range != known_.ranges.end()) part.end = std::min(part.end, range->start);
    if (range != known_.ranges.begin()) {
      const OwnRange& below = *std::prev(range);
      const bool is_inside = place < below.end;
      part.start = std::max(part.start, is_inside ? below.start : below.end);
      if (is_inside) part.end = std::min(part.end, below.end);
      if (is_inside && (below.of_allocator || part.end - part.start > kLargestOwnStack || HasBlock(part)))
        part.is_stack = false;
    }
    if (block != known_.blocks.end())
      part.end = std::max(place + 1, std::min(part.end, (block->address - kHead) / page * page));
    if (block != known_.blocks.begin()) {
      const LiveBlock& below = *std::prev(block);
      const uint64_t end = (below.address + below.bytes + page - 1) / page * page;
      const bool is_inside = place < below.address + below.bytes;
      if (!is_inside) part.start = std::max(part.start, std::min(end, place / page * page));
      if (is_inside) part.end = std::min(part.end, end);
      // A block may be a stack, and is counted as a block. Only its part above a guard cannot be found as one.
      if (is_inside && !has_guard) part.is_stack = false;
    }
    if (part.end % page != 0) part.is_stack = false;  // a block begins in the same page
    return part;
  }

  bool HasBlock(const Part& part) const {
    const auto first = std::partition_point(known_.blocks.begin(), known_.blocks.end(),
                                            [&](const LiveBlock& each) { return each.address < part.start; });
    return first != known_.blocks.end() && first->address < part.end;
  }

  const KnownMemory& known_;
  std::vector<uint64_t> stack_pointers_;  // sorted
  PageTable& pages_;
  std::set<uint64_t> stacks_, bounds_;  // bounds_: in this mapping
};

}  // namespace

bool IsPrivateMemory(const MemoryMapping& mapping) {
  return mapping.is_anonymous() && mapping.writable && !mapping.shared;
}

bool IsDataAfterFile(std::span<const MemoryMapping> mappings, size_t index) {
  if (index == 0 || !mappings[index].name.empty() || !IsPrivateMemory(mappings[index])) return false;
  const MemoryMapping& below = mappings[index - 1];
  return below.end == mappings[index].start && below.name.starts_with('/') && !below.shared;
}

void CutAt(const std::set<uint64_t>& bounds, const MemoryMapping& mapping, PageTable* pages,
           std::vector<MemoryMapping>* parts) {
  const size_t first = parts->size();
  parts->push_back(mapping);
  for (const uint64_t at : bounds) {
    parts->back().end = at;
    parts->push_back(mapping);
    parts->back().start = at;
  }
  if (pages == nullptr || bounds.empty()) return;
  // Before Linux 6.7 pages that were only read look resident in the page table, and are not in the mapping's figure.
  MemoryMapping left = mapping;
  for (size_t i = first; i < parts->size(); ++i) {
    MemoryMapping& part = (*parts)[i];
    const PageTable::Share share = pages->Of(part.start, part.end - part.start);
    const auto take = [&](uint64_t MemoryMapping::*field, uint64_t most) {
      part.*field = i + 1 < parts->size() ? std::min(left.*field, most) : left.*field;
      left.*field -= part.*field;
    };
    take(&MemoryMapping::resident, share.resident);
    take(&MemoryMapping::swapped, share.swapped);
    take(&MemoryMapping::huge, pages->tells_huge() ? share.huge : share.resident);
  }
}

std::set<uint64_t> FindStacks(const KnownMemory& known, std::vector<uint64_t> stack_pointers, PageTable* pages,
                              std::vector<MemoryMapping>* mappings) {
  return StackFinder(known, std::move(stack_pointers), pages).Find(mappings);
}

}  // namespace holdfast
