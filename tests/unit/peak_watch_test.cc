#include "report/observe/peak/peak_watch.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <random>

#include "report/observe/peak/heap_course.h"
#include "report/observe/peak/heap_rows.h"
#include "sampler/contract/attach_call.h"
#include "tests/unit/fake_target.h"
#include "tests/unit/made_table.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using testing::MadeTable;
using testing::TablesFolder;

class PeakTest : public ::testing::Test {
 protected:
  TableFile Write() {
    table_.WriteTo(folder_.File(kName));
    return TableFile::Open(OpenFolder(folder_.path()).value(), kName).value();
  }
  // `allocated` blocks of 100 bytes at `stack`, the row's own.
  Offset AddRow(Offset stack, uint64_t allocated, uint64_t freed) {
    const Offset row = table_.AddHeapRow(stack, 100, allocated, freed);
    std::atomic<Offset>& newest = table_.head().record_shards[rows_++ % kCounterShards].newest_row;
    table_.At<Row>(row).older = newest;
    newest = row;
    return row;
  }
  void SetInUse(uint64_t bytes) { table_.head().in_use.now = bytes << kAmountFractionBits; }
  void SetHighest(uint64_t bytes) { table_.head().in_use.highest = bytes << kAmountFractionBits; }
  void SetThread(int owner, uint64_t limit, uint64_t room) {
    ThreadInUse& thread = table_.head().in_use_of[owner];
    thread.limit = limit << kAmountFractionBits;
    thread.room = room << kAmountFractionBits;
  }
  // After the time that reading the rows once costs, so often the next one waits.
  static void LookWhenItMay(const TableFile& file, PeakWatch* watch) {
    const PeakState before = watch->state();
    for (int i = 0; i < 200 && watch->state().bytes == before.bytes; ++i) {
      usleep(5000);
      watch->Look(file);
    }
  }
  static std::vector<std::pair<Offset, uint64_t>> BytesOf(const PeakState& state) {
    std::vector<std::pair<Offset, uint64_t>> rows;
    for (const RowInUse& row : state.rows) rows.emplace_back(row.row, row.bytes >> kAmountFractionBits);
    return rows;
  }

  static constexpr char kName[] = "holdfast.0.4242.1.0000000000000001.table";
  MadeTable table_;
  TablesFolder folder_;
  int rows_ = 0;
};

TEST_F(PeakTest, HeapRowsOfAllStacksAreFoundAndNoOthers) {
  const Offset one = table_.AddStack({0x1000}), two = table_.AddStack({0x2000}), missing = table_.MakeStack({});
  table_.head().missing_stack = missing;
  const Offset first = AddRow(one, 5, 2), second = AddRow(two, 7, 0), none = AddRow(two, 4, 4),
               third = AddRow(missing, 1, 0);
  table_.AddRow(one, ProfileKind::kBlock, WaitKind::kMutex, 0, {1 << 20, 1 << 20});
  const Offset fourth = AddRow(two, 9, 0);
  table_.At<Row>(fourth).owner = 1;
  table_.At<Row>(fourth).sums[kFreeObjectsByOthers] = uint64_t{2} << kCountFractionBits;
  table_.At<Row>(fourth).sums[kFreeSpaceByOthers] = uint64_t{200} << kAmountFractionBits;
  const TableFile file = Write();
  HeapRows rows;
  std::vector<RowInUse> in_use;
  uint64_t bytes;
  ASSERT_TRUE(rows.Follow(file.descriptor()));
  ASSERT_TRUE(rows.Read(file.descriptor(), &in_use, &bytes));
  EXPECT_EQ(bytes >> kAmountFractionBits, 300u + 700 + 100 + 700);
  PeakState state;
  state.rows = in_use;
  EXPECT_THAT(BytesOf(state), ElementsAre(std::pair(first, 300), std::pair(second, 700), std::pair(third, 100),
                                          std::pair(fourth, 700)));
  EXPECT_NE(none, 0u);
}

TEST_F(PeakTest, NewRowsAreAddedToTheKnownOnes) {
  const Offset stack = table_.AddStack({0x1000});
  AddRow(stack, 1, 0);
  HeapRows rows;
  std::vector<RowInUse> in_use;
  uint64_t bytes;
  ASSERT_TRUE(rows.Follow(Write().descriptor()));
  ASSERT_TRUE(rows.Read(Write().descriptor(), &in_use, &bytes));
  EXPECT_EQ(in_use.size(), 1u);
  AddRow(stack, 2, 0);
  AddRow(stack, 3, 0);
  ASSERT_TRUE(rows.Follow(Write().descriptor()));
  ASSERT_TRUE(rows.Read(Write().descriptor(), &in_use, &bytes));
  EXPECT_EQ(in_use.size(), 3u);
}

