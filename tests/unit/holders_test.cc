// The parts of the search for what holds memory: the map of blocks, dominators, and when repeated scans have settled.
#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "report/base/kernel_page.h"
#include "report/holders/block_map.h"
#include "report/holders/block_marker.h"
#include "report/holders/copied_address_space.h"
#include "report/holders/core_address_space.h"
#include "report/holders/glibc_blocks.h"
#include "report/holders/holder_graph.h"
#include "report/holders/holder_scan.h"
#include "report/holders/kernel_words.h"
#include "report/holders/library_memory.h"
#include "report/holders/never_woken.h"
#include "report/holders/unreachable.h"
#include "report/observe/table/process_files.h"
#include "sampler/contract/own_memory.h"
#include "tests/support/made_address_space.h"
#include "tests/unit/made_pagemap.h"

namespace holdfast {
namespace {

using testing::MadeAddressSpace;

TEST(BlockMap, FindsTheBlockOfEachAddressAsASearchDoes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 30; ++round) {
    BlockMap map;
    std::set<uint64_t> starts;
    constexpr uint64_t kHeap = 0x1000, kEnd = kHeap + 256 * 1024;
    map.AddHeap({kHeap, kEnd}, 8);
    map.AddHeap({0x900000, 0x901000}, 0, 0x900010);
    map.Seal();
    const uint64_t mean = uint64_t{16} << random() % 12;
    for (uint64_t at = kHeap + 16 * (random() % 50); at < kEnd; at += 16 + random() % mean / 16 * 16) {
      map.AddBlock(at);
      starts.insert(at);
      if (random() % 4 == 0) map.MarkUnused(at);
    }
    map.Number();
    ASSERT_EQ(map.size(), starts.size() + 1);
    for (int i = 0; i < 2000; ++i) {
      const uint64_t address = kHeap + random() % (kEnd - kHeap);
      const auto next = starts.upper_bound(address);
      const BlockMap::Block found = map.Find(address);
      if (next == starts.begin()) {
        EXPECT_EQ(found.number, BlockMap::kNone);
        continue;
      }
      const uint64_t start = *std::prev(next), end = next == starts.end() ? kEnd : *next - 8;
      if (address >= end) {
        EXPECT_EQ(found.number, BlockMap::kNone);
        continue;
      }
      ASSERT_EQ(found.range.start, start);
      EXPECT_EQ(found.range.end, end);
      EXPECT_EQ(map.Get(found.number).range.end, end);
      EXPECT_EQ(map.Get(found.number).unused, found.unused);
    }
    uint32_t number = 0;
    map.ForEach([&](const BlockMap::Block& block) {
      EXPECT_EQ(block.number, number++);
      EXPECT_EQ(map.Get(block.number).range.start, block.range.start);
      EXPECT_EQ(map.Get(block.number).range.end, block.range.end);
    });
    EXPECT_EQ(number, map.size());
    EXPECT_EQ(map.Find(0x900010).range.end, 0x901000u);
    EXPECT_EQ(map.Find(0x90000f).number, BlockMap::kNone);
  }
}

// Retained sizes by definition: what is unreachable without a node.
std::vector<uint64_t> RetainedByDefinition(const std::vector<std::vector<uint32_t>>& to, uint32_t blocks,
                                           uint32_t root) {
  const auto reached_without = [&](uint32_t removed) {
    std::vector<bool> reached(root + 1);
    std::vector<uint32_t> next = {root};
    reached[root] = true;
    while (!next.empty()) {
      const uint32_t node = next.back();
      next.pop_back();
      for (const uint32_t other : to[node]) {
        if (other == removed || reached[other]) continue;
        reached[other] = true;
        next.push_back(other);
      }
    }
    return reached;
  };
  const std::vector<bool> all = reached_without(root + 1);
  std::vector<uint64_t> retained(root + 1);
  for (uint32_t node = 0; node < root; ++node) {
    if (!all[node]) continue;
    const std::vector<bool> rest = reached_without(node);
    for (uint32_t block = 0; block < blocks; ++block) retained[node] += all[block] && !rest[block] ? block + 1 : 0;
  }
  return retained;
}

TEST(HolderGraph, RetainedSizesAreWhatBecomesUnreachable) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    const auto blocks = static_cast<uint32_t>(1 + random() % 40), holders = static_cast<uint32_t>(random() % 4);
    const uint32_t root = blocks + holders;
    std::vector<std::vector<uint32_t>> to(root + 1);
    ScanBudget budget;
    HolderGraph graph;
    ASSERT_TRUE(graph.Begin(blocks, 10000, &budget));
    for (uint32_t node = 0; node < root; ++node) {
      for (size_t i = random() % 4; i > 0; --i) to[node].push_back(static_cast<uint32_t>(random() % blocks));
      if (node >= blocks) {
        ASSERT_TRUE(graph.AddHolder(to[node]));
        to[root].push_back(node);
        continue;
      }
      for (const uint32_t other : to[node]) ASSERT_TRUE(graph.AddPointer(node, other));
    }
    ASSERT_TRUE(graph.End());
    BigArray<uint32_t> previous;
    ASSERT_TRUE(graph.FindPaths(&previous));
    ASSERT_TRUE(graph
                    .FindDominators([&](BigArray<uint64_t>* bytes) {
                      for (uint32_t block = 0; block < blocks; ++block) (*bytes)[block] = block + 1;
                    })
                    .ok());
    const std::vector<uint64_t> retained = RetainedByDefinition(to, blocks, root);
    for (uint32_t node = 0; node < root; ++node) {
      const bool is_reached = graph.DominatorOf(node) != HolderGraph::kNone;
      EXPECT_EQ(is_reached, previous[node] != HolderGraph::kNone);
      if (is_reached) {
        EXPECT_EQ(graph.RetainedBy(node), retained[node]) << "round " << round << " node " << node;
      }
    }
  }
}

TEST(HolderGraph, ALongListNeedsNoStack) {
  constexpr uint32_t kBlocks = 1'000'000;
  ScanBudget budget;
  HolderGraph graph;
  ASSERT_TRUE(graph.Begin(kBlocks, kBlocks, &budget));
  for (uint32_t block = 0; block + 1 < kBlocks; ++block) ASSERT_TRUE(graph.AddPointer(block, block + 1));
  ASSERT_TRUE(graph.AddHolder({0}) && graph.End());
  ASSERT_TRUE(graph
                  .FindDominators([](BigArray<uint64_t>* bytes) {
                    for (uint32_t block = 0; block < kBlocks; ++block) (*bytes)[block] = 1;
                  })
                  .ok());
  EXPECT_EQ(graph.RetainedBy(0), kBlocks);
  EXPECT_EQ(graph.RetainedBy(kBlocks - 1), 1u);
}

TEST(HolderGraph, RefusesMoreMemoryThanTheBudget) {
  ScanBudget budget{.most_bytes = 4 << 20};
  HolderGraph graph;
  ASSERT_TRUE(graph.Begin(1000, 10'000'000, &budget));
  bool fits = true;
  for (uint32_t i = 0; i < 10'000'000 && fits; ++i) fits = graph.AddPointer(i / 10'000, 0);
  EXPECT_FALSE(fits);
  EXPECT_THAT(std::string(graph.Status().message()), ::testing::HasSubstr("4 MiB for 1000 blocks"));
}

TEST(Unreachable, ScansSettleWhenFewerThanOneInAThousandIsExpectedToBeFalse) {
  EXPECT_GT(ExpectedFalse({}), 1);
  EXPECT_GT(ExpectedFalse({0, 0, 0, 0, 0, 0}), 0.001);
  EXPECT_LT(ExpectedFalse({0, 0, 0, 0, 0, 0, 0}), 0.001);
  EXPECT_GT(ExpectedFalse({1000, 250, 60, 15, 4, 1}), 0.1);
  EXPECT_GT(ExpectedFalse({1000, 0, 0, 0, 0}), 0.001);
  EXPECT_LT(ExpectedFalse({40, 10, 2, 0, 0, 0, 0, 0, 0, 0}), 0.01);
}

// An allocator of unknown kind: two recorded blocks, and memory between them.
TEST(Unreachable, MemoryBetweenRecordedBlocksMayHoldThem) {
  MadeAddressSpace space;
  space.Add(0x100000, 0x110000, "", std::string(0x10000, '\0'));
  space.Add(0x200000, 0x201000, "/bin/program", std::string(0x1000, '\0'));
  HeapBlocksInput input;
  const LiveBlock recorded[] = {{0x100100, 64, 1}, {0x100200, 64, 1}, {0x100300, 64, 1}, {0x100400, 64, 1}};
  input.recorded = recorded;
  space.SetWord(0x200010, 0x100110);  // a global, to the middle of the first
  space.SetWord(0x100108, 0x100200);  // from there to the second
  space.SetWord(0x105000, 0x100300);  // the third: only from memory that is no recorded block
  const auto found = FindUnreachable(
      &space, [&] { return absl::StatusOr<HeapBlocksInput>(input); }, nullptr);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->settled);
  ASSERT_EQ(found->blocks.size(), 1u);
  EXPECT_EQ(found->blocks[0].range.start, 0x100400u);
  EXPECT_TRUE(found->blocks[0].direct);
}

