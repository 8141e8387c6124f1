// What a lifetimes profile's sums say: medians within their buckets.
#include "report/lifetimes/age_sums.h"

#include <gtest/gtest.h>

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

TEST(AgeSums, AMedianLiesInItsBucket) {
  const int bucket = AgeBucket(40'000'000);  // from 20 to 50 ms
  EXPECT_EQ(Freed(bucket, 100, 22e6).MedianNs(), 31'622'776);
  // Of sums that do not fit together, as rounding makes them.
  EXPECT_EQ(Freed(bucket, 100, 9e6).MedianNs(), 20'000'000);
  EXPECT_EQ(AgeSums().MedianNs(), -1);
}

}  // namespace
}  // namespace holdfast
