// The block profile: who waited for a lock, how often and how long, against the program's own clocks; and locks that
// behave to the letter as without us.
#include <cmath>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

const Options kEveryWait = {{"lock-interval", "1ns"}};

class Locks : public Profiled {
 protected:
  // Sums over all block profiles below this function; `leaf`: it must be the caller of the lock itself.
  Values Waits(const std::string& function, bool leaf) const {
    Values sum = {{"contentions", 0}, {"delay", 0}};
    for (const Decoded& block : NewestBlock()) {
      for (const auto& [name, value] : leaf ? block.SumLeafWhere(function, "wait", "mutex") : block.SumAny(function))
        sum[name] += value;
    }
    return sum;
  }
};

class LocksIn : public Locks, public ::testing::WithParamInterface<Launch> {};

TEST_P(LocksIn, AHotMutexShowsEachWaitAndItsLength) {
  const RunResult r = RunAs(GetParam(), {"hot_mutex"}, kEveryWait);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const std::vector<KnownWait> known = KnownWaits(r.out);
  ASSERT_EQ(known.size(), 1u);
  const Values sum = Waits("victim_waits", true);
  EXPECT_EQ(sum.at("contentions"), known[0].contentions) << AllSummaries();
  // The program's clock runs from before the call to after it. Being put off the processor there counts for it only.
  EXPECT_LE(sum.at("delay"), known[0].delay_ns);
  EXPECT_GE(sum.at("delay"), known[0].delay_ns * 95 / 100);
  ExpectAllWhole();
}
INSTANTIATE_TEST_SUITE_P(BothWays, LocksIn, ::testing::Values(Launch::kPreload, Launch::kRun), LaunchName);

TEST_F(Locks, AtTheDefaultIntervalTheDelayIsEstimatedWithinItsError) {
  const RunResult r = RunAs(Launch::kPreload, {"hot_mutex"}, {{"seed", "7"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  // Waits of 5 ms and more under 100 µs: each is sampled but for a chance of exp(−50); the estimate is the truth.
  const KnownWait known = KnownWaits(r.out).at(0);
  const Values sum = Waits("victim_waits", true);
  EXPECT_NEAR(static_cast<double>(sum.at("contentions")), static_cast<double>(known.contentions), 1) << AllSummaries();
  EXPECT_NEAR(static_cast<double>(sum.at("delay")), static_cast<double>(known.delay_ns),
              0.05 * static_cast<double>(known.delay_ns));
}

// Short waits count as much as long ones: the estimates agree with the exact counters of the same run (both stand in
// the comments) within 4 standard errors. Of those we know bounds, however the waits are distributed: Var(delay) is Σ
// w²(1−p)/p ≤ R·Σ w, and Var(contentions) is Σ (1−p)/p ≤ n·R/50 ns, as good as no contended wait being shorter than
// that. A right sampler fails less than once in 3,000 runs.
TEST_F(Locks, EstimatesOfShortWaitsAgreeWithTheExactCounters) {
  const std::pair<const char*, double> intervals[] = {{"1us", 1e3}, {"10us", 1e4}, {"100us", 1e5}};
  for (const auto& [interval, interval_ns] : intervals) {
    const std::string folder = out() + "/" + interval;
    const RunResult r = RunAs(Launch::kPreload, {"short_waits"}, {{"lock-interval", interval}, {"out", folder}});
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    const std::vector<Decoded> blocks = Newest(folder, "block");
    ASSERT_EQ(blocks.size(), 1u) << interval;
    const Decoded& block = blocks[0];
    const Values estimate = block.Total();
    const auto waits = static_cast<double>(block.CommentNumber("contentions"));
    const auto delay_ns = static_cast<double>(block.CommentNumber("delay_ns"));
    EXPECT_NEAR(static_cast<double>(estimate.at("delay")), delay_ns, 4 * std::sqrt(interval_ns * delay_ns))
        << interval << "\n"
        << block.Summary();
    EXPECT_NEAR(static_cast<double>(estimate.at("contentions")), waits, 4 * std::sqrt(waits * interval_ns / 50))
        << interval << "\n"
        << block.Summary();
  }
}

TEST_F(Locks, TheCxxTimedMutexesAreSeen) {
  const RunResult r = RunAs(Launch::kPreload, {"timed_mutexes"}, kEveryWait);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const std::vector<KnownWait> known = KnownWaits(r.out);
  ASSERT_EQ(known.size(), 6u);
  for (const KnownWait& wait : known) {
    if (wait.function == "warms_up") continue;
    const Values sum = Waits(wait.function, false);
    EXPECT_EQ(sum.at("contentions"), wait.contentions) << wait.function << "\n" << AllSummaries();
    EXPECT_LE(sum.at("delay"), wait.delay_ns) << wait.function;
    EXPECT_GE(sum.at("delay"), wait.delay_ns * 8 / 10) << wait.function;
  }
}

TEST_F(Locks, EveryKindOfMutexAnswersAsWithoutUs) {
  const RunResult bare = Execute(CommandFor(Launch::kBare, {"mutex_kinds"}));
  ASSERT_TRUE(bare.exited(0)) << bare.Describe();
  for (const char* interval : {"1ns", "100us", "0"}) {
    const RunResult r = RunAs(Launch::kPreload, {"mutex_kinds"}, {{"lock-interval", interval}, {"heap-interval", "1"}});
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    EXPECT_EQ(r.out, bare.out) << "at " << interval;
  }
}

}  // namespace
}  // namespace holdfast::testing
