// Numbers that must be right with many processes, many threads or after many years.
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class SoundNumbers : public Profiled {
 protected:
  // What the program printed behind `word function`, in the place `place` after it.
  static int64_t Printed(const std::string& output, const std::string& word, const std::string& function,
                         int place = 0) {
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string first, second, value;
      if (!(words >> first >> second) || first != word || second != function) continue;
      for (int i = 0; i <= place; ++i) words >> value;
      return std::atoll(value.c_str());
    }
    ADD_FAILURE() << "no line " << word << " " << function << " in " << output;
    return -1;
  }
  static Values SumOf(const std::vector<Decoded>& profiles, const std::string& function, const std::string& label) {
    Values sum = {{"contentions", 0}, {"delay", 0}};
    for (const Decoded& profile : profiles) {
      for (const DecodedSample& sample : profile.samples) {
        if (!sample.Has(function) || sample.labels.at("wait") != label) continue;
        for (const auto& [name, value] : sample.values) sum[name] += value;
      }
    }
    return sum;
  }
  static int64_t CommentOf(const std::vector<Decoded>& profiles, const std::string& key) {
    int64_t sum = 0;
    for (const Decoded& profile : profiles) sum += std::max<int64_t>(0, profile.CommentNumber(key));
    return sum;
  }
};

// 6 × 100 children of 64 KiB at 512 KiB: each is sampled with p = 1 − exp(−1/8), by itself, so the number of those that are
// is binomial: 11.75 ± 3.22 of 100. Over all runs of one way to fork 4 standard errors, of a single run 5: a right sampler with other
// seeds would fail with a chance of 3 × 6.3e-5 + 6 × 6e-7. Seeds are fixed, and each program has one thread.
TEST_F(SoundNumbers, ForkedSiblingsAreSampledEachByItself) {
  constexpr int kChildren = 100, kBytes = 65536;
  const double p = 1 - std::exp(-kBytes / 524288.0), sigma = std::sqrt(kChildren * p * (1 - p));
  // At 64-byte blocks: Σ x²(1−p)/p over a child's blocks.
  const double p_block = 1 - std::exp(-64 / 524288.0), variance = kBytes / 64.0 * 64 * 64 * (1 - p_block) / p_block;
  for (const std::string how : {"fork", "_Fork", "syscall"}) {
    constexpr int kRuns = 2;
    double sampled = 0, bytes = 0;
    for (int seed = 1; seed <= kRuns; ++seed) {
      const std::string folder = out() + "/" + how + std::to_string(seed);
      const RunResult r = RunAndSettle(
          CommandFor(Launch::kPreload, {"forked_siblings", std::to_string(kChildren), std::to_string(kBytes), how},
                     {{"out", folder}, {"seed", std::to_string(seed)}}));
      ASSERT_TRUE(r.exited(0)) << r.Describe();
      int in_this_run = 0;
      for (const Decoded& heap : Newest(folder, "heap")) {
        const int64_t space = heap.SumLeaf("sibling_allocates")["alloc_space"];
        in_this_run += space != 0;
        bytes += static_cast<double>(space);
      }
      EXPECT_NEAR(in_this_run, kChildren * p, 5 * sigma) << how << ", seed " << seed;
      sampled += in_this_run;
    }
    EXPECT_NEAR(sampled, kRuns * kChildren * p, 4 * sigma * std::sqrt(kRuns)) << how;
    EXPECT_NEAR(bytes, 1.0 * kRuns * kChildren * kBytes, 4 * std::sqrt(kRuns * kChildren * variance)) << how;
  }
}

