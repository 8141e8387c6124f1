// When to sample: events of a Poisson process along the bytes that a thread allocates, or the nanoseconds that it
// waits. Gaps between events are exponential with mean R, so an event hits a block of s bytes with p = 1 − exp(−s/R),
// independent of earlier blocks (sampler/contract/weight.h has the weight of a sample).
//
// Each thread has its own generator, seeded from the process's seed and the thread's ordinal: no sharing.
#ifndef HOLDFAST_SAMPLER_CONTRACT_POISSON_SAMPLER_H_
#define HOLDFAST_SAMPLER_CONTRACT_POISSON_SAMPLER_H_

#include <cstdint>

#include "sampler/contract/weight.h"

namespace holdfast {

// splitmix64: a counter through a mixer; equidistributed, and any seed is a good seed.
inline uint64_t NextRandom(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Longest gap between heap samples, at any interval. It bounds how late a thread notices a changed interval (`holdfast
// set`), also one that was "off". An exponential gap may be cut anywhere and drawn anew from there, because the process
// has no memory. At 512 KiB one gap in seven is cut. Switched off, a look at each MiB costs a malloc of 64 bytes 0.02
// instructions.
inline constexpr int64_t kLongestGap = 1 << 20;
// Limit of gaps that are not cut, for example between waits, where BeginWait reads the interval each time. Small enough
// to add without overflow.
inline constexpr int64_t kUncutGap = INT64_MAX / 2;

struct Gap {
  int64_t length;  // ≥ 1
  bool is_event;   // false: the gap was cut; draw again at its end
};

inline Gap CutGap(Gap gap, int64_t longest) { return gap.length > longest ? Gap{longest, false} : gap; }

// interval 0 = off, 1 = everything.
inline Gap DrawGap(uint64_t interval, uint64_t* random, int64_t longest = kLongestGap) {
  if (interval == 0) return {longest, false};
  if (interval == 1) return {1, true};
  const double uniform = static_cast<double>((NextRandom(random) >> 11) + 1) * 0x1p-53;  // in (0, 1]
  const double gap = NegativeLog(uniform) * static_cast<double>(interval);
  if (gap >= static_cast<double>(longest)) return {longest, false};
  const auto whole = static_cast<int64_t>(gap);
  return {static_cast<double>(whole) < gap || whole == 0 ? whole + 1 : whole, true};  // ceil, at least 1
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_POISSON_SAMPLER_H_
