// The shadow map, as those who allocate and free write it and as readers find it.
#include "sampler/table/shadow_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "sampler/contract/pool_blocks.h"
#include "sampler/contract/weight.h"
#include "sampler/record/exact.h"
#include "tests/unit/anonymous_table.h"

namespace holdfast {
namespace {

constexpr uintptr_t kChunkBytes = uintptr_t{1} << kShadowShift;
constexpr uintptr_t kStart = 100 * kChunkBytes;

class ShadowMap : public ::testing::Test {
 protected:
  ShadowMap() {
    ForgetShadow();
    table_ = UseAnonymousTable(64 << 20);
    begun_ = BeginShadow(table_);
  }
  ~ShadowMap() override { ForgetShadow(); }
  void SetUp() override { ASSERT_TRUE(begun_); }

  std::atomic<uint32_t>* WordOf(uintptr_t address) { return MakeShadowWord(table_, shadow_directory.load(), address); }
  Offset RowOf(uint64_t bytes) {
    auto* row = table_->New<Row>();
    row->size_class = static_cast<uint16_t>(SizeClass(bytes));
    for (const uint64_t of : {bytes, bytes - 2}) AddOwnAlloc(table_, thread_state, row, of);  // on average one less
    return table_->OffsetOf(row);
  }
  Shadowed Take(uintptr_t address) { return TakeExact(table_, reinterpret_cast<const void*>(address)); }
  Offset Put(uintptr_t address, uint64_t bytes) {
    const Offset row = RowOf(bytes);
    PutShadow(WordOf(address), row, bytes);
    return row;
  }
  // As a reader of the table finds it.
  std::optional<uint32_t> BytesRead(uintptr_t address) {
    const std::atomic<uint32_t>* word = WordOf(address);
    if (!IsShadowedRow(word[0])) return std::nullopt;
    return CheckedShadowedBytes(table_->At<Row>(word[0])->size_class, word[1]);
  }

