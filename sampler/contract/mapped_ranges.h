// The program's own mappings in a table: see layout.h.
#ifndef HOLDFAST_SAMPLER_CONTRACT_MAPPED_RANGES_H_
#define HOLDFAST_SAMPLER_CONTRACT_MAPPED_RANGES_H_

#include <cstdint>

#include "sampler/contract/records.h"

namespace holdfast {

// A range of addresses that the program has mapped and not unmapped, and the Row of kMap that counts it. The remaining
// pieces of one mapping form a ring of these. They are in segments, in any order; free if `end` is 0. Readers use them
// to tell the program's own mappings from others. Only the target follows the links.
inline constexpr int kRangeLevels = 6;
struct MappedRange {
  uint64_t start, end;
  uint64_t ticket;  // of the mapping
  Offset row;
  Offset before, after;  // pieces of the same mapping; itself if it is the only one
  Offset next[kRangeLevels];
  uint8_t levels;
  MappingKind kind;
  uint16_t pages_before;  // pages of the mapping before `start`; kManyPages: that many or more
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

// The stack that libc maps for a thread, as Row::size_class of kThreads: in pages of 4 KiB; from 128 MiB on in MiB,
// with the highest bit set. 0: libc maps none, or a larger one than fits.
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
