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
  uint64_t huge = mapping.huge;
  for (size_t i = first; i < parts->size(); ++i) {
    MemoryMapping& part = (*parts)[i];
    const PageTable::Share share = pages->Of(part.start, part.end - part.start);
    part.resident = share.resident;
    part.swapped = share.swapped;
    part.huge = i + 1 < parts->size() ? std::min(huge, share.resident) : huge;
    huge -= part.huge;
  }
}

void SetStacksApart(std::span<const OwnRange> ranges, std::span<const LiveBlock> blocks,
                    std::span<const uint64_t> stack_pointers, const std::set<uint64_t>& arenas, PageTable* pages,
                    std::vector<MemoryMapping>* mappings) {
  if (pages->is_denied()) return;
  std::vector<MemoryMapping> parts;
  for (size_t i = 0; i < mappings->size(); ++i) {
    const MemoryMapping& mapping = (*mappings)[i];
    const bool has_stack = IsPrivateMemory(mapping) && !arenas.contains(mapping.start) &&
                           (HasGuard(*mappings, i) || std::ranges::any_of(stack_pointers, [&mapping](uint64_t sp) {
                              return sp >= mapping.start && sp < mapping.end;
                            }));
    CutAt(has_stack ? BoundsIn(mapping, ranges, blocks) : std::set<uint64_t>(), mapping, pages, &parts);
  }
  *mappings = std::move(parts);
}

}  // namespace holdfast