// A heap of glibc: 3 MiB, with one block of 1 MiB among small ones. Some words are written after the first scan, as if
// the program had moved pointers.
class ChangingHeap : public MadeAddressSpace {
 public:
  static constexpr uint64_t kHeap = 0x10000000, kHeapBytes = uint64_t{3} << 20, kData = 0x7f0000000000,
                            kArena = kData + 0x400, kChunk = 0x40, kLarge = kHeap + (uint64_t{1} << 20),
                            kLargeBytes = uint64_t{1} << 20;

  ChangingHeap() {
    Add(kHeap, kHeap + kHeapBytes, "[heap]", std::string(kHeapBytes, '\0'));
    Add(kData, kData + 0x2000, "/lib/libc.so.6", std::string(0x2000, '\0'));
    AddMainArena(kArena, kHeap + kHeapBytes - kChunk);
    for (uint64_t chunk = kHeap; chunk < kHeap + kHeapBytes; chunk += chunk == kLarge ? kLargeBytes : kChunk)
      SetWord(chunk + 8, (chunk == kLarge ? kLargeBytes : kChunk) | 1);
  }
  static uint64_t Block(uint64_t i) { return kHeap + i * kChunk + 16; }
  void Free(uint64_t i) { SetWord(kHeap + (i + 1) * kChunk + 8, kChunk); }
  // Searches until the answer settles. A global leads to all blocks except the first ten, which are lost at first.
  Unreachable Search(const std::function<void()>& after_first_scan) {
    Add(0x200000, 0x200000 + kHeapBytes, "/bin/program", std::string(kHeapBytes, '\0'));
    for (uint64_t i = 10; Block(i) < kHeap + kHeapBytes; ++i) SetWord(0x200000 + i * 8, Block(i));
    int scans = 0;
    const auto prepare = [&]() -> absl::StatusOr<HeapBlocksInput> {
      read_ = 0;
      if (++scans == 2) after_first_scan();
      return HeapBlocksInput();
    };
    absl::StatusOr<Unreachable> found = FindUnreachable(this, prepare, [] { return std::nullopt; });
    EXPECT_TRUE(found.ok()) << found.status();
    EXPECT_GT(found->scans, 2);
    return *std::move(found);
  }
  uint64_t read() const { return read_; }  // bytes of the heap, in the last scan

  bool Read(uint64_t address, void* to, size_t bytes) const override {
    if (address >= kHeap && address < kHeap + kHeapBytes) read_ += bytes;
    return MadeAddressSpace::Read(address, to, bytes);
  }

 private:
  mutable uint64_t read_ = 0;
};

TEST(Unreachable, AFurtherScanReadsTheHeapOnce) {
  ChangingHeap space;
  EXPECT_EQ(space.Search([] {}).blocks.size(), 10u);
  EXPECT_GE(space.read(), ChangingHeap::kHeapBytes);
  EXPECT_LE(space.read(), ChangingHeap::kHeapBytes * 11 / 10);
}

TEST(Unreachable, AFurtherScanFindsPointersInAllUsedBlocks) {
  ChangingHeap space;
  space.Free(100);
  const Unreachable found = space.Search([&] {
    space.SetWord(space.Block(50) + 8, space.Block(0));                        // in a small block
    space.SetWord(ChangingHeap::kLarge + (512 << 10) + 8, space.Block(1));     // in the middle of a large one
    space.SetWord(ChangingHeap::kLarge + (1 << 20) - 8, space.Block(2) + 40);  // at its end
    space.SetWord(space.Block(40000), space.Block(3));                         // after it
    space.SetWord(space.Block(3) + 16, space.Block(4));                        // in a block that is found now
    space.SetWord(space.Block(100) + 16, space.Block(5));                      // in a free block
    space.SetWord(space.Block(7), space.Block(6));                             // in a lost one
    space.SetWord(space.Block(8), space.Block(8));                             // in itself
  });
  std::vector<uint64_t> starts;
  for (const UnreachableBlock& block : found.blocks) starts.push_back(block.range.start);
  EXPECT_THAT(starts,
              ::testing::ElementsAre(space.Block(5), space.Block(6), space.Block(7), space.Block(8), space.Block(9)));
}

// More words in free blocks lead to candidates than a scan remembers.
TEST(Unreachable, ManyStaleWordsDoNotHideAPointer) {
  ChangingHeap space;
  const Unreachable found = space.Search([&] {
    for (uint64_t i = 20; i < 10000; ++i) {
      if (i % 2 == 0) space.Free(i);
      for (uint64_t word = 0; word < 5 && i % 2 == 0; ++word) space.SetWord(space.Block(i) + word * 8, space.Block(1));
    }
    for (uint64_t at = ChangingHeap::kLarge + 64; at < ChangingHeap::kLarge + (1 << 20) - 64; at += 8)
      space.SetWord(at, space.Block(2));
    space.SetWord(space.Block(40000), space.Block(3));
  });
  std::vector<uint64_t> starts;
  for (const UnreachableBlock& block : found.blocks) starts.push_back(block.range.start);
  EXPECT_THAT(starts, ::testing::ElementsAre(space.Block(0), space.Block(1), space.Block(4), space.Block(5),
                                             space.Block(6), space.Block(7), space.Block(8), space.Block(9)));
}

// A scan that loses most of the heap says nothing: neither that its blocks are gone, nor that all have pointers.
TEST(Unreachable, AScanThatLosesTheHeapIsRepeated) {
  ChangingHeap space;
  int scans = 0;
  const auto lose = [&](bool lost) {
    for (uint64_t i = 100; i < 16000; ++i) space.SetWord(space.Block(i) - 8, lost ? 0 : ChangingHeap::kChunk | 1);
  };
  const auto search = [&](int first_lost, int last_lost) {
    scans = 0;
    const auto prepare = [&]() -> absl::StatusOr<HeapBlocksInput> {
      ++scans;
      lose(scans >= first_lost && scans <= last_lost);
      return HeapBlocksInput();
    };
    absl::StatusOr<Unreachable> found = FindUnreachable(&space, prepare, [] { return std::nullopt; });
    EXPECT_TRUE(found.ok()) << found.status();
    return *std::move(found);
  };
  const Unreachable once = search(2, 2);
  EXPECT_TRUE(once.is_complete && once.settled);
  EXPECT_GT(once.blocks.size(), 30000u);
  const Unreachable at_first = search(1, 2);
  EXPECT_TRUE(at_first.is_complete && at_first.settled);
  EXPECT_EQ(at_first.blocks.size(), once.blocks.size());
  const Unreachable always = search(1, kMaxScans);
  EXPECT_FALSE(always.is_complete);
  EXPECT_FALSE(always.settled);
  EXPECT_EQ(always.scans, kMaxScans);
}

TEST(PopulatedPages, ARunContinuesWhereTheLastReadEnded) {
  constexpr uint64_t kBytes = uint64_t{8} << 20;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const uint64_t start = reinterpret_cast<uint64_t>(memory);
  PopulatedPages pages(getpid());
  const uint64_t page = KernelPageBytes();
  EXPECT_EQ(pages.FirstRun(start, start + page).end, start + page);
  EXPECT_EQ(pages.FirstRun(start + page / 2, start + 4 * page).end, start + 4 * page);
  EXPECT_EQ(pages.FirstRun(start + 4 * page, start + kBytes).end, start + kBytes);
  munmap(memory, kBytes);
}

// Kernels for arm64 may have pages of 16 or 64 KiB.
TEST(PopulatedPages, AnEntryStandsForAPageOfTheKernel) {
  constexpr uint64_t kLargePage = 64 << 10, kStart = 0x1000000;
  MadePagemap made(kLargePage);
  made.Set(kStart + kLargePage, MadePagemap::kHere, 2);
  PopulatedPages pages(made.File(), PopulatedPages::Kind::kAll, kLargePage);
  const MemoryRange run = pages.FirstRun(kStart + 100, kStart + 8 * kLargePage);
  EXPECT_EQ(run.start, kStart + kLargePage);
  EXPECT_EQ(run.end, kStart + 3 * kLargePage);
}

// A heap of glibc: 64 KiB of chunks, all in use and empty, and libc's data with the main arena.
class MadeHeap : public MadeAddressSpace {
 public:
  static constexpr uint64_t kHeap = 0x10000000, kHeapBytes = 0x10000, kData = 0x7f0000000000, kArena = kData + 0x400,
                            kKey = 0x1234567890abcdef;

  explicit MadeHeap(const char* libc, uint64_t chunk_bytes = 0x40) : chunk_bytes_(chunk_bytes) {
    Add(kHeap, kHeap + kHeapBytes, "[heap]", std::string(kHeapBytes, '\0'));
    Add(kData, kData + 0x2000, libc, std::string(0x2000, '\0'));
    for (uint64_t chunk = kHeap; chunk + chunk_bytes <= kHeap + kHeapBytes; chunk += chunk_bytes)
      SetWord(chunk + 8, chunk_bytes | 1);
  }
  void SetVersion(const std::string& version) {
    std::string text = "GNU C Library (x) stable release version " + version + ".";
    text.resize(0x1000);
    Add(kData + 0x10000, kData + 0x11000, "/lib/libc.so.6", text, false);
  }
  uint64_t Block(uint64_t i) const { return kHeap + i * chunk_bytes_ + 16; }
  HeapBlocks Blocks() {
    absl::StatusOr<HeapBlocks> found = FindHeapBlocks(this, {});
    EXPECT_TRUE(found.ok()) << found.status();
    return *std::move(found);
  }

