// Sampled estimates compared with known totals. Seeds are fixed and the program has one thread, so each run is
// reproducible: a failure is no chance event but a change.
#include <cmath>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

constexpr int kRuns = 20;

// The sizes that tests/programs/mixed_sizes.c asks for: f(function, size, kept).
template <typename F>
void EachBlock(F f) {
  for (size_t i = 0; i < 300000; ++i) {
    f("small_blocks", 64, i % 2 == 0);
    if (i % 10 == 0) f("medium_blocks", 100 + i % 7000, i % 40 == 0);
    if (i % 1000 == 0) f("large_blocks", 70000, i % 3000 == 0);
    f("passing_blocks", i % 1024, false);
  }
}

struct Moments {
  double truth = 0, variance = 0;
};

std::map<std::string, std::map<std::string, Moments>> Expected(double interval) {
  std::map<std::string, std::map<std::string, Moments>> result;
  EachBlock([&](const std::string& function, size_t size, bool kept) {
    const auto s = static_cast<double>(size);
    const double p = 1 - std::exp(-std::max(s, 1.0) / interval);
    auto& of = result[function];
    const auto add = [&](const char* type, double x) {
      of[type].truth += x;
      of[type].variance += x * x * (1 - p) / p;
    };
    add("alloc_objects", 1);
    add("alloc_space", s);
    if (kept) add("inuse_objects", 1);
    if (kept) add("inuse_space", s);
  });
  return result;
}

class Statistics : public Profiled {
 protected:
  Decoded RunSeed(int seed, const std::string& interval) {
    const std::string folder = out() + "/" + interval + "." + std::to_string(seed);
    const RunResult r =
        Execute(CommandFor(Launch::kPreload, {"mixed_sizes"},
                           {{"heap-interval", interval}, {"seed", std::to_string(seed)}, {"out", folder}}));
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    std::vector<Decoded> profiles = Newest(folder, "heap");
    EXPECT_EQ(profiles.size(), 1u) << "seed " << seed;
    return profiles.empty() ? Decoded() : profiles[0];
  }
};

// The mean of 20 runs lies within 4 standard errors (from the formula in PPROF's terms: Σ x²(1−p)/p) of the truth, for
// 4 functions × objects and bytes × allocated and in use. A right sampler with other seeds would fail one of the 14
// checks with a chance of 14 × 6.3e-5 = 0.09 %.
TEST_F(Statistics, TheMeanOfTwentyRunsIsTheTruthWithinFourStandardErrors) {
  std::map<std::string, Values> sums;
  for (int seed = 1; seed <= kRuns; ++seed) {
    const Decoded heap = RunSeed(seed, "64KiB");
    EXPECT_EQ(heap.period, 65536);
    for (const auto& [function, types] : Expected(65536)) {
      for (const auto& [type, value] : heap.SumLeaf(function)) sums[function][type] += value;
    }
  }
  for (const auto& [function, types] : Expected(65536)) {
    for (const auto& [type, moments] : types) {
      const double mean = static_cast<double>(sums[function][type]) / kRuns;
      const double error = std::sqrt(moments.variance / kRuns);
      EXPECT_NEAR(mean, moments.truth, 4 * error) << function << " " << type << ", standard error " << error;
    }
  }
}

// The stated 95 % interval holds: the truth lies within 4/1.96 of it in each run (chance of a false alarm per check
// 6.3e-5, 80 checks: 0.5 %), and within it in 15 or more of 20 runs (chance of fewer, for each type: 3e-4).
TEST_F(Statistics, TheStatedIntervalHoldsAtTheDefault) {
  std::map<std::string, double> truth;
  for (const auto& [function, types] : Expected(524288)) {
    for (const auto& [type, moments] : types) truth[type] += moments.truth;
  }
  std::map<std::string, int> within;
  for (int seed = 101; seed < 101 + kRuns; ++seed) {
    const Decoded heap = RunSeed(seed, "512KiB");
    for (const auto& [type, value] : truth) {
      const std::string text = heap.Comment("total " + type).value_or("");
      const size_t sign = text.find("± ");
      ASSERT_NE(sign, std::string::npos) << "no stated interval: " << text << heap.Summary();
      const double stated = std::atof(text.c_str()),
                   half_width = std::atof(text.c_str() + sign + std::string("± ").size());
      EXPECT_NEAR(stated, value, half_width * 4 / 1.96) << type << ", seed " << seed;
      within[type] += std::abs(stated - value) <= half_width;
    }
  }
  for (const auto& [type, runs] : within) EXPECT_GE(runs, 15) << type;
}

TEST_F(Statistics, TheSameSeedGivesTheSameSamples) {
  const Decoded first = RunSeed(42, "64KiB");
  const std::string folder = out() + "/again";
  Execute(CommandFor(Launch::kPreload, {"mixed_sizes"}, {{"heap-interval", "64KiB"}, {"seed", "42"}, {"out", folder}}));
  const std::vector<Decoded> again = Newest(folder, "heap");
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(first.Total(), again[0].Total());
  EXPECT_NE(first.Total(), RunSeed(43, "64KiB").Total());
}

}  // namespace
}  // namespace holdfast::testing
