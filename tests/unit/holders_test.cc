// The parts of the search for what holds memory: the map of blocks, dominators, and when repeated scans have settled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "report/holders/block_map.h"
#include "report/holders/glibc_blocks.h"
#include "report/holders/holder_graph.h"
#include "report/holders/unreachable.h"
#include "tests/support/made_image.h"

namespace holdfast {
namespace {

using testing::MadeImage;

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
  MadeImage image;
  image.Add(0x100000, 0x110000, "", std::string(0x10000, '\0'));
  image.Add(0x200000, 0x201000, "/bin/program", std::string(0x1000, '\0'));
  HeapBlocksInput input;
  input.recorded = {{0x100100, 64, 1}, {0x100200, 64, 1}, {0x100300, 64, 1}, {0x100400, 64, 1}};
  image.SetWord(0x200010, 0x100110);  // a global, to the middle of the first
  image.SetWord(0x100108, 0x100200);  // from there to the second
  image.SetWord(0x105000, 0x100300);  // the third: only from memory that is no recorded block
  const auto found = FindUnreachable(
      &image, [&] { return absl::StatusOr<HeapBlocksInput>(input); }, nullptr);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->settled);
  ASSERT_EQ(found->blocks.size(), 1u);
  EXPECT_EQ(found->blocks[0].range.start, 0x100400u);
  EXPECT_TRUE(found->blocks[0].direct);
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
