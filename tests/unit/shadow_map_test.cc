// The shadow map, as those who allocate and free write it and as readers find it.
#include "sampler/table/shadow_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>
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
  ~ShadowMap() override {
    ForgetShadow();
    other_allocators = kOtherMalloc;
  }
  void SetUp() override { ASSERT_TRUE(begun_); }

  std::atomic<uint32_t>* WordOf(uintptr_t address) { return MakeShadowWord(table_, shadow_directory.load(), address); }
  // The word that a block of `bytes` has: a tiny one's is elsewhere.
  std::atomic<uint32_t>* WordOf(uintptr_t address, uint64_t bytes) {
    return IsTiny(address, bytes) ? MakeTinyWord(table_, shadow_directory.load(), address) : WordOf(address);
  }
  Offset RowOf(uint64_t bytes) {
    auto* row = table_->New<Row>();
    row->size_class = static_cast<uint16_t>(SizeClass(bytes));
    for (const uint64_t of : {bytes, bytes - 2}) AddOwnAlloc(table_, thread_state, row, of);  // on average one less
    return table_->OffsetOf(row);
  }
  Shadowed Take(uintptr_t address) { return TakeExact(table_, reinterpret_cast<const void*>(address)); }
  Offset Put(uintptr_t address, uint64_t bytes) {
    const Offset row = RowOf(bytes);
    PutShadow(WordOf(address, bytes), row, address, bytes);
    return row;
  }
  // As a reader of the table finds it.
  std::optional<uint32_t> BytesRead(uintptr_t address) {
    const std::atomic<uint32_t>* word = WordOfBlock(table_, shadow_directory.load(), address);
    if (word == nullptr) return std::nullopt;
    const uint32_t size_class = table_->At<Row>(ShadowedRow(word[0]))->size_class;
    return CheckedShadowedBytes(size_class, size_class > kLargestOwnClass ? word[1].load() : 0);
  }
  void ExpectTaken(uintptr_t address, Offset row, uint64_t bytes) {
    EXPECT_EQ(BytesRead(address), bytes);
    const Shadowed taken = Take(address);
    EXPECT_EQ(taken.row, row);
    EXPECT_EQ(taken.bytes, bytes);
    EXPECT_EQ(BytesRead(address), std::nullopt);
    EXPECT_EQ(Take(address).row, 0u) << "it is gone";
  }
  static std::vector<uintptr_t>& Visited(SharedTable* table) {
    static std::vector<uintptr_t> visited;
    visited.clear();
    VisitShadow(table, [](SharedTable*, uintptr_t block) { visited.push_back(AddressOfBlock(block)); });
    return visited;
  }

  SharedTable* table_;
  bool begun_;
};

// glibc's smallest chunk has 32 bytes, and a block may begin in either half of a word's bytes.
TEST_F(ShadowMap, SmallBlocksHaveAWordEach) {
  other_allocators = 0;
  std::vector<Offset> rows(kLargestOwnClass);
  const auto address_of = [](uintptr_t bytes) { return kStart + bytes * 48; };
  // The neighbour before it comes later, and after it there is none yet.
  for (uintptr_t bytes = kLargestOwnClass; bytes >= 1; --bytes) rows[bytes - 1] = Put(address_of(bytes), bytes);
  for (uintptr_t bytes = 1; bytes <= kLargestOwnClass; ++bytes) {
    EXPECT_EQ(Take(address_of(bytes) ^ 16).row, 0u) << "no block begins in the other half";
    ExpectTaken(address_of(bytes), rows[bytes - 1], bytes);
  }
}

// Also in the last word of a chunk: the next chunk belongs to another block, or was never made.
TEST_F(ShadowMap, LargerBlocksHaveTheirSizeInTheSecond) {
  for (const uint64_t bytes : {57ul, 58ul, 60ul, 100ul, 1024ul, 1025ul, uint64_t{kLargestShadowed}}) {
    for (const uintptr_t address : {kStart, kStart + 16, kStart + kChunkBytes - 32, kStart + kChunkBytes - 16}) {
      const Offset row = Put(address, bytes);
      for (const uintptr_t inside : {16, 32, 48}) EXPECT_EQ(Take(address + inside).row, 0u) << "no block begins there";
      ExpectTaken(address, row, bytes);
    }
  }
}