 private:
  const uint64_t chunk_bytes_;
};

// musl, and tcmalloc, use [heap] as well, and may fill it with anything.
TEST(GlibcBlocks, AHeapWithoutAMainArenaIsAnotherAllocators) {
  MadeHeap without("/lib/ld-musl-x86_64.so.1");
  EXPECT_EQ(without.Blocks().source, BlockSource::kNone);
  EXPECT_EQ(without.Blocks().unknown_bytes, MadeHeap::kHeapBytes);
  // Another allocator replaces malloc: libc's arena has no memory.
  MadeHeap unused("/lib/libc.so.6");
  unused.AddMainArena(MadeHeap::kArena, MadeHeap::kArena + 0x60);
  EXPECT_EQ(unused.Blocks().source, BlockSource::kNone);
  MadeHeap with("/lib/libc.so.6");
  with.AddMainArena(MadeHeap::kArena, MadeHeap::kHeap + MadeHeap::kHeapBytes - 0x40);
  EXPECT_EQ(with.Blocks().source, BlockSource::kGlibc);
  EXPECT_EQ(with.Blocks().map.size(), MadeHeap::kHeapBytes / 0x40);
}

// The program has extended its heap after the mappings were read.
TEST(GlibcBlocks, AHeapThatGrowsMeanwhileIsWalkedToItsEarlierEnd) {
  MadeHeap space("/lib/libc.so.6");
  space.AddMainArena(MadeHeap::kArena, MadeHeap::kHeap + MadeHeap::kHeapBytes + 0x20000);
  space.SetWord(MadeHeap::kHeap + MadeHeap::kHeapBytes - 0x40 + 8, 0x8001);
  const HeapBlocks blocks = space.Blocks();
  EXPECT_EQ(blocks.source, BlockSource::kGlibc);
  EXPECT_TRUE(blocks.is_complete);
  EXPECT_EQ(blocks.map.size(), MadeHeap::kHeapBytes / 0x40);
  EXPECT_FALSE(blocks.map.Find(space.Block(0x10000 / 0x40 - 2)).unused);
}

// With --exact the blocks of such a heap are known.
TEST(GlibcBlocks, RecordedBlocksInAnotherAllocatorsHeapAreKnown) {
  MadeHeap space("/lib/ld-musl-x86_64.so.1");
  const LiveBlock recorded[] = {{MadeHeap::kHeap + 0x100, 64, 1}, {MadeHeap::kHeap + 0x200, 64, 1}};
  HeapBlocksInput input;
  input.recorded = recorded;
  const absl::StatusOr<HeapBlocks> found = FindHeapBlocks(&space, input);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->source, BlockSource::kRecorded);
  EXPECT_EQ(found->map.Find(MadeHeap::kHeap + 0x210).range.start, MadeHeap::kHeap + 0x200);
}

// A program of glibc with one recorded block in a mapping that is not recognized as glibc's.
TEST(GlibcBlocks, ARecordedBlockElsewhereLeavesTheHeapGlibcs) {
  MadeHeap space("/lib/libc.so.6");
  space.AddMainArena(MadeHeap::kArena, MadeHeap::kHeap + MadeHeap::kHeapBytes - 0x40);
  space.Add(0x20000000, 0x20001000, "", std::string(0x1000, 'x'));
  const LiveBlock recorded[] = {{0x20000100, 64, 1}};
  HeapBlocksInput input;
  input.recorded = recorded;
  const absl::StatusOr<HeapBlocks> found = FindHeapBlocks(&space, input);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->source, BlockSource::kGlibc);
  EXPECT_EQ(found->map.Find(0x20000110).range.start, 0x20000100u);
}

// The kernel joins neighbouring mappings.
TEST(GlibcBlocks, MemoryBesideALargeBlockMayBeAnotherAllocators) {
  constexpr uint64_t kMapping = 0x20000000, kBlockBytes = 0x21000, kOther = 0x200000;
  MadeHeap space("/lib/libc.so.6");
  space.AddMainArena(MadeHeap::kArena, MadeHeap::kHeap + MadeHeap::kHeapBytes - 0x40);
  std::string bytes(kBlockBytes + kOther, 'x');
  bytes.replace(0, 16, std::string(16, '\0'));
  space.Add(kMapping, kMapping + bytes.size(), "", bytes);
  space.SetWord(kMapping + 8, kBlockBytes | 2);
  const HeapBlocks heap = space.Blocks();
  EXPECT_NE(heap.map.Find(kMapping + 16).number, BlockMap::kNone);
  EXPECT_EQ(heap.unknown_bytes, kOther);
}

// Since 2.43 the size in the head leaves out the head.
TEST(GlibcBlocks, ALargeBlockHasAMappingOfItsOwn) {
  constexpr uint64_t kMapping = 0x20000000, kBytes = 0x21000;
  for (const uint64_t left_out : {0, 16}) {
    MadeHeap space("/lib/libc.so.6");
    space.AddMainArena(MadeHeap::kArena, MadeHeap::kHeap + MadeHeap::kHeapBytes - 0x40);
    space.Add(kMapping, kMapping + 2 * kBytes, "", std::string(2 * kBytes, '\0'));
    for (const uint64_t start : {kMapping, kMapping + kBytes}) space.SetWord(start + 8, (kBytes - left_out) | 2);
    const HeapBlocks heap = space.Blocks();
    const BlockMap::Block block = heap.map.Find(kMapping + kBytes + 0x1000);
    EXPECT_EQ(block.range.start, kMapping + kBytes + 16);
    EXPECT_EQ(block.range.end, kMapping + 2 * kBytes);
  }
}

// Here a flag of a certificate, beside a pointer that looks like the hidden link of a cached chunk.
TEST(GlibcBlocks, AnotherNumberOfLibcsDataMarksNoChunk) {
  constexpr uint64_t kOther = 0xffffffff, kThird = 0x1234567890abcdee;
  MadeHeap space("/lib/libc.so.6");
  space.AddMainArena(MadeHeap::kArena, MadeHeap::kHeap + MadeHeap::kHeapBytes - 0x40);
  const auto mark = [&](uint64_t block, uint64_t number) {
    space.SetWord(block, block >> 12);
    space.SetWord(block + 8, number);
  };
  uint64_t place = MadeHeap::kData + 0x1800;
  for (const uint64_t number : {MadeHeap::kKey, kOther, kThird}) space.SetWord(place += 8, number);
  for (const uint64_t i : {3, 5}) mark(space.Block(i), MadeHeap::kKey);
  mark(space.Block(7), kOther);
  mark(space.Block(8), kThird);
  HeapBlocks heap = space.Blocks();
  EXPECT_TRUE(heap.knows_free);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(heap.map.Find(space.Block(i)).unused, i == 3 || i == 5) << i;
  mark(space.Block(9), kThird);  // as often as the other one
  EXPECT_FALSE(space.Blocks().knows_free);
}

// Also without their cache.
TEST(GlibcBlocks, CachedChunksAreKnownByTheirMark) {
  MadeHeap space("/lib/libc.so.6");
  space.AddMainArena(MadeHeap::kArena, MadeHeap::kHeap + MadeHeap::kHeapBytes - 0x40);
  space.SetWord(MadeHeap::kData + 0x1800, MadeHeap::kKey);
  const auto mark = [&](uint64_t block, uint64_t next) {
    space.SetWord(block, next ^ block >> 12);
    space.SetWord(block + 8, MadeHeap::kKey);
  };
  mark(space.Block(3), space.Block(5));
  mark(space.Block(5), 0);
  space.SetWord(space.Block(7) + 8, MadeHeap::kKey);  // a copy of a freed block: the link does not fit
  space.SetWord(space.Block(7), 0x4141414141414141);
  const HeapBlocks heap = space.Blocks();
  EXPECT_TRUE(heap.knows_free);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(heap.map.Find(space.Block(i)).unused, i == 3 || i == 5) << i;
}

// Up to 2.28 cached chunks have no mark: their second word is what the program left there.
TEST(GlibcBlocks, OldCachesAreListsWithoutMarks) {
  MadeHeap space("/lib/libc.so.6", 0x250);
  space.SetVersion("2.27");
  space.AddMainArena(MadeHeap::kArena, MadeHeap::kHeap + 0x250 * 20);
  const uint64_t cache = space.Block(0), bin = (0x250 - 0x20) / 16;
  for (uint64_t word = 0; word < 0x240; word += 8) space.SetWord(cache + word, 0);
  space.SetWord(cache + bin / 8 * 8, uint64_t{2} << bin % 8 * 8);  // two blocks
  space.SetWord(cache + 0x40 + bin * 8, space.Block(4));
  space.SetWord(space.Block(4), space.Block(6));
  for (const uint64_t i : {4, 6, 8}) space.SetWord(space.Block(i) + 8, 0x5555555555555555);
  const HeapBlocks heap = space.Blocks();
  EXPECT_TRUE(heap.knows_free);
  for (uint64_t i = 1; i < 10; ++i) EXPECT_EQ(heap.map.Find(space.Block(i)).unused, i == 4 || i == 6) << i;
}

