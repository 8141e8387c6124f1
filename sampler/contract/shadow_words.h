// The words of the shadow map (ShadowChunk in records.h draws it). Any thread of the program, and any reader; no state.
#ifndef HOLDFAST_SAMPLER_CONTRACT_SHADOW_WORDS_H_
#define HOLDFAST_SAMPLER_CONTRACT_SHADOW_WORDS_H_

#include <cstdint>
#include <optional>

#include "sampler/contract/records.h"
#include "sampler/contract/weight.h"

namespace holdfast {

// Whether a block begins at the word; the word is then its row.
inline bool IsShadowedRow(uint32_t word) { return static_cast<int32_t>(word) > 0; }

// Returns the second word of a block larger than kShadowGrain.
static_assert(kLargestShadowed <= UINT16_MAX);
inline uint32_t ShadowedSize(uint64_t bytes) { return kShadowSize + static_cast<uint32_t>(bytes); }
// Returns the size of a block, from the size class of its row and the lower half of its second word.
inline uint32_t ShadowedBytes(uint32_t size_class, uint32_t second) {
  return size_class <= kShadowGrain ? size_class : static_cast<uint16_t>(second);
}
// The same if the second word may meanwhile belong to another block; empty if it does.
inline std::optional<uint32_t> CheckedShadowedBytes(uint32_t size_class, uint32_t second) {
  const uint32_t bytes = ShadowedBytes(size_class, second);
  if (size_class > kShadowGrain && (second & kShadowSize) == 0) return std::nullopt;
  if (size_class != kNoSizeClass && static_cast<uint32_t>(SizeClass(bytes)) != size_class) return std::nullopt;
  return bytes;
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_SHADOW_WORDS_H_
