// The lines of the account add up, and none has more than its mappings, whatever an estimate says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "report/observe/memory/account.h"
#include "report/observe/memory/account_text.h"
#include "report/observe/memory/joined_mappings.h"
#include "tests/unit/made_pagemap.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMib = 1 << 20;

double SumOf(const MemoryAccount& account) {
  double sum = 0;
  for (const AccountLine& line : AccountLines(account)) sum += line.bytes.value;
  return sum;
}

struct Made {
  AccountInput input;
  MadePagemap pagemap;

  Made() {
    input.mappings = ParseMappings(
        "01000000-01400000 rw-p 00000000 00:00 0 [heap]\nRss: 1024 kB\n"
        "02000000-02400000 rw-p 00000000 00:00 0 \nRss: 2048 kB\n"
        "03000000-03100000 rw-s 00000000 00:01 9 /dev/shm/pool\nRss: 512 kB\n");
    pagemap.Set(0x1000000, MadePagemap::kHere, 256);
    pagemap.Set(0x2000000, MadePagemap::kHere, 512);
    pagemap.Set(0x3000000, MadePagemap::kHere, 128);
  }
  MemoryAccount Account() {
    PageTable pages = pagemap.Pages();
    return AccountOf(input, &pages);
  }
};

// With an interval of a GiB each of these represents a GiB.
TEST(Account, AnEstimateAboveTheTruthIsCutToItsMappings) {
  Made made;
  made.input.blocks = {{0x1000100, 4096, 1 << 30}, {0x2000100, 64 * kPage, 1 << 30}};
  const MemoryAccount account = made.Account();
  EXPECT_EQ(account.total, 3 * kMib + kMib / 2);
  EXPECT_NEAR(account.live.value + account.rounding.value, 3.0 * kMib, 1)
      << "all of the heap and of what holds large blocks, no more";
  EXPECT_NEAR(account.rounding.value, kMib / 257.0, 1) << "16 bytes of each 4,112";
  EXPECT_EQ(account.allocator, 3 * kMib);
  EXPECT_NEAR(SumOf(account), static_cast<double>(account.total), 1);
  for (const AccountLine& line : AccountLines(account))
    EXPECT_LE(line.bytes.value, static_cast<double>(account.total)) << line.what;
  EXPECT_GT(account.live.error(), int64_t{1} << 30) << "how sure it is is not made better by that";
  EXPECT_GE(account.in_use_resident.value, 2.0 * (1 << 30)) << "the estimate stays";
}

// The free chunks of the heap, not the samples, say what lives there.
TEST(Account, CountedFreeChunksGiveTheLiveBlocks) {
  Made made;
  made.input.blocks = {{0x1000100, 1000, 1}, {0x2000100, 64 * kPage, 1}};
  MemoryAccount account = made.Account();
  EXPECT_EQ(account.rounding.value, 8) << "a chunk of 1,008 bytes";
  FreeMemory free{.pages = 300 << 10, .main_top = 100 << 10, .piece_count = 5, .heads = 80};
  CountLive(&free, &account);
  EXPECT_EQ(account.live.value, 64.0 * kPage + kMib - (400 << 10) - 80 - 8);
  EXPECT_EQ(account.live.error(), 0);
  EXPECT_EQ(SumOf(account), static_cast<double>(account.total));
}

// Of an attached process: what lives in glibc's heaps and was not recorded.
TEST(Account, BlocksFromBeforeTheAttachAreCountedInGlibcsHeaps) {
  Made made;
  made.input.blocks = {{0x1000100, 1000, 1}, {0x2000100, 64 * kPage, 1}};
  MemoryAccount account = made.Account();
  EXPECT_FALSE(account.unrecorded.has_value());
  FreeMemory free{.pages = 300 << 10, .main_top = 100 << 10, .piece_count = 5, .heads = 80};
  CountLive(&free, &account);
  ASSERT_TRUE(account.unrecorded.has_value());
  EXPECT_EQ(account.unrecorded->value, kMib - (400 << 10) - 80 - 1008);
  EXPECT_EQ(account.unrecorded->error(), 0);
  EXPECT_EQ(AccountText(account, "x").find("unknown age"), std::string::npos) << "not attached";
  EXPECT_EQ(AccountJson(account, 1).find("before_attach"), std::string::npos);
  account.is_attached = true;
  EXPECT_THAT(
      AccountText(account, "x"),
      HasSubstr(
          "\n  unknown age, allocated before the attach: 622.94KiB in glibc's heaps, including blocks that the library does not see;"));
  EXPECT_THAT(AccountJson(account, 1),
              HasSubstr(R"("before_attach":{"value":637888,"error":0},"before_attach_at_most":false)"));
  account.has_gaps = true;
  EXPECT_THAT(AccountText(account, "x"), HasSubstr("before the attach: at most 622.94KiB in glibc's heaps"));
  account.unrecorded.reset();
  EXPECT_THAT(AccountText(account, "x"), HasSubstr("before the attach: at most "));
  account.has_pages = false;
  EXPECT_THAT(AccountText(account, "x"), HasSubstr("before the attach: how much is not known, because the page table"));
}

