// Lengths of waits and holds in buckets: four to each octave, from 64 ns to 19 hours.
//
//     ns     64  80  96 112 | 128 160 192 224 | 256 …        lower edges; 100 ns is in the bucket from 96 to 112
//     bucket  0   1   2   3     4   5   6   7     8
//
// A bucket is at most a quarter as wide as its lower edge, so its geometric middle is within 12 % of every length in
// it. Shorter times count in the first bucket, longer ones in the last. For the target and its readers: any thread, no
// state.
#ifndef HOLDFAST_SAMPLER_CONTRACT_TIME_BUCKETS_H_
#define HOLDFAST_SAMPLER_CONTRACT_TIME_BUCKETS_H_

#include <bit>
#include <cstdint>

#include "sampler/contract/records.h"

namespace holdfast {

inline constexpr int kFirstOctave = 6;  // 2^6 = 64 ns

inline constexpr uint32_t TimeBucket(uint64_t ns) {
  if (ns < uint64_t{1} << kFirstOctave) return 0;
  const int octave = std::bit_width(ns) - 1;
  const uint32_t bucket = static_cast<uint32_t>(octave - kFirstOctave) * 4 + (ns >> (octave - 2) & 3);
  return bucket < kTimeBuckets ? bucket : kTimeBuckets - 1;
}

// Returns the shortest time of a bucket (the first also has shorter ones); for the index after the last, the last one's
// end.
inline constexpr uint64_t TimeBucketStart(uint32_t bucket) {
  return uint64_t{4 + bucket % 4} << (kFirstOctave - 2 + bucket / 4);
}
static_assert(TimeBucket(100) == 2 && TimeBucketStart(2) == 96 && TimeBucketStart(3) == 112);
static_assert(TimeBucket(1'000'000) == TimeBucket(983'040) && TimeBucketStart(TimeBucket(1'000'000)) == 917'504);
static_assert(TimeBucketStart(kTimeBuckets) == uint64_t{1} << 46);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_TIME_BUCKETS_H_
