// What is resident of blocks and of mappings: each byte in one row.
#include "report/observe/memory/resident_mappings.h"

#include <gtest/gtest.h>

#include <cmath>

#include "report/base/libc_names.h"
#include "report/observe/memory/resident_rows.h"
#include "tests/unit/made_pagemap.h"

namespace holdfast {
namespace {

constexpr Offset kBlocks = 1, kFirst = 10, kSecond = 11, kOther = 12;

class ResidentMappings : public ::testing::Test {
 protected:
  ResidentMappings() {
    // Two stacks on which the same function mapped, and one of another.
    AddRow(kFirst, {0x401000, 0x402000});
    AddRow(kSecond, {0x401000, 0x403000});
    AddRow(kOther, {0x404000});
  }
  void AddRow(Offset row, std::vector<TaggedPc> frames) {
    RowInfo info{};
    info.stack = static_cast<uint32_t>(snapshot_.stacks.size());
    info.profile = ProfileKind::kMap;
    info.place = row;
    snapshot_.rows.push_back(info);
    snapshot_.stacks.push_back({.frames = std::move(frames), .truncated = false, .overflow = false, .missing = false});
  }
  void Look() {
    PageTable pages = pagemap_.Pages();
    const Deadline by = Deadline::In(std::chrono::seconds(60));
    const auto shares = AddResidentRows(blocks_, &pages, by, &rows_);
    ASSERT_TRUE(shares.has_value());
    ASSERT_TRUE(AddResidentMappings(ranges_, libc_, {blocks_, *shares}, snapshot_, &pages, by, &rows_));
  }
  ResidentRow Of(Offset row) const {
    for (const ResidentRow& each : rows_) {
      if (each.row == row) return each;
    }
    return {};
  }

