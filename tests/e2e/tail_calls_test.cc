// Functions that left with a tail call are restored in stacks: the files agree with what tests/programs/tail_calls.cc
// prints, for the code of every compiler.
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Names = std::vector<std::string>;

class TailCalls : public Profiled, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Profiled::SetUp();
    program_ = std::string(HOLDFAST_PROGRAMS "/tail_calls_") + GetParam() + "/tail_calls";
    const bool is_there = std::filesystem::exists(program_);
    ASSERT_TRUE(is_there || std::string(GetParam()).starts_with("clang")) << program_;
    if (!is_there) GTEST_SKIP() << program_ << ": clang is not installed";
    run_ = RunAs(Launch::kPreload, {program_}, {{"heap-interval", "1"}, {"lock-interval", "1ns"}});
    ASSERT_TRUE(run_.exited(0)) << run_.Describe();
  }

  // The functions of a stack's frames, as many as asked for; of those inlined at one address the one around them.
  static Names Frames(const DecodedSample& sample, size_t most) {
    Names names;
    for (const DecodedFrame& frame : sample.frames) {
      if (names.size() < most && !frame.functions.empty()) names.push_back(frame.functions.back());
    }
    return names;
  }

  // What the program says against what the file says; how many ways there were.
  size_t Compare(const Decoded& heap) const {
    size_t ways = 0;
    std::istringstream lines(run_.out);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("ways ")) continue;
      const size_t before_names = line.find(' ', 5) + 1;
      const int64_t size = std::stoll(line.substr(5));
      Names expected;
      for (size_t at = before_names; at < line.size();) {
        // "Allocates::Work(unsigned long)" is one name
        size_t end = std::min(line.find(' ', at), line.size());
        if (line.find('(', at) < end) end = std::min(line.find(')', at) + 1, line.size());
        expected.push_back(line.substr(at, end - at));
        at = end + 1;
      }
      bool found = false;
      for (const DecodedSample& sample : heap.samples) {
        if (sample.values.at("alloc_space") != size) continue;
        found = true;
        EXPECT_EQ(Frames(sample, expected.size()), expected) << GetParam() << ": " << line;
      }
      EXPECT_TRUE(found) << line;
      ++ways;
    }
    return ways;
  }

  std::string program_;
  RunResult run_;
};

TEST_P(TailCalls, ArePutBackWhereTheWayIsUnique) {
  const std::vector<Decoded> heaps = NewestHeap();
  ASSERT_EQ(heaps.size(), 1u);
  EXPECT_EQ(heaps[0].error, "");
  EXPECT_EQ(Compare(heaps[0]), 15u);
  EXPECT_THAT(heaps[0].Comment("tail calls").value_or(""), HasSubstr("frames put back"));
  const std::string gaps = heaps[0].Comment("left by a pointer").value_or("");
  EXPECT_THAT(gaps, HasSubstr("by_leaf_factory"));
  EXPECT_THAT(gaps, Not(HasSubstr("wrap_malloc")));
}

// Against speculation, compilers jump through a pointer by a thunk: a call, and a return to another address.
class TailCallsByThunk : public TailCalls {};
TEST_P(TailCallsByThunk, ArePutBackLikeOthers) {
  const std::vector<Decoded> heaps = NewestHeap();
  ASSERT_EQ(heaps.size(), 1u);
  EXPECT_EQ(Compare(heaps[0]), 15u);
  const std::string gaps = heaps[0].Comment("left by a pointer").value_or("");
  EXPECT_THAT(gaps, AllOf(HasSubstr("by_leaf_factory"), Not(HasSubstr("uses_")), Not(HasSubstr("by_pointer"))));
}

TEST_P(TailCalls, NameTheHolderThatUnlocksAtItsEnd) {
  bool found = false;
  for (const Decoded& mutex : NewestMutex()) {
    for (const DecodedSample& sample : mutex.samples) {
      if (!sample.Has("flushes")) continue;
      found = true;
      EXPECT_EQ(Frames(sample, 2), (Names{"slow_flush", "flushes"}));
    }
  }
  EXPECT_TRUE(found) << AllSummaries();
  EXPECT_THAT(RunTool({"locks", out()}).out, HasSubstr("slow_flush"));
}

