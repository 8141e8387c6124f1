// The words of the shadow map (ShadowChunk in records.h draws it). Any thread of the program, and any reader; no state.
#ifndef HOLDFAST_SAMPLER_CONTRACT_SHADOW_WORDS_H_
#define HOLDFAST_SAMPLER_CONTRACT_SHADOW_WORDS_H_

#include <cstdint>
#include <optional>

#include "sampler/contract/records.h"
#include "sampler/contract/weight.h"

namespace holdfast {

inline constexpr uint32_t kShadowRow = 1, kShadowUpper = 4, kShadowSize = 2, kShadowHasTinies = 6, kShadowKinds = 7;

// Whether a block begins in the word's bytes; ShadowedRow is then its row.
inline bool IsShadowedRow(uint32_t word) { return (word & kShadowRow) != 0; }
inline Offset ShadowedRow(uint32_t word) { return word >> 3; }
// Returns where the block begins, in the word's bytes.
inline uint32_t ShadowedAt(uint32_t word) { return (word & kShadowUpper) * 4; }
// Whether the word is that of a block at `address`. Never for an address between multiples of 16: no kind is 3 or 7.
inline bool IsShadowOf(uint32_t word, uint64_t address) {
  return ((word ^ (static_cast<uint32_t>(address >> 2) | kShadowRow)) & kShadowKinds) == 0;
}
// Whether tiny blocks may begin in the word's bytes; ShadowedTinies then has their words.
inline bool HasTinies(uint32_t word) { return (word & kShadowKinds) == kShadowHasTinies; }
inline Offset ShadowedTinies(uint32_t word) { return word >> 3; }
inline uint32_t TinySlot(uint64_t address) { return address % kTinyPage / kTinyGrain; }
// Whether a block begins in the word's bytes, or tiny ones may.
inline bool IsTakenShadow(uint32_t word) { return (word & (kShadowRow | kShadowUpper)) != 0; }
inline uint32_t ShadowOf(Offset row, uint64_t address) {
  return row * 8 + kShadowRow + (static_cast<uint32_t>(address >> 2) & kShadowUpper);
}
// Rows have smaller Offsets: BeginShadow.
inline constexpr uint64_t kShadowedRows = uint64_t{1} << 29;

// Returns the second word of a block larger than kLargestOwnClass.
inline uint32_t ShadowedSize(uint64_t bytes) { return static_cast<uint32_t>(bytes) * 8 + kShadowSize; }
// Returns the size of a block, from the size class of its row and its second word.
inline uint32_t ShadowedBytes(uint32_t size_class, uint32_t second) {
  return size_class <= kLargestOwnClass ? size_class : second >> 3;
}
// The same if the second word may meanwhile belong to another block; empty if it does.
inline std::optional<uint32_t> CheckedShadowedBytes(uint32_t size_class, uint32_t second) {
  const uint32_t bytes = ShadowedBytes(size_class, second);
  if (size_class > kLargestOwnClass && (second & kShadowKinds) != kShadowSize) return std::nullopt;
  if (size_class != kNoSizeClass && static_cast<uint32_t>(SizeClass(bytes)) != size_class) return std::nullopt;
  return bytes;
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_SHADOW_WORDS_H_
