// The formulas of sampler/contract/weight.h, and the sampling that they undo.
#include "sampler/contract/weight.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sampler/contract/poisson_sampler.h"

namespace holdfast {
namespace {

TEST(Weight, LogarithmAgreesWithLibm) {
  for (double u = 1; u > 1e-16; u *= 0.83) EXPECT_NEAR(NegativeLog(u), -std::log(u), 1e-14 * (1 - std::log(u))) << u;
}

TEST(Weight, OneMinusExpAgreesWithLibmAndKeepsItsPrecisionNearZero) {
  for (double x = 1e-12; x < 60; x *= 1.07) EXPECT_NEAR(OneMinusExp(x) / -std::expm1(-x), 1, 1e-13) << x;
  EXPECT_EQ(OneMinusExp(0), 0);
  EXPECT_EQ(OneMinusExp(1e9), 1);
}

TEST(Weight, IntervalOneIsExactForEverySizeAlsoZero) {
  for (uint64_t size : {0ul, 1ul, 7ul, 1ul << 40}) {
    const Weight weight = WeightOf(size, 1);
    EXPECT_EQ(weight.count, 1u << kCountFractionBits);
    EXPECT_EQ(weight.amount, size << kAmountFractionBits);
    EXPECT_EQ(weight.count_variance, 0);
    EXPECT_EQ(weight.amount_variance, 0);
  }
}

TEST(Weight, ABlockOfOneIntervalRepresents158Objects) {
  const Weight weight = WeightOf(512 << 10, 512 << 10);
  EXPECT_NEAR(static_cast<double>(weight.count) / (1 << kCountFractionBits), 1 / (1 - std::exp(-1)), 1e-5);
}

TEST(SizeClass, UpperEdgesAreTightAndEightToAnOctave) {
  int before = -1;
  for (uint64_t size = 0; size < 100'000; ++size) {
    const int size_class = SizeClass(size);
    ASSERT_GE(SizeClassUpperEdge(size_class), size);
    ASSERT_EQ(SizeClass(SizeClassUpperEdge(size_class)), size_class);
    if (size <= 56) {
      ASSERT_EQ(SizeClassUpperEdge(size_class), size) << "a row tells the size of a small block";
    } else {
      ASSERT_LE(static_cast<double>(SizeClassUpperEdge(size_class)), static_cast<double>(size) * 1.125);
    }
    ASSERT_TRUE(size_class == before || size_class == before + 1) << size;
    before = size_class;
  }
  EXPECT_EQ(SizeClass(1 << 20) - SizeClass(1 << 19), 8);
  EXPECT_LT(SizeClass(UINT64_MAX), 1 << 16);
}

TEST(PoissonSampler, IntervalOneFiresAtOnceAndZeroNever) {
  uint64_t random = 1;
  EXPECT_EQ(DrawGap(1, &random).length, 1);
  EXPECT_TRUE(DrawGap(1, &random).is_event);
  EXPECT_FALSE(DrawGap(0, &random).is_event);
}

TEST(PoissonSampler, SameSeedSameGaps) {
  uint64_t a = 7, b = 7;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(DrawGap(4096, &a).length, DrawGap(4096, &b).length);
}

// Mean and variance of a million gaps, and how often the first byte fires. Each bound is 6 standard errors wide: a false
// alarm once in 5·10⁸ runs; the seed is fixed.
TEST(PoissonSampler, GapsAreExponential) {
  constexpr uint64_t kInterval = 65'536;
  constexpr int kDraws = 1'000'000;
  uint64_t random = 42;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const auto gap = static_cast<double>(DrawGap(kInterval, &random, kUncutGap).length);
    sum += gap;
    squares += gap * gap;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, kInterval + 0.5, 6.0 * kInterval / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws / (2.0 * kInterval * kInterval), 1, 6 * std::sqrt(20.0 / 4 / kDraws));
}

// 20,000 streams of blocks of mixed sizes, each block chosen when the countdown runs out: 1/p objects and s/p bytes are
// unbiased, within 6 standard errors.
TEST(PoissonSampler, WeightsUndoTheSampling) {
  constexpr uint64_t kInterval = 4096;
  constexpr uint64_t kSizes[] = {1, 16, 100, 1000, 4096, 30'000};
  uint64_t random = 3;
  double objects[6] = {}, variance[6] = {};
  constexpr int kRounds = 200'000;
  int64_t countdown = DrawGap(kInterval, &random).length;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 6; ++i) {
      const int64_t size = static_cast<int64_t>(kSizes[i]);
      if (size < countdown) {
        countdown -= size;
        continue;
      }
      const Weight weight = WeightOf(kSizes[i], kInterval);
      objects[i] += static_cast<double>(weight.count) / (1 << kCountFractionBits);
      variance[i] += weight.count_variance;
      countdown = DrawGap(kInterval, &random).length;
    }
  }
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(objects[i], kRounds, 6 * std::sqrt(variance[i]) + 1) << kSizes[i];
}

}  // namespace
}  // namespace holdfast
