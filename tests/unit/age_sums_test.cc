// What a lifetimes profile's sums say: medians within their buckets.
#include "report/show/age_sums.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace holdfast {
namespace {

AgeSums Freed(int bucket, double objects, double each_ns) {
  AgeSums sums;
  sums.objects = sums.objects_of[bucket] = objects;
  sums.lifetime_ns = objects * each_ns;
  return sums;
}

TEST(AgeSums, AMedianIsAtMostTwiceTheMean) {
  // The first bucket goes from 0 to 1 us: its own scale would say 316 ns of blocks that lived for 50.
  EXPECT_EQ(Freed(0, 1000, 50).MedianNs(), 100);
  EXPECT_EQ(Freed(0, 1000, 0).MedianNs(), 0);
  EXPECT_EQ(Freed(0, 1000, 900).MedianNs(), 316);
  // Two thirds lived for 50 ns, the others for a second: nothing but the bucket tells.
  AgeSums both = Freed(0, 2000, 50);
  both.objects += 1000;
  both.objects_of[AgeBucket(1'000'000'000)] += 1000;
  both.lifetime_ns += 1000 * 1e9;
  EXPECT_GT(both.MedianNs(), 100);
  EXPECT_LE(both.MedianNs(), 1000);
}

TEST(AgeSums, AMedianIsWithinItsBucket) {
  const int bucket = AgeBucket(40'000'000);  // from 20 to 50 ms
  EXPECT_EQ(Freed(bucket, 100, 22e6).MedianNs(), 31'622'776);
  // Of sums that do not fit together, as rounding makes them.
  EXPECT_EQ(Freed(bucket, 100, 9e6).MedianNs(), 20'000'000);
  EXPECT_EQ(AgeSums().MedianNs(), -1);
}

// A sample of one stack in a lifetimes profile: `age` 0 is unknown.
void AddTo(AgeSums* sums, std::array<int64_t, 4> values, int64_t age, bool are_drawn = true) {
  Profile profile;
  std::vector<Profile::Label> labels;
  if (age > 0) labels.push_back({.key = profile.strings.Intern("age"), .number = age});
  const char* freed = age > 0 ? "same thread" : kAgeNotKnown;
  if (values[1] > 0) labels.push_back({.key = profile.strings.Intern("freed"), .text = profile.strings.Intern(freed)});
  for (int i = 0; i < 4; ++i) profile.sample_types.push_back({});
  profile.AddSample({}, values, labels);
  sums->Add(profile, 0, values, are_drawn);
}

TEST(AgeSums, LiveBlocksOfUnknownAgeAreNotTakenForYoungOnes) {
  AgeSums sums;
  AddTo(&sums, {0, 0, 0, 700}, 0);
  EXPECT_TRUE(std::isnan(sums.AliveLongerThan(1'000'000'000)));
  AddTo(&sums, {0, 0, 0, 300}, 5'000'000'000);
  EXPECT_EQ(sums.alive, 1000);
  EXPECT_EQ(sums.alive_of_unknown_age, 700);
  EXPECT_EQ(sums.AliveLongerThan(1'000'000'000), 300);
}

TEST(AgeSums, TheErrorOfSharesIsThatOfTheBlocksThatWereDrawn) {
  AgeSums one, hundreds, counted, large;
  AddTo(&one, {100, 1, 50, 0}, 1000);
  EXPECT_EQ(one.AgeErrorPercent(), 0) << "the only block is known";
  AddTo(&hundreds, {38400, 384, 50, 0}, 1000);
  EXPECT_NEAR(hundreds.AgeErrorPercent(), 98, 0.2) << "one block represents all";
  AddTo(&counted, {38400, 384, 50, 0}, 1000, false);
  EXPECT_EQ(counted.AgeErrorPercent(), 0);
  // One drawn block of 10,000 bytes beside thousands of one byte: most bytes have the age of a single block.
  AddTo(&large, {3'840'000, 384, 50, 0}, 1000);
  AddTo(&large, {384'000, 384'000, 50, 0}, 2000);
  EXPECT_GT(large.AgeErrorPercent(), 80);
  EXPECT_TRUE(std::isnan(AgeSums().AgeErrorPercent()));
}

TEST(AgeSums, BlocksOfUnknownAgeMayHaveAnyAge) {
  AgeSums sums;
  AddTo(&sums, {256, 1, 70'000, 0}, 100'000);  // the first block, which represents only itself
  EXPECT_EQ(sums.AgeErrorPercent(), 0);
  AddTo(&sums, {25'344, 99, 0, 0}, 0);
  EXPECT_NEAR(sums.AgeErrorPercent(), 99, 0.1);
  AddTo(&sums, {90'000, 1, 0, 0}, 0);  // most bytes
  EXPECT_GT(sums.AgeErrorPercent(), 99.5);
}

}  // namespace
}  // namespace holdfast