TEST_F(SoundNumbers, ASeedGivesTheSameSiblingsTheSameSamples) {
  std::vector<Values> runs;
  for (const char* folder : {"first", "again"}) {
    const RunResult r = RunAndSettle(CommandFor(Launch::kPreload, {"forked_siblings", "60", "65536", "fork"},
                                                {{"out", out() + "/" + folder}, {"seed", "5"}}));
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    Values sum;
    for (const Decoded& heap : Newest(out() + "/" + folder, "heap")) {
      for (const auto& [name, value] : heap.Total()) sum[name] += value;
      ++sum["processes"];
    }
    runs.push_back(sum);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_GT(runs[0]["processes"], 0);
}

// 2^60 ns of delay and 2^48 objects are the end of a row's numbers.
TEST_F(SoundNumbers, SumsThatComeToTheEndOfTheirRowGoOnInAnother) {
  const RunResult r = RunAs(Launch::kPreload, {"full_sums"}, {{"lock-interval", "1ns"}, {"heap-interval", "1"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const Values waits = SumOf(NewestBlock(), "waits_for_years", "condition");
  EXPECT_GE(waits.at("delay"), Printed(r.out, "years", "waits_for_years") + 10'000'000);
  EXPECT_EQ(waits.at("contentions"), 20);
  ASSERT_EQ(NewestHeap().size(), 1u);
  const Values heap = NewestHeap()[0].SumLeaf("allocates_for_years");
  EXPECT_EQ(heap.at("alloc_objects"), Printed(r.out, "years", "allocates_for_years") + 10);
  EXPECT_EQ(NewestBlock()[0].Comment("losses"), "none") << NewestBlock()[0].Summary();
}

// A slot counts 15,360 waiters: the others are attributed to no holder, and it is said. Both sides stay equal.
TEST_F(SoundNumbers, MoreWaitersThanASlotCountsAreReported) {
  const RunResult r = RunAs(Launch::kPreload, {"many_waiters", "17000"}, {{"lock-interval", "1ms"}});
  if (r.exited(77)) GTEST_SKIP() << r.out;
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_GT(CommentOf(NewestBlock(), "lost lock-slot-taken"), 0);
  const int64_t waited = CommentOf(NewestBlock(), "mutex delay_ns");
  EXPECT_GT(waited, 0);
  EXPECT_EQ(CommentOf(NewestMutex(), "mutex delay_ns") + CommentOf(NewestMutex(), "mutex gap_ns"), waited);
}

TEST_F(SoundNumbers, TimedConditionsAreWaitedForAsLongAsTheirMutexIsHeldOrHandedOn) {
  for (int seed = 1; seed <= 6; ++seed) {
    const std::string folder = out() + "/" + std::to_string(seed);
    const RunResult r = RunAndSettle(
        CommandFor(Launch::kPreload, {"timed_conditions", std::to_string(seed), "8", "400"},
                   {{"lock-interval", "1ns"}, {"out", folder}, {"seed", std::to_string(seed)}, {"verbose", "1"}}));
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    const int64_t waited = CommentOf(Newest(folder, "block"), "mutex delay_ns");
    EXPECT_GT(waited, 1'000'000) << r.Describe();
    const std::vector<Decoded> mutex = Newest(folder, "mutex");
    EXPECT_EQ(CommentOf(mutex, "mutex delay_ns") + CommentOf(mutex, "mutex gap_ns"), waited) << "seed " << seed;
    // Each wait is in a row, to its end.
    int64_t in_rows = 0;
    for (const Decoded& block : Newest(folder, "block")) {
      for (const DecodedSample& sample : block.samples)
        if (sample.labels.at("wait") == "mutex") in_rows += sample.values.at("delay");
    }
    EXPECT_EQ(in_rows, waited) << "seed " << seed;
  }
}

TEST_F(SoundNumbers, RunningTheFunctionOfAnInheritedOnceIsNoWait) {
  const RunResult r = RunAs(Launch::kPreload, {"once_in_child"}, {{"lock-interval", "1ns"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(SumOf(NewestBlock(), "runs_it_itself", "once").at("contentions"), 0);
  EXPECT_EQ(SumOf(NewestBlock(), "waits_for_a_thread", "once").at("contentions"), 1);
  EXPECT_EQ(CommentOf(NewestBlock(), "once contentions"), 1);
}

TEST_F(SoundNumbers, WaitsByTheFutexCallsOfNewerKernelsAreSeen) {
  const RunResult r = RunAs(Launch::kPreload, {"new_futexes"}, {{"lock-interval", "1ns"}});
  if (r.exited(77)) GTEST_SKIP() << "this kernel has no futex_wait";
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  for (const char* function : {"waits_for_one", "waits_for_many"}) {
    const Values waits = SumOf(NewestBlock(), function, "futex");
    EXPECT_EQ(waits.at("contentions"), 1) << function;
    EXPECT_GE(Printed(r.out, "waits", function, 2), waits.at("delay")) << function;
    EXPECT_GT(waits.at("delay"), 0) << function;
  }
  int64_t wakes = 0;
  for (const Decoded& mutex : NewestMutex()) wakes += mutex.Names("wakes");
  EXPECT_EQ(wakes, 1) << "what futex_wake ends is its caller's";
}

}  // namespace
}  // namespace holdfast::testing