// A thread that ends returns its cache to the arena, which keeps the mark, and so does malloc.
TEST(GlibcBlocks, AUsedBlockWithTheMarkKeepsWhatItLeadsTo) {
  MadeHeap space("/lib/libc.so.6", 0x290);
  space.SetVersion("2.36");
  space.AddMainArena(MadeHeap::kArena, MadeHeap::kHeap + 0x290 * 90);
  space.SetWord(MadeHeap::kData + 0x1800, MadeHeap::kKey);
  const auto mark = [&](uint64_t block, uint64_t next) {
    space.SetWord(block, next ^ block >> 12);
    space.SetWord(block + 8, MadeHeap::kKey);
  };
  const uint64_t cache = space.Block(0), bin = (0x290 - 0x20) / 16;
  space.SetWord(cache + bin / 4 * 8, uint64_t{2} << bin % 4 * 16);  // two blocks
  space.SetWord(cache + 0x80 + bin * 8, space.Block(4));
  mark(space.Block(4), space.Block(6));
  mark(space.Block(6), 0);
  mark(space.Block(8), space.Block(9) - 16);  // as left by a fast bin
  mark(space.Block(9), 0);
  space.SetWord(space.Block(4) + 16, space.Block(1));  // stale
  space.SetWord(space.Block(8) + 16, space.Block(2));
  space.SetWord(space.Block(9) + 16, space.Block(3));
  space.Add(0x7f1000000000, 0x7f1000001000, "/bin/program", std::string(0x1000, '\0'));
  space.SetWord(0x7f1000000000, cache);
  for (uint64_t i = 4; i < 99; ++i) space.SetWord(0x7f1000000000 + i * 8, space.Block(i));
  const HeapBlocks heap = space.Blocks();
  EXPECT_TRUE(heap.knows_free);
  EXPECT_EQ(heap.gaps.size(), 3u);  // also the rest of the heap, which is smaller than a chunk
  const auto found = FindUnreachable(
      &space, [] { return absl::StatusOr<HeapBlocksInput>(HeapBlocksInput()); }, nullptr);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->blocks.size(), 1u);
  EXPECT_EQ(found->blocks[0].range.start, space.Block(1));
}

// A heap of glibc 2.43: a cache has 76 numbers of free places, at first 16, then 76 lists.
class HeapOf243 : public MadeHeap {
 public:
  static constexpr uint64_t kMapping = 0x20000000, kLarge = 0x20000, kPlaces = 16, kBinOfCaches = (0x300 - 0x20) / 16;

  HeapOf243() : MadeHeap("/lib/libc.so.6", 0x300) {
    SetVersion("2.43");
    AddMainArena(kArena, kHeap + 0x300 * 80, 0x18);
    SetWord(kData + 0x1800, kKey);
    for (uint64_t i = 0; i < 76; ++i) SetPlaces(i, kPlaces);
    Add(kMapping, kMapping + kLarge, "", std::string(kLarge, '\0'));
    SetWord(kMapping + 8, (kLarge - 16) | 2);
  }
  void SetPlaces(uint64_t list, uint64_t number) {
    uint64_t word = 0;
    EXPECT_TRUE(Read(Block(0) + list / 4 * 8, &word, sizeof word));
    word = (word & ~(uint64_t{0xffff} << list % 4 * 16)) | number << list % 4 * 16;
    SetWord(Block(0) + list / 4 * 8, word);
  }
  void SetFirst(uint64_t list, uint64_t block) { SetWord(Block(0) + 76 * 2 + list * 8, block); }
  void Mark(uint64_t block, uint64_t next) {
    SetWord(block, next ^ block >> 12);
    SetWord(block + 8, kKey);
  }
  // Gaps are roots: here the rest of the heap, and marked blocks that are in no list.
  size_t MarkedInNoList() {
    const HeapBlocks heap = Blocks();
    EXPECT_TRUE(heap.knows_free);
    return heap.gaps.size() - 1;
  }
};

TEST(GlibcBlocks, CachesSince242HaveNumbersOfFreePlaces) {
  HeapOf243 space;
  space.SetPlaces(HeapOf243::kBinOfCaches, HeapOf243::kPlaces - 2);
  space.SetFirst(HeapOf243::kBinOfCaches, space.Block(4));
  space.Mark(space.Block(4), space.Block(6));
  space.Mark(space.Block(6), space.Block(8));
  space.Mark(space.Block(8), 0);  // two are in the list
  const HeapBlocks heap = space.Blocks();
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(heap.map.Find(space.Block(i)).unused, i == 4 || i == 6 || i == 8) << i;
  EXPECT_EQ(space.MarkedInNoList(), 1u);
  // Another number of an empty list: this is no cache.
  space.SetPlaces(0, HeapOf243::kPlaces - 1);
  EXPECT_EQ(space.MarkedInNoList(), 3u);
  space.SetPlaces(0, HeapOf243::kPlaces);
  EXPECT_EQ(space.MarkedInNoList(), 1u);
  // A block of another size.
  space.SetFirst(HeapOf243::kBinOfCaches, 0);
  space.SetPlaces(HeapOf243::kBinOfCaches, HeapOf243::kPlaces);
  space.SetFirst(HeapOf243::kBinOfCaches - 1, space.Block(4));
  space.SetPlaces(HeapOf243::kBinOfCaches - 1, HeapOf243::kPlaces - 2);
  EXPECT_EQ(space.MarkedInNoList(), 3u);
}

// A program may raise glibc.malloc.tcache_max.
TEST(GlibcBlocks, LargeBlocksMayBeCachedSince242) {
  HeapOf243 space;
  const uint64_t large = HeapOf243::kMapping + 16;
  space.SetWord(space.Block(10) - 8, 0x601);  // list 64: less than 2 KiB
  space.SetFirst(64, space.Block(10));
  space.SetPlaces(64, HeapOf243::kPlaces - 1);
  space.Mark(space.Block(10), 0);
  space.SetFirst(70, large);  // less than 128 KiB
  space.SetPlaces(70, HeapOf243::kPlaces - 1);
  space.Mark(large, 0);
  const HeapBlocks heap = space.Blocks();
  EXPECT_TRUE(heap.map.Find(space.Block(10)).unused);
  EXPECT_TRUE(heap.map.Find(large).unused);
  EXPECT_EQ(space.MarkedInNoList(), 0u);
  space.SetFirst(71, large);
  space.SetPlaces(71, HeapOf243::kPlaces - 1);
  EXPECT_EQ(space.MarkedInNoList(), 2u);  // a list of larger blocks: this is no cache
}

// The words after the state look like the end of another arena, which begins two bins later.
TEST(GlibcBlocks, TheMainArenaIsNotTakenForALaterOne) {
  HeapOf243 space;
  constexpr uint64_t kBins = MadeHeap::kArena + 0x18, kAfter = kBins + 0x828;
  for (const uint64_t i : {0, 1, 2, 3}) space.SetWord(kBins + i * 8, space.Block(20 + i) - 16);
  for (const uint64_t i : {0, 1}) space.SetWord(kAfter + 8 * i, 0);
  for (const uint64_t i : {2, 3}) space.SetWord(kAfter + 8 * i, 0x20000);
  const HeapBlocks heap = space.Blocks();
  EXPECT_TRUE(heap.knows_free);
  ASSERT_EQ(heap.ignored.size(), 1u);
  EXPECT_EQ(heap.ignored[0].start, MadeHeap::kArena);
}

// glibc 2.43 joins by the thread's state, earlier versions by its id.
TEST(NeverWoken, AJoinWaitsForTheEndOfAThread) {
  constexpr uint64_t kStack = 0x7f8000000000, kBytes = 0x10000, kBlock = kBytes - 0x1000;
  for (const uint64_t offset : {0x2d0, 0x628, 0x620}) {
    HeapOf243 space;
    std::vector<FutexWait> waits;
    for (uint32_t i = 0; i < 2; ++i) {
      const uint64_t stack = kStack + i * 0x100000;
      space.Add(stack, stack + kBytes, "", std::string(kBytes, '\0'));
      for (const uint64_t self : {0x0, 0x10}) space.SetWord(stack + kBlock + self, stack + kBlock);
      space.SetWord(stack + kBlock + 0x2d0, i + 1);
      space.SetWord(stack + kBlock + 0x690, stack);
      space.SetWord(stack + kBlock + 0x698, kBytes);
      space.AddThread({.id = static_cast<pid_t>(i + 1),
                       .inner_id = i + 1,
                       .number = i + 1,
                       .name = "",
                       .sp = stack + 0x8000,
                       .registers = {},
                       .has_all_registers = true});
    }
    waits.push_back({0, kStack + 0x8100});           // for a word on its own stack
    waits.push_back({1, kStack + kBlock + offset});  // for the first thread
    const auto chances = FindWakeChances(&space, {}, waits);
    ASSERT_TRUE(chances.ok()) << chances.status();
    EXPECT_EQ(chances->of_waits[0].kind, WakeChance::kNever);
    EXPECT_EQ(chances->of_waits[1].place == WakeChance::kEndOfThread, offset != 0x620) << offset;
    EXPECT_EQ(chances->of_waits[1].kind, offset == 0x620 ? WakeChance::kCanBeWoken : WakeChance::kNever) << offset;
  }
}

