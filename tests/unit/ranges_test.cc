// Which bytes of the address space belong to which row, against a map of pages.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "sampler/table/change_queue.h"
#include "sampler/table/range_list.h"
#include "sampler/table/stack_table.h"
#include "tests/unit/anonymous_table.h"

namespace holdfast {
namespace {

constexpr uint64_t kPage = 4096, kBase = 0x7000'0000'0000;

struct Sums {
  uint64_t objects = 0, bytes = 0, freed_objects = 0, freed_bytes = 0;
  bool operator==(const Sums&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Sums& sums) {
  return out << sums.objects << " of " << sums.bytes << ", freed " << sums.freed_objects << " of " << sums.freed_bytes;
}

class Ranges : public ::testing::Test {
 protected:
  Ranges() {
    ForgetMappings();
    EXPECT_TRUE(MakeSpecialStacks(table_));
  }

  Offset StackNumber(uint64_t number) {
    StackTrace trace{};
    trace.depth = 1;
    trace.frames[0] = 0x401000 + number * 16;
    return table_->OffsetOf(InternStack(table_, trace));
  }
  static MappingChange Map(uint64_t start, uint64_t bytes, Offset stack, MappingKind kind = MappingKind::kAnonymous) {
    MappingChange change;
    change.start = start;
    change.end = start + bytes;
    change.ticket = TakeMappingTicket();
    change.stack = stack;
    change.kind = kind;
    return change;
  }
  static MappingChange Unmap(uint64_t start, uint64_t bytes) {
    MappingChange change;
    change.removed_start = start;
    change.removed_end = start + bytes;
    change.older_than = TakeMappingTicket();
    return change;
  }
  Sums SumsOf(Offset stack, MappingKind kind = MappingKind::kAnonymous) {
    Sums sums;
    for (Offset at = table_->At<Stack>(stack)->rows; at != 0; at = table_->At<Row>(at)->next) {
      const Row& row = *table_->At<Row>(at);
      if (row.profile != ProfileKind::kMap || row.mapping != kind) continue;
      sums.objects += row.sums[kAllocObjects] >> kCountFractionBits;
      sums.bytes += row.sums[kAllocSpace] >> kAmountFractionBits;
      sums.freed_objects += row.sums[kFreeObjects] >> kCountFractionBits;
      sums.freed_bytes += row.sums[kFreeSpace] >> kAmountFractionBits;
    }
    return sums;
  }
  uint64_t Lost() { return table_->header()->losses[static_cast<int>(Loss::kMappingsFull)]; }

