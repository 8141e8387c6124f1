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
  uint16_t pages_before;  // of the mapping, that lay before `start`; kManyPages: as many or more
};
inline constexpr uint16_t kManyPages = 0xffff;
static_assert(sizeof(MappedRange) == 64);
inline constexpr uint32_t kRangesInSegment = 127;
struct MappedRangeSegment {
  Offset next;  // an older segment
  uint32_t none[15];
  MappedRange ranges[kRangesInSegment];
};
static_assert(sizeof(MappedRangeSegment) == 8192);

// The stack that libc maps for a thread, as Row::size_class of kThreads has it: in pages of 4 KiB; from 128 MiB on in MiB, with the
// highest bit. 0: it maps none, or a larger one than that can say.
inline constexpr uint16_t kStackInMiB = 0x8000;
inline constexpr uint16_t StackNumber(uint64_t bytes) {
  const uint64_t pages = (bytes + 4095) >> 12, mib = (bytes + (1 << 20) - 1) >> 20;
  if (pages < kStackInMiB) return static_cast<uint16_t>(pages);
  return mib < kStackInMiB ? static_cast<uint16_t>(kStackInMiB | mib) : uint16_t{0};
}
inline constexpr uint64_t StackBytes(uint16_t number) {
  return (number & kStackInMiB) != 0 ? uint64_t{number & (kStackInMiB - 1u)} << 20 : uint64_t{number} << 12;
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_MAPPED_RANGES_H_