// The program has freed more between the two looks.
TEST(Account, NoMoreIsFreeThanTheHeapsHave) {
  Made made;
  made.input.blocks = {{0x1000100, 1000, 1 << 30}};
  MemoryAccount account = made.Account();
  FreeMemory free{.pages = 3 * kMib, .main_top = kMib, .unread = kMib};
  CountLive(&free, &account);
  EXPECT_LE(free.all() + free.unread, kMib);
  EXPECT_GE(AccountLines(account)[2].bytes.value, static_cast<double>(free.all()));
  EXPECT_EQ(SumOf(account), static_cast<double>(account.total));
}

// A program that frees nothing has little free memory, and some of its heap may be unread.
TEST(Account, WithLittleFreeMemoryTheLiveBlocksAreCountedToo) {
  Made made;
  made.input.blocks = {{0x1000100, 1000, 1}};
  const MemoryAccount account = made.Account();
  EXPECT_TRUE(IsRead({.main_top = 1 << 10, .unread = 32 << 10}, account));
  EXPECT_FALSE(IsRead({.main_top = 1 << 10, .unread = 512 << 10}, account));
  EXPECT_FALSE(IsRead({}, account)) << "no heap of glibc's";
}

// The mappings are read first. The last chunk of a heap that has grown since ends beyond its mapping.
TEST(Account, TheTopOfAHeapThatGrowsIsFreeAndNotUnread) {
  Made made;
  const uint64_t start = 0x1000000, end = 0x1400000, chunk = 1008, chunks = 1000;
  std::map<uint64_t, uint64_t> heads;  // the sizes, by address
  for (uint64_t i = 0; i < chunks; ++i) heads[start + i * chunk + 8] = chunk | 1;
  const uint64_t top = start + chunks * chunk;
  heads[top + 8] = (end + 0x21000 - top) | 1;
  const ReadMemory read = [&](uint64_t address, void* to, size_t bytes) {
    memset(to, 0, bytes);
    for (auto at = heads.lower_bound(address); at != heads.end() && at->first + 8 <= address + bytes; ++at)
      memcpy(static_cast<char*>(to) + (at->first - address), &at->second, 8);
    return address >= start && address + bytes <= end;
  };
  PageTable pages = made.pagemap.Pages();
  const FreeMemory free = FreeInGlibcHeaps(made.input.mappings, {}, read, &pages);
  EXPECT_EQ(free.unread, 0u);
  EXPECT_EQ(free.main_top, start + kMib - top - 16) << "what of it is resident";
}

// Of an attached process, say.
TEST(Account, WhatIsNotRecordedIsNotCalledFree) {
  Made made;
  made.input.blocks = {{0x1000100, 1000, 1}};
  MemoryAccount account = made.Account();
  EXPECT_EQ(AccountLines(account)[2].more, "glibc: 1 mapping");
  account.lacks_blocks = true;
  EXPECT_EQ(AccountLines(account)[2].more, "free, or blocks that are not recorded; glibc: 1 mapping");
  account.is_counted = true;
  EXPECT_EQ(AccountLines(account)[2].more, "glibc: 1 mapping");
}

