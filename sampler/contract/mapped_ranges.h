// What the program has mapped itself, as it lies in a table: see layout.h.
#ifndef HOLDFAST_SAMPLER_CONTRACT_MAPPED_RANGES_H_
#define HOLDFAST_SAMPLER_CONTRACT_MAPPED_RANGES_H_

#include <cstdint>

#include "sampler/contract/records.h"

namespace holdfast {

// A range of addresses that the program has mapped and not unmapped, and the Row of kMap that counts it. What is left of a mapping in
// several pieces stands in several of these, which are a ring. In segments, in any order; free where `end` is 0. For who looks from
// outside and wants to know what of the memory map is not the program's own; only the target follows what leads from one to another.
inline constexpr int kRangeLevels = 6;
struct MappedRange {
  uint64_t start, end;
  uint64_t ticket;  // of the mapping
  Offset row;
  Offset before, after;  // pieces of the same mapping; itself: there is no other
  Offset next[kRangeLevels];
  uint8_t levels;
  MappingKind kind;
};
static_assert(sizeof(MappedRange) == 64);
inline constexpr uint32_t kRangesInSegment = 127;
struct MappedRangeSegment {
  Offset next;  // an older segment
  uint32_t none[15];
  MappedRange ranges[kRangesInSegment];
};
static_assert(sizeof(MappedRangeSegment) == 8192);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_MAPPED_RANGES_H_
