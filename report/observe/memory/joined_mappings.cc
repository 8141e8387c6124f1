#include "report/observe/memory/joined_mappings.h"

#include <algorithm>
#include <utility>

namespace holdfast {
namespace {

constexpr uint64_t kLargestGuard = uint64_t{64} << 10;
// glibc maps a block of its own for a large size: it begins behind a head of two words.
constexpr uint64_t kHead = 16, kPage = 4096;

// Returns where a known mapping begins or ends inside `mapping`.
std::set<uint64_t> BoundsIn(const MemoryMapping& mapping, std::span<const OwnRange> ranges,
                            std::span<const LiveBlock> blocks) {
  std::set<uint64_t> bounds;
  const auto add = [&](uint64_t at) {
    if (at > mapping.start && at < mapping.end) bounds.insert(at);
  };
  for (const OwnRange& range : ranges) {
    if (range.start >= mapping.end) break;
    add(range.start);
    add(range.end);
  }
  auto block = std::partition_point(blocks.begin(), blocks.end(),
                                    [&](const LiveBlock& each) { return each.address < mapping.start; });
  for (; block != blocks.end() && block->address < mapping.end; ++block) {
    if (block->address % kPage != kHead || block->bytes < kPage) continue;
    add(block->address - kHead);
    add((block->address + block->bytes + kPage - 1) / kPage * kPage);
  }
  return bounds;
}

}  // namespace

bool IsPrivateMemory(const MemoryMapping& mapping) {
  return mapping.is_anonymous() && mapping.writable && !mapping.shared;
}

bool HasGuard(std::span<const MemoryMapping> mappings, size_t index) {
  if (index == 0 || !IsPrivateMemory(mappings[index])) return false;
  const MemoryMapping &below = mappings[index - 1], &mapping = mappings[index];
  return below.end == mapping.start && below.is_anonymous() && !below.readable && !below.writable &&
         below.end - below.start <= kLargestGuard;
}

MemoryMapping PartOf(const MemoryMapping& mapping, uint64_t start, uint64_t end, PageTable* pages) {
  MemoryMapping part = mapping;
  part.start = start;
  part.end = end;
  const PageTable::Share share = pages->Of(start, end - start);
  part.resident = share.resident;
  part.swapped = share.swapped;
  part.huge = std::min(mapping.huge, share.resident);
  return part;
}

void SetStacksApart(std::span<const OwnRange> ranges, std::span<const LiveBlock> blocks,
                    std::span<const uint64_t> stack_pointers, const std::set<uint64_t>& arenas, PageTable* pages,
                    std::vector<MemoryMapping>* mappings) {
  if (pages->is_denied()) return;
  std::vector<MemoryMapping> parts;
  for (size_t i = 0; i < mappings->size(); ++i) {
    MemoryMapping rest = (*mappings)[i];
    const bool has_stack = IsPrivateMemory(rest) && !arenas.contains(rest.start) &&
                           (HasGuard(*mappings, i) || std::ranges::any_of(stack_pointers, [&rest](uint64_t sp) {
                              return sp >= rest.start && sp < rest.end;
                            }));
    for (const uint64_t at : has_stack ? BoundsIn(rest, ranges, blocks) : std::set<uint64_t>()) {
      parts.push_back(PartOf(rest, rest.start, at, pages));
      const uint64_t huge = rest.huge - parts.back().huge;
      rest = PartOf(rest, at, rest.end, pages);
      rest.huge = huge;
    }
    parts.push_back(std::move(rest));
  }
  *mappings = std::move(parts);
}

}  // namespace holdfast