TEST_F(PeakTest, TheHighestStateIsKeptAndALowerOneIsNot) {
  const Offset stack = table_.AddStack({0x1000});
  const Offset row = AddRow(stack, 50, 0);
  SetInUse(5000);
  PeakWatch watch;
  watch.Look(Write());
  EXPECT_THAT(BytesOf(watch.state()), ElementsAre(std::pair(row, 5000)));
  table_.At<Row>(row).sums[kAllocSpace] = uint64_t{9000} << kAmountFractionBits;
  SetInUse(9000);
  LookWhenItMay(Write(), &watch);
  EXPECT_THAT(BytesOf(watch.state()), ElementsAre(std::pair(row, 9000)));
  table_.At<Row>(row).sums[kFreeSpace] = uint64_t{4000} << kAmountFractionBits;
  SetInUse(5000);
  const TableFile file = Write();
  for (int i = 0; i < 20; ++i) watch.Look(file);
  EXPECT_THAT(BytesOf(watch.state()), ElementsAre(std::pair(row, 9000)));
}

// By less than what is not worth a look while one goes up: there was less between the two.
TEST_F(PeakTest, AnotherPeakThatIsALittleHigherIsKept) {
  const Offset stack = table_.AddStack({0x1000});
  const Offset first = AddRow(stack, 100, 0);
  SetInUse(10000);
  PeakWatch watch;
  watch.Look(Write());
  EXPECT_THAT(BytesOf(watch.state()), ElementsAre(std::pair(first, 10000)));
  table_.At<Row>(first).sums[kFreeSpace] = uint64_t{9800} << kAmountFractionBits;
  SetInUse(200);
  watch.Look(Write());
  const Offset second = AddRow(stack, 98, 0);
  table_.At<Row>(second).sums[kAllocSpace] = uint64_t{9850} << kAmountFractionBits;
  SetInUse(10050);
  LookWhenItMay(Write(), &watch);
  EXPECT_THAT(BytesOf(watch.state()), ElementsAre(std::pair(first, 200), std::pair(second, 9850)));
}

