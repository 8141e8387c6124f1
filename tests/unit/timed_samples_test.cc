// Ages: their buckets, and which samples are timed.
#include "sampler/hot_path/timed_samples.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sampler/contract/age_buckets.h"

namespace holdfast {
namespace {

TEST(AgeBuckets, EndAtRoundNumbersWhichBelongToThem) {
  EXPECT_EQ(AgeBucket(0), 0);
  EXPECT_EQ(AgeBucket(1000), 0);
  EXPECT_EQ(AgeBucket(1001), 1);
  EXPECT_EQ(AgeBucket(1'000'000), AgeBucket(500'001));
  EXPECT_EQ(AgeBucket(INT64_MAX), kAgeBuckets - 1);
  for (int i = 0; i < kAgeBuckets; ++i) EXPECT_EQ(AgeBucket(kAgeBucketEdges.ns[i]), i);
}

// What keeps step with a loop of any length would see some of its turns always, others never.
TEST(TimedSamples, EachHasTheSameChanceWhateverTheProgramDoesInTurn) {
  constexpr int kWindows = 100'000, kSamples = kWindows * static_cast<int>(kTimedOneIn);
  ThreadState thread{};
  thread.random = 42;
  thread.samples = FirstSamples(7);
  int timed = 0, by_place[kTimedOneIn] = {}, by_seven[7] = {}, in_window = 0;
  for (int i = 0; i < kSamples; ++i) {
    if (i % static_cast<int>(kTimedOneIn) == 0) in_window = 0;
    if (IsUntimed(thread)) {
      CountUntimed(thread);
      continue;
    }
    DrawTimed(thread);
    ++timed;
    ASSERT_EQ(++in_window, 1) << "two in a window, at " << i;
    ++by_place[i % static_cast<int>(kTimedOneIn)];
    ++by_seven[i % 7];
  }
  EXPECT_EQ(timed, kWindows);
  // 6 standard errors.
  constexpr double kEach = kWindows / static_cast<double>(kTimedOneIn);
  for (const int count : by_place) EXPECT_NEAR(count, kEach, 6 * std::sqrt(kEach));
  for (const int count : by_seven) EXPECT_NEAR(count, kWindows / 7.0, 6 * std::sqrt(kWindows / 7.0));
}

TEST(TimedSamples, AnAllocationBetweenThemLeavesTheNextOneWhereItIsAndIsSeen) {
  ThreadState thread{};
  thread.samples = FirstSamples(kTimedOneIn - 1);
  for (uint32_t i = 0; i < kTimedOneIn - 1; ++i) {
    const uint16_t before = thread.samples;
    NoteOtherAllocation(thread);
    EXPECT_NE(thread.samples, before);
    ASSERT_TRUE(IsUntimed(thread));
    CountUntimed(thread);
  }
  EXPECT_FALSE(IsUntimed(thread));
}

}  // namespace
}  // namespace holdfast
