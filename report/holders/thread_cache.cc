#include "report/holders/thread_cache.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <optional>

namespace holdfast {
namespace {

constexpr uint64_t kSmallLists = 64, kMaxLists = 76;
constexpr uint64_t kSmallestChunk = 32, kCacheStep = 16;  // the sizes of chunks in small lists

struct CacheLayout {
  uint64_t lists, number_bytes, largest;
  bool has_places;  // the numbers are of free places
  uint64_t bytes() const { return lists * (number_bytes + sizeof(uint64_t)); }
  // A block may be larger by a rest that is too small for a chunk.
  bool MayHave(uint64_t block_bytes) const { return block_bytes >= bytes() && block_bytes - bytes() < kSmallestChunk; }
};
constexpr CacheLayout kCacheLayouts[] = {{kSmallLists, 1, kLargestCached, false},
                                         {kSmallLists, 2, kLargestCached, false},
                                         {kMaxLists, 2, uint64_t{4} << 20, true}};

// Returns whether a block belongs into a list. A block has 8 bytes less than its chunk; one with a mapping of its own has
// the size that its head says.
bool HasSizeOf(uint64_t list, uint64_t block_bytes) {
  const uint64_t chunk = (block_bytes + kCacheStep - 1) / kCacheStep * kCacheStep;
  if (list < kSmallLists) return chunk == kSmallestChunk + list * kCacheStep;
  constexpr uint64_t kLargestSmall = kSmallestChunk + (kSmallLists - 1) * kCacheStep;
  return chunk > kLargestSmall && chunk >> (10 + list - kSmallLists) == 1;
}

}  // namespace

bool MayBeThreadCache(uint64_t block_bytes) {
  return std::any_of(std::begin(kCacheLayouts), std::end(kCacheLayouts),
                     [&](const CacheLayout& layout) { return layout.MayHave(block_bytes); });
}

std::vector<CachedList> ReadThreadCache(const AddressSpace& space, const BlockMap& blocks,
                                        const BlockMap::Block& block) {
  const auto* layout = std::find_if(std::begin(kCacheLayouts), std::end(kCacheLayouts), [&](const CacheLayout& one) {
    return one.MayHave(block.range.end - block.range.start);
  });
  if (layout == std::end(kCacheLayouts)) return {};
  std::array<char, kMaxLists*(2 + sizeof(uint64_t))> bytes;
  if (!space.Read(block.range.start, bytes.data(), layout->bytes())) return {};
  std::vector<CachedList> lists;
  // All lists have the same number of places, which is that of each empty list.
  std::optional<uint64_t> places;
  if (!layout->has_places) places = 0;
  for (uint64_t i = 0; i < layout->lists; ++i) {
    uint64_t number = 0, first = 0;
    memcpy(&number, bytes.data() + i * layout->number_bytes, layout->number_bytes);
    memcpy(&first, bytes.data() + layout->lists * layout->number_bytes + i * sizeof first, sizeof first);
    if (first == 0) {
      if (places.value_or(number) != number) return {};
      places = number;
      continue;
    }
    const BlockMap::Block cached = blocks.Find(first);
    if (cached.number != BlockMap::kNone &&
        (cached.range.start != first || !HasSizeOf(i, cached.range.end - cached.range.start)))
      return {};
    lists.push_back({first, number, layout->largest, layout->number_bytes > 1});
  }
  if (!places.has_value()) return {};
  for (CachedList& list : lists) {
    if (layout->has_places) list.count = *places - list.count;
    if (list.count == 0 || list.count > UINT16_MAX) return {};
  }
  return lists;
}

}  // namespace holdfast