// Reading many rows takes long, and is put off as long as what is in use goes up: not where it stays.
TEST_F(PeakTest, AStateThatLastsIsReadAtOnceAlsoWhereRowsAreMany) {
  const Offset stack = table_.AddStack({0x1000});
  for (int i = 0; i < 5000; ++i) AddRow(stack, 1, 0);
  const Offset row = AddRow(stack, 1, 0);
  SetInUse(500'100);
  PeakWatch watch;
  watch.Look(Write());
  EXPECT_EQ(watch.state().bytes >> kAmountFractionBits, 500'100u);
  for (uint64_t bytes : {600'000, 700'000}) {
    table_.At<Row>(row).sums[kAllocSpace] = (bytes - 500'000) << kAmountFractionBits;
    SetInUse(bytes);
    const TableFile file = Write();
    watch.Look(file);
    watch.Look(file);
    EXPECT_EQ(watch.state().bytes >> kAmountFractionBits, bytes);
  }
}

// Where every allocation is recorded.
TEST_F(PeakTest, MemoryOfThreadsIsAddedUp) {
  const Offset row = AddRow(table_.AddStack({0x1000}), 50, 0);
  table_.At<Row>(row).owner = 3;
  TableHeader& head = table_.head();
  head.in_use.shadow = 12345;  // nobody follows it
  SetInUse(1000);
  SetThread(0, 500, 600);
  SetThread(3, 9000, 3900);
  SetHighest(6000);
  PeakWatch watch;
  watch.Look(Write());
  EXPECT_EQ(watch.in_use().value_or(0) >> kAmountFractionBits, 6000u);
  EXPECT_TRUE(watch.is_exact());
  EXPECT_EQ(watch.state().bytes >> kAmountFractionBits, 5000u);
}

// One block at a time, read while the next one comes: two.
TEST_F(PeakTest, AStateThatHoldsMoreThanEverWasInUseIsNotKept) {
  const Offset row = AddRow(table_.AddStack({0x1000}), 2, 0);
  table_.At<Row>(row).owner = 1;
  table_.head().in_use.shadow = 12345;
  SetThread(1, 100, 0);
  SetHighest(100);
  PeakWatch watch;
  watch.Look(Write());
  EXPECT_EQ(watch.state().bytes, 0u);
  const auto snapshot = ReadSnapshot(table_.bytes(), table_.size(), 77);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  watch.Consider(*snapshot);
  EXPECT_EQ(watch.state().bytes, 0u);
  table_.At<Row>(row).sums[kFreeSpace] = uint64_t{100} << kAmountFractionBits;
  LookWhenItMay(Write(), &watch);
  EXPECT_EQ(watch.state().bytes >> kAmountFractionBits, 100u);
}

TEST_F(PeakTest, TheMostThatMayHaveBeenInUseIsKnownWhereEveryAllocationIsRecorded) {
  const auto most = [this] {
    const auto snapshot = ReadSnapshot(table_.bytes(), table_.size(), 77);
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    return snapshot->most_bytes;
  };
  SetHighest(500);
  table_.head().in_use.most = uint64_t{600} << kAmountFractionBits;
  EXPECT_EQ(most(), std::nullopt);
  table_.head().in_use.shadow = 12345;
  EXPECT_EQ(most(), 600);
  SetHighest(700);
  EXPECT_EQ(most(), 700) << "never less than the height";
}

TEST_F(PeakTest, ReadingASnapshotCountsAsALook) {
  const Offset stack = table_.AddStack({0x1000});
  const Offset row = AddRow(stack, 50, 20);
  const auto snapshot = ReadSnapshot(table_.bytes(), table_.size(), 77);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  PeakWatch watch;
  watch.Consider(*snapshot);
  EXPECT_THAT(BytesOf(watch.state()), ElementsAre(std::pair(row, 3000)));
  EXPECT_EQ(watch.state().wall_ns, 77);
}

TEST_F(PeakTest, EachRowKnowsHowMuchOfTheStateRemains) {
  const Offset stack = table_.AddStack({0x1000});
  const Offset first = AddRow(stack, 100, 0), both = AddRow(stack, 10, 0);
  const auto consider = [&](PeakWatch* watch) {
    const auto snapshot = ReadSnapshot(table_.bytes(), table_.size(), 77);
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    return watch->Consider(*snapshot) >> kAmountFractionBits;
  };
  PeakWatch watch;
  EXPECT_EQ(consider(&watch), 11000u);
  AddRow(stack, 99, 0);
  table_.At<Row>(first).sums[kFreeSpace] = uint64_t{10000} << kAmountFractionBits;
  table_.At<Row>(first).sums[kFreeObjects] = uint64_t{100} << kCountFractionBits;
  EXPECT_EQ(consider(&watch), 1000u) << "nearly as much is in use, of other rows";
  EXPECT_THAT(BytesOf(watch.state()), ::testing::UnorderedElementsAre(std::pair(first, 10000), std::pair(both, 1000)));
}

TEST_F(PeakTest, AnInconsistentTableIsReadToTheEnd) {
  std::vector<Offset> stacks;
  for (uint64_t i = 0; i < 200; ++i) stacks.push_back(table_.AddStack({0x1000 + i * 16}));
  for (const Offset stack : stacks) AddRow(stack, 5, 2);
  std::mt19937_64 random(1);
  char* const bytes = reinterpret_cast<char*>(&table_.head());
  const std::string honest(bytes, table_.size());
  for (int round = 0; round < 500; ++round) {
    memcpy(bytes, honest.data(), honest.size());
    for (int i = 0; i < 20; ++i) {
      // Records, or the line that is looked at.
      const uint64_t line = offsetof(TableHeader, in_use);
      const uint64_t at = i % 4 == 0 ? line + random() % sizeof(HeapInUse)
                                     : sizeof(TableHeader) + random() % (honest.size() - sizeof(TableHeader));
      const uint64_t value = random() % 2 == 0 ? random() : stacks[random() % stacks.size()];
      memcpy(bytes + at / 4 * 4, &value, 4);
    }
    SetInUse(random() >> 8);
    PeakWatch().Look(Write());
  }
  table_.head().used = table_.head().backed = 0xffffffff;
  PeakWatch().Look(Write());
}

// ---- The course of an exact run ----

class CourseTest : public PeakTest {
 protected:
  // Looks when the next moment is due, whatever reading cost.
  void LookAgain() { course_.LookAt(Write(), now_ns_ += kSecond); }

  HeapCourse course_;
  int64_t now_ns_ = kSecond;
};

TEST_F(CourseTest, HasWhatEachRowHadAllocatedAndFreed) {
  const Offset stack = table_.AddStack({0x1000});
  const Offset first = AddRow(stack, 5, 2);
  course_.LookAt(Write(), now_ns_);
  EXPECT_TRUE(course_.moments().empty()) << "the first moment is one period later";
  LookAgain();
  table_.At<Row>(first).sums[kAllocObjects] = uint64_t{9} << kCountFractionBits;
  table_.At<Row>(first).sums[kAllocSpace] = uint64_t{900} << kAmountFractionBits;
  const Offset second = AddRow(stack, 1, 0);
  table_.At<Row>(second).owner = 1;
  table_.At<Row>(second).sums[kFreeObjectsByOthers] = uint64_t{1} << kCountFractionBits;
  table_.At<Row>(second).sums[kFreeSpaceByOthers] = uint64_t{100} << kAmountFractionBits;
  LookAgain();
  ASSERT_EQ(course_.moments().size(), 2u);
  const auto sums_of = [](const HeapMoment& moment) {
    std::vector<std::vector<uint64_t>> sums;
    for (const RowSums& row : moment.rows)
      sums.push_back({row.row, row.allocated_objects, row.allocated_bytes, row.freed_objects, row.freed_bytes});
    return sums;
  };
  using Sums = std::vector<uint64_t>;
  EXPECT_THAT(sums_of(course_.moments()[0]), ElementsAre(Sums{first, 5, 500, 2, 200}));
  EXPECT_THAT(sums_of(course_.moments()[1]), ElementsAre(Sums{first, 9, 900, 2, 200}, Sums{second, 1, 100, 1, 100}));
}

// The table of an attached process lacks what was allocated before.
TEST_F(CourseTest, AttachedProcessesHaveNone) {
  AddRow(table_.AddStack({0x1000}), 1, 0);
  table_.head().profiles |= kAttachedBit;
  course_.LookAt(Write(), now_ns_);
  LookAgain();
  LookAgain();
  EXPECT_TRUE(course_.moments().empty());
}

// The table of a forked child lacks what the child inherits and frees.
TEST_F(CourseTest, ForkedChildrenHaveNone) {
  AddRow(table_.AddStack({0x1000}), 1, 0);
  table_.head().forked = 1;
  course_.LookAt(Write(), now_ns_);
  LookAgain();
  EXPECT_TRUE(course_.moments().empty());
}

TEST_F(CourseTest, StopsBeforeItReadsTooManyRows) {
  table_ = testing::MadeTable(16 << 20);
  const Offset stack = table_.AddStack({0x1000});
  const size_t most = HeapCourse::kMaxRows / HeapCourse::kMinMoments;
  AddRow(stack, 1, 0);
  course_.LookAt(Write(), now_ns_);
  LookAgain();
  ASSERT_EQ(course_.moments().size(), 1u);
  for (size_t i = 0; i < most; ++i) AddRow(stack, 1, 0);
  LookAgain();
  EXPECT_TRUE(course_.moments().empty());
  LookAgain();
  EXPECT_TRUE(course_.moments().empty()) << "it does not begin again";
}

// A read that fails is tried again one period later, not at each look.
TEST_F(CourseTest, AFailedReadIsNotRetriedAtOnce) {
  AddRow(table_.AddStack({0x1000}), 1, 0);
  course_.LookAt(Write(), now_ns_);
  {
    const TableFile table = Write();
    ASSERT_EQ(truncate(folder_.File(kName).c_str(), 0), 0);
    course_.LookAt(table, now_ns_ += kSecond);
  }
  const TableFile whole = Write();
  course_.LookAt(whole, now_ns_ + HeapCourse::kFirstPeriod / 2);
  EXPECT_TRUE(course_.moments().empty());
  course_.LookAt(whole, now_ns_ + HeapCourse::kFirstPeriod);
  EXPECT_EQ(course_.moments().size(), 1u);
}

TEST_F(CourseTest, CoversTheWholeLifeWithABoundedNumberOfMoments) {
  const Offset row = AddRow(table_.AddStack({0x1000}), 1, 0);
  for (uint64_t i = 1; i <= 500; ++i) {
    table_.At<Row>(row).sums[kAllocObjects] = i << kCountFractionBits;
    LookAgain();
  }
  ASSERT_GE(course_.moments().size(), HeapCourse::kMaxMoments / 2);
  ASSERT_LE(course_.moments().size(), HeapCourse::kMaxMoments);
  uint64_t before = 0;
  for (const HeapMoment& moment : course_.moments()) {
    ASSERT_EQ(moment.rows.size(), 1u);
    // A look a second is slower than the first periods, so the early gaps become the longest.
    EXPECT_LE(moment.rows[0].allocated_objects - before, 100u);
    before = moment.rows[0].allocated_objects;
  }
  EXPECT_GE(before, 440u);
  course_.Stop();
  LookAgain();
  EXPECT_TRUE(course_.moments().empty());
}

}  // namespace
}  // namespace holdfast