TEST(GlibcBlocks, AChunkInAFastBinMayHaveTheMark) {
  MadeHeap space("/lib/libc.so.6");
  space.AddMainArena(MadeHeap::kArena, MadeHeap::kHeap + MadeHeap::kHeapBytes - 0x40);
  space.SetVersion("2.36");
  space.SetWord(MadeHeap::kData + 0x1800, MadeHeap::kKey);
  space.SetWord(MadeHeap::kArena + 0x18, space.Block(2) - 16);
  space.SetWord(space.Block(2), space.Block(2) >> 12);
  space.SetWord(space.Block(2) + 8, MadeHeap::kKey);
  const HeapBlocks heap = space.Blocks();
  EXPECT_TRUE(heap.map.Find(space.Block(2)).unused);
  EXPECT_TRUE(heap.knows_free);
  EXPECT_TRUE(heap.gaps.empty());
}

// A list of free blocks that cannot be followed: free blocks may look used.
TEST(GlibcBlocks, ABrokenFastBinIsSaid) {
  MadeHeap space("/lib/libc.so.6");
  space.AddMainArena(MadeHeap::kArena, MadeHeap::kHeap + MadeHeap::kHeapBytes - 0x40);
  space.SetVersion("2.36");
  space.SetWord(MadeHeap::kArena + 0x18, space.Block(2) - 16);
  space.SetWord(space.Block(2), space.Block(2) >> 12);
  EXPECT_TRUE(space.Blocks().map.Find(space.Block(2)).unused);
  EXPECT_TRUE(space.Blocks().knows_free);
  space.SetWord(MadeHeap::kArena + 0x18, space.Block(2));
  EXPECT_FALSE(space.Blocks().knows_free);
}

// Heads that look right and lead far away, so that each search reads much and finds nothing.
TEST(GlibcBlocks, HostileSizesAreReadABoundedNumberOfTimes) {
  constexpr uint64_t kBytes = 64 << 20, kHeap = 0x20000000, kFar = 0x80000;
  class Counting : public MadeAddressSpace {
   public:
    bool Read(uint64_t address, void* to, size_t bytes) const override {
      bytes_read += bytes;
      return MadeAddressSpace::Read(address, to, bytes);
    }
    mutable uint64_t bytes_read = 0;
  };
  Counting space;
  std::string words(kBytes, '\0');
  const uint64_t size = kFar | 1;
  for (uint64_t at = 0; at + 16 <= kBytes; at += 16) {
    if (at / kFar % 8 != 7) memcpy(words.data() + at + 8, &size, sizeof size);  // after a few heads there is none
  }
  space.Add(kHeap, kHeap + kBytes, "[heap]", std::move(words));
  space.Add(MadeHeap::kData, MadeHeap::kData + 0x2000, "/lib/libc.so.6", std::string(0x2000, '\0'));
  space.AddMainArena(MadeHeap::kArena, kHeap + 0x40);
  EXPECT_TRUE(FindHeapBlocks(&space, {}).ok());
  EXPECT_LT(space.bytes_read, uint64_t{1} << 30);
}

TEST(Roots, WrittenPagesMayHoldPointersAlsoIfTheyAreReadOnlyNow) {
  MemoryMapping mapping;
  mapping.readable = true;
  mapping.name = "/bin/program";
  EXPECT_TRUE(MayHoldPointers(mapping));
  EXPECT_TRUE(IsReadOnlyFile(mapping));
  mapping.shared = true;
  EXPECT_FALSE(MayHoldPointers(mapping));
  for (const char* memory : {"/memfd:jit (deleted)", "/dev/shm/x", "/dev/zero (deleted)"}) {
    mapping.name = memory;
    EXPECT_TRUE(MayHoldPointers(mapping)) << memory;
  }
  mapping.name = "/dev/dri/card0";
  EXPECT_FALSE(MayHoldPointers(mapping));
}

// The stack of a coroutine that sleeps may be below that of the running one.
TEST(Roots, MemoryBelowTheStackPointerIsDeadOnlyOnTheThreadsOwnStack) {
  MadeAddressSpace space;
  constexpr uint64_t kStack = 0x7ffe00000000, kStackPointer = kStack + 0x4000, kStart = kStack + 0xf000;
  space.Add(kStack, kStack + 0x10000, "[stack]", std::string(0x10000, '\0'));
  space.AddThread({.id = 1, .inner_id = 1, .number = 1, .name = "", .sp = kStackPointer, .registers = {}});
  space.SetStackStart(kStart);
  const auto covers = [&](const HeapBlocksInput& input) {
    const std::vector<RootRange> roots = FindRoots(&space, HeapBlocks(), input);
    return std::any_of(roots.begin(), roots.end(),
                       [](const RootRange& root) { return root.range.Contains(kStack + 0x1000); });
  };
  HeapBlocksInput input;
  EXPECT_TRUE(covers(input));  // the walk fails
  input.outermost_end = [](const TargetThread&) { return std::optional<uint64_t>(kStack + 0x8000); };
  EXPECT_TRUE(covers(input));  // the walk ends at the coroutine's first function
  input.outermost_end = [=](const TargetThread&) { return std::optional<uint64_t>(kStart); };
  EXPECT_FALSE(covers(input));
}

// A thread that has ended: libc keeps its stack for the next one. The kernel has joined the stack with what the program
// mapped before it.
TEST(Roots, StacksOfEndedThreadsAreDeadAlsoIfTheyAreJoined) {
  class Space : public MadeAddressSpace {
   public:
    void AddGuard(uint64_t start, uint64_t end) {
      Add(start, end, "", "", false);
      const auto guard = std::find_if(mappings_.begin(), mappings_.end(),
                                      [&](const MemoryMapping& mapping) { return mapping.start == start; });
      guard->readable = false;
    }
  };
  constexpr uint64_t kStack = 0x7f0000001000, kStackBytes = 0x10000, kMapped = 0x100000;
  constexpr uint64_t kBlock = kStack + kStackBytes - 0x900;
  Space space;
  space.AddGuard(kStack - 0x1000, kStack);
  space.Add(kStack, kStack + kStackBytes + kMapped, "", std::string(kStackBytes + kMapped, '\0'));
  for (const uint64_t offset : {0x0, 0x10}) space.SetWord(kBlock + offset, kBlock);
  space.SetWord(kBlock + 0x690, kStack);
  space.SetWord(kBlock + 0x698, kStackBytes);
  HeapBlocksInput input;
  const auto covers = [&](uint64_t address) {
    const std::vector<RootRange> roots = FindRoots(&space, HeapBlocks(), input);
    return std::any_of(roots.begin(), roots.end(), [&](const RootRange& root) { return root.range.Contains(address); });
  };
  EXPECT_TRUE(covers(kStack + 0x1000)) << "where the stack ends is not known";
  input.mapped = {{kStack + kStackBytes, kStack + kStackBytes + kMapped}};
  EXPECT_FALSE(covers(kStack + 0x1000));
  EXPECT_TRUE(covers(kBlock)) << "joining returns the result";
  EXPECT_TRUE(covers(kStack + kStackBytes + 0x1000)) << "the program's";
  space.AddThread({.id = 2, .inner_id = 2, .number = 2, .name = "", .sp = kStack + 0x8000, .registers = {}});
  EXPECT_TRUE(covers(kStack + 0x1000)) << "another thread has it now";
}

// Counts what is read.
class CountingSpace : public MadeAddressSpace {
 public:
  bool Read(uint64_t address, void* to, size_t bytes) const override {
    bytes_read_ += bytes;
    ++reads_;
    return MadeAddressSpace::Read(address, to, bytes);
  }
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t reads() const { return reads_; }

 private:
  mutable uint64_t bytes_read_ = 0, reads_ = 0;
};

// The nodes of a sorted list, of trees and of hash tables are anywhere: to read each when it is reached takes long.
TEST(Marker, ScatteredBlocksAreReadTogether) {
  constexpr uint64_t kRoot = 0x10000, kHeap = 0x10000000, kBlock = 32, kCount = 100'000, kLost = 1000;
  std::mt19937_64 random(1);
  std::vector<uint64_t> order(kCount);
  for (uint64_t i = 0; i < kCount; ++i) order[i] = kHeap + i * kBlock;
  std::shuffle(order.begin(), order.end(), random);
  std::string heap_bytes(kCount * kBlock, '\0');
  const auto set = [&](uint64_t address, uint64_t word) { memcpy(&heap_bytes[address - kHeap], &word, sizeof word); };
  for (uint64_t i = 0; i < kCount; ++i) {  // a list of the first blocks, and one of the others, which nothing holds
    set(order[i], i + 1 == kCount - kLost ? 0 : order[(i + 1) % kCount]);
    set(order[i] + 8, i < kCount - kLost ? order[random() % (i + 1)] : order[random() % kCount]);
  }
  set(order[kCount - 1], order[kCount - kLost]);
  BlockMap map;
  map.AddHeap({kHeap, kHeap + kCount * kBlock}, 0);
  map.Seal();
  for (const uint64_t block : order) map.AddBlock(block);
  map.Number();
  for (const uint64_t most_bytes : {uint64_t{16} << 20, uint64_t{1000}}) {  // enough, and too little for the pointers
    CountingSpace space;
    space.Add(kRoot, kRoot + kSmallestPage, "/program", std::string(kSmallestPage, '\0'));
    space.SetWord(kRoot, order[0]);
    space.Add(kHeap, kHeap + heap_bytes.size(), "[heap]", heap_bytes);
    Marker marker(&space, map, {}, most_bytes);
    marker.MarkRoot({{kRoot, kRoot + kSmallestPage}, RootKind::kData, 0});
    marker.Follow();
    for (uint64_t i = 0; i < kCount; ++i)
      ASSERT_EQ(marker.IsMarked(map.Find(order[i]).number), i < kCount - kLost) << i;
    if (most_bytes > 1000) {
      EXPECT_LT(space.reads(), kCount / 8);
    }
  }
}

