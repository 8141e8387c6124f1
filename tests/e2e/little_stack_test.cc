// How little stack a thread may have left. `little_stack` calls each function with 4,096, 4,032 … 64 bytes left above
// an inaccessible page, and prints at which size it died.
#include <algorithm>
#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using LittleStack = Profiled;

// What little_stack prints: "malloc, at first: lives with 256 bytes".
std::map<std::string, int64_t> Smallest(const std::string& output) {
  std::map<std::string, int64_t> smallest;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (const size_t colon = line.find(':'); colon != std::string::npos) {
      smallest[line.substr(0, colon)] = std::stoll(line.substr(line.find("with ") + 5));
    }
  }
  return smallest;
}

TEST_F(LittleStack, EachCallLivesWithHardlyMoreThanItNeedsBare) {
  const std::map<std::string, int64_t> bare = Smallest(RunAs(Launch::kBare, {"little_stack", "all"}).out);
  ASSERT_GE(bare.size(), 20u);
  const std::vector<Options> intervals = {
      {{"heap-interval", "1"}, {"lock-interval", "1ns"}}, {{"heap-interval", "1"}, {"thread-label", "yes"}}, {}};
  const int64_t most = __GNUC__ >= 16 ? 320 : 256;  // by the compiler of the library
  for (const Options& options : intervals) {
    const RunResult r = RunAs(Launch::kPreload, {"little_stack", "all"}, options);
    const std::map<std::string, int64_t> profiled = Smallest(r.out);
    ASSERT_EQ(profiled.size(), bare.size()) << r.Describe();
    for (const auto& [call, bytes] : bare) {
      EXPECT_GT(bytes, 0) << call;
      EXPECT_GT(profiled.at(call), 0) << call << " dies with 4,096 bytes";
      EXPECT_LE(profiled.at(call), bytes + most) << call;
      // glibc 2.31's realloc needs 448 bytes itself.
      EXPECT_LE(profiled.at(call), std::max<int64_t>(512, bytes + 192)) << call;
    }
  }
}

// 4 blocks each. With enough left they have their stack, with less none, with still less they are counted as lost.
TEST_F(LittleStack, SamplesWithoutAStackAreCounted) {
  const struct {
    const char* left;
    bool stack, sampled;
  } rows[] = {{"8192", true, true}, {"3072", false, true}, {"1024", false, false}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.left);
    const Options options = {{"heap-interval", "1"}, {"out", out() + "/" + row.left}};
    const RunResult r = RunAs(Launch::kPreload, {"little_stack", "malloc", row.left}, options);
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    ASSERT_TRUE(Settled());
    const std::vector<Decoded> heap = Newest(options.at("out"), "heap");
    ASSERT_EQ(heap.size(), 1u);
    EXPECT_EQ(heap[0].SumLeaf("Malloc").at("alloc_objects"), row.stack ? 4 : 0);
    EXPECT_EQ(heap[0].SumLeaf("[no stack]").at("alloc_objects"), !row.stack && row.sampled ? 4 : 0);
    EXPECT_EQ(heap[0].CommentNumber("lost stack-missing"), row.stack ? -1 : 4);
  }
}

TEST_F(LittleStack, AWaitWithoutAStackIsCounted) {
  for (const char* left : {"3072", "1024"}) {
    SCOPED_TRACE(left);
    const Options options = {{"lock-interval", "1ns"}, {"out", out() + "/" + left}};
    const RunResult r = RunAs(Launch::kPreload, {"little_stack", "mutex", left}, options);
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    ASSERT_TRUE(Settled());
    const std::vector<Decoded> block = Newest(options.at("out"), "block");
    ASSERT_EQ(block.size(), 1u);
    EXPECT_GE(block[0].CommentNumber("lost stack-missing"), 1);
    EXPECT_EQ(block[0].SumLeaf("Lock").at("contentions"), 0);
  }
}

}  // namespace
}  // namespace holdfast::testing
