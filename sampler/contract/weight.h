// The weight of one sample. The formulas and a worked example are in docs/sampling.md.
//
// A block of s bytes under a mean interval of R bytes (or a wait of w nanoseconds under R nanoseconds) is sampled with
//     p = 1 − exp(−s/R)
// and represents 1/p objects and s/p bytes. This is the Horvitz–Thompson weight: unbiased for any mix of sizes. It has
// the least variance of the weights in use, because it is the conditional expectation of the others. R = 1 means p = 1:
// exact. For R > 1 sizes below 1 count as 1 in p.
//
// No libm (the shim needs libc and ld.so only); any thread, any time, no state.
#ifndef HOLDFAST_SAMPLER_CONTRACT_WEIGHT_H_
#define HOLDFAST_SAMPLER_CONTRACT_WEIGHT_H_

#include <bit>
#include <cstdint>

#include "sampler/contract/layout.h"

namespace holdfast {

// −ln(u) for 0 < u ≤ 1. Relative error below 1e-14: u = m·2^k, ln m = 2·atanh((m−1)/(m+1)).
inline double NegativeLog(double u) {
  const auto bits = std::bit_cast<uint64_t>(u);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double z = (m - 1) / (m + 1);  // |z| ≤ 0.172, so the 11th term is below 1e-17
  const double z2 = z * z;
  double sum = 0;
  for (int term = 21; term >= 1; term -= 2) sum = sum * z2 + 1.0 / term;
  return -(exponent * 0.6931471805599453 + 2 * z * sum);
}

// 1 − exp(−x) for x ≥ 0, with full relative precision near 0. Relative error below 1e-14.
inline double OneMinusExp(double x) {
  if (x > 40) return 1;  // exp(−40) = 4e-18: below half a unit in the last place of 1
  if (x < 0.5) {         // the series x − x²/2! + x³/3! − …; 0.5^17/17! < 1e-19
    double sum = 0;
    for (int n = 17; n >= 1; --n) sum = (x / n) * (1 - sum);
    return sum;
  }
  // exp(−x) = (exp(−x/128))^128, from the precise small case.
  double tail = 1 - OneMinusExp(x / 128);
  for (int i = 0; i < 7; ++i) tail *= tail;
  return 1 - tail;
}

// What one sample adds to a row.
struct Weight {
  uint64_t count;          // 1/p, kCountFractionBits fraction bits
  uint64_t amount;         // x/p, kAmountFractionBits fraction bits
  double count_variance;   // (1−p)/p²
  double amount_variance;  // x²(1−p)/p²
};

inline double SampleProbability(uint64_t x, uint64_t interval) {
  if (interval <= 1) return 1;
  return OneMinusExp(static_cast<double>(x == 0 ? 1 : x) / static_cast<double>(interval));
}

// Deterministic: the free of a block subtracts exactly what its allocation added. `share`: the part of such samples
// that is kept (WaitState::chance in sampler/record/wait_state.h).
inline Weight WeightOf(uint64_t x, uint64_t interval, double share = 1) {
  const double p = SampleProbability(x, interval) * share;
  if (p == 1) return {uint64_t{1} << kCountFractionBits, x << kAmountFractionBits, 0, 0};
  const double value = static_cast<double>(x);
  const double variance = (1 - p) / (p * p);
  return {static_cast<uint64_t>((1 << kCountFractionBits) / p + 0.5),
          static_cast<uint64_t>(value * (1 << kAmountFractionBits) / p + 0.5), variance, value * value * variance};
}

// ---- Size classes: 8 in each octave ----

// Class 0 is size 0; classes 1..56 are the sizes 1..56, so that a row tells the size of a small block (ShadowChunk);
// then (1, 9/8, 10/8 … 15/8]·2^k. Values use exact sizes. The class only bounds the number of rows and gives the upper
// edge for the `bytes` label.
//     SizeClass(100) → upper edge 104        SizeClass(4096) → upper edge 4096
inline constexpr int kLargestOwnClass = 56;
inline constexpr int SizeClass(uint64_t bytes) {
  if (bytes <= kLargestOwnClass) return static_cast<int>(bytes);
  const uint64_t last = bytes - 1;                 // so that an exact edge belongs to the class that it ends
  const int octave = 63 - std::countl_zero(last);  // last in [2^octave, 2^(octave+1)), octave ≥ 5
  return 51 + (octave - 5) * 8 + static_cast<int>((last >> (octave - 3)) & 7);
}
inline constexpr int kNoSizeClass = 51 + 59 * 8;  // above all others: a row of all sizes, see OwnOverflowRow
inline constexpr uint64_t SizeClassUpperEdge(int size_class) {
  if (size_class <= kLargestOwnClass) return static_cast<uint64_t>(size_class);
  const int octave = 5 + (size_class - 51) / 8;
  return static_cast<uint64_t>(8 + (size_class - 51) % 8 + 1) << (octave - 3);
}
// The same by a table, for sizes up to 1,024.
struct SmallSizeClasses {
  static constexpr int kLargest = 1024;
  uint8_t of[kLargest + 1];
  constexpr SmallSizeClasses() : of{} {
    for (int bytes = 0; bytes <= kLargest; ++bytes)
      of[bytes] = static_cast<uint8_t>(SizeClass(static_cast<uint64_t>(bytes)));
  }
};
inline constexpr SmallSizeClasses kSmallSizeClasses;
static_assert(SizeClass(UINT64_MAX) + 1 == kNoSizeClass);
static_assert(SizeClassUpperEdge(SizeClass(57)) == 60 && SizeClassUpperEdge(SizeClass(100)) == 104);
static_assert(SizeClassUpperEdge(SizeClass(4096)) == 4096 && SizeClassUpperEdge(SizeClass(4097)) == 4608);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_WEIGHT_H_