// Stacks without guard pages are one mapping.
TEST(Roots, TheSearchForAControlBlockEndsAtTheBlock) {
  constexpr uint64_t kStacks = 0x7f0000000000, kStack = 16 << 10, kCount = 1000;
  CountingSpace space;
  space.Add(kStacks, kStacks + kCount * kStack, "", std::string(kCount * kStack, '\0'));
  for (uint64_t i = 0; i < kCount; ++i) {
    const uint64_t stack = kStacks + i * kStack, block = stack + kStack - 0x900;
    space.SetWord(block, block);
    space.SetWord(block + 16, block);
    space.SetWord(block + 64, stack);
    space.SetWord(block + 72, kStack);
    space.AddThread({.id = 1, .inner_id = 0, .number = 1, .name = "", .sp = stack + 0x1000, .registers = {}});
  }
  const std::vector<RootRange> roots = FindRoots(&space, HeapBlocks(), {});
  EXPECT_GE(roots.size(), 2 * kCount);
  EXPECT_LT(space.bytes_read(), kCount * (128 << 10));
}

// A runtime's own threads have no control blocks, and their stacks may be in a large heap.
TEST(Roots, TheSearchForControlBlocksIsBounded) {
  constexpr uint64_t kMapping = 0x7f0000000000, kBytes = 8 << 20, kThreads = 1000;
  CountingSpace space;
  space.Add(kMapping, kMapping + kBytes, "", std::string(kBytes, '\0'));
  for (uint64_t i = 0; i < kThreads; ++i)
    space.AddThread({.id = 1, .inner_id = 1, .number = 1, .name = "", .sp = kMapping + i * 64, .registers = {}});
  EXPECT_FALSE(FindRoots(&space, HeapBlocks(), {}).empty());
  EXPECT_LT(space.bytes_read(), uint64_t{2} << 30);
}

// Each thread is searched as deep as the others.
TEST(Roots, ThreadsWithoutBlocksLeaveTheSearchToOthers) {
  constexpr uint64_t kHeaps = 0x7f0000000000, kHeap = 256 << 20, kThreads = 8;
  constexpr uint64_t kStack = 0x7f8000000000, kBytes = 1 << 20, kBlock = kStack + kBytes - 0x900;
  // All of the heaps is 0, and needs no memory here.
  class Space : public MadeAddressSpace {
   public:
    bool Read(uint64_t address, void* to, size_t bytes) const override {
      if (address >= kStack) return MadeAddressSpace::Read(address, to, bytes);
      bytes_read_ += bytes;
      memset(to, 0, bytes);
      return true;
    }
    MemoryRange PopulatedRun(uint64_t from, uint64_t end) override {
      return from >= kStack ? MadeAddressSpace::PopulatedRun(from, end) : MemoryRange{from, end};
    }
    uint64_t bytes_read() const { return bytes_read_; }

   private:
    mutable uint64_t bytes_read_ = 0;
  };
  Space space;
  for (uint64_t i = 0; i < kThreads; ++i) {
    const uint64_t heap = kHeaps + 2 * i * kHeap;
    space.Add(heap, heap + kHeap, "", "");
    space.AddThread({.id = 1, .inner_id = 1, .number = 1, .name = "", .sp = heap, .registers = {}});
  }
  space.Add(kStack, kStack + kBytes, "", std::string(kBytes, '\0'));
  space.SetWord(kBlock, kBlock);
  space.SetWord(kBlock + 16, kBlock);
  space.SetWord(kBlock + 64, kStack);
  space.SetWord(kBlock + 72, kBytes);
  space.AddThread({.id = 2, .inner_id = 0, .number = 2, .name = "", .sp = kStack + 0x1000, .registers = {}});
  uint32_t unknown_stacks = 0;
  const std::vector<RootRange> roots = FindRoots(&space, HeapBlocks(), {}, &unknown_stacks);
  EXPECT_TRUE(std::any_of(roots.begin(), roots.end(), [](const RootRange& root) {
    return root.kind == RootKind::kThreadBlock && root.range.start == kBlock;
  }));
  EXPECT_EQ(unknown_stacks, kThreads);
  EXPECT_LT(space.bytes_read(), uint64_t{2} << 30);
}

// The kernel joins neighbouring mappings, also the library's and the program's.
TEST(Roots, MemoryBesideTheLibrarysHoldsBlocks) {
  constexpr uint64_t kMapping = 0x20000000, kLibrarys = 0x1000;
  MadeHeap space("/lib/libc.so.6");
  space.AddMainArena(MadeHeap::kArena, MadeHeap::kHeap + MadeHeap::kHeapBytes - 0x40);
  space.Add(kMapping, kMapping + 0x200000, "", std::string(0x200000, 'x'));
  HeapBlocksInput input;
  input.excluded = {{kMapping, kMapping + kLibrarys}};
  const absl::StatusOr<HeapBlocks> heap = FindHeapBlocks(&space, input);
  ASSERT_TRUE(heap.ok()) << heap.status();
  EXPECT_EQ(heap->unknown_bytes, 0x200000 - kLibrarys);
  const std::vector<RootRange> roots = FindRoots(&space, *heap, input);
  const auto covers = [&](uint64_t address) {
    return std::any_of(roots.begin(), roots.end(), [=](const RootRange& root) { return root.range.Contains(address); });
  };
  EXPECT_TRUE(covers(kMapping + kLibrarys));
  EXPECT_FALSE(covers(kMapping));
}

TEST(KernelWords, AreInTheTextOfEpollDescriptorsAndTimers) {
  std::vector<uint64_t> words;
  AddEpollData(
      "pos:\t0\nflags:\t02000002\n"
      "tfd:        5 events:       19 data:     55d0c0ffee00  pos:0 ino:2a sdev:d\n"
      "tfd:        6 events:       19 data:                0  pos:0 ino:2b sdev:d\n"
      "tfd: data:\n",
      &words);
  EXPECT_EQ(words, (std::vector<uint64_t>{0x55d0c0ffee00}));
  AddTimerValues("ID: 0\nsignal: 34/000055d0c0ffee20\nnotify: signal/pid.7\nClockID: 1\nsignal: none\n", &words);
  EXPECT_EQ(words, (std::vector<uint64_t>{0x55d0c0ffee00, 0x55d0c0ffee20}));
}

TEST(LibraryMemory, IsListedInTheLibrarysData) {
  MadeAddressSpace space;
  constexpr uint64_t kData = 0x7f0000000000;
  space.Add(kData, kData + 0x1000, "/lib/holdfast/libholdfast.so", std::string(0x1000, '\0'));
  EXPECT_TRUE(FindLibraryMemory(&space).empty());
  const uint64_t list[] = {kOwnMemoryMark[0],
                           kOwnMemoryMark[1],
                           4,  // 4 ranges
                           0x7000,
                           0x9000,
                           0x1000,
                           0x2000,
                           0,
                           0x5000,
                           0x8000,
                           0xa000};
  for (size_t i = 0; i < std::size(list); ++i) space.SetWord(kData + 0x48 + i * 8, list[i]);
  MadeAddressSpace in_memory;
  in_memory.Add(kData, kData + 0x1000, "/memfd:libholdfast.so (deleted)", std::string(0x1000, '\0'));
  for (size_t i = 0; i < std::size(list); ++i) in_memory.SetWord(kData + 0x48 + i * 8, list[i]);
  EXPECT_EQ(FindLibraryMemory(&in_memory).size(), 3u);
  const std::vector<MemoryRange> ranges = FindLibraryMemory(&space);
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].start, 0x1000u);
  EXPECT_EQ(ranges[1].end, 0x9000u);
  EXPECT_EQ(ranges[2].start, 0x9000u);  // without overlaps
}

// A program that waits for its input, and begins another one then.
TEST(ProcessAddressSpace, AnExecBetweenScansIsAnError) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    if (read(ends[0], &byte, 1) == 1) execl("/bin/sleep", "sleep", "100", nullptr);
    _exit(1);
  }
  const auto space = ProcessAddressSpace::Open(child);
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_TRUE((*space)->Refresh().ok());
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  absl::Status status;
  while ((status = (*space)->Refresh()).ok()) usleep(1000);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("began another program"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

char StateOf(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(stat), {}};
  return text[text.rfind(')') + 2];
}