// Names taken away and given again, or found already: the same stacks; the totals never change.
TEST_P(TailCalls, AreTheSameAfterSymbolize) {
  const Decoded before = NewestHeap().at(0);
  for (const char* symbols : {"none", "symtab", "full", "full"}) {
    const RunResult r = RunTool({"symbolize", "-q", "--symbols", symbols, before.path});
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    const Decoded after = Decode(before.path);
    const bool named = symbols != std::string("none");
    EXPECT_EQ(after.error, named ? "" : "a location without a function") << symbols;
    EXPECT_EQ(after.Total(), before.Total()) << symbols;
    EXPECT_EQ(after.Names("wrap_malloc"), named) << symbols;
    if (named) {
      EXPECT_EQ(Compare(after), 15u) << symbols;
    }
  }
}

// The marks are none of a name: other tools show the functions by theirs, and add them up with their other frames.
TEST_P(TailCalls, AreFramesLikeOthersToGoToolPprof) {
  const std::string heap = NewestHeap().at(0).path;
  const RunResult top = RunGoPprof({"-top", "-unit=B", "-sample_index=alloc_space", heap});
  EXPECT_TRUE(std::regex_search(top.out, std::regex(R"(\n *200003B .* wrap_malloc\n)"))) << top.Describe();
  EXPECT_THAT(RunGoPprof({"-raw", heap}).out, Not(HasSubstr("tail call]")));
  EXPECT_THAT(RunTool({"top", "--metric", "alloc_space", heap}).out, HasSubstr("wrap_malloc"));
}

// gdb reads where tail calls lead from debug information, we from the code: each of its frames is one of ours.
TEST_P(TailCalls, EqualGdbsTailCalls) {
  if (Execute({.argv = {"gdb", "--version"}}).status != 0) GTEST_SKIP() << "gdb is not installed";
  if (GetParam() == std::string("gcc_O3")) GTEST_SKIP() << "without debug information gdb finds none";
  WriteFile(folder() + "/script",
            "set pagination off\nset width 0\nset debuginfod enabled off\nbreak main\nrun\n"
            "break malloc if $rdi > 100000 && $rdi < 100010\ncommands\nsilent\nprintf \"way %d\\n\", $rdi\nbacktrace\n"
            "continue\nend\ncontinue\n");
  const RunResult gdb = Execute({.argv = {"gdb", "-nx", "-batch", "-x", folder() + "/script", program_}});
  std::map<int64_t, Names> stacks;
  int64_t size = 0;
  std::istringstream lines(gdb.out);
  static const std::regex frame(R"(^#\d+ +(?:0x[0-9a-f]+ in )?([^ (]+(?: new)?)[ (].*$)");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (line.starts_with("way ")) size = std::stoll(line.substr(4));
    if (!std::regex_match(line, match, frame) || size == 0) continue;
    const std::string name = match[1];
    if (!name.ends_with("malloc") || name == "wrap_malloc") stacks[size].push_back(name);
    if (name == "main") size = 0;
  }
  ASSERT_EQ(stacks.size(), 9u) << gdb.Describe();
  size_t same = 0;
  const Decoded heap = NewestHeap().at(0);
  for (const DecodedSample& sample : heap.samples) {
    const auto stack = stacks.find(sample.values.at("alloc_space"));
    if (stack == stacks.end()) continue;
    Names ours = Frames(sample, 20);
    for (std::string& name : ours) name.resize(std::min(name.size(), name.find('(')));
    std::erase(stack->second, "operator new");
    size_t next = 0;  // each of gdb's, in this order
    for (const std::string& name : ours) next += next < stack->second.size() && name == stack->second[next] ? 1 : 0;
    EXPECT_EQ(next, stack->second.size()) << ::testing::PrintToString(stack->second) << ::testing::PrintToString(ours);
    ours.resize(std::min(ours.size(), stack->second.size()));
    same += ours == stack->second ? 1 : 0;
  }
  // Of Clang's jumps it finds none, and none to malloc, which goes by another name there.
  const bool is_gcc = std::string(GetParam()).starts_with("gcc");
  EXPECT_GE(same, is_gcc ? 2u : 0u) << gdb.out;
}

INSTANTIATE_TEST_SUITE_P(Compilers, TailCalls,
                         ::testing::Values("gcc", "gcc_O3", "gcc_no_pie", "gcc_no_plt", "gcc_lto", "clang",
                                           "clang_O3_no_plt"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(Compilers, TailCallsByThunk,
                         ::testing::Values("gcc_thunk", "gcc_thunk_inline", "clang_retpoline"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace holdfast::testing
