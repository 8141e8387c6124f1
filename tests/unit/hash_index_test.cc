// How records of the table are found by their hash: HashIndex. With stacks and nodes in it: tables_test.cc.
#include "sampler/table/hash_index.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "sampler/contract/poisson_sampler.h"
#include "tests/unit/anonymous_table.h"
#include "tests/unit/single_steps.h"

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
  EXPECT_LT(records.looked_at_, 1000u) << "of others with the same upper half";
  for (size_t i = 0; i < hashes.size(); ++i) ASSERT_EQ(records.FindOrAdd(hashes[i], false), made[i]) << i;
  std::sort(made.begin(), made.end());
  EXPECT_EQ(std::unique(made.begin(), made.end()), made.end());
  EXPECT_NE(made.front(), 0u);
}

// Hashes that agree in all bits that choose a slot.
TEST(HashIndex, HashesOfOneSlotAreFoundUntilItIsFull) {
  SharedTable* table = UseAnonymousTable(1 << 20);  // allows generations of up to 256 KiB
  Records records(table);
  std::vector<Offset> made;
  for (uint64_t i = 0; i < 2000; ++i) made.push_back(records.FindOrAdd(i << 32 | uint64_t{0xffe} << 52));
  const auto full = static_cast<uint64_t>(std::find(made.begin(), made.end(), 0u) - made.begin());
  // Hashes of the older generation are copied while the newest has room.
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

TEST(HashIndex, HashesWithTheSameUpperHalfDifferByTheirRecords) {
  SharedTable* table = UseAnonymousTable();
  Records records(table);
  const Offset one = records.FindOrAdd(0x1234567800000001), two = records.FindOrAdd(0x1234567800000002);
  EXPECT_NE(one, two);
  EXPECT_EQ(records.FindOrAdd(0x1234567800000001), one);
  EXPECT_EQ(records.FindOrAdd(0x1234567800000002), two);
}

// As soon as all of it is copied.
TEST(HashIndex, AMissingHashIsSearchedInOneGeneration) {
  SharedTable* table = UseAnonymousTable(64 << 20);
  Records records(table);
  for (const uint64_t hash : Hashes(50'000)) ASSERT_NE(records.FindOrAdd(hash), 0u);
  EXPECT_EQ(records.index().generations_in_use(), 1);
}

// Behind a seccomp filter nothing can be mapped.
TEST(HashIndex, PreparedItHasRoomForThousandsWithoutSystemCalls) {
  SharedTable* table = UseAnonymousTable(64 << 20);
  Records records(table);
  records.index().Prepare(table);
  no_system_calls.store(true);
  for (const uint64_t hash : Hashes(3'000)) EXPECT_NE(records.FindOrAdd(hash), 0u);
  no_system_calls.store(false);
}

TEST(HashIndex, AFailedInsertionLeavesNothing) {
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

// What is in it, with what is to be found of each.
struct Known {
  Known(Records* to, const std::vector<uint64_t>& from) : records(to), hashes(from) {}
  void AddUpTo(size_t count) {
    for (; made.size() < count; made.push_back(records->FindOrAdd(hashes[made.size()]))) {
    }
  }
  void AddUntilAnotherIsBegun() {
    while (records->index().generations_in_use() == 1) AddUpTo(made.size() + 1);
  }
  bool HasEachOnce() const {
    for (size_t i = 0; i < made.size(); ++i) {
      if (made[i] == 0 || records->FindOrAdd(hashes[i], false) != made[i]) return false;
    }
    return true;
  }
  Records* records;
  const std::vector<uint64_t>& hashes;  // as many as there will be
  std::vector<Offset> made = {};
};

// While a thread stands still, after any of its instructions, others make the index grow: more than once, and some of them add what it is
// about to add.
TEST(HashIndex, AStoppedThreadLosesAndDuplicatesNothing) {
  HOLDFAST_NEEDS_SINGLE_STEPS();
  constexpr uint64_t kBytes = 8 << 20, kOwn = 0x7e57'0000'1111'2222;
  const std::vector<uint64_t> hashes = Hashes(20'000);
  for (const bool in_growth : {false, true}) {
    for (const bool the_same : {false, true}) {
      for (SingleSteps steps(in_growth ? 397 : 1);; steps.Next()) {  // a part is copied in some thousand
        SharedTable* table = UseAnonymousTable(kBytes);
        Records records(table);
        Known known(&records, hashes);
        known.AddUpTo(500);
        if (in_growth) known.AddUntilAnotherIsBegun();
        Offset own = 0, of_other = 0;
        steps.Run([&] { own = records.FindOrAdd(kOwn); },
                  [&] {
                    known.AddUpTo(8'000);
                    if (the_same) of_other = records.FindOrAdd(kOwn);
                  });
        if (steps.WorkIsOver()) break;
        ASSERT_TRUE(known.HasEachOnce()) << in_growth << the_same << " after instruction " << steps.step();
        known.AddUpTo(hashes.size());
        ASSERT_TRUE(known.HasEachOnce()) << in_growth << the_same << " later, after instruction " << steps.step();
        ASSERT_EQ(records.FindOrAdd(kOwn, false), own)
            << in_growth << the_same << " after instruction " << steps.step();
        if (the_same) {
          ASSERT_EQ(of_other, own) << in_growth << " after instruction " << steps.step();
        }
        ASSERT_EQ(records.index().generations_in_use(), 1) << "after instruction " << steps.step();
        records.index().Forget();
        munmap(table, kBytes);
      }
    }
  }
}

// What another thread has added meanwhile may have been the last for which there was room in the smaller window.
TEST(HashIndex, AStoppedThreadRefusesNothingThatFits) {
  HOLDFAST_NEEDS_SINGLE_STEPS();
  constexpr uint64_t kBytes = 96 << 10;  // allows only the first generation
  const auto hash = [](uint64_t i) { return i << 32 | uint64_t{0xffe} << 52; };
  for (SingleSteps steps(997);; steps.Next()) {
    SharedTable* table = UseAnonymousTable(kBytes);
    Records records(table);
    for (uint64_t i = 0; i < HashIndex::kWindow; ++i) ASSERT_NE(records.FindOrAdd(hash(i)), 0u);
    Offset own = 0;
    steps.Run([&] { own = records.FindOrAdd(hash(1000)); }, [&] { records.FindOrAdd(hash(2000)); });
    ASSERT_NE(own, 0u) << "after instruction " << steps.step();
    if (steps.WorkIsOver()) break;
    records.index().Forget();
    munmap(table, kBytes);
  }
}

// Of a signal handler.
TEST(HashIndex, AJumpOutOfItLosesNothing) {
  HOLDFAST_NEEDS_SINGLE_STEPS();
  constexpr uint64_t kBytes = 8 << 20, kOwn = 0x7e57'0000'1111'2222;
  const std::vector<uint64_t> hashes = Hashes(20'000);
  size_t left_behind = 0;
  for (SingleSteps steps(397);; steps.Next()) {
    SharedTable* table = UseAnonymousTable(kBytes);
    Records records(table);
    Known known(&records, hashes);
    known.AddUntilAnotherIsBegun();
    if (sigsetjmp(steps.out, 1) == 0) steps.Run([&] { records.FindOrAdd(kOwn); }, [&] { siglongjmp(steps.out, 1); });
    if (steps.WorkIsOver()) break;
    const Offset own = records.FindOrAdd(kOwn);
    ASSERT_TRUE(known.HasEachOnce()) << "after instruction " << steps.step();
    known.AddUpTo(hashes.size());
    ASSERT_TRUE(known.HasEachOnce()) << "later, after instruction " << steps.step();
    ASSERT_EQ(records.FindOrAdd(kOwn, false), own) << "after instruction " << steps.step();
    left_behind += records.index().generations_in_use() > 1;
    records.index().Forget();
    munmap(table, kBytes);
  }
  EXPECT_GT(left_behind, 0u) << "none jumped out while it copied: this shows nothing";
}

// Other data may follow in the last page. It does where pages are larger than those for which the memory is aligned.
TEST(EmptyPages, LeavesTheRestOfThePageAsItIs) {
  constexpr size_t kWords = 3 * 4096 / sizeof(uint64_t), kEmptied = 4096 / sizeof(uint64_t) + 8;
  auto* words = static_cast<uint64_t*>(MapAnonymous(kWords * sizeof(uint64_t)));
  for (const size_t from : {size_t{0}, size_t{5}}) {
    std::fill_n(words, kWords, uint64_t{7});
    EmptyPages(words + from, kEmptied * sizeof(uint64_t));
    EXPECT_EQ(std::count(words, words + from, 7u), static_cast<ptrdiff_t>(from));
    EXPECT_EQ(std::count(words + from, words + from + kEmptied, 0u), static_cast<ptrdiff_t>(kEmptied));
    EXPECT_EQ(std::count(words + from + kEmptied, words + kWords, 7u),
              static_cast<ptrdiff_t>(kWords - from - kEmptied));
  }
  munmap(words, kWords * sizeof(uint64_t));
}

}  // namespace
}  // namespace holdfast
