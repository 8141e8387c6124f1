// The judgement of `holdfast leaks` over programs with a known truth (tests/support/leak_shapes.h): 22 that leak, 20 that do not,
// each sampled at three intervals, over 10 s, 38 s and 30 min. Seeds are fixed, so the counts are the same in each run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "report/analysis/growth/growth.h"
#include "tests/support/sampled_world.h"

namespace holdfast::testing {
namespace {

struct Setting {
  double exact_bytes, bytes;  // to leak or to hold: less where every allocation is simulated
  size_t block;
  int snapshots;
  double seconds;
};
constexpr Setting kSettings[] = {{2e6, 40e6, 4000, 17, 38}, {5e6, 16e6, 512, 40, 1800}, {0.5e6, 4e6, 30000, 9, 10}};
constexpr double kIntervals3[] = {1, 65536, 524288};

struct Judged {
  bool leaks = false, named = false, level = false;  // named: the function that leaks
  // Its growth exceeds four standard errors: of the samples, or if all is known of as many events as there were blocks.
  bool above = false;
  double bound = 0, truth = 0;  // an hour
};

Judged Judge(const Shape& shape, double interval, const Setting& setting, unsigned seed) {
  const double hours = setting.seconds / 3600, bytes = interval <= 1 ? setting.exact_bytes : setting.bytes;
  std::mt19937_64 random(seed * 77);
  SampledWorld world(seed * 1000 + static_cast<unsigned>(interval), interval, setting.snapshots, hours, true);
  shape.run(world, random, bytes, setting.block);
  Judged run;
  bool undecided = false;
  for (const int who : world.Whos()) {
    const Series series = world.SeriesOf(who);
    const Growth growth = FitGrowth(series);
    run.bound = std::max(run.bound, growth.bound);
    EXPECT_GE(growth.bound * (1 + 1e-9), growth.upper()) << shape.name << ": the bound is below its interval";
    run.leaks = run.leaks || IsLeak(growth.growth_class);
    run.named = run.named || (who == kLeaker && IsLeak(growth.growth_class));
    undecided = undecided || growth.growth_class == GrowthClass::kUndecided;
  }
  const Growth total = FitGrowth(world.SeriesOf(-1));
  run.bound = std::max(run.bound, total.bound);
  // As AnswerOf: the total alone takes six errors, and no stack that has half of it and is none.
  const double rise = world.GrowthSeen(-1);
  const bool one_has_most =
      std::ranges::any_of(world.Whos(), [&](int who) { return 2 * world.GrowthSeen(who) > rise; });
  run.leaks = run.leaks || (IsLeak(total.growth_class) && total.slope >= 6 / 1.96 * total.half_width && !one_has_most);
  const double now = world.TotalNow();
  run.level = !run.leaks && !undecided && total.growth_class != GrowthClass::kUndecided &&
              run.bound * (interval <= 1 ? hours : 24) <= 0.05 * now;
  const Series leak = world.SeriesOf(kLeaker);
  if (leak.values.empty()) return run;
  const size_t last = leak.values.size() - 1;
  const double came = leak.allocated_variances[last] - leak.allocated_variances[0];
  const double went = std::max(0.0, came - (leak.variances[last] - leak.variances[0]));
  const double error = std::sqrt(std::min(came, leak.variances[last]) + std::min(went, leak.variances[0]));
  const double climb = leak.values[last] - leak.values[0];
  run.above = climb > 0 && climb > 4 * error && (interval > 1 || leak.objects[last] >= 16 || leak.objects[last] < 2);
  run.truth = world.GrowthOf(kLeaker) / hours;
  return run;
}

TEST(LeakShapes, LeaksAreCalledSoHealthyProgramsAreNotAndBoundsHold) {
  int above = 0, named = 0, healthy = 0, alarms = 0, small = 0, bounded = 0;
  std::string missed, raised;
  for (const Shape& shape : LeakShapes()) {
    for (const double interval : kIntervals3) {
      for (const Setting& setting : kSettings) {
        const Judged run = Judge(shape, interval, setting, 1);
        const std::string what = std::string(shape.name) + " at " + std::to_string(static_cast<int>(interval)) +
                                 " over " + std::to_string(static_cast<int>(setting.seconds)) + " s\n";
        if (!shape.leaks) {
          ++healthy;
          alarms += run.leaks;
          if (run.leaks) raised += what;
          continue;
        }
        EXPECT_FALSE(run.level) << what;
        above += run.above;
        named += run.above && run.named;
        if (run.above && !run.named) missed += what;
        if (run.leaks) continue;
        ++small;
        bounded += run.bound >= 0.999 * run.truth;
      }
    }
  }
  EXPECT_GE(above, 150);
  EXPECT_GE(named, 0.98 * above) << missed;
  EXPECT_LE(alarms, 0.01 * healthy) << raised;
  EXPECT_GE(bounded, 0.85 * small);
}

// Leaks of 1 to 12 samples. Seeds are fixed, so the count is the same in each run.
TEST(LeakShapes, TheBoundOfASmallLeakHolds) {
  int small = 0, held = 0;
  std::string failed;
  for (const Shape& shape : LeakShapes()) {
    const std::string_view name = shape.name;
    if (name != "linear" && name != "bursts-4" && name != "day-and-quiet-night" && name != "at-random") continue;
    for (unsigned seed = 1; seed <= 120; ++seed) {
      const Judged run = Judge(shape, 524288, {0, 524288.0 * (1 + seed % 12), 16384, 12, 60}, seed);
      if (run.leaks) continue;
      ++small;
      held += run.bound >= 0.999 * run.truth;
      if (run.bound < 0.999 * run.truth) failed += std::string(name) + " ";
    }
  }
  EXPECT_GE(small, 300);
  EXPECT_GE(held, 0.95 * small) << failed;
}

}  // namespace
}  // namespace holdfast::testing
