// Threads and exceptions in a table: slots of threads that live, types by their names, and what profiles make of both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "sampler/table/live_threads.h"
#include "sampler/table/stack_table.h"
#include "sampler/table/thrown_types.h"
#include "tests/unit/anonymous_table.h"

namespace holdfast {
namespace {

Row* ended_row = nullptr;
int ended = 0;
bool NobodyIsGone(uint32_t) { return false; }
bool OddOnesAreGone(uint32_t id) { return id % 2 == 1; }
void CountOne(Row* row) {
  ended_row = row;
  ++ended;
}

TEST(LiveThreads, EachHasASlotOfItsOwnUntilItEnds) {
  SharedTable* table = UseAnonymousTable();
  Row* row = table->New<Row>();
  std::set<uint32_t> numbers;
  for (uint32_t id = 1; id <= 1000; ++id) {
    const uint32_t number = TakeLiveThread(table, row, NobodyIsGone, CountOne);
    ASSERT_NE(number, kNoLiveThread);
    EXPECT_TRUE(numbers.insert(number).second);
    BeginLiveThread(LiveThreadAt(table, number), id, 77);
    EXPECT_EQ(FindLiveThread(table, id), number);
  }
  const uint32_t number = FindLiveThread(table, 500);
  const uint64_t who = LiveThreadAt(table, number)->who;
  EXPECT_EQ(who >> kNotedRowShift, table->OffsetOf(row));
  EXPECT_TRUE(EndLiveThread(LiveThreadAt(table, number), who));
  EXPECT_FALSE(EndLiveThread(LiveThreadAt(table, number), who)) << "it ends once";
  EXPECT_EQ(FindLiveThread(table, 500), kNoLiveThread);
}

TEST(LiveThreads, EndedThreadsMakeRoomBeforeTheTableGrows) {
  SharedTable* table = UseAnonymousTable();
  Row *first = table->New<Row>(), *second = table->New<Row>();
  for (uint32_t id = 1; id <= kThreadSlots0; ++id)
    BeginLiveThread(LiveThreadAt(table, TakeLiveThread(table, first, NobodyIsGone, CountOne)), id, 77);
  const uint32_t used = table->header()->used;
  ended = 0;
  for (uint32_t i = 0; i < kThreadSlots0 / 2; ++i) {
    const uint32_t number = TakeLiveThread(table, second, OddOnesAreGone, CountOne);
    ASSERT_NE(number, kNoLiveThread);
    EXPECT_EQ(ended_row, first);
    BeginLiveThread(LiveThreadAt(table, number), 2 * (kThreadSlots0 + i), 78);
  }
  EXPECT_EQ(ended, static_cast<int>(kThreadSlots0 / 2));
  EXPECT_EQ(table->header()->used, used);
}

TEST(LiveThreads, MoreThanThereIsRoomForAreCounted) {
  SharedTable* table = UseAnonymousTable();
  Row* row = table->New<Row>();
  for (uint32_t id = 1; id <= kMaxLiveThreads; ++id)
    BeginLiveThread(LiveThreadAt(table, TakeLiveThread(table, row, NobodyIsGone, CountOne)), id, 77);
  EXPECT_EQ(TakeLiveThread(table, row, NobodyIsGone, CountOne), kNoLiveThread);
  EXPECT_EQ(table->header()->losses[static_cast<int>(Loss::kThreadsFull)], 1u);
}

TEST(ThrownTypes, AreKnownByTheirNamesAndCopied) {
  SharedTable* table = UseAnonymousTable();
  std::string name = "St13runtime_error";
  const uint16_t number = NumberOfType(table, name.c_str());
  EXPECT_NE(number, 0);
  name[3] = '4';  // its module has gone
  EXPECT_NE(NumberOfType(table, name.c_str()), number);
  EXPECT_EQ(NumberOfType(table, "St13runtime_error"), number);
  EXPECT_EQ(NumberOfType(table, nullptr), 0);
}

TEST(ThrownTypes, TooManyBecomeOneAndAreCounted) {
  SharedTable* table = UseAnonymousTable();
  std::set<uint16_t> numbers;
  for (uint32_t i = 0; i < kMaxTypes; ++i) numbers.insert(NumberOfType(table, std::to_string(i).c_str()));
  EXPECT_EQ(numbers.size(), kMaxTypes);
  EXPECT_EQ(NumberOfType(table, "one more"), kTypeOverflow);
  EXPECT_EQ(table->header()->losses[static_cast<int>(Loss::kTypesFull)], 1u);
  EXPECT_TRUE(numbers.contains(NumberOfType(table, "17")));
}

TEST(ThrownTypes, ConcurrentThreadsGetOneNumberPerType) {
  SharedTable* table = UseAnonymousTable();
  constexpr int kThreads = 4, kTypes = 100;
  std::vector<std::vector<uint16_t>> found(kThreads);
  std::vector<std::thread> threads;
  for (auto& of_thread : found) {
    threads.emplace_back([&of_thread, table] {
      for (int i = 0; i < kTypes; ++i) of_thread.push_back(NumberOfType(table, std::to_string(i).c_str()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 1; i < kThreads; ++i) EXPECT_EQ(found[0], found[i]);
  EXPECT_EQ(std::set<uint16_t>(found[0].begin(), found[0].end()).size(), static_cast<size_t>(kTypes));
}

}  // namespace
}  // namespace holdfast
