// The tables of the target's side: stacks and rows, live samples, the filter of frees; alone and with four threads.
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
#include "sampler/heap/ages.h"
#include "sampler/heap/live_table.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/locks/lock_times.h"
#include "sampler/tables/stack_table.h"
#include "tests/unit/anonymous_table.h"

namespace holdfast {
namespace {

StackTrace Trace(std::initializer_list<TaggedPc> frames) {
  StackTrace trace{};
  for (TaggedPc pc : frames) trace.frames[trace.depth++] = pc;
  return trace;
}

uint64_t Objects(const Row* row) { return row->sums[kAllocObjects] >> kCountFractionBits; }

TEST(StackTable, EqualStacksAreOneAndOthersAreNot) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  Stack* a = InternStack(table, Trace({1, 2, 3}));
  EXPECT_EQ(InternStack(table, Trace({1, 2, 3})), a);
  EXPECT_NE(InternStack(table, Trace({1, 2})), a);
  EXPECT_NE(InternStack(table, Trace({2, 1, 3})), a);
  StackTrace cut = Trace({1, 2, 3});
  cut.truncated = true;
  EXPECT_NE(InternStack(table, cut), a) << "a truncated stack is not the whole one";
}

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

TEST(LockTimes, OfManyThreadsNoneIsLost) {
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

TEST(StackTable, SharedOuterFramesAreStoredOnce) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  static_assert(kNodeFrames == 4);
  std::set<Offset> nodes;
  const auto nodes_after = [&](std::initializer_list<TaggedPc> frames) {
    for (Offset at = InternStack(table, Trace(frames))->leaf; at != 0; at = table->At<Node>(at)->parent)
      nodes.insert(at);
    return nodes.size();
  };
  EXPECT_EQ(nodes_after({100, 5, 4, 3, 2, 1}), 2u);
  EXPECT_EQ(nodes_after({101, 5, 4, 3, 2, 1}), 3u);
  EXPECT_EQ(nodes_after({4, 3, 2, 1}), 3u) << "the outer four alone";
  EXPECT_EQ(nodes_after({3, 2, 1}), 4u) << "the innermost node of a stack is its own";
}

// As LastWalk keeps it: the outer frames stay, the inner ones are others.
TEST(StackTable, APathAndATraceOfTheSameFramesAreOneStack) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  static StackPath path;
  path = {};
  std::vector<TaggedPc> frames;  // outermost first
  uint64_t random = 1;
  for (int i = 0; i < 3000; ++i) {
    const size_t kept = std::min<size_t>(NextRandom(&random) % 24, frames.size());
    const size_t added = NextRandom(&random) % 6 + (kept == 0 ? 1 : 0);
    frames.resize(kept);
    path.Cut(static_cast<int>(kept));
    for (size_t j = 0; j < added; ++j) {
      frames.push_back(NextRandom(&random) % 3 + 1);
      path.Add(frames.back());
    }
    StackTrace trace{};
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) trace.frames[trace.depth++] = *frame;
    // By turns, so that each finds what the other has made.
    Stack* by_trace = i % 2 == 0 ? InternStack(table, trace) : nullptr;
    Stack* by_path = InternStack(table, &path);
    if (by_trace == nullptr) by_trace = InternStack(table, trace);
    ASSERT_EQ(by_path, by_trace) << i;
    std::vector<TaggedPc> found;  // innermost first
    for (Offset at = by_path->leaf; at != 0; at = table->At<Node>(at)->parent) {
      const Node& node = *table->At<Node>(at);
      for (uint64_t j = 0; j < node.count; ++j) found.push_back(node.frames[j]);
    }
    ASSERT_EQ(found, std::vector<TaggedPc>(frames.rbegin(), frames.rend())) << i;
  }
}