// musl keeps its own data there, and blocks elsewhere.
TEST(Account, TheHeapOfMuslIsNotGlibcs) {
  Made made;
  made.input.mappings.push_back(
      {.start = 0x4000000, .end = 0x4001000, .executable = true, .name = "/lib/ld-musl-x86_64.so.1"});
  made.input.blocks = {{0x1000100, 1000, 1}, {0x2000100, 64 * kPage, 1}};
  const MemoryAccount account = made.Account();
  EXPECT_EQ(account.allocator_name, "musl");
  EXPECT_EQ(account.glibc_heaps, 0u);
  EXPECT_EQ(account.rounding.value, 0) << "musl's size classes are not known";
  EXPECT_EQ(SumOf(account), static_cast<double>(account.total));
}

// A container has the library as a file in memory.
TEST(Account, TheLibraryInMemoryIsNotThePrograms) {
  Made made;
  made.input.mappings.push_back(
      {.start = 0x4000000, .end = 0x4001000, .name = "/memfd:libholdfast.so (deleted)", .resident = kPage});
  EXPECT_EQ(made.Account().shared, kMib / 2);
}

// One mapping: the kernel has joined a stack with the memory above it. A guard is below the stack.
struct Joined : Made {
  static constexpr uint64_t kStart = 0x5000000;

  explicit Joined(const char* guard = "04ff0000-05000000 ---p 00000000 00:00 0 \nRss: 0 kB\n") {
    input.mappings =
        ParseMappings(std::string(guard) + "05000000-0d000000 rw-p 00000000 00:00 0 \nRss: 0 kB\nSwap: 0 kB\n");
  }
  void Touch(uint64_t offset, uint64_t bytes) {
    pagemap.Set(kStart + offset, MadePagemap::kHere, bytes / kPage);
    input.mappings.back().resident += bytes;
  }
  MemoryAccount Found() {
    PageTable pages = pagemap.Pages();
    input.stacks =
        FindStacks({input.ranges, input.blocks, input.arenas}, input.stack_pointers, &pages, &input.mappings);
    return Account();
  }
};

TEST(JoinedMappings, AStackIsApartFromWhatIsAboveIt) {
  Joined made;
  made.Touch(2 * kMib - kPage, kPage);
  made.Touch(2 * kMib, 4 * kMib);
  made.input.ranges = {{Joined::kStart + 4 * kMib, Joined::kStart + 8 * kMib}};
  made.input.blocks = {{Joined::kStart + 2 * kMib + 16, 2 * kMib - 100, 1}};
  const MemoryAccount account = made.Found();
  EXPECT_THAT(made.input.stacks, testing::ElementsAre(Joined::kStart));
  EXPECT_EQ(account.stacks, kPage);
  EXPECT_EQ(account.mapped, 2 * kMib);
  EXPECT_EQ(account.allocator, 2 * kMib);
  EXPECT_EQ(account.total, 4 * kMib + kPage);
}

// A sampled block represents those beside it. If each had a mapping of its own, the others would be the rest.
TEST(JoinedMappings, BlocksAboveAStackStayTogether) {
  constexpr uint64_t kBlock = 200 << 10, kBlocks = 100;
  Joined made;
  made.Touch(2 * kMib, kBlocks * kBlock);
  for (uint64_t i = 0; i < kBlocks; i += 3)
    made.input.blocks.push_back({Joined::kStart + 2 * kMib + i * kBlock + 16, kBlock - 4096, 512 << 10});
  const MemoryAccount account = made.Found();
  EXPECT_EQ(made.input.mappings.size(), 3u);
  EXPECT_EQ(account.stacks, 0u);
  EXPECT_NEAR(account.live.value, static_cast<double>(kBlocks * kBlock), 0.1 * kBlocks * kBlock);
}

// memalign moves the block inside its mapping.
TEST(JoinedMappings, AnAlignedBlockEndsTheStackBelowIt) {
  for (const uint64_t alignment : {uint64_t{64}, kPage, 16 * kPage}) {
    Joined made;
    made.Touch(2 * kMib, 4 * kMib);
    made.input.blocks = {{Joined::kStart + 2 * kMib + alignment, 4 * kMib - alignment, 1}};
    const MemoryAccount account = made.Found();
    EXPECT_LE(account.stacks, alignment);
    EXPECT_NEAR(account.live.value, 4.0 * kMib, static_cast<double>(alignment));
  }
}

