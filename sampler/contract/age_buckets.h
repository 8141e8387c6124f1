// Ages of blocks in buckets: three to each power of ten, from 1 µs to 12 days.
//
//     bucket  0        1          2          3                18             36
//     ages    ≤ 1 µs   … 2 µs     … 5 µs     … 10 µs    …     … 1 s     …    longer than 10⁶ s
//
// Upper edges are round numbers, so that "within 1 ms" is a sum of whole buckets. For the target and its readers: any
// thread, no state.
#ifndef HOLDFAST_SAMPLER_CONTRACT_AGE_BUCKETS_H_
#define HOLDFAST_SAMPLER_CONTRACT_AGE_BUCKETS_H_

#include <cstdint>

namespace holdfast {

// Value of the label `freed` in a lifetimes profile, for counted blocks without a known age.
inline constexpr char kAgeNotKnown[] = "age not known";

inline constexpr int kAgeBuckets = 38;

struct AgeBucketEdges {
  int64_t ns[kAgeBuckets];  // upper edges; the last bucket has none, so 30 years
  constexpr AgeBucketEdges() : ns{} {
    int64_t edge = 1000;
    for (int i = 0; i + 1 < kAgeBuckets; ++i) {
      ns[i] = edge;
      edge = i % 3 == 1 ? edge / 2 * 5 : edge * 2;
    }
    ns[kAgeBuckets - 1] = 1'000'000'000'000'000'000;
  }
};
inline constexpr AgeBucketEdges kAgeBucketEdges;
static_assert(kAgeBucketEdges.ns[3] == 10'000 && kAgeBucketEdges.ns[18] == 1'000'000'000 &&
              kAgeBucketEdges.ns[kAgeBuckets - 2] == 1'000'000'000'000'000);

inline constexpr int AgeBucket(int64_t ns) {
  int bucket = 0;
  while (bucket < kAgeBuckets - 1 && ns > kAgeBucketEdges.ns[bucket]) ++bucket;
  return bucket;
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_AGE_BUCKETS_H_