  SharedTable* table_ = UseAnonymousTable();
};

// 20,000 calls in 400 pages: maps over others, cuts, moves.
TEST_F(Ranges, AgreeWithAMapOfPages) {
  constexpr int kStacks = 5, kPages = 400;
  struct Mapping {
    uint64_t number;
    int stack;
  };
  std::map<uint64_t, Mapping> pages;
  std::map<int, Sums> sums;
  std::vector<Offset> stacks;
  for (int i = 0; i < kStacks; ++i) stacks.push_back(StackNumber(static_cast<uint64_t>(i)));
  std::mt19937 random(7);
  uint64_t mappings = 0;
  const auto remove = [&](uint64_t first, uint64_t end) {
    for (uint64_t page = first; page < end; ++page) {
      const auto found = pages.find(page);
      if (found == pages.end()) continue;
      sums[found->second.stack].freed_bytes += kPage;
      pages.erase(found);
    }
  };
  const auto add = [&](uint64_t first, uint64_t end, int stack) {
    remove(first, end);
    ++mappings;
    for (uint64_t page = first; page < end; ++page) pages[page] = {mappings, stack};
    sums[stack].objects += 1;
    sums[stack].bytes += (end - first) * kPage;
  };
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t first = random() % kPages, count = 1 + random() % 12;
    const int stack = static_cast<int>(random() % kStacks);
    const uint64_t at = kBase + first * kPage, bytes = count * kPage;
    MappingChange change;
    switch (random() % 3) {
      case 0:
        change = Unmap(at, bytes);
        remove(first, first + count);
        break;
      case 1:
        change = Map(at, bytes, stacks[static_cast<size_t>(stack)]);
        add(first, first + count, stack);
        break;
      default: {
        const uint64_t to = random() % kPages;
        change = Unmap(at, bytes);
        const MappingChange there =
            Map(kBase + to * kPage, bytes, stacks[static_cast<size_t>(stack)], MappingKind::kNone);
        change.start = there.start;
        change.end = there.end;
        change.ticket = there.ticket;
        change.stack = there.stack;
        remove(first, first + count);
        add(to, to + count, stack);
      }
    }
    SubmitChange(table_, change);
  }
  std::map<int, std::set<uint64_t>> alive;
  for (const auto& [page, mapping] : pages) alive[mapping.stack].insert(mapping.number);
  for (int i = 0; i < kStacks; ++i) {
    sums[i].freed_objects = sums[i].objects - alive[i].size();
    EXPECT_EQ(SumsOf(stacks[static_cast<size_t>(i)]), sums[i]) << "stack " << i;
  }
  EXPECT_EQ(Lost(), 0u);
  SubmitChange(table_, Unmap(kBase, (kPages + 12) * kPage));
  for (const Offset stack : stacks) EXPECT_EQ(SumsOf(stack).freed_bytes, SumsOf(stack).bytes);
}

// Another thread has mapped at addresses that were free already, before who unmapped them came to say so.
TEST_F(Ranges, AnUnmapTakesNothingThatWasMappedAfterIt) {
  const Offset first = StackNumber(1), second = StackNumber(2);
  SubmitChange(table_, Map(kBase, 8 * kPage, first));
  const MappingChange unmap = Unmap(kBase, 8 * kPage);
  SubmitChange(table_, Map(kBase + 2 * kPage, 2 * kPage, second));
  SubmitChange(table_, unmap);
  EXPECT_EQ(SumsOf(first), (Sums{1, 8 * kPage, 1, 8 * kPage}));
  EXPECT_EQ(SumsOf(second), (Sums{1, 2 * kPage, 0, 0}));
}

TEST_F(Ranges, AMovedMappingStaysWhatItIs) {
  const Offset first = StackNumber(1), second = StackNumber(2);
  SubmitChange(table_, Map(kBase, 4 * kPage, first, MappingKind::kFile));
  MappingChange move = Unmap(kBase, 4 * kPage);
  move.start = kBase + (1 << 20);
  move.end = move.start + 16 * kPage;
  move.ticket = TakeMappingTicket();
  move.stack = second;
  SubmitChange(table_, move);
  EXPECT_EQ(SumsOf(first, MappingKind::kFile), (Sums{1, 4 * kPage, 1, 4 * kPage}));
  EXPECT_EQ(SumsOf(second, MappingKind::kFile), (Sums{1, 16 * kPage, 0, 0}));
}

TEST_F(Ranges, DetachingTakesAllPiecesAndNothingBetween) {
  const Offset segment = StackNumber(1), other = StackNumber(2);
  SubmitChange(table_, Map(kBase, 16 * kPage, segment, MappingKind::kShm));
  SubmitChange(table_, Map(kBase + 4 * kPage, 2 * kPage, other));
  SubmitChange(table_, Unmap(kBase + 8 * kPage, kPage));
  MappingChange detach = Unmap(kBase, 0);
  detach.detached = true;
  SubmitChange(table_, detach);
  EXPECT_EQ(SumsOf(segment, MappingKind::kShm), (Sums{1, 16 * kPage, 1, 16 * kPage}));
  EXPECT_EQ(SumsOf(other), (Sums{1, 2 * kPage, 0, 0}));
}

TEST_F(Ranges, WithoutRoomAMappingEndsAtOnceAndIsCounted) {
  constexpr uint64_t kMany = 60'000;  // 8 MiB of table: 2 of ranges, 32,000
  const Offset stack = StackNumber(1);
  for (uint64_t i = 0; i < kMany; ++i) SubmitChange(table_, Map(kBase + 2 * i * kPage, kPage, stack));
  const Sums sums = SumsOf(stack);
  EXPECT_EQ(sums.objects, kMany);
  EXPECT_GT(Lost(), 0u);
  EXPECT_EQ(sums.freed_objects, Lost());
  EXPECT_EQ(sums.freed_bytes, Lost() * kPage);
  EXPECT_GT(kMany - Lost(), 30'000u);
  SubmitChange(table_, Unmap(kBase, 2 * kMany * kPage));
  EXPECT_EQ(SumsOf(stack), (Sums{kMany, kMany * kPage, kMany, kMany * kPage}));
}

TEST_F(Ranges, OfThreadsAtOnceNoChangeIsLost) {
  constexpr int kThreads = 4, kRounds = 20'000, kPlaces = 16;
  const Offset stack = StackNumber(1);
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> shared[kPlaces] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        const uint64_t at = kBase + next.fetch_add(1) * 4 * kPage;
        SubmitChange(table_, Map(at, 3 * kPage, stack));
        if (const uint64_t other = shared[(round + i) % kPlaces].exchange(at))
          SubmitChange(table_, Unmap(other, 3 * kPage));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t live = 0;
  for (const auto& place : shared) live += place != 0;
  EXPECT_EQ(SumsOf(stack), (Sums{kThreads * kRounds, kThreads * kRounds * 3 * kPage, kThreads * kRounds - live,
                                 (kThreads * kRounds - live) * 3 * kPage}));
  EXPECT_EQ(Lost(), 0u);
}

}  // namespace
}  // namespace holdfast