// The table is read in this moment, so that both know the same blocks.
TEST(CopiedAddressSpace, CallsBackWhileTheProcessIsStopped) {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  const auto space = ProcessAddressSpace::Open(child);
  ASSERT_TRUE(space.ok()) << space.status();
  char state = '?';
  const auto copy = CopiedAddressSpace::Make(space->get(), uint64_t{1} << 30, [&] {
    state = StateOf(child);
    return absl::OkStatus();
  });
  EXPECT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(state, 't');
  EXPECT_NE(StateOf(child), 't');
  ASSERT_FALSE((*copy)->threads().empty());
  EXPECT_TRUE((*copy)->threads()[0].has_all_registers);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(CopiedAddressSpace, AProcessThatASignalStoppedRemainsStopped) {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  kill(child, SIGSTOP);
  ASSERT_EQ(waitpid(child, nullptr, WUNTRACED), child);
  const auto space = ProcessAddressSpace::Open(child);
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_TRUE(CopiedAddressSpace::Make(space->get(), uint64_t{1} << 30, [] { return absl::OkStatus(); }).ok());
  char state;
  while ((state = StateOf(child)) == 'R') usleep(1000);  // on its way back
  EXPECT_EQ(state, 'T');
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// A thread that waits in vfork for its child cannot stop.
TEST(CopiedAddressSpace, AThreadThatTheKernelCannotStopCountsAsStopped) {
  const pid_t child = fork();
  if (child == 0) {
    if (vfork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) pause();
    }
    _exit(0);
  }
  while (StateOf(child) != 'D') usleep(1000);
  const auto space = ProcessAddressSpace::Open(child);
  ASSERT_TRUE(space.ok()) << space.status();
  const auto copy = CopiedAddressSpace::Make(space->get(), uint64_t{1} << 30, [] { return absl::OkStatus(); });
  EXPECT_TRUE(copy.ok()) << copy.status();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(CoreAddressSpace, RefusesWhatIsNoCoreFile) {
  const auto message_of = [](const std::string& bytes) {
    FileDescriptor file = FileInMemory(bytes);
    const auto space = CoreAddressSpace::Open(std::move(file));
    return space.ok() ? std::string("none") : std::string(space.status().message());
  };
  EXPECT_EQ(message_of(""), "is no core file");
  EXPECT_EQ(message_of("some text that is no core"), "is neither a process id nor a core file");
  for (const char* start : {"\x28\xb5\x2f\xfd", "\x04\x22\x4d\x18", "\x1f\x8b", "\3757zXZ", "BZh"})
    EXPECT_THAT(message_of(start + std::string(" compressed")), ::testing::HasSubstr("is compressed"));
  std::ifstream program("/proc/self/exe", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(program), {}};
  EXPECT_EQ(message_of(bytes), "is an ELF file, but no core file");
}

// The bytes of a core file.
class MadeCore {
 public:
  // `bytes`: of the mapping from `start` on; the mapping has `size`.
  void Add(uint64_t start, uint64_t size, uint32_t rights, const std::string& bytes) {
    Elf64_Phdr header{.p_type = PT_LOAD,
                      .p_flags = rights,
                      .p_offset = contents_.size(),
                      .p_vaddr = start,
                      .p_paddr = 0,
                      .p_filesz = bytes.size(),
                      .p_memsz = size,
                      .p_align = 1};
    headers_.push_back(header);
    contents_ += bytes;
  }
  void AddFile(uint64_t start, uint64_t end, uint64_t page, const std::string& path) {
    for (const uint64_t word : {start, end, page}) files_.push_back(word);
    paths_ += path + '\0';
  }
  void AddRandomBytes(uint64_t address) {
    for (const uint64_t word : {uint64_t{AT_RANDOM}, address}) auxv_.push_back(word);
  }
  // `first`: where the contents begin in the file, after the headers and the notes.
  std::string Bytes(size_t first = 4096) const {
    const std::vector<uint64_t> counts = {files_.size() / 3, kSmallestPage};
    const std::string note = Note(NT_AUXV, BytesOf(auxv_)) + Note(NT_FILE, BytesOf(counts) + BytesOf(files_) + paths_);
    std::vector<Elf64_Phdr> headers = headers_;
    for (Elf64_Phdr& header : headers) header.p_offset += first;
    const Elf64_Phdr notes{.p_type = PT_NOTE,
                           .p_flags = 0,
                           .p_offset = sizeof(Elf64_Ehdr) + (headers.size() + 1) * sizeof(Elf64_Phdr),
                           .p_vaddr = 0,
                           .p_paddr = 0,
                           .p_filesz = note.size(),
                           .p_memsz = 0,
                           .p_align = 1};
    headers.push_back(notes);
    Elf64_Ehdr head{};
    memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_type = ET_CORE;
    head.e_machine = MachineOfThisTest();
    head.e_phoff = sizeof head;
    head.e_phentsize = sizeof(Elf64_Phdr);
    head.e_phnum = static_cast<uint16_t>(headers.size());
    std::string bytes = BytesOf(std::vector{head}) + BytesOf(headers) + note;
    EXPECT_LE(bytes.size(), first);
    bytes.resize(first);
    return bytes + contents_;
  }

 private:
  template <typename T>
  static std::string BytesOf(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
  }
  static std::string Note(uint32_t type, const std::string& body) {
    const Elf64_Nhdr head{.n_namesz = 5, .n_descsz = static_cast<uint32_t>(body.size()), .n_type = type};
    std::string note = BytesOf(std::vector{head}) + std::string("CORE\0\0\0\0", 8) + body;
    note.resize((note.size() + 3) / 4 * 4);
    return note;
  }
  static uint16_t MachineOfThisTest() {
    Elf64_Ehdr head{};
    std::ifstream("/proc/self/exe", std::ios::binary).read(reinterpret_cast<char*>(&head), sizeof head);
    return head.e_machine;
  }
  std::vector<Elf64_Phdr> headers_;
  std::string contents_, paths_;
  std::vector<uint64_t> files_, auxv_;
};

TEST(CoreAddressSpace, MappingsThatGcoreLeavesOutAreReadFromTheirFile) {
  const std::string path = ::testing::TempDir() + "left_out_of_a_core";
  const std::string first(kSmallestPage, 'f'), second(kSmallestPage, 's');
  std::ofstream(path) << first << second << second;
  constexpr uint64_t kStart = 0x10000;
  MadeCore core;
  core.Add(kStart, kSmallestPage, PF_R, first);
  core.Add(kStart + 2 * kSmallestPage, kSmallestPage, PF_R | PF_W, std::string(kSmallestPage, 'w'));
  for (uint64_t page = 0; page < 3; ++page)
    core.AddFile(kStart + page * kSmallestPage, kStart + (page + 1) * kSmallestPage, page, path);
  const auto space = CoreAddressSpace::Open(FileInMemory(core.Bytes()));
  ASSERT_TRUE(space.ok()) << space.status();
  ASSERT_EQ((*space)->mappings().size(), 3u);
  const MemoryMapping* code = (*space)->MappingAt(kStart + kSmallestPage);
  ASSERT_NE(code, nullptr);
  EXPECT_EQ(code->name, path);
  EXPECT_FALSE(code->writable);
  std::string got(3 * kSmallestPage, '\0');
  ASSERT_TRUE((*space)->Read(kStart, got.data(), got.size()));
  EXPECT_EQ(got, first + second + std::string(kSmallestPage, 'w'));
  EXPECT_EQ((*space)->missing_bytes(), 0u);
  std::filesystem::remove(path);
}

// The kernel and gcore leave out shared mappings of files: the program may have written pointers into them.
TEST(CoreAddressSpace, SharedMappingsOfFilesAreMissing) {
  const auto missing_with = [](const std::string& path, bool has_segment) {
    MadeCore core;
    core.Add(0x10000, kSmallestPage, PF_R | PF_W, std::string(kSmallestPage, 'm'));
    if (has_segment) core.Add(0x20000, kSmallestPage, PF_R | PF_W, "");
    core.AddFile(0x20000, 0x20000 + kSmallestPage, 0, path);
    const auto space = CoreAddressSpace::Open(FileInMemory(core.Bytes()));
    if (!space.ok()) return UINT64_MAX;
    EXPECT_EQ((*space)->unclear_bytes(), (*space)->missing_bytes());  // or private, and never written
    return (*space)->missing_bytes();
  };
  EXPECT_EQ(missing_with("/var/lib/some.db", true), kSmallestPage);
  EXPECT_EQ(missing_with("/dev/shm/of_the_program", false), kSmallestPage);
  EXPECT_EQ(missing_with("/usr/lib/locale/locale-archive", false), 0u);
  EXPECT_EQ(missing_with("/dev/shm/holdfast.4242.1.table", true), 0u);
}

TEST(CoreAddressSpace, WhatATruncatedCoreLacksIsMissingOnce) {
  constexpr uint64_t kData = 0x20000, kStack = 0x30000;
  MadeCore core;
  core.Add(0x10000, kSmallestPage, PF_R | PF_W, std::string(kSmallestPage, 'm'));
  core.Add(0x18000, kSmallestPage, PF_R | PF_W, "");  // no page was ever written
  core.AddFile(kData, kData + 2 * kSmallestPage, 0, "/lib/x.so");
  core.AddRandomBytes(kStack + 0x100);
  core.Add(kData, 2 * kSmallestPage, PF_R | PF_W, std::string(2 * kSmallestPage, 'd'));
  core.Add(kStack, kSmallestPage, PF_R | PF_W, std::string(kSmallestPage, 's'));
  for (const uint64_t cut : {uint64_t{0}, kSmallestPage / 2, 2 * kSmallestPage}) {
    const std::string bytes = core.Bytes();
    const size_t data = bytes.find(std::string(kSmallestPage, 'd'));
    ASSERT_NE(data, std::string::npos);
    const auto space = CoreAddressSpace::Open(FileInMemory(bytes.substr(0, data + cut)));
    ASSERT_TRUE(space.ok()) << space.status();
    EXPECT_EQ((*space)->missing_bytes(), 3 * kSmallestPage - cut) << cut;
    EXPECT_EQ((*space)->unclear_bytes(), 0u) << cut;
  }
}

// On a tmpfs the kernel searches for the end of the data page by page. So this is asked when the file is opened, and not
// for each read.
TEST(CoreAddressSpace, HolesAreSearchedOnce) {
  constexpr uint64_t kStart = 0x100000, kData = 64 << 10, kHole = 1 << 20;
  MadeCore core;
  core.Add(kStart, 2 * kData + kHole, PF_R | PF_W, std::string(2 * kData + kHole, 'd'));
  FileDescriptor file = FileInMemory(core.Bytes(kData));
  ASSERT_EQ(fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2 * kData, kHole), 0);
  const FileDescriptor same(dup(file.get()));
  const auto space = CoreAddressSpace::Open(std::move(file));
  ASSERT_TRUE(space.ok()) << space.status();
  ASSERT_EQ(fallocate(same.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 2 * kData), 0);
  constexpr uint64_t kEnd = kStart + 2 * kData + kHole;
  const auto run = [&](uint64_t from) { return (*space)->PopulatedRun(from, kEnd); };
  EXPECT_EQ(run(kStart).start, kStart);
  EXPECT_EQ(run(kStart).end, kStart + kData);
  EXPECT_EQ(run(kStart + kData).start, kStart + kData + kHole);
  EXPECT_EQ(run(kStart + kData).end, kEnd);
  EXPECT_EQ(run(kStart + kSmallestPage).start, kStart + kSmallestPage);
  EXPECT_EQ((*space)->PopulatedRun(kStart + kData, kStart + kData + kHole).start, kStart + kData + kHole);
}

// gcore places memory anywhere in the file, so holes may begin and end within words of the process.
TEST(CoreAddressSpace, HolesMayBeginWithinWords) {
  constexpr uint64_t kStart = 0x100000, kData = 64 << 10, kHole = 256 << 10, kBytes = 2 * (kData + kHole) + kData;
  for (const uint64_t shift : {0, 4}) {
    MadeCore core;
    core.Add(kStart, kBytes, PF_R | PF_W, std::string(kBytes, 'd'));
    FileDescriptor file = FileInMemory(core.Bytes(kData + shift));
    for (const uint64_t hole : {2 * kData, 3 * kData + kHole})
      ASSERT_EQ(fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(hole), kHole), 0);
    std::vector<uint64_t> expected(kBytes / 8);
    ASSERT_EQ(pread(file.get(), expected.data(), kBytes, kData + shift), static_cast<ssize_t>(kBytes));
    const auto space = CoreAddressSpace::Open(std::move(file));
    ASSERT_TRUE(space.ok()) << space.status();
    std::vector<uint64_t> words(kBytes / 8);  // holes are zeros
    uint64_t visited = 0;
    ForEachPiece(space->get(), kStart, kStart + kBytes, [&](uint64_t at, std::span<const uint64_t> piece) {
      ASSERT_EQ(at % 8, 0u);
      std::copy(piece.begin(), piece.end(), words.begin() + static_cast<ptrdiff_t>((at - kStart) / 8));
      visited += piece.size();
    });
    EXPECT_EQ(words, expected) << shift;
    EXPECT_LE(visited, (3 * kData + 16) / 8);
  }
}

