// Exceptions by throwing stack and by type, with rethrows separate; also exceptions of other languages.
#include <cmath>
#include <filesystem>
#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

struct KnownThrow {
  std::string function, type, rethrow;
  int64_t count;
};
std::vector<KnownThrow> KnownThrows(const std::string& output) {
  std::vector<KnownThrow> all;
  std::istringstream lines(output);
  for (std::string word; lines >> word;) {
    KnownThrow known;
    if (word != "throws" || !(lines >> known.function >> known.type >> known.rethrow >> known.count)) continue;
    if (known.type == "rust_panic") known.type = "rust panic";
    all.push_back(known);
  }
  return all;
}

class Exceptions : public Profiled, public ::testing::WithParamInterface<Launch> {
 protected:
  Decoded Only() const {
    const std::vector<Decoded> files = Newest(out(), "exceptions");
    EXPECT_EQ(files.size(), 1u) << AllSummaries();
    return files.empty() ? Decoded{} : files[0];
  }
  // `leaf`: the thrower is the innermost frame; else some runtime's that nothing is known of.
  static int64_t Count(const Decoded& profile, const KnownThrow& known, bool leaf = true) {
    int64_t count = 0;
    for (const DecodedSample& sample : profile.samples) {
      if (leaf ? !sample.LeafIs(known.function) : !sample.Has(known.function)) continue;
      const auto type = sample.labels.find("type"), rethrow = sample.labels.find("rethrow");
      EXPECT_NE(type, sample.labels.end()) << profile.Summary();
      if (known.type != "-" && type != sample.labels.end() && type->second != known.type) continue;
      if ((rethrow != sample.labels.end() ? rethrow->second : "-") != known.rethrow) continue;
      count += sample.values.at("exceptions");
    }
    return count;
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, Exceptions, ::testing::Values(Launch::kPreload, Launch::kRun), LaunchName);

TEST_P(Exceptions, AreCountedByThrowerAndTypeWithRethrowsApart) {
  const RunResult result = RunAs(GetParam(), {"known_throws"});
  ASSERT_TRUE(result.exited(0)) << result.err;
  const Decoded profile = Only();
  const std::vector<KnownThrow> all = KnownThrows(result.out);
  ASSERT_EQ(all.size(), 13u) << result.out;
  for (const KnownThrow& known : all) {
    // That one throws as fast as it can.
    if (known.function == "refuses_often") continue;
    // Of std::rethrow_exception the runtime's own function stands above.
    const bool is_leaf = !known.function.starts_with("throws_stored");
    EXPECT_EQ(Count(profile, known, is_leaf), known.count) << known.function << "\n" << profile.Summary();
  }
  ExpectAllWhole();
}

TEST_F(Exceptions, AboveARateAreSampledAndTheirSumIsRight) {
  const RunResult result = RunAs(Launch::kRun, {"known_throws", "200000", "3"}, {{"seed", "11"}});
  ASSERT_TRUE(result.exited(0)) << result.err;
  const Decoded profile = Only();
  const int64_t count = profile.SumLeaf("throws_for_rate").at("exceptions");
  const double sigma = std::sqrt(profile.VarianceOf("exceptions"));
  EXPECT_NEAR(static_cast<double>(count), 600'000, 5 * sigma + 1);
  EXPECT_LT(sigma, 60'000) << "too few were taken";
  EXPECT_GT(sigma, 0) << "none was left out";
}

// An allocator's, or a pool's that is full: the thread is muted there, as the block counts once.
TEST_F(Exceptions, AreCountedInAForeignOperatorNew) {
  for (const char* interval : {"1", "512KiB"}) {
    const RunResult result = RunAs(Launch::kPreload, {"events_in_operator"}, {{"heap-interval", interval}});
    ASSERT_TRUE(result.exited(0)) << result.out << result.err;
    const Decoded profile = Only();
    const std::vector<KnownThrow> all = KnownThrows(result.out);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(Count(profile, all[0]), all[0].count) << profile.Summary();
    std::filesystem::remove_all(out());
  }
}

// Each thread has a rate of its own.
TEST_F(Exceptions, AllInManyThreadsAreCounted) {
  const RunResult result = RunAs(Launch::kPreload, {"known_throws", "3", "1000"}, {{"lock-interval", "0"}});
  ASSERT_TRUE(result.exited(0)) << result.err;
  EXPECT_EQ(Only().SumLeaf("throws_for_rate").at("exceptions"), 3000) << Only().Summary();
}

// Also where the handler has interrupted a sample of ours: then without its stack.
TEST_F(Exceptions, AllInASignalHandlerAreCounted) {
  const RunResult result = RunAs(Launch::kPreload, {"known_throws", "handler"});
  ASSERT_TRUE(result.exited(0)) << result.out << result.err;
  const Decoded profile = Only();
  const std::vector<KnownThrow> all = KnownThrows(result.out);
  ASSERT_EQ(all.size(), 1u);
  KnownThrow without_stack = all[0];
  without_stack.function = "[no stack]";
  EXPECT_EQ(Count(profile, all[0]) + Count(profile, without_stack), all[0].count) << profile.Summary();
}

TEST_F(Exceptions, AreCountedInAPluginOfACProgram) {
  const RunResult result = RunAs(Launch::kRun, {"throws_in_plugin"});
  ASSERT_TRUE(result.exited(0)) << result.out << result.err;
  const Decoded profile = Only();
  for (const KnownThrow& known : KnownThrows(result.out))
    EXPECT_EQ(Count(profile, known), known.count) << known.function << "\n" << profile.Summary();
}

TEST_F(Exceptions, PassUntouchedThroughAStaticRuntime) {
  const RunResult result = RunAs(Launch::kRun, {"static_throws"});
  EXPECT_TRUE(result.exited(0)) << result.out << result.err;
  EXPECT_TRUE(Newest(out(), "exceptions").empty()) << AllSummaries();
}

// The name of a sampled thread is noted with the time. Without the time, it would be taken for a later thread's name.
TEST_F(Exceptions, AThreadThatOnlyThrowsIsCalledByItsName) {
  Running running(CommandFor(Launch::kPreload, {"thread_labels", "throws"}, {{"heap-interval", "0"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  ASSERT_TRUE(RunTool({"dump", std::to_string(running.pid())}).exited(0));
  const RunResult top = RunTool({"top", "--by", "thread", "--kind", "exceptions", out()});
  EXPECT_THAT(top.out, ::testing::HasSubstr("(thrower)")) << top.Describe();
  running.Write("go\n");
  EXPECT_TRUE(running.Wait().exited(0));
}

TEST_F(Exceptions, ArePanicsOfRust) {
  const RunResult result = RunAs(Launch::kRun, {"rust_panics"});
  ASSERT_TRUE(result.exited(0)) << result.out << result.err;
  EXPECT_EQ(Count(Only(), {"gives_up", "rust panic", "-", 7}, false), 7) << AllSummaries();
}

TEST_F(Exceptions, AreNotCountedWhereThatIsNotAskedFor) {
  const RunResult result = RunAs(Launch::kRun, {"known_throws"}, {{"profiles", "heap,block"}});
  ASSERT_TRUE(result.exited(0)) << result.err;
  EXPECT_TRUE(Newest(out(), "exceptions").empty());
}

}  // namespace
}  // namespace holdfast::testing
