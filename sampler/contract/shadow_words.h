// What a word of the shadow map says (ShadowChunk in records.h draws it). Any thread of the program, and any reader; no state.
#ifndef HOLDFAST_SAMPLER_CONTRACT_SHADOW_WORDS_H_
#define HOLDFAST_SAMPLER_CONTRACT_SHADOW_WORDS_H_

#include <cstdint>
#include <optional>

#include "sampler/contract/records.h"
#include "sampler/contract/weight.h"

namespace holdfast {

// Whether a block begins there, and its row is what the word says.
inline bool IsShadowedRow(uint32_t word) { return static_cast<int32_t>(word) > 0; }

// The second word of a block of more than kShadowGrain bytes.
static_assert(kLargestShadowed <= UINT16_MAX);
inline uint32_t ShadowedSize(uint64_t bytes) { return kShadowSize + static_cast<uint32_t>(bytes); }
// The bytes of a block in a row of this size class, and with this second word, of which the lower half says them.
inline uint32_t ShadowedBytes(uint32_t size_class, uint32_t second) {
  return size_class <= kShadowGrain ? size_class : static_cast<uint16_t>(second);
}
// The same where the second word may be another block's by now. Nothing: it is.
inline std::optional<uint32_t> CheckedShadowedBytes(uint32_t size_class, uint32_t second) {
  const uint32_t bytes = ShadowedBytes(size_class, second);
  if (size_class > kShadowGrain && (second & kShadowSize) == 0) return std::nullopt;
  if (size_class != kNoSizeClass && static_cast<uint32_t>(SizeClass(bytes)) != size_class) return std::nullopt;
  return bytes;
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_SHADOW_WORDS_H_