// Those of other allocators than glibc's begin at multiples of 8.
TEST_F(ShadowMap, TinyBlocksHaveAWordForEach8Bytes) {
  other_allocators = kOtherMalloc;
  std::vector<std::pair<uintptr_t, Offset>> rows;
  // Across the ends of pages, words and chunks; the second half of them 16 bytes apart.
  for (uintptr_t address = kStart + kChunkBytes - 8192; address < kStart + kChunkBytes + 4096; address += 8) {
    if (address / kTinyPage % 2 == 0 && address % 16 != 0) continue;
    rows.emplace_back(address, Put(address, address / kTinyPage % 2 == 0 ? 9 + address / 16 % 8 : 1 + address / 8 % 8));
  }
  const std::vector<uintptr_t>& visited = Visited(table_);
  ASSERT_EQ(visited.size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(visited[i], rows[i].first);
  for (size_t i = rows.size(); i-- > 0;) {
    const auto [address, row] = rows[(i * 7) % rows.size()];  // in another order: 7 is prime to the number
    ExpectTaken(address, row, table_->At<Row>(row)->size_class);
  }
  EXPECT_THAT(Visited(table_), ::testing::IsEmpty());
}

// In glibc's order of things no block begins there, but it may be another's all the same.
TEST_F(ShadowMap, ATinyBlockBetweenMultiplesOf16HasAWordOfItsOwn) {
  other_allocators = 0;
  const Offset odd = Put(kStart + 8, 8);
  EXPECT_EQ(Take(kStart).row, 0u);
  EXPECT_EQ(Take(kStart + 16).row, 0u);
  ExpectTaken(kStart + 8, odd, 8);
}

// A page of tiny blocks may become one of larger blocks, and the other way round.
TEST_F(ShadowMap, AWordServesTinyAndLargerBlocksInTurn) {
  other_allocators = kOtherMalloc;
  for (const uint64_t bytes : {32, 64}) {
    ExpectTaken(kStart + 40, Put(kStart + 40, 8), 8);
    ExpectTaken(kStart, Put(kStart, bytes), bytes);
    ExpectTaken(kStart + 16, Put(kStart + 16, 16), 16);
  }
  const Offset large = Put(kStart, 24);
  EXPECT_EQ(MakeTinyWord(table_, shadow_directory.load(), kStart + 24), nullptr) << "would be written by two threads";
  ExpectTaken(kStart, large, 24);
}

// A block of the program's own pool has a key of its own, also at an address with bit 47 (arm64).
TEST_F(ShadowMap, TheKeyOfAPoolBlockFitsAndLeadsBack) {
  for (const uintptr_t address : {0x5555aaaa1230u, 0x7ffff7fe0018u, 0xaaaaec123450u, 0xffff8bfe0018u}) {
    EXPECT_EQ(AddressOfBlock(address), address);
    const uintptr_t key = KeyOfPoolBlock(address);
    EXPECT_NE(key, address);
    EXPECT_EQ(AddressOfBlock(key), address);
    Put(key, 24);
    EXPECT_THAT(Visited(table_), ::testing::ElementsAre(address));
    EXPECT_EQ(Take(key).bytes, 24u);
  }
}

// Where a larger one lay, small ones may follow, and the other way round.
TEST_F(ShadowMap, ASizeThatIsLeftBehindIsNoBlock) {
  other_allocators = 0;
  const uintptr_t second = kStart + kShadowGrain;
  Put(kStart, 64);
  Take(kStart);
  EXPECT_FALSE(IsShadowedRow(WordOf(second)->load()));
  const Offset small = Put(kStart, 16), other = Put(second, 8);
  EXPECT_EQ(BytesRead(kStart), 16u);
  EXPECT_EQ(BytesRead(second), 8u);
  EXPECT_EQ(Take(second).row, other);
  EXPECT_EQ(BytesRead(kStart), 16u);
  EXPECT_EQ(Take(kStart).row, small);
  Put(kStart, 60);
  EXPECT_EQ(BytesRead(kStart), 60u);
}

TEST_F(ShadowMap, APutBackBlockIsUnchanged) {
  for (const uint32_t others : {0u, uint32_t{kOtherMalloc}}) {
    other_allocators = others;
    for (const uint64_t bytes : {9ul, 50ul, 90ul}) {
      const Offset row = Put(kStart, bytes);
      PutBackExact(table_, Take(kStart), reinterpret_cast<const void*>(kStart));
      ExpectTaken(kStart, row, bytes);
    }
  }
}

// Another allocator's free, say. The block that follows in a part of its place is as it should be, and so is its neighbour.
TEST_F(ShadowMap, ABlockWithAnUnseenFreeHasAboutItsSize) {
  other_allocators = 0;
  for (const uint64_t bytes : {60ul, 500ul}) {
    const Offset row = Put(kStart, bytes), other = Put(kStart + kShadowGrain, 8);
    EXPECT_EQ(BytesRead(kStart), std::nullopt);
    const Shadowed taken = Take(kStart);
    EXPECT_EQ(taken.row, row);
    EXPECT_EQ(taken.bytes, bytes - 1) << "as those of its row are on average";
    EXPECT_EQ(Take(kStart + kShadowGrain).row, other);
  }
}

// One that begins in its place, or in the 64 bytes from there on.
TEST_F(ShadowMap, ABlockWithAnUnseenFreeIsFoundByTheNextOne) {
  other_allocators = 0;
  const auto is_free = [this](uint64_t bytes) {
    return FreeShadow(table_, WordOf(kStart), kStart, bytes) == WordOf(kStart);
  };
  for (const uintptr_t before : {uintptr_t{0}, uintptr_t{kShadowGrain}}) {
    const uintptr_t second = kStart + before;
    const Offset stale = Put(second, 16);
    EXPECT_FALSE(is_free(57));
    EXPECT_EQ(is_free(56), before != 0);
    EXPECT_EQ(Take(second).row, stale) << "it is untouched";
    EXPECT_TRUE(is_free(57));
  }
}

TEST(ShadowedBytes, BytesOfTwoBlocksAreUnknown) {
  const auto class_of = [](uint64_t bytes) { return static_cast<uint32_t>(SizeClass(bytes)); };
  EXPECT_EQ(CheckedShadowedBytes(class_of(100), ShadowedSize(100)), 100u);
  EXPECT_EQ(CheckedShadowedBytes(class_of(100), ShadowedSize(200)), std::nullopt);
  EXPECT_EQ(CheckedShadowedBytes(class_of(100), 0), std::nullopt) << "freed";
  EXPECT_EQ(CheckedShadowedBytes(class_of(100), ShadowOf(100, kStart)), std::nullopt) << "a row";
  EXPECT_EQ(CheckedShadowedBytes(class_of(100), kShadowHasTinies), std::nullopt);
  EXPECT_EQ(CheckedShadowedBytes(class_of(56), ShadowedSize(100)), 56u);
  EXPECT_EQ(CheckedShadowedBytes(UINT32_MAX, ShadowedSize(100)), std::nullopt) << "of a row that cannot be read";
}

TEST(ShadowedBytes, BlocksOfARowOfAllSizesAreInTheSecondWord) {
  for (const uint32_t bytes : {57u, 100u, uint32_t{kLargestShadowed}}) {
    EXPECT_EQ(ShadowedBytes(kNoSizeClass, ShadowedSize(bytes)), bytes);
    EXPECT_EQ(CheckedShadowedBytes(kNoSizeClass, ShadowedSize(bytes)), bytes);
  }
  EXPECT_EQ(CheckedShadowedBytes(kNoSizeClass, ShadowOf(100, kStart)), std::nullopt) << "a row";
}

// Else a row far behind would not fit a word.
TEST(ShadowMapOfALargeTable, DoesNotExist) {
  ForgetShadow();
  SharedTable* table = UseAnonymousTable();
  table->header()->cap_bytes = kShadowedRows * kUnit + 4096;
  EXPECT_FALSE(BeginShadow(table));
  table->header()->cap_bytes = kShadowedRows * kUnit;
  EXPECT_TRUE(BeginShadow(table));
  ForgetShadow();
}

}  // namespace
}  // namespace holdfast
