// How records of the table are found by their hash: HashIndex. With stacks and nodes in it: tables_test.cc.
#include "sampler/tables/hash_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "sampler/contract/poisson_sampler.h"
#include "tests/unit/anonymous_table.h"

namespace holdfast {
namespace {

struct Record {
  uint64_t hash;
};

// Of records that are nothing but a hash.
class Records {
 public:
  explicit Records(SharedTable* table) : table_(table) {}
  // 0: full. `makes`: whether it may be made.
  Offset FindOrAdd(uint64_t hash, bool makes = true) {
    return index_.FindOrAdd(
        table_, hash,
        [&](Offset at) {
          ++looked_at_;
          return table_->At<Record>(at)->hash == hash;
        },
        [&]() -> Offset {
          auto* record = makes ? table_->New<Record>() : nullptr;
          if (record == nullptr) return 0;
          record->hash = hash;
          return table_->OffsetOf(record);
        });
  }
  HashIndex& index() { return index_; }
  std::atomic<uint64_t> looked_at_{0};

 private:
  SharedTable* table_;
  HashIndex& index_ = *new (std::align_val_t{4096}) HashIndex;
};

std::vector<uint64_t> Hashes(size_t count) {
  uint64_t random = 1;
  std::vector<uint64_t> hashes(count);
  for (uint64_t& hash : hashes) hash = NextRandom(&random) * 0x9e3779b97f4a7c15;
  return hashes;
}

TEST(HashIndex, FindsEachOfAMillionAgainAndLooksAtHardlyAnyOther) {
  SharedTable* table = UseAnonymousTable(256 << 20);
  Records records(table);
  const std::vector<uint64_t> hashes = Hashes(1'000'000);
  std::vector<Offset> made;
  for (const uint64_t hash : hashes) made.push_back(records.FindOrAdd(hash));
  EXPECT_LT(records.looked_at_, 1000u) << "of others, whose upper half is the same";
  for (size_t i = 0; i < hashes.size(); ++i) ASSERT_EQ(records.FindOrAdd(hashes[i], false), made[i]) << i;
  std::sort(made.begin(), made.end());
  EXPECT_EQ(std::unique(made.begin(), made.end()), made.end());
  EXPECT_NE(made.front(), 0u);
}

// Hashes that agree in all bits that choose a slot.
TEST(HashIndex, ThatAllBelongInOneSlotAreFoundUntilThereIsNoRoom) {
  SharedTable* table = UseAnonymousTable(1 << 20);  // allows generations of up to 256 KiB
  Records records(table);
  std::vector<Offset> made;
  for (uint64_t i = 0; i < 2000; ++i) made.push_back(records.FindOrAdd(i << 32 | uint64_t{0xffe} << 52));
  const auto full = static_cast<uint64_t>(std::find(made.begin(), made.end(), 0u) - made.begin());
  // Of the older generation they are copied as far as there is room in the newest.
  EXPECT_GE(full, HashIndex::kLastWindow);
  EXPECT_LE(full, HashIndex::kWindow + HashIndex::kLastWindow);
  EXPECT_TRUE(std::all_of(made.begin() + static_cast<ptrdiff_t>(full), made.end(), [](Offset at) { return at == 0; }));
  for (uint64_t i = 0; i < full; ++i) EXPECT_EQ(records.FindOrAdd(i << 32 | uint64_t{0xffe} << 52, false), made[i]);
  // Others have their slots still.
  EXPECT_NE(records.FindOrAdd(7), 0u);
}

// Stacks take 120 bytes and more of it, each with its row.
TEST(HashIndex, HasRoomForMoreThanATableOfItsCapHas) {
  for (const uint64_t cap : {uint64_t{1} << 20, uint64_t{64} << 20, uint64_t{127} << 20}) {
    SharedTable* table = UseAnonymousTable(cap);
    Records records(table);
    for (const uint64_t hash : Hashes(cap / 120)) ASSERT_NE(records.FindOrAdd(hash), 0u) << cap;
  }
}

TEST(HashIndex, HashesWhoseUpperHalfIsTheSameAreToldApartByTheRecord) {
  SharedTable* table = UseAnonymousTable();
  Records records(table);
  const Offset one = records.FindOrAdd(0x1234567800000001), two = records.FindOrAdd(0x1234567800000002);
  EXPECT_NE(one, two);
  EXPECT_EQ(records.FindOrAdd(0x1234567800000001), one);
  EXPECT_EQ(records.FindOrAdd(0x1234567800000002), two);
}

// As soon as all of it is copied.
TEST(HashIndex, WhatIsNotThereIsLookedForInOneGeneration) {
  SharedTable* table = UseAnonymousTable(64 << 20);
  Records records(table);
  for (const uint64_t hash : Hashes(50'000)) ASSERT_NE(records.FindOrAdd(hash), 0u);
  EXPECT_EQ(records.index().generations_in_use(), 1);
}

TEST(HashIndex, WhatCannotBeMadeIsNotThereAndIsNoneLater) {
  SharedTable* table = UseAnonymousTable();
  Records records(table);
  EXPECT_EQ(records.FindOrAdd(5, false), 0u);
  const Offset made = records.FindOrAdd(5);
  EXPECT_NE(made, 0u);
  EXPECT_EQ(records.FindOrAdd(5, false), made);
}

TEST(HashIndex, ForgetsEverythingOfAllGenerations) {
  SharedTable* table = UseAnonymousTable(64 << 20);
  Records records(table);
  const std::vector<uint64_t> hashes = Hashes(100'000);
  for (int round = 0; round < 2; ++round) {
    for (const uint64_t hash : hashes) ASSERT_EQ(records.FindOrAdd(hash, false), 0u);
    for (const uint64_t hash : hashes) ASSERT_NE(records.FindOrAdd(hash), 0u);
    records.index().Forget();
  }
}

// Each thread begins elsewhere, so that what one finds in an older generation others make, add and find.
TEST(HashIndex, FourThreadsAgreeWhileItGrows) {
  const std::vector<uint64_t> hashes = Hashes(60'000);
  for (int round = 0; round < 10; ++round) {
    SharedTable* table = UseAnonymousTable(64 << 20);
    Records records(table);
    std::vector<std::vector<Offset>> found(4, std::vector<Offset>(hashes.size()));
    std::vector<std::thread> threads;
    for (size_t number = 0; number < 4; ++number) {
      threads.emplace_back([&, number] {
        for (size_t i = 0; i < hashes.size(); ++i) {
          const size_t at = number < 2 ? i : (i + number * 64) % hashes.size();
          found[number][at] = records.FindOrAdd(hashes[at]);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& of_thread : found) ASSERT_EQ(of_thread, found[0]);
    for (size_t i = 0; i < hashes.size(); ++i) ASSERT_EQ(records.FindOrAdd(hashes[i], false), found[0][i]);
  }
}

}  // namespace
}  // namespace holdfast