// Threads take room for several records at once, each from its shard, and two of them from the same.
TEST(SharedTable, NoRecordLiesWhereAnotherDoes) {
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
TEST(SharedTable, WhatAListInARecordLeadsToLiesBehindIt) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  const auto of_shard = [](uint16_t shard) { thread_state.shard = shard; };
  for (uint16_t shard : {0, 1}) {  // each has room now, the latter behind that of the former
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

// A block whose free is not seen would be a leak that is none; one whose age is not known is just that.
TEST(SharedTable, AgesLeaveRoomForWhatKnowsWhichBlocksLive) {
  SharedTable* table = UseAnonymousTable(4 << 20);
  ASSERT_TRUE(MakeSpecialStacks(table));
  std::vector<Row*> rows;
  for (TaggedPc pc = 1;; ++pc) {
    Row* row = FindOwnRow(table, InternStack(table, Trace({pc})), 1, 1);
    if (row == nullptr || OwnOverflowRow(table, 1) == nullptr || table->IsFull(sizeof(Stack))) break;
    rows.push_back(row);
  }
  size_t aged = 0;
  for (Row* row : rows) aged += AgedRowOf(table, row) != nullptr;
  EXPECT_LT(aged, rows.size());
  EXPECT_GT(aged, 0u);
  EXPECT_GE(InsertLive(table, 0x10000, {}), 0);
}

// Of those that have rows: of a race more may be in the lists.
std::map<uint64_t, int> StacksByHash(SharedTable* table) {
  std::map<uint64_t, int> by_hash;
  for (const auto& list : table->header()->stack_lists) {
    for (Offset at = list; at != 0; at = table->At<Stack>(at)->next) {
      const Stack* stack = table->At<Stack>(at);
      if (stack->rows != 0) ++by_hash[stack->hash];
    }
  }
  return by_hash;
}

// They meet at the same stack all the time, also while the index grows, which it does seven times.
TEST(StackTable, NewStacksThatFourThreadsAddAtOnceAreThereOnceEach) {
  constexpr TaggedPc kStacks = 200'000;
  for (int round = 0; round < 3; ++round) {
    SharedTable* table = UseAnonymousTable(size_t{256} << 20);
    ASSERT_TRUE(MakeSpecialStacks(table));
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number) {
      threads.emplace_back([table, number] {
        StackPath path;
        path.Add(7);
        for (TaggedPc i = 0; i < kStacks; ++i) {
          path.Cut(1);
          path.Add(i + 1);
          Stack* stack = number == 3 ? InternStack(table, Trace({i + 1, 7})) : InternStack(table, &path);
          FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, 1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const std::map<uint64_t, int> by_hash = StacksByHash(table);
    EXPECT_EQ(by_hash.size(), kStacks);
    for (const auto& [hash, times] : by_hash) ASSERT_EQ(times, 1) << hash;
  }
}

TEST(StackTable, NothingOfTheParentIsFoundInAChild) {
  SharedTable* table = UseAnonymousTable(size_t{64} << 20);
  ASSERT_TRUE(MakeSpecialStacks(table));
  std::vector<Stack*> of_parent;
  for (TaggedPc pc = 1; pc <= 50'000; ++pc) of_parent.push_back(InternStack(table, Trace({pc, 2, 3, 4, 5})));
  ForgetStacks();
  for (TaggedPc pc = 1; pc <= 50'000; ++pc) ASSERT_NE(InternStack(table, Trace({pc, 2, 3, 4, 5})), of_parent[pc - 1]);
}

TEST(StackTable, FramesCanBeReadBackFromTheLeaf) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  for (uint16_t depth = 1; depth <= 3 * kNodeFrames; ++depth) {
    StackTrace trace{};
    for (trace.depth = 0; trace.depth < depth; ++trace.depth) trace.frames[trace.depth] = trace.depth + 10u;
    std::vector<TaggedPc> frames;
    for (Offset at = InternStack(table, trace)->leaf; at != 0; at = table->At<Node>(at)->parent) {
      const Node& node = *table->At<Node>(at);
      for (uint64_t i = 0; i < node.count; ++i) frames.push_back(node.frames[i]);
    }
    EXPECT_EQ(frames, std::vector<TaggedPc>(trace.frames, trace.frames + depth));
  }
}

TEST(StackTable, FullTableSpillsIntoOverflowAndCounts) {
  SharedTable* table = UseAnonymousTable((sizeof(TableHeader) + 16384 + 4095) / 4096 * 4096);
  ASSERT_TRUE(MakeSpecialStacks(table));
  Stack* stack = nullptr;
  for (TaggedPc pc = 1; pc < 2000; ++pc) stack = InternStack(table, Trace({pc}));
  EXPECT_EQ(table->OffsetOf(stack), table->header()->overflow_stack);
  EXPECT_GT(table->shard().stack_lost, 0u);
  Row* row = FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, 12);
  EXPECT_EQ(table->OffsetOf(row), table->header()->overflow_row[static_cast<int>(ProfileKind::kHeap)]);
  // What was there before is still found, not replaced.
  EXPECT_NE(table->OffsetOf(InternStack(table, Trace({1}))), table->header()->overflow_stack);
}

TEST(StackTable, WhatFindsTheTableFullIsCountedOnceAndAddedToOneRowOfEachKind) {
  SharedTable* table = UseAnonymousTable((sizeof(TableHeader) + 16384 + 4095) / 4096 * 4096);
  ASSERT_TRUE(MakeSpecialStacks(table));
  Stack* overflow = table->At<Stack>(table->header()->overflow_stack);
  for (int kind = 0; kind < kProfileKinds; ++kind) {
    Row* row = FindMarkedRow(table, overflow, static_cast<ProfileKind>(kind), 3, 7);
    EXPECT_EQ(table->OffsetOf(row), table->header()->overflow_row[kind]) << "while there is room for another one";
  }
  while (table->New<Offset>() != nullptr) {
  }
  const std::atomic<uint64_t>& lost = table->shard().stack_lost;
  TaggedPc pc = 0;
  for (int kind = 0; kind < kProfileKinds; ++kind) {
    for (int i = 0; i < 3; ++i) {
      const uint64_t before = lost;
      Stack* stack = InternStack(table, Trace({++pc}));
      Row* row = FindMarkedRow(table, stack, static_cast<ProfileKind>(kind), static_cast<uint8_t>(i), 7);
      EXPECT_EQ(table->OffsetOf(row), table->header()->overflow_row[kind]);
      EXPECT_EQ(lost, before + 1) << kind;
    }
  }
}

TEST(StackTable, AmongAMillionNodesEachIsThereOnce) {
  SharedTable* table = UseAnonymousTable(256 << 20);
  ASSERT_TRUE(MakeSpecialStacks(table));
  constexpr TaggedPc kNodes = 1'000'000;
  std::vector<std::thread> threads;
  std::vector<std::vector<Offset>> leaves(4);
  for (auto& of_thread : leaves) {
    // All of them all nodes, in the same order: so that they meet.
    threads.emplace_back([table, &of_thread] {
      for (TaggedPc pc = 1; pc <= kNodes; ++pc) of_thread.push_back(InternStack(table, Trace({pc, 3, 2, 1}))->leaf);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& of_thread : leaves) ASSERT_EQ(of_thread, leaves[0]);
  std::sort(leaves[0].begin(), leaves[0].end());
  EXPECT_EQ(std::unique(leaves[0].begin(), leaves[0].end()), leaves[0].end());
}

TEST(StackTable, RowsAreByKindWaitAndSizeClass) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  Stack* stack = InternStack(table, Trace({5}));
  std::set<Row*> rows;
  for (int round = 0; round < 2; ++round) {
    rows.insert(FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, 1));
    rows.insert(FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, 2));
    rows.insert(FindRow(table, stack, ProfileKind::kBlock, WaitKind::kMutex, 0));
    rows.insert(FindRow(table, stack, ProfileKind::kBlock, WaitKind::kFutex, 0));
  }
  EXPECT_EQ(rows.size(), 4u);
}

TEST(StackTable, AFullRowIsFollowedByAnotherAndNoSumBeginsAnew) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  Stack* stack = InternStack(table, Trace({5}));
  Row* first = FindRow(table, stack, ProfileKind::kBlock, WaitKind::kMutex, 0);
  first->sums[kDelay] = kFullSum - 1;
  EXPECT_EQ(FindRow(table, stack, ProfileKind::kBlock, WaitKind::kMutex, 0), first);
  AddTo(table, &first->sums[kDelay], 5);
  Row* second = FindRow(table, stack, ProfileKind::kBlock, WaitKind::kMutex, 0);
  EXPECT_NE(second, first);
  second->sums[kContentions] = kFullSum;
  EXPECT_NE(FindRow(table, stack, ProfileKind::kBlock, WaitKind::kMutex, 0), second);
  // Who has known the first one for long.
  first->sums[kDelay] = kMostSum - 1;
  for (int i = 0; i < 100; ++i) AddTo(table, &first->sums[kDelay], kFullSum / 100);
  EXPECT_GE(first->sums[kDelay], kMostSum);
  EXPECT_EQ(table->header()->losses[static_cast<int>(Loss::kSumFull)], 99u);
}

TEST(StackTable, TheOverflowRowIsFollowedByAnotherToo) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  Stack* overflow = table->At<Stack>(table->header()->overflow_stack);
  Row* first = FindRow(table, overflow, ProfileKind::kBlock, WaitKind::kMutex, 3);
  EXPECT_EQ(table->OffsetOf(first), table->header()->overflow_row[static_cast<int>(ProfileKind::kBlock)]);
  first->sums[kContentions] = kFullSum;
  Row* second = FindRow(table, overflow, ProfileKind::kBlock, WaitKind::kFutex, 0);
  EXPECT_NE(second, first);
  EXPECT_EQ(FindRow(table, overflow, ProfileKind::kBlock, WaitKind::kMutex, 0), second);
}

TEST(StackTable, FourThreadsAgreeOnStacksRowsAndSums) {
  SharedTable* table = UseAnonymousTable(64 << 20);
  ASSERT_TRUE(MakeSpecialStacks(table));
  constexpr int kStacks = 2000, kRounds = 20;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([table] {
      for (int round = 0; round < kRounds; ++round) {
        for (TaggedPc pc = 1; pc <= kStacks; ++pc) {
          Stack* stack = InternStack(table, Trace({pc, pc % 7, 1}));
          Row* row = FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, static_cast<uint16_t>(pc % 3));
          row->sums[kAllocObjects].fetch_add(uint64_t{1} << kCountFractionBits);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  // All heap rows are in the list of their own, once, and the overflow stack's; races may have left some that nobody uses.
  std::set<Offset> rows;
  for (const RecordShard& shard : table->header()->record_shards) {
    for (Offset at = shard.newest_row; at != 0; at = table->At<Row>(at)->older) {
      EXPECT_EQ(table->At<Row>(at)->profile, ProfileKind::kHeap);
      ASSERT_TRUE(rows.insert(at).second);
    }
  }
  EXPECT_TRUE(rows.contains(table->header()->overflow_row[static_cast<int>(ProfileKind::kHeap)]));
  size_t found = 0;
  for (TaggedPc pc = 1; pc <= kStacks; ++pc) {
    Stack* stack = InternStack(table, Trace({pc, pc % 7, 1}));
    found += rows.contains(stack->rows.load());
  }
  EXPECT_EQ(found, kStacks + 0u);
  for (TaggedPc pc = 1; pc <= kStacks; ++pc) {
    Stack* stack = InternStack(table, Trace({pc, pc % 7, 1}));
    EXPECT_EQ(Objects(FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, static_cast<uint16_t>(pc % 3))),
              4u * kRounds);
  }
}

TEST(LiveTable, WhatWasInsertedIsTakenOnce) {
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
  EXPECT_LE(table->header()->used, used + 3 * 2 * kLiveSlots0 * (8 + sizeof(LiveSample)) / kUnit)
      << "at most one level more";
}

TEST(LiveTable, FullTableRefuses) {
  SharedTable* table = UseAnonymousTable((sizeof(TableHeader) + 64 * 1024 + 4095) / 4096 * 4096);
  uintptr_t inserted = 0;
  while (inserted < 10'000 && InsertLive(table, (inserted + 1) * 16, {.size = 1, .row = 1}) >= 0) ++inserted;
  EXPECT_GE(inserted, kLiveSlots0 / 4);
  EXPECT_LE(inserted, kLiveSlots0);
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
