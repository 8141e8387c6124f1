// Functions that allocators have under their own names, called directly by the program.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class OwnNames : public Profiled, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string program() const { return std::string("own_names_") + GetParam(); }
  bool IsThere() const { return std::filesystem::exists(ProgramPath(program())); }
};

TEST_P(OwnNames, AreRecordedAsMallocIs) {
  if (!IsThere()) GTEST_SKIP() << "that allocator is not installed";
  const RunResult run = RunAs(Launch::kPreload, {program()}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  EXPECT_NE(run.out.find("found 1, as it is 1"), std::string::npos) << run.out;
  // Of a function that is said twice the last counts.
  std::map<std::string, Known> known;
  for (const Known& one : KnownHeap(run.out)) known[one.function] = one;
  EXPECT_GE(known.size(), 3u) << run.out;
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  for (const auto& [function, one] : known) {
    const Values got = heap[0].SumLeaf(function);
    ASSERT_TRUE(got.contains("alloc_objects")) << function << "\n" << heap[0].Summary();
    EXPECT_EQ(got.at("alloc_objects"), one.alloc_objects) << function;
    EXPECT_EQ(got.at("alloc_space"), one.alloc_space) << function;
    EXPECT_EQ(got.at("inuse_objects"), one.inuse_objects) << function;
    EXPECT_EQ(got.at("inuse_space"), one.inuse_space) << function;
  }
  EXPECT_EQ(heap[0].Comment("losses"), "none");
}

// Ages: what a realloc by the allocator's own name ends is no temporary, however soon.
TEST_P(OwnNames, AReallocEndsNoTemporary) {
  if (!IsThere()) GTEST_SKIP() << "that allocator is not installed";
  if (!std::string(GetParam()).starts_with("jemalloc")) GTEST_SKIP() << "it has no rallocx";
  Command command = CommandFor(Launch::kPreload, {program()}, {{"heap-interval", "1"}, {"lifetimes", "yes"}});
  command.env["HOLDFAST_REPLAY"] = "0";  // so that the age of each block is known
  const RunResult run = RunAndSettle(command);
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> ages = Newest(out(), "lifetimes");
  ASSERT_EQ(ages.size(), 1u) << AllSummaries();
  std::map<std::string, int64_t> freed;
  for (const DecodedSample& sample : ages[0].samples) {
    for (const char* function : {"short_lived", "grown", "grown_in_place"}) {
      if (sample.LeafIs(function) && sample.labels.contains("freed"))
        freed[std::string(function) + ", " + sample.labels.at("freed")] += sample.values.at("freed_objects");
    }
  }
  EXPECT_EQ(freed, (std::map<std::string, int64_t>{
                       {"short_lived, same thread", 20}, {"grown, temporary", 10}, {"grown_in_place, temporary", 10}}));
}

// At the default interval the allocator sees the program's own calls: sizes, alignments and flags as they are.
TEST_P(OwnNames, ChangeNothing) {
  if (!IsThere()) GTEST_SKIP() << "that allocator is not installed";
  for (const char* interval : {"512KiB", "16KiB", "0"}) {
    const RunResult run = RunAs(Launch::kPreload, {program()}, {{"heap-interval", interval}, {"seed", "3"}});
    EXPECT_TRUE(run.exited(0)) << run.Describe();
    EXPECT_NE(run.out.find("found 1, as it is 1"), std::string::npos) << run.out;
    EXPECT_EQ(run.err, "") << interval;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OwnNames,
                         ::testing::Values("jemalloc_lazy", "jemalloc_now", "mimalloc_lazy", "mimalloc_now",
                                           "tcmalloc_lazy", "tcmalloc_now"),
                         [](const auto& info) { return std::string(info.param); });

// Who asks whether it runs with such an allocator is not told so by us.
class NoOwnNames : public Profiled {};
TEST_F(NoOwnNames, AreFoundWhereNoAllocatorHasThem) {
  for (const Launch launch : {Launch::kBare, Launch::kPreload}) {
    const RunResult run = RunAs(launch, {"own_names_none"}, {{"heap-interval", "1"}});
    EXPECT_TRUE(run.exited(0)) << run.Describe();
    EXPECT_EQ(run.out, "found 0, as it is 1\n");
  }
}

}  // namespace
}  // namespace holdfast::testing
