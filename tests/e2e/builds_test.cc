// Comparisons of two builds of a program, and of kinds of profile in which nothing happened.
#include <gmock/gmock.h>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;

class Builds : public Profiled {};

TEST_F(Builds, AFunctionIsOneWhateverClonesTheCompilerMakes) {
  const std::string base = folder() + "/base", head = folder() + "/head";
  for (const auto& [program, out] : {std::pair("two_builds_1", base), std::pair("two_builds_2", head)}) {
    const RunResult run = RunTool({"run", "-q", "--exact", "-o", out, "--", ProgramPath(program)});
    ASSERT_TRUE(run.exited(0)) << run.err;
  }
  const RunResult check = RunTool({"check", "--base", base, "--fail-above", "1%", head});
  EXPECT_TRUE(check.exited(0)) << check.out << check.err;
  const RunResult diff = RunTool({"diff", "--format", "csv", base, head});
  EXPECT_TRUE(diff.exited(0));
  EXPECT_THAT(diff.out, ::testing::Not(HasSubstr("added"))) << diff.out;
  EXPECT_THAT(diff.out, ::testing::Not(HasSubstr("removed")));
}

TEST_F(Builds, AKindWithoutAFileIsZeroIfItWasProfiled) {
  const std::string all = folder() + "/all", heap = folder() + "/heap", junit = folder() + "/check.xml";
  ASSERT_TRUE(RunTool({"run", "-q", "-o", all, "--", ProgramPath("two_builds_1")}).exited(0));
  ASSERT_TRUE(RunTool({"run", "-q", "--profiles", "heap", "-o", heap, "--", ProgramPath("two_builds_1")}).exited(0));
  const RunResult check = RunTool(
      {"check", "--max", "delay=5s", "--max", "delay:Flush=1ms", "--max", "inuse_space=1GB", "--junit", junit, all});
  EXPECT_TRUE(check.exited(0)) << check.err;
  EXPECT_THAT(check.out,
              HasSubstr("ok    delay: 0, at most 5s\nok    delay:Flush: 0, at most 1ms\nok    inuse_space: "));
  EXPECT_THAT(ReadFile(junit), HasSubstr("tests=\"3\" failures=\"0\""));
  EXPECT_TRUE(RunTool({"check", "--kind", "block", "--base", all, "--fail-above", "5%", all}).exited(0));
  // One side has waits, and only the metric is named.
  const std::string waits = folder() + "/waits";
  ASSERT_TRUE(RunTool({"run", "-q", "--lock-interval", "1ns", "-o", waits, "--", ProgramPath("locks_of_connections")})
                  .exited(0));
  const auto compared = [](const std::string& base, const std::string& head) {
    return RunTool({"check", "--metric", "delay", "--base", base, "--fail-above", "5%", head});
  };
  EXPECT_TRUE(compared(waits, all).exited(0)) << compared(waits, all).err;
  EXPECT_TRUE(compared(all, waits).exited(1)) << compared(all, waits).err;
  EXPECT_TRUE(compared(waits, heap).exited(2)) << "waits were not profiled";
  EXPECT_TRUE(RunTool({"check", "--max", "delay=5s", heap}).exited(2)) << "waits were not profiled";
}

}  // namespace
}  // namespace holdfast::testing
