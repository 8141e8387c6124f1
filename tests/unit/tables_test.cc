// The tables of the target's side: what is handed out, live samples, the filter of frees; alone and with four threads. Stacks and
// rows: stack_table_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "sampler/contract/poisson_sampler.h"
#include "sampler/contract/weight.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/record/ages.h"
#include "sampler/record/live_table.h"
#include "sampler/record/lock_times.h"
#include "sampler/table/stack_table.h"
#include "tests/unit/anonymous_table.h"

namespace holdfast {
namespace {

TEST(LockTimes, AreCountedByLengthAndPartsAreMadeWhenNeeded) {
  SharedTable* table = UseAnonymousTable();
  auto* lock = table->New<LockRecord>();
  // But for what the shard has taken beforehand.
  const auto used = [table] {
    const uint64_t room = table->shard().room;
    return table->header()->used - (static_cast<Offset>(room >> 32) - static_cast<Offset>(room));
  };
  const uint32_t before = used();
  for (const uint64_t ns : {0, 63, 64, 1'000'000, 1'000'001}) AddTime(table, &lock->wait_times, ns, 1);
  AddTime(table, &lock->wait_times, UINT64_MAX, 7);
  EXPECT_EQ((used() - before) * kUnit, sizeof(TimeHistogram) + 3 * sizeof(TimePart));
  const auto* times = table->At<TimeHistogram>(lock->wait_times);
  const auto count = [&](uint32_t bucket) -> uint64_t {
    const Offset part = times->parts[bucket / kBucketsInPart];
    return part == 0 ? 0 : table->At<TimePart>(part)->counts[bucket % kBucketsInPart].load();
  };
  EXPECT_EQ(count(0), 3u);
  EXPECT_EQ(count(TimeBucket(1'000'000)), 2u);
  EXPECT_EQ(count(kTimeBuckets - 1), 7u);
  EXPECT_EQ(table->header()->losses[static_cast<int>(Loss::kTimesFull)], 0u);
}

TEST(LockTimes, WithoutRoomTheyAreCountedAsLostAndTheRecordSaysSoForGood) {
  SharedTable* table = UseAnonymousTable();
  auto *lock = table->New<LockRecord>(), *other = table->New<LockRecord>();
  AddTime(table, &lock->wait_times, 100, 1);
  while (table->New<TimePart>() != nullptr) {
  }
  while (table->New<Offset>() != nullptr) {
  }
  AddTime(table, &lock->wait_times, 100, 1);
  EXPECT_EQ(table->header()->losses[static_cast<int>(Loss::kTimesFull)], 0u) << "there is room for what was known";
  for (int i = 0; i < 2; ++i) AddTime(table, &lock->wait_times, 1'000'000, 1);
  AddTime(table, &other->wait_times, 100, 1);
  EXPECT_EQ(table->header()->losses[static_cast<int>(Loss::kTimesFull)], 3u);
  EXPECT_EQ(table->At<TimeHistogram>(lock->wait_times)->parts[TimeBucket(1'000'000) / kBucketsInPart], kNoRoom);
  EXPECT_EQ(other->wait_times, kNoRoom);
}

TEST(LockTimes, AreNotLostWithManyThreads) {
  SharedTable* table = UseAnonymousTable();
  auto* lock = table->New<LockRecord>();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([=] {
      for (int i = 0; i < 46 * 1000; ++i) AddTime(table, &lock->wait_times, uint64_t{1} << i % 46, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t sum = 0;
  for (const auto& part : table->At<TimeHistogram>(lock->wait_times)->parts) {
    for (const auto& count : table->At<TimePart>(part)->counts) sum += count;
  }
  EXPECT_EQ(sum, 4u * 46 * 1000);
}

// Threads take room for several records at once, each from its shard, and two of them from the same.
TEST(SharedTable, RecordsDoNotOverlap) {
  constexpr uint32_t kBytes = 4 << 20;
  SharedTable* table = UseAnonymousTable(kBytes);
  const uint32_t before = table->header()->used;
  std::vector<std::pair<Offset, uint32_t>> records[4];
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([table, number, &mine = records[number]] {
      thread_state.shard = static_cast<uint16_t>(number / 2);
      uint64_t random = static_cast<uint64_t>(number) + 1;
      for (;;) {
        const uint64_t drawn = NextRandom(&random);
        const auto bytes = static_cast<uint32_t>(drawn % 64 == 0 ? drawn >> 32 & 8191 : drawn >> 32 & 127) + 1;
        auto* record = static_cast<char*>(table->Allocate(bytes));
        if (record == nullptr) return;
        for (uint32_t i = 0; i < bytes; ++i) {
          ASSERT_EQ(record[i], 0);
          record[i] = static_cast<char>(number + 1);
        }
        mine.emplace_back(table->OffsetOf(record), (bytes + kUnit - 1) / kUnit);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::map<Offset, uint32_t> all;
  uint32_t units = 0;
  for (const auto& mine : records) {
    for (const auto& [at, size] : mine) {
      ASSERT_TRUE(all.emplace(at, size).second);
      units += size;
    }
  }
  Offset end = before;
  for (const auto& [at, size] : all) {
    ASSERT_GE(at, end);
    end = at + size;
  }
  EXPECT_LE(end, kBytes / kUnit);
  EXPECT_LE(end, table->header()->used);
  // What is left of a room where the next record is larger, and at the end.
  EXPECT_GE(units, (kBytes / kUnit - before) * 9 / 10);
}

// Whoever copies the table while the program runs comes by the head of a list before it copies what that leads to.
TEST(SharedTable, ListsInARecordPointPastIt) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  const auto of_shard = [](uint16_t shard) { thread_state.shard = shard; };
  for (uint16_t shard : {0, 1}) {  // each has room now, the second after the first
    of_shard(shard);
    ASSERT_NE(table->New<Row>(), nullptr);
  }
  Stack* stack = InternStack(table, Trace({1, 2, 3}));
  auto* lock = table->New<LockRecord>();
  of_shard(0);
  Row* row = FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, 1);
  EXPECT_GT(table->OffsetOf(row), table->OffsetOf(stack));
  AddTime(table, &lock->wait_times, 1'000, 1);
  EXPECT_GT(lock->wait_times, table->OffsetOf(lock));
  EXPECT_GT(table->At<TimeHistogram>(lock->wait_times)->parts[TimeBucket(1'000) / kBucketsInPart], lock->wait_times);
  // Its room is still there for what is in no such list.
  EXPECT_LT(table->OffsetOf(table->New<Row>()), table->OffsetOf(stack));
  of_shard(1);
  FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, 2);
  of_shard(0);
  Row* own = FindOwnRow(table, stack, 3, 1);
  of_shard(1);
  EXPECT_GT(table->OffsetOf(FindOwnRow(table, stack, 4, 1)), table->OffsetOf(stack));
  EXPECT_GT(table->OffsetOf(own), table->OffsetOf(stack));
  of_shard(0);
}

// A missed free would be a false leak; an unknown age does less harm.
TEST(SharedTable, AgesLeaveRoomForWhatKnowsWhichBlocksLive) {
  SharedTable* table = UseAnonymousTable(4 << 20);
  ASSERT_TRUE(MakeSpecialStacks(table));
  std::vector<Row*> rows;
  for (TaggedPc pc = 1;; ++pc) {
    Row* row = FindOwnRow(table, InternStack(table, Trace({pc})), 1, 1);
    if (row == nullptr || OwnOverflowRow(table, 1, 1) == nullptr || table->IsFull(sizeof(Stack))) break;
    rows.push_back(row);
  }
  size_t aged = 0;
  for (Row* row : rows) aged += AgedRowOf(table, row) != nullptr;
  EXPECT_LT(aged, rows.size());
  EXPECT_GT(aged, 0u);
  EXPECT_GE(InsertLive(table, 0x10000, {}), 0);
}

TEST(LiveTable, AnInsertedBlockIsTakenOnce) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_GE(InsertLive(table, 0x1000, {.size = 64, .row = 7}), 0);
  TakenLive taken = TakeLive(table, 0x1000);
  ASSERT_NE(taken.key, nullptr);
  EXPECT_EQ(taken.sample.size, 64u);
  EXPECT_EQ(taken.sample.row, 7u);
  EXPECT_EQ(TakeLive(table, 0x1000).key, nullptr) << "held";
  PutBackLive(taken, 0x1000);
  taken = TakeLive(table, 0x1000);
  ASSERT_NE(taken.key, nullptr) << "put back";
  DropLive(taken);
  EXPECT_EQ(TakeLive(table, 0x1000).key, nullptr);
}

// Their keys are those of an empty slot and of one that is being filled.
TEST(LiveTable, NullAndItsNeighbourAreNeverFound) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_EQ(InsertLive(table, 0x1000, {.size = 64, .row = 7}), 0);
  for (const int level : {-1, 0}) {
    EXPECT_FALSE(TakeLive(table, 0, level).sampled());
    EXPECT_FALSE(TakeLive(table, 1, level).sampled());
  }
  EXPECT_EQ(TakeLiveOf(table, 0, 0).key, nullptr);
  EXPECT_TRUE(TakeLive(table, 0x1000, 0).sampled());
}

TEST(LiveTable, AHundredThousandBlocksAcrossLevels) {
  SharedTable* table = UseAnonymousTable(64 << 20);
  constexpr uintptr_t kBlocks = 100'000;
  for (uintptr_t i = 1; i <= kBlocks; ++i) ASSERT_GE(InsertLive(table, i * 512, {.size = i, .row = 1}), 0) << i;
  for (uintptr_t i = 1; i <= kBlocks; ++i) {
    const TakenLive taken = TakeLive(table, i * 512);
    ASSERT_NE(taken.key, nullptr) << i;
    ASSERT_EQ(taken.sample.size, i);
    DropLive(taken);
  }
}

// The level that an insertion names is where the block is, and stays so while the table grows and shrinks.
TEST(LiveTable, ABlockIsFoundInTheLevelItWasPutInto) {
  SharedTable* table = UseAnonymousTable(64 << 20);
  constexpr uintptr_t kBlocks = 200'000;
  std::vector<int> levels(kBlocks + 1);
  for (uintptr_t i = 1; i <= kBlocks; ++i) ASSERT_GE(levels[i] = InsertLive(table, i * 512, {.size = i, .row = 1}), 0);
  EXPECT_GT(*std::max_element(levels.begin(), levels.end()), 4);
  // Slots are at least half used: 24 bytes each, and the records of the header.
  EXPECT_LE(table->header()->used * uint64_t{kUnit} - sizeof(TableHeader), kBlocks * 2 * 24);
  for (uintptr_t i = 1; i <= kBlocks; ++i) {
    const TakenLive taken = TakeLive(table, i * 512, levels[i]);
    ASSERT_NE(taken.key, nullptr) << i;
    DropLive(taken);
  }
}

TEST(LiveTable, ChurnNeedsNoMoreSpaceThanItsLiveBlocks) {
  SharedTable* table = UseAnonymousTable(64 << 20);
  for (uintptr_t i = 1; i <= 1000; ++i) ASSERT_GE(InsertLive(table, i * 16, {.size = 1, .row = 1}), 0);
  const uint32_t used = table->header()->used;
  for (uintptr_t i = 1; i <= 1'000'000; ++i) {
    DropLive(TakeLive(table, i * 16));
    ASSERT_GE(InsertLive(table, (i + 1000) * 16, {.size = 1, .row = 1}), 0);
  }
  EXPECT_LE(table->header()->used, used + LiveSlotsIn(2) * (8 + sizeof(LiveSample)) / kUnit)
      << "at most one level more";
}

TEST(LiveTable, FullTableRefuses) {
  SharedTable* table = UseAnonymousTable((sizeof(TableHeader) + 64 * 1024 + 4095) / 4096 * 4096);
  uintptr_t inserted = 0;
  while (inserted < 10'000 && InsertLive(table, (inserted + 1) * 16, {.size = 1, .row = 1}) >= 0) ++inserted;
  EXPECT_GE(inserted, LiveSlotsIn(0) / 4);
  EXPECT_LE(inserted, LiveSlotsIn(0));
}

TEST(LiveTable, BlocksOfOneThreadAreFreedByAnother) {
  SharedTable* table = UseAnonymousTable(64 << 20);
  constexpr uintptr_t kBlocks = 20'000;
  std::vector<std::thread> threads;
  for (uintptr_t t = 0; t < 4; ++t) {
    threads.emplace_back([=] {
      for (uintptr_t i = 1; i <= kBlocks; ++i)
        ASSERT_GE(InsertLive(table, (t * kBlocks + i) * 16, {.size = t, .row = 1}), 0);
    });
  }
  for (auto& thread : threads) thread.join();
  threads.clear();
  for (uintptr_t t = 0; t < 4; ++t) {
    threads.emplace_back([=] {
      const uintptr_t other = (t + 1) % 4;
      for (uintptr_t i = 1; i <= kBlocks; ++i) {
        const TakenLive taken = TakeLive(table, (other * kBlocks + i) * 16);
        ASSERT_NE(taken.key, nullptr);
        ASSERT_EQ(taken.sample.size, other);
        DropLive(taken);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(SampledFilter, NeverSaysNoToASampledBlock) {
  std::vector<uint8_t> counters(kFilterBytes);
  sampled_filter.counters = counters.data();
  const auto block = [](uintptr_t i) { return reinterpret_cast<void*>(i * kTagAlignment + (i % 32) * 16); };
  for (uintptr_t i = 1; i < 5000; ++i) AddToFilter(block(i), 3);
  for (uintptr_t i = 1; i < 5000; ++i) EXPECT_TRUE(PassesFilter(block(i)));
  for (uintptr_t i = 1; i < 5000; ++i) RemoveFromFilter(block(i));
  for (uintptr_t i = 1; i < 5000; ++i) EXPECT_FALSE(PassesFilter(block(i)));
  // 300 blocks in one place: the counter sticks, and still says "perhaps".
  for (int i = 0; i < 300; ++i) AddToFilter(block(9), 0);
  for (int i = 0; i < 299; ++i) RemoveFromFilter(block(9));
  EXPECT_TRUE(PassesFilter(block(9)));
  sampled_filter.counters = nullptr;
}

TEST(SampledFilter, RemembersTheLevelOfASingleBlock) {
  std::vector<uint8_t> counters(kFilterBytes);
  sampled_filter.counters = counters.data();
  char* const one = reinterpret_cast<char*>(0x10000);
  AddToFilter(one, 7);
  EXPECT_EQ(LevelInFilter(one), 7);
  AddToFilter(one + 16, 2);
  EXPECT_EQ(LevelInFilter(one), -1) << "two";
  RemoveFromFilter(one);
  EXPECT_TRUE(PassesFilter(one + 16));
  EXPECT_EQ(LevelInFilter(one + 16), -1) << "one of two, nobody knows which";
  RemoveFromFilter(one + 16);
  EXPECT_FALSE(PassesFilter(one));
  AddToFilter(one, 0);
  EXPECT_EQ(LevelInFilter(one), 0);
  sampled_filter.counters = nullptr;
}

TEST(SampledFilter, TagLetsOneBlockInThirtyTwoThrough) {
  sampled_filter.tag_mask = kTagMask;
  int passed = 0;
  for (uintptr_t at = 0; at < kTagAlignment * 100; at += 16) passed += PassesTag(reinterpret_cast<void*>(at));
  EXPECT_EQ(passed, 32 * 100 / 16);
  EXPECT_TRUE(IsTagged(reinterpret_cast<void*>(0x7f0000000010))) << "a block that glibc maps";
  GiveUpTag();
  EXPECT_TRUE(PassesTag(reinterpret_cast<void*>(0x1230)));
}

}  // namespace
}  // namespace holdfast
