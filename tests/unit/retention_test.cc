// Which snapshots are kept: SnapshotsToRemove of report/builder/output_folder.h.
#include <gmock/gmock.h>

#include <algorithm>

#include "report/builder/output_folder.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMinute = 60 * kSecond, kHour = 60 * kMinute, kDay = 24 * kHour;

// A program that runs for `length` and writes a snapshot every `step`; after each the rule is applied, as it is in
// life.
std::vector<int64_t> KeptAfter(int64_t length, int64_t step, uint32_t keep) {
  std::vector<int64_t> kept;
  for (int64_t now = 1'700'000'000 * kSecond, end = now + length; now <= end; now += step) {
    kept.push_back(now);
    std::vector<size_t> remove = SnapshotsToRemove(kept, keep);
    std::sort(remove.rbegin(), remove.rend());
    for (const size_t index : remove) kept.erase(kept.begin() + static_cast<ptrdiff_t>(index));
  }
  return kept;
}

TEST(SnapshotsToRemove, ZeroKeepsAll) { EXPECT_THAT(SnapshotsToRemove({1, 2, 3}, 0), IsEmpty()); }

TEST(SnapshotsToRemove, ANumberKeepsThatManyOfTheNewest) {
  EXPECT_THAT(SnapshotsToRemove({1, 2, 3, 4, 5}, 2), ElementsAre(0, 1, 2));
  EXPECT_THAT(SnapshotsToRemove({1, 2}, 2), IsEmpty());
  EXPECT_THAT(SnapshotsToRemove({}, 1), IsEmpty());
}

TEST(SnapshotsToRemove, ThinnedKeepsAllOfTheFirstHour) {
  EXPECT_EQ(KeptAfter(59 * kMinute, kMinute, kKeepThinned).size(), 60u);
}

TEST(SnapshotsToRemove, ThinnedKeepsTheNewestSixtyThenOneAnHourThenOneADay) {
  const std::vector<int64_t> kept = KeptAfter(10 * kDay, kMinute, kKeepThinned);
  const int64_t now = kept.back();
  EXPECT_LE(kept.size(), 100u);
  int within_an_hour = 0, within_a_day = 0, older = 0;
  for (const int64_t time : kept) {
    const int64_t age = now - time;
    ++(age < kHour ? within_an_hour : age < kDay ? within_a_day : older);
  }
  EXPECT_EQ(within_an_hour, 60);
  EXPECT_GE(within_a_day, 22);
  EXPECT_LE(within_a_day, 24);
  EXPECT_GE(older, 8);
  EXPECT_LE(older, 11);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
}

TEST(SnapshotsToRemove, ThinnedNeverKeepsMoreThanAHundred) {
  for (const int64_t step : {kMinute, kHour, kDay}) {
    EXPECT_LE(KeptAfter(200 * step + 40 * kDay, step, kKeepThinned).size(), 100u) << step;
  }
}

}  // namespace
}  // namespace holdfast