  SharedTable* table_;
  bool begun_;
};

TEST_F(ShadowMap, SmallBlocksHaveAWordEach) {
  std::vector<Offset> rows(kShadowGrain);
  // The neighbour before it comes later, and after it there is none yet.
  for (uintptr_t bytes = kShadowGrain; bytes >= 1; --bytes) rows[bytes - 1] = Put(kStart + bytes * kShadowGrain, bytes);
  for (const bool again : {false, true}) {
    for (uintptr_t bytes = 1; bytes <= kShadowGrain; ++bytes) {
      const uintptr_t address = kStart + bytes * kShadowGrain;
      EXPECT_EQ(BytesRead(address), again ? std::nullopt : std::optional<uint32_t>(bytes));
      const Shadowed taken = Take(address);
      EXPECT_EQ(taken.row, again ? 0 : rows[bytes - 1]);
      if (!again) EXPECT_EQ(taken.bytes, bytes);
    }
  }
}

// Also in the last word of a chunk: the next chunk belongs to another block, or was never made.
TEST_F(ShadowMap, LargerBlocksHaveTheirSizeInTheSecond) {
  for (const uint64_t bytes : {17ul, 18ul, 19ul, 100ul, 1024ul, 1025ul, uint64_t{kLargestShadowed}}) {
    for (const uintptr_t address : {kStart, kStart + kChunkBytes - kShadowGrain}) {
      const Offset row = Put(address, bytes);
      EXPECT_EQ(BytesRead(address), bytes);
      EXPECT_EQ(Take(address + kShadowGrain).row, 0u) << "no block begins in it";
      const Shadowed taken = Take(address);
      EXPECT_EQ(taken.row, row);
      EXPECT_EQ(taken.bytes, bytes);
      EXPECT_EQ(Take(address).row, 0u);
    }
  }
}

// A block of the program's own pool has a key of its own, also at an address with bit 47 (arm64).
TEST_F(ShadowMap, TheKeyOfAPoolBlockFitsAndLeadsBack) {
  static std::vector<uintptr_t> visited;
  for (const uintptr_t address : {0x5555aaaa1230u, 0x7ffff7fe0018u, 0xaaaaec123450u, 0xffff8bfe0018u}) {
    EXPECT_EQ(AddressOfBlock(address), address);
    const uintptr_t key = KeyOfPoolBlock(address);
    EXPECT_NE(key, address);
    EXPECT_EQ(AddressOfBlock(key), address);
    Put(key, 24);
    visited.clear();
    VisitShadow(table_, [](SharedTable*, uintptr_t block) { visited.push_back(AddressOfBlock(block)); });
    EXPECT_THAT(visited, ::testing::ElementsAre(address));
    EXPECT_EQ(Take(key).bytes, 24u);
  }
}

// Where a larger one lay, small ones may follow, and the other way round.
TEST_F(ShadowMap, ASizeThatIsLeftBehindIsNoBlock) {
  const uintptr_t second = kStart + kShadowGrain;
  Put(kStart, 32);
  Take(kStart);
  EXPECT_FALSE(IsShadowedRow(WordOf(second)->load()));
  const Offset small = Put(kStart, 16), other = Put(second, 8);
  EXPECT_EQ(BytesRead(kStart), 16u);
  EXPECT_EQ(BytesRead(second), 8u);
  EXPECT_EQ(Take(second).row, other);
  EXPECT_EQ(BytesRead(kStart), 16u);
  EXPECT_EQ(Take(kStart).row, small);
  Put(kStart, 30);
  EXPECT_EQ(BytesRead(kStart), 30u);
}

TEST_F(ShadowMap, APutBackBlockIsUnchanged) {
  for (const uint64_t bytes : {9ul, 90ul}) {
    const Offset row = Put(kStart, bytes);
    PutBackExact(table_, Take(kStart), reinterpret_cast<const void*>(kStart));
    EXPECT_EQ(BytesRead(kStart), bytes);
    const Shadowed taken = Take(kStart);
    EXPECT_EQ(taken.row, row);
    EXPECT_EQ(taken.bytes, bytes);
  }
}

// Another allocator's free, say. The block that follows in a part of its place is as it should be, and so is its neighbour.
TEST_F(ShadowMap, ABlockWithAnUnseenFreeHasAboutItsSize) {
  for (const uint64_t bytes : {20ul, 500ul}) {
    const Offset row = Put(kStart, bytes), other = Put(kStart + kShadowGrain, 8);
    EXPECT_EQ(BytesRead(kStart), std::nullopt);
    const Shadowed taken = Take(kStart);
    EXPECT_EQ(taken.row, row);
    EXPECT_EQ(taken.bytes, bytes - 1) << "as those of its row are on average";
    EXPECT_EQ(Take(kStart + kShadowGrain).row, other);
  }
}

// One that begins in its place, or 16 bytes before it. In the second 16 bytes of one of up to 16 bytes another may begin.
TEST_F(ShadowMap, ABlockWithAnUnseenFreeIsFoundByTheNextOne) {
  for (const uintptr_t before : {uintptr_t{0}, uintptr_t{kShadowGrain}}) {
    const uintptr_t second = kStart + before;
    const Offset stale = Put(second, 16);
    EXPECT_FALSE(IsFreeShadow(WordOf(kStart), 17));
    EXPECT_EQ(IsFreeShadow(WordOf(kStart), 16), before != 0);
    EXPECT_EQ(Take(second).row, stale) << "it is untouched";
    EXPECT_TRUE(IsFreeShadow(WordOf(kStart), 17));
  }
}

TEST(ShadowedBytes, BytesOfTwoBlocksAreUnknown) {
  const auto class_of = [](uint64_t bytes) { return static_cast<uint32_t>(SizeClass(bytes)); };
  EXPECT_EQ(CheckedShadowedBytes(class_of(100), kShadowSize + 100), 100u);
  EXPECT_EQ(CheckedShadowedBytes(class_of(100), kShadowSize + 200), std::nullopt);
  EXPECT_EQ(CheckedShadowedBytes(class_of(100), 0), std::nullopt) << "freed";
  EXPECT_EQ(CheckedShadowedBytes(class_of(100), 100), std::nullopt) << "a row";
  EXPECT_EQ(CheckedShadowedBytes(class_of(7), kShadowSize + 100), 7u);
  EXPECT_EQ(CheckedShadowedBytes(UINT32_MAX, kShadowSize + 100), std::nullopt) << "of a row that cannot be read";
}

TEST(ShadowedBytes, BlocksOfARowOfAllSizesAreInTheSecondWord) {
  for (const uint32_t bytes : {17u, 100u, uint32_t{kLargestShadowed}}) {
    EXPECT_EQ(ShadowedBytes(kNoSizeClass, ShadowedSize(bytes)), bytes);
    EXPECT_EQ(CheckedShadowedBytes(kNoSizeClass, ShadowedSize(bytes)), bytes);
  }
  EXPECT_EQ(CheckedShadowedBytes(kNoSizeClass, 100), std::nullopt) << "a row";
}

// Else a row far behind looked like a size.
TEST(ShadowMapOfALargeTable, DoesNotExist) {
  ForgetShadow();
  SharedTable* table = UseAnonymousTable();
  table->header()->cap_bytes = uint64_t{kShadowSize} * kUnit + 4096;
  EXPECT_FALSE(BeginShadow(table));
  table->header()->cap_bytes = uint64_t{kShadowSize} * kUnit;
  EXPECT_TRUE(BeginShadow(table));
  ForgetShadow();
}

}  // namespace
}  // namespace holdfast