TEST(JoinedMappings, StacksWithoutGuardsAreAroundTheirPointers) {
  Joined made("");
  made.Touch(6 * kMib, 2 * kMib);
  made.input.ranges = {{Joined::kStart, Joined::kStart + 4 * kMib},
                       {Joined::kStart + 8 * kMib, Joined::kStart + 96 * kMib}};
  EXPECT_EQ(made.Found().stacks, 0u);
  EXPECT_EQ(made.input.mappings.size(), 1u) << "nothing says that there is a stack";
  made.input.stack_pointers = {Joined::kStart + 7 * kMib, Joined::kStart + 6 * kMib};
  const MemoryAccount account = made.Found();
  EXPECT_THAT(made.input.stacks, testing::ElementsAre(Joined::kStart + 4 * kMib));
  EXPECT_EQ(made.input.mappings.size(), 3u);
  EXPECT_EQ(account.stacks, 2 * kMib) << "two that touch";
  EXPECT_EQ(account.threads, 2u);
}

// A thread's stack in a pool of the program, a signal stack, the stack of a goroutine: the pool is no stack.
TEST(JoinedMappings, AProgramsLargeRangeIsNoStack) {
  Joined made;
  made.Touch(0, 32 * kMib);
  made.input.stack_pointers = {Joined::kStart + kMib};
  made.input.ranges = {{Joined::kStart - 0x10000, Joined::kStart + 64 * kMib}};
  EXPECT_EQ(made.Found().mapped, 32 * kMib);
  EXPECT_EQ(made.input.mappings.size(), 2u);
  made.input.ranges = {{Joined::kStart - 0x10000, Joined::kStart + 8 * kMib}};
  MemoryAccount account = made.Found();
  EXPECT_EQ(account.stacks, 8 * kMib) << "a stack that the program has mapped with its guard";
  made.input.ranges = {{Joined::kStart - 0x10000, Joined::kStart + 8 * kMib, true}};
  EXPECT_EQ(made.Found().stacks, 0u) << "an allocator's";
}

TEST(JoinedMappings, ABlockIsNoStack) {
  Joined made("");
  made.Touch(0, 9 * kMib);
  made.input.stack_pointers = {Joined::kStart + kMib};
  made.input.blocks = {{Joined::kStart + 16, 9 * kMib - 16, 1}};
  const MemoryAccount account = made.Found();
  EXPECT_EQ(account.stacks, 0u);
  EXPECT_EQ(account.allocator, 9 * kMib);
}

TEST(JoinedMappings, TheEndOfAnArenaIsNoGuard) {
  constexpr uint64_t kArena = 64 * kMib;
  Made made;
  made.input.mappings = ParseMappings(
      "04000000-07ff0000 rw-p 00000000 00:00 0 \nRss: 8 kB\n"
      "07ff0000-08000000 ---p 00000000 00:00 0 \nRss: 0 kB\n"
      "08000000-08800000 rw-p 00000000 00:00 0 \nRss: 4 kB\n");
  PageTable pages = made.pagemap.Pages();
  const std::set<uint64_t> none, arenas = {kArena};
  EXPECT_THAT(FindStacks({{}, {}, arenas}, {}, &pages, &made.input.mappings), testing::IsEmpty());
  EXPECT_THAT(FindStacks({{}, {}, none}, {}, &pages, &made.input.mappings), testing::ElementsAre(2 * kArena));
}

// Before Linux 6.7 zero pages look resident in the page table.
TEST(JoinedMappings, PartsHaveTogetherWhatTheWholeHas) {
  Joined made;
  made.Touch(0, kMib);
  made.pagemap.Set(Joined::kStart + 8 * kMib, MadePagemap::kHere, 512);
  made.input.ranges = {{Joined::kStart + 8 * kMib, Joined::kStart + 16 * kMib}};
  made.input.mappings.back().swapped = 3 * kPage;
  MemoryAccount account = made.Found();
  EXPECT_EQ(account.total, kMib);
  EXPECT_EQ(account.stacks, kMib);
  EXPECT_EQ(account.swapped, 3 * kPage);
}

