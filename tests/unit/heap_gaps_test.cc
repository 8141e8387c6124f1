// Where the next heap sample of a thread lies: gaps that are used up, cut, or drawn anew around a fork.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sampler/contract/poisson_sampler.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/process.h"
#include "sampler/record/heap.h"
#include "tests/unit/anonymous_table.h"

namespace holdfast {
namespace {

class HeapGaps : public ::testing::Test {
 protected:
  HeapGaps() : table_(UseAnonymousTable()) {
    thread_state = {};
    process.seed = 11;
    process.recording = true;
    Use(4096);
    HeapEventDue(1);  // introduces the thread
  }
  void TearDown() override {
    thread_state = {};
    process.recording = false;
    process.seed = 0;
  }
  void Use(uint64_t interval) {
    table_->header()->heap_intervals[0].interval = interval;
    table_->header()->heap_interval_count = 1;
  }
  static bool Allocate(uint64_t bytes) {
    thread_state.heap_countdown -= static_cast<int64_t>(bytes);
    return thread_state.heap_countdown <= 0 && HeapEventDue(bytes);
  }
  // How many numbers were drawn since: each adds the same to the state.
  static uint64_t DrawnSince(uint64_t state) {
    uint64_t draws = 0;
    while (state != thread_state.random && draws < 1'000'000'000) NextRandom(&state), ++draws;
    return draws;
  }
  uint64_t Counted() const {
    uint64_t bytes = 0;
    for (const CounterShard& shard : table_->header()->counters) bytes += shard.alloc_bytes;
    return bytes;
  }

  SharedTable* table_;
};

// In pieces of a mebibyte, between which it is looked whether the interval was changed, it would take 12 s.
TEST_F(HeapGaps, ABlockOfManyTerabytesIsOneDraw) {
  for (const uint64_t interval : {uint64_t{1'000'000'000'000'000}, uint64_t{1} << 62, uint64_t{0}, uint64_t{4096}}) {
    Use(interval);
    for (int i = 0; i < 10; ++i) {
      const uint64_t before = thread_state.random;
      Allocate(uint64_t{1} << 47);
      EXPECT_LE(DrawnSince(before), 2u) << interval;
      EXPECT_GT(thread_state.heap_countdown, 0);
      EXPECT_LE(thread_state.heap_countdown, kLongestGap);
    }
  }
}

// 20,000 blocks, each three intervals of the longest gap behind the last look: 6 standard errors, once in 5·10⁸ runs.
TEST_F(HeapGaps, LargeBlocksAreSampledAsOftenAsTheFormulaSays) {
  constexpr uint64_t kInterval = uint64_t{1} << 48;
  constexpr int kBlocks = 20'000;
  for (const uint64_t bytes : {uint64_t{1} << 47, uint64_t{1} << 46, uint64_t{5} << 44}) {
    Use(kInterval);
    int sampled = 0;
    for (int i = 0; i < kBlocks; ++i) sampled += Allocate(bytes);
    const double p = 1 - std::exp(-static_cast<double>(bytes) / static_cast<double>(kInterval));
    EXPECT_NEAR(sampled, kBlocks * p, 6 * std::sqrt(kBlocks * p * (1 - p))) << bytes;
  }
}

// However often a program forks: samples stay as frequent, its bytes are counted, and a new interval is found in time.
TEST_F(HeapGaps, DrawnAnewAtEachForkHaveTheRightMean) {
  constexpr int kBlocks = 100'000, kBytes = 1000;
  constexpr uint64_t kInterval = 65536;
  Use(kInterval);
  Allocate(2 << 20);
  const uint64_t before = Counted(),
                 not_counted = static_cast<uint64_t>(thread_state.heap_gap - thread_state.heap_countdown);
  int sampled = 0;
  uint64_t of_samples = 0;
  for (int i = 0; i < kBlocks; ++i) {
    if (i % 3 == 0) {
      BeforeFork();
      AfterFork();
    }
    const bool due = Allocate(kBytes);
    sampled += due;
    of_samples += due ? kBytes : 0;  // RecordAlloc counts these
  }
  const double p = 1 - std::exp(-1.0 * kBytes / kInterval);
  EXPECT_NEAR(sampled, kBlocks * p, 6 * std::sqrt(kBlocks * p * (1 - p)));
  const auto left = static_cast<uint64_t>(thread_state.heap_gap - thread_state.heap_countdown);
  EXPECT_EQ(Counted() - before + of_samples + left - not_counted, uint64_t{kBlocks} * kBytes);

  Use(0);
  Allocate(8 << 20);
  int64_t allocated = 0;
  uint64_t state = thread_state.random;
  Use(1);
  table_->header()->heap_intervals[1].interval = 1;
  table_->header()->heap_interval_count = 2;
  while (!Allocate(kBytes) && allocated < 4 * kLongestGap) {
    BeforeFork();
    AfterFork();
    allocated += kBytes;
  }
  EXPECT_LE(allocated, kLongestGap + kBytes) << state;
}

// The child goes on from a copy of all this.
TEST_F(HeapGaps, GapsOfSiblingsAreIndependent) {
  Use(65536);
  Allocate(1 << 20);
  std::vector<int64_t> gaps;
  std::vector<uint64_t> states;
  for (int i = 0; i < 100; ++i) {
    BeforeFork();
    gaps.push_back(thread_state.heap_countdown);
    states.push_back(thread_state.random);
    AfterFork();
    EXPECT_NE(thread_state.heap_countdown, gaps.back()) << "nor with their parent";
  }
  for (auto* values : {&states}) {
    std::sort(values->begin(), values->end());
    EXPECT_EQ(std::unique(values->begin(), values->end()), values->end());
  }
  std::sort(gaps.begin(), gaps.end());
  EXPECT_GT(std::unique(gaps.begin(), gaps.end()) - gaps.begin(), 98);
}

}  // namespace
}  // namespace holdfast