  MadePagemap pagemap_;
  std::vector<LiveBlock> blocks_;
  std::vector<OwnRange> ranges_;
  std::vector<LibcRanges> libc_;
  TableSnapshot snapshot_{};
  std::vector<ResidentRow> rows_;
};

TEST_F(ResidentMappings, PiecesAreOneObjectAndSwappedIsApart) {
  pagemap_.Set(0x1000000, MadePagemap::kHere, 5);
  pagemap_.Set(0x1005000, MadePagemap::kSwapped, 3);
  pagemap_.Set(0x1010000, MadePagemap::kHere, 16);
  ranges_ = {{0x1000000, 0x1008000, false, kFirst, 7},
             {0x1010000, 0x1018000, false, kFirst, 7},
             {0x1018000, 0x1020000, false, kSecond, 8}};
  Look();
  EXPECT_EQ(Of(kFirst).objects, 1);
  EXPECT_EQ(Of(kFirst).bytes, 16.0 * kPage);
  EXPECT_EQ(Of(kFirst).resident, 13.0 * kPage);
  EXPECT_EQ(Of(kFirst).swapped, 3.0 * kPage);
  EXPECT_EQ(Of(kSecond).resident, 8.0 * kPage);
  EXPECT_FALSE(Of(kFirst).has_blocks);
}

TEST_F(ResidentMappings, MemoryOfBlocksIsNotCountedTwice) {
  pagemap_.Set(0x1000000, MadePagemap::kHere, 8);
  pagemap_.Set(0x1008000, MadePagemap::kSwapped, 8);
  ranges_ = {{0x1000000, 0x1010000, false, kFirst, 7}, {0x1020000, 0x1030000, false, kOther, 8}};
  // The second lies on both, the third begins before the other mapping and reaches into it.
  blocks_ = {{0x1000010, 4000, 1, kBlocks}, {0x1007000, 2 * kPage, 1, kBlocks}, {0x101f000, 2 * kPage, 1, kBlocks}};
  Look();
  EXPECT_EQ(Of(kBlocks).bytes, 4000 + 4.0 * kPage);
  EXPECT_EQ(Of(kBlocks).resident, 4000 + 1.0 * kPage);
  EXPECT_EQ(Of(kBlocks).swapped, 1.0 * kPage);
  EXPECT_EQ(Of(kFirst).bytes, 14.0 * kPage - 4000);
  EXPECT_EQ(Of(kFirst).resident, 7.0 * kPage - 4000);
  EXPECT_EQ(Of(kFirst).swapped, 7.0 * kPage);
  EXPECT_TRUE(Of(kFirst).has_blocks);
  EXPECT_EQ(Of(kOther).bytes, 15.0 * kPage);
}

// An allocator in the program maps chunk by chunk on different stacks. All chunks are full of blocks, but only one block was sampled.
TEST_F(ResidentMappings, AnOverestimateOfARowIsTakenFromItsFunction) {
  pagemap_.Set(0x1000000, MadePagemap::kHere, 64);
  ranges_ = {{0x1000000, 0x1010000, false, kFirst, 7},
             {0x1010000, 0x1020000, false, kSecond, 8},
             {0x1020000, 0x1040000, false, kOther, 9}};
  blocks_ = {{0x1000000, 8 * kPage, 32 * kPage, kBlocks}};
  Look();
  const double p = 1 - std::exp(-8.0 / 32), stands_for = 8 * kPage / p;
  ASSERT_GT(stands_for, 32.0 * kPage);
  EXPECT_EQ(Of(kFirst).resident, 0);
  EXPECT_EQ(Of(kSecond).resident, 0);
  EXPECT_TRUE(Of(kSecond).has_blocks) << "an estimate, too";
  EXPECT_EQ(Of(kOther).resident, 32.0 * kPage) << "another function's are exact";
  EXPECT_FALSE(Of(kOther).has_blocks);
}

TEST_F(ResidentMappings, TheSumOfAFunctionStays) {
  pagemap_.Set(0x1000000, MadePagemap::kHere, 32);
  ranges_ = {{0x1000000, 0x1004000, false, kFirst, 7}, {0x1004000, 0x1020000, false, kSecond, 8}};
  blocks_ = {{0x1000000, 4 * kPage, 8 * kPage, kBlocks}};  // represents 10.2 pages, but the mapping has 4
  Look();
  EXPECT_EQ(Of(kFirst).resident, 0);
  EXPECT_NEAR(Of(kBlocks).resident + Of(kSecond).resident, 32.0 * kPage, 1);
  EXPECT_TRUE(Of(kSecond).has_blocks);
}

TEST_F(ResidentMappings, LibcsOwnAreBesideThem) {
  pagemap_.Set(0x1000000, MadePagemap::kHere, 16);
  libc_ = {{.name = kGlibcHeap, .kind = MappingKind::kBrk, .mappings = 1, .ranges = {{0x1000000, 0x1010000}}}};
  blocks_ = {{0x1000010, 5000, 1, kBlocks}};
  Look();
  const ResidentRow& heap = rows_.back();
  EXPECT_STREQ(heap.libc, "[glibc heap]");
  EXPECT_EQ(heap.objects, 1);
  EXPECT_EQ(heap.resident, 16.0 * kPage - 5000);
  EXPECT_TRUE(heap.has_blocks);
}

TEST_F(ResidentMappings, OverlapsAreCountedOnce) {
  pagemap_.Set(0x1000000, MadePagemap::kHere, 16);
  ranges_ = {{0x1000000, 0x1008000, false, kFirst, 7}, {0x1004000, 0x1010000, false, kOther, 8}};
  Look();
  EXPECT_EQ(Of(kFirst).resident + Of(kOther).resident, 16.0 * kPage);
}

TEST_F(ResidentMappings, AfterItsTimeNothingIsAdded) {
  ranges_ = {{0x1000000, 0x1008000, false, kFirst, 7}};
  PageTable pages = pagemap_.Pages();
  EXPECT_FALSE(AddResidentMappings(ranges_, {}, {blocks_, {}}, snapshot_, &pages,
                                   Deadline::In(std::chrono::seconds(-1)), &rows_));
  EXPECT_TRUE(rows_.empty());
}

}  // namespace
}  // namespace holdfast