// A core may claim as many mappings as fit into its notes.
TEST(CoreAddressSpace, OverlappingFilesAreOneMapping) {
  constexpr uint64_t kStart = 0x10000;
  MadeCore core;
  for (uint64_t i = 0; i < 8; i += 2) core.Add(kStart + i * kSmallestPage, kSmallestPage, PF_R, "");
  for (uint64_t i = 0; i < 8; ++i) core.AddFile(kStart + i, kStart + 8 * kSmallestPage + i, 0, "/lib/x.so");
  const auto space = CoreAddressSpace::Open(FileInMemory(core.Bytes()));
  ASSERT_TRUE(space.ok()) << space.status();
  uint64_t at = kStart;
  for (const MemoryMapping& mapping : (*space)->mappings()) {
    EXPECT_EQ(mapping.start, at);
    at = mapping.end;
  }
  EXPECT_EQ(at, kStart + 8 * kSmallestPage + 7);
}

// A mapping of many pages that contain no heap.
TEST(GlibcBlocks, TheSearchForLargeBlocksEndsOnRequest) {
  constexpr uint64_t kMapping = 0x20000000, kBytes = uint64_t{1} << 30;
  class Space : public MadeHeap {
   public:
    using MadeHeap::MadeHeap;
    MemoryRange PopulatedRun(uint64_t from, uint64_t end) override {
      if (from < kMapping || from >= kMapping + kBytes) return MadeHeap::PopulatedRun(from, end);
      if (++searches_ == 1000) stop.request_stop();
      return {from, end};
    }
    uint64_t searches() const { return searches_; }
    std::stop_source stop;

   private:
    uint64_t searches_ = 0;
  };
  Space space("/lib/libc.so.6");
  space.AddMainArena(MadeHeap::kArena, MadeHeap::kHeap + MadeHeap::kHeapBytes - 0x40);
  space.Add(kMapping, kMapping + kBytes, "", "");
  space.EndOn(space.stop.get_token());
  space.Blocks();
  EXPECT_TRUE(space.stop.stop_requested());
  EXPECT_LT(space.searches(), 2000u);
}

TEST(HolderScan, EndsEarlyOnRequest) {
  // Requests the end when the heap is read for the first time, and counts what is read afterwards.
  class Space : public MadeAddressSpace {
   public:
    explicit Space(std::stop_source stop) : stop_(std::move(stop)) {}
    bool Read(uint64_t address, void* to, size_t bytes) const override {
      read_after_stop_ += stop_.stop_requested() ? bytes : 0;
      if (bytes > kSmallestPage) stop_.request_stop();
      return MadeAddressSpace::Read(address, to, bytes);
    }
    uint64_t read_after_stop() const { return read_after_stop_; }

   private:
    mutable std::stop_source stop_;
    mutable uint64_t read_after_stop_ = 0;
  };
  std::stop_source stop;
  Space space(stop);
  constexpr uint64_t kBytes = 32 << 20;
  space.Add(0x10000, 0x10000 + kSmallestPage, "/program", std::string(kSmallestPage, '\0'));
  space.Add(0x10000000, 0x10000000 + kBytes, "[heap]", std::string(kBytes, '\0'));
  ScanBudget budget{.stop = stop.get_token()};
  HolderScan scan(&space, {}, &budget);
  HeapBlocksInput input;
  input.may_guess = true;
  const absl::Status status = scan.Run(input, false);
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_LT(space.read_after_stop(), kBytes / 8);
}

TEST(HolderGraph, EndsEarlyOnRequest) {
  std::stop_source stop;
  ScanBudget budget{.stop = stop.get_token()};
  HolderGraph graph;
  ASSERT_TRUE(graph.Begin(2, 2, &budget) && graph.AddPointer(0, 1) && graph.AddHolder({0}) && graph.End());
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(graph.FindDominators([](BigArray<uint64_t>*) {})));
}

// Each of these caches claims 65,535 blocks in each of 64 lists, which lead in a circle.
TEST(GlibcBlocks, ListsOfCachesThatLeadInCirclesAreFollowedOnce) {
  class Space : public MadeHeap {
   public:
    using MadeHeap::MadeHeap;
    bool Read(uint64_t address, void* to, size_t bytes) const override {
      ++reads_;
      return MadeHeap::Read(address, to, bytes);
    }
    uint64_t reads() const { return reads_; }

   private:
    mutable uint64_t reads_ = 0;
  };
  Space space("/lib/libc.so.6", 0x290);
  space.SetVersion("2.36");
  space.AddMainArena(MadeHeap::kArena, MadeHeap::kHeap + 0x290 * 90);
  space.SetWord(MadeHeap::kData + 0x1800, MadeHeap::kKey);
  const uint64_t in_circle = space.Block(1), bin = (0x290 - 0x20) / 16;
  space.SetWord(in_circle, in_circle ^ in_circle >> 12);
  space.SetWord(in_circle + 8, MadeHeap::kKey);
  for (uint64_t i = 2; i < 60; ++i) {
    const uint64_t cache = space.Block(i);
    space.SetWord(cache + bin / 4 * 8, uint64_t{0xffff} << bin % 4 * 16);
    space.SetWord(cache + 0x80 + bin * 8, in_circle);
  }
  const HeapBlocks heap = space.Blocks();
  EXPECT_TRUE(heap.map.Find(in_circle).unused);
  EXPECT_LT(space.reads(), 10'000u);
}

TEST(GlibcBlocks, KnowsTheVersionFromTheText) {
  EXPECT_EQ(GlibcVersionIn("x GNU C Library (Debian GLIBC 2.36-9+deb12u7) stable release version 2.36.\nCopyright"),
            "2.36");
  EXPECT_EQ(GlibcVersionIn("GNU C Library (GNU libc) development release version 2.41.9000.\n"), "2.41.900");
  EXPECT_EQ(GlibcVersionIn("musl libc"), "");
  EXPECT_EQ(GlibcVersionIn("GNU C Library"), "");
}

}  // namespace
}  // namespace holdfast
