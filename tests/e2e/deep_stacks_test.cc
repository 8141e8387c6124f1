// Stacks with more than 256 frames keep both ends.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kInnermost = 192, kOutermost = 64, kMaxNesting = 256;
constexpr char kOmitted[] = "[…]";

std::string FunctionOf(const DecodedFrame& frame) { return frame.functions.empty() ? "" : frame.functions[0]; }

class DeepStacks : public Profiled {
 protected:
  Decoded Run(const std::vector<std::string>& depths, const Options& options) {
    std::filesystem::remove_all(out());
    std::vector<std::string> argv = {"deep_stacks"};
    argv.insert(argv.end(), depths.begin(), depths.end());
    const RunResult run = RunAs(Launch::kPreload, argv, options);
    EXPECT_TRUE(run.exited(0)) << run.Describe();
    ExpectKnownHeap(run.out);
    const std::vector<Decoded> heap = NewestHeap();
    EXPECT_EQ(heap.size(), 1u);
    return heap.empty() ? Decoded{} : heap[0];
  }

  // The stacks of the blocks that the recursions allocate.
  static std::vector<DecodedSample> Recursions(const Decoded& heap) {
    std::vector<DecodedSample> found;
    for (const DecodedSample& sample : heap.samples) {
      if (sample.LeafIs("allocates_deep")) found.push_back(sample);
    }
    return found;
  }

  // Frames outside of the recursion of `recurses`, which depend on libc. 0: there is no such stack.
  size_t FramesOutside() {
    for (const DecodedSample& sample : Recursions(Run({"1"}, {{"heap-interval", "1"}}))) {
      if (sample.Has("recurses") && sample.Has("main")) return sample.frames.size() - 1;
    }
    return 0;
  }
};

// On every path that captures stacks: each allocation, with and without remembered walks, and samples.
class DeepStacksOf : public DeepStacks, public ::testing::WithParamInterface<const char*> {};

TEST_P(DeepStacksOf, KeepTheInnermostAndTheOutermostFrames) {
  Options options = {{"heap-interval", "1"}};
  if (std::string(GetParam()) == "walked") options["replay"] = "0";
  const Decoded heap = Run({"10", "1000", "6000"}, options);
  EXPECT_EQ(heap.Comment("losses"), "none");
  size_t deep = 0;
  for (const DecodedSample& sample : Recursions(heap)) {
    const std::vector<DecodedFrame>& frames = sample.frames;
    EXPECT_FALSE(sample.Has("[truncated]"));
    if (!sample.Has(kOmitted)) {
      EXPECT_LT(frames.size(), 64u);
      continue;
    }
    ++deep;
    // One frame of a thread's is the library's own.
    ASSERT_EQ(frames.size(), kInnermost + 1 + kOutermost - (sample.Has("main") ? 0 : 1));
    EXPECT_EQ(FunctionOf(frames[kInnermost]), kOmitted);
    for (size_t i = 1; i < frames.size(); ++i) {
      if (i == kInnermost) continue;
      EXPECT_NE(FunctionOf(frames[i]), kOmitted);
    }
    EXPECT_TRUE(FunctionOf(frames[1]) == "recurses" || FunctionOf(frames[1]) == "parses_value");
    EXPECT_TRUE(sample.Has("main") || sample.Has("thread_begins"));
  }
  EXPECT_EQ(deep, 3u);  // 1,000 and 6,000 frames look alike: two recursions below main, one below the thread
}

INSTANTIATE_TEST_SUITE_P(All, DeepStacksOf, ::testing::Values("remembered", "walked"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(DeepStacks, WithTwoHundredAndFiftySixFramesNothingIsOmitted) {
  const size_t outside = FramesOutside();
  ASSERT_GT(outside, 0u);
  const auto frames_at = [&](size_t depth) {
    const Decoded heap = Run({std::to_string(depth - outside)}, {{"heap-interval", "1"}});
    size_t frames = 0;
    bool omitted = false;
    for (const DecodedSample& sample : Recursions(heap)) {
      if (!sample.Has("recurses") || !sample.Has("main")) continue;
      frames = sample.frames.size();
      omitted = sample.Has(kOmitted);
    }
    return std::pair(frames, omitted);
  };
  EXPECT_EQ(frames_at(kMaxNesting), std::pair(kMaxNesting, false));
  EXPECT_EQ(frames_at(kMaxNesting + 1), std::pair(kInnermost + 1 + kOutermost, true));
}

TEST_F(DeepStacks, SixteenThousandFramesAreWalked) {
  const size_t outside = FramesOutside();
  ASSERT_GT(outside, 0u);
  for (const size_t depth : {16384u, 16385u}) {
    const Decoded heap = Run({std::to_string(depth - outside)}, {{"heap-interval", "1"}});
    int whole = 0;
    for (const DecodedSample& sample : Recursions(heap)) whole += sample.Has("recurses") && sample.Has("main");
    EXPECT_EQ(whole, depth <= 16384 ? 1 : 0) << depth;
  }
}

TEST_F(DeepStacks, BeyondWhatIsWalkedTheInnermostFramesRemain) {
  const Decoded heap = Run({"20000"}, {{"heap-interval", "1"}});
  size_t truncated = 0;
  for (const DecodedSample& sample : Recursions(heap)) {
    if (!sample.Has("[truncated]")) continue;
    ++truncated;
    EXPECT_EQ(sample.frames.size(), kMaxNesting + 1);
    EXPECT_FALSE(sample.Has(kOmitted));
  }
  EXPECT_EQ(truncated, 2u);  // recurses, and parses_value with parses_list
  EXPECT_GE(heap.CommentNumber("lost stack-truncated"), 3);
}

// The end of such a stack is looked for once, not at each sample. Pages of a thread's stack are probed on the way.
TEST_F(DeepStacks, BeyondWhatIsWalkedTheEndIsSeldomLookedFor) {
  const Options options = {{"heap-interval", "1"}};
  const int64_t once = Run({"20000"}, options).CommentNumber("own memory_probes");
  EXPECT_GT(once, 100);
  EXPECT_LT(Run({"20000x30"}, options).CommentNumber("own memory_probes"), 3 * once);
}

TEST_F(DeepStacks, ViewsFoldTheRecursionOnRequest) {
  Run({"1000"}, {{"heap-interval", "1"}});
  const RunResult plain = RunTool({"tree", out(), "--width", "0", "--nodefraction", "0"});
  EXPECT_THAT(plain.out, HasSubstr(kOmitted));
  const RunResult folded = RunTool({"tree", out(), "--width", "0", "--nodefraction", "0", "--fold", "recursion"});
  ASSERT_TRUE(folded.exited(0)) << folded.Describe();
  EXPECT_THAT(folded.out, Not(HasSubstr(kOmitted)));
  EXPECT_THAT(folded.out, HasSubstr("filter   --fold recursion"));
  EXPECT_LT(std::count(folded.out.begin(), folded.out.end(), '\n'), 40);
  EXPECT_THAT(folded.out, HasSubstr("allocates_deep"));
}

}  // namespace
}  // namespace holdfast::testing