TEST(Account, WithJemallocRoundingToSizeClassesIsALine) {
  Made made;
  made.input.mappings = ParseMappings(
      "01000000-01400000 rw-p 00000000 00:00 0 \nRss: 1024 kB\n"
      "02000000-02001000 r-xp 00000000 00:01 9 /usr/lib/libjemalloc.so.2\nRss: 4 kB\n");
  made.input.blocks = {{0x1000000, 5, 1},   {0x1001000, 129, 1},  {0x1002000, 1000, 1},
                       {0x1003000, 128, 1}, {0x1004000, 4097, 1}, {0x1010000, 17 << 10, 1}};
  const MemoryAccount account = made.Account();
  EXPECT_EQ(account.rounding.value, 3 + 31 + 24 + 0 + 1023 + (3 << 10));
  EXPECT_EQ(AccountLines(account)[1].what, "rounding");
  EXPECT_EQ(SumOf(account), static_cast<double>(account.total));
}

// A pool in shared memory is in that line; its blocks are no part of the allocator's, and make what that keeps no smaller.
TEST(Account, BlocksOfAPoolInSharedMemoryAreInTheLineOfThat) {
  Made made;
  made.input.blocks = {{0x1000100, 1024, 1}, {0x3000000, 100 * kPage, 1}};
  const MemoryAccount account = made.Account();
  EXPECT_EQ(account.live.value, 1024);
  EXPECT_EQ(account.shared, kMib / 2);
  EXPECT_EQ(account.in_use_resident.value, 1024 + 100.0 * kPage);
  EXPECT_EQ(SumOf(account), static_cast<double>(account.total));
}

// Pages that MADV_GUARD_INSTALL has made look as if they were swapped out.
TEST(PageTable, AGuardIsNothing) {
  MadePagemap pagemap;
  pagemap.Set(0x1000000, MadePagemap::kGuard, 1);
  pagemap.Set(0x1001000, MadePagemap::kHere, 1);
  pagemap.Set(0x1002000, MadePagemap::kSwapped, 3);
  PageTable pages = pagemap.Pages();
  const PageTable::Share share = pages.Of(0x1000000, 8 * kPage);
  EXPECT_EQ(share.resident, kPage);
  EXPECT_EQ(share.swapped, 3 * kPage);
  EXPECT_EQ(pages.Of(0x1002000 + 100, 2 * kPage).swapped, 2 * kPage);
  EXPECT_FALSE(pages.has_failed());
}

// Since glibc 2.42 several stacks are in one mapping, each above such a page.
TEST(PageTable, AStackBeginsAboveTheNearestGuard) {
  constexpr uint64_t kStart = 0x1000000, kFar = uint64_t{100} << 20;
  MadePagemap pagemap;
  pagemap.Set(kStart, MadePagemap::kGuard, 1);
  pagemap.Set(kStart + 8 * kPage, MadePagemap::kGuard, 2);
  pagemap.Set(kStart + kFar, MadePagemap::kHere, 1);
  const PageTable pages = pagemap.Pages();
  EXPECT_EQ(pages.EndOfGuardBelow(kStart + 9 * kPage + 100, kStart), kStart + 9 * kPage) << "in a guard";
  EXPECT_EQ(pages.EndOfGuardBelow(kStart + 8 * kPage, kStart), kStart + kPage);
  EXPECT_EQ(pages.EndOfGuardBelow(kStart + 5 * kPage + 8, kStart), kStart + kPage);
  EXPECT_EQ(pages.EndOfGuardBelow(kStart + 5 * kPage, kStart + kPage), std::nullopt);
  EXPECT_EQ(pages.EndOfGuardBelow(kStart + kFar, kStart), kStart + 10 * kPage) << "more than a window away";
}

// Kernels for arm64 may have pages of 16 or 64 KiB.
TEST(PageTable, AnEntryStandsForAPageOfTheKernel) {
  for (const uint64_t page : {uint64_t{16} << 10, uint64_t{64} << 10}) {
    MadePagemap pagemap(page);
    pagemap.Set(0x1000000, MadePagemap::kHere, 2);
    pagemap.Set(0x1000000 + 3 * page, MadePagemap::kSwapped, 1);
    PageTable pages = pagemap.Pages();
    const PageTable::Share share = pages.Of(0x1000000 + page - 100, 4 * page);
    EXPECT_EQ(share.resident, 100 + page);
    EXPECT_EQ(share.swapped, page);
    EXPECT_TRUE(pages.IsResident(0x1000000, 2 * page));
    EXPECT_FALSE(pages.IsResident(0x1000000, 2 * page + 1));
  }
}

}  // namespace
}  // namespace holdfast
