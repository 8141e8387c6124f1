// What is read first: names of programs that have none, and what they are called; what stands on a terminal.
#include <filesystem>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FirstGlance : public Profiled {};

TEST_F(FirstGlance, AStrippedProgramSaysHowToNameItAndTheCommandDoes) {
  const std::string program = folder() + "/stripped", debug = folder() + "/debug";
  std::filesystem::create_directory(debug);
  std::filesystem::copy_file(ProgramPath("threads_exact"), program);
  std::filesystem::copy_file(program, debug + "/stripped");
  ASSERT_EQ(Execute({.argv = {"strip", program}}).status, 0);
  const RunResult run = RunAs(Launch::kRun, {program}, {{"heap-interval", "1"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::string how = "lies in code without names, of stripped. To name it: holdfast symbolize --debug-dir DIR " +
                          out() + ", with the unstripped stripped or its debug file in DIR";
  EXPECT_THAT(run.err, HasSubstr(how));
  const std::vector<std::string> top = {"top", "-n", "0", "--metric", "alloc_space", out()};
  const RunResult before = RunTool(top);
  EXPECT_THAT(before.out, HasSubstr("names    100% " + how)) << before.Describe();
  const std::vector<Known> known = KnownHeap(run.out);
  ASSERT_FALSE(known.empty());
  EXPECT_THAT(before.out, Not(HasSubstr(known[0].function)));

  const RunResult named = RunTool({"symbolize", "--debug-dir", debug, out()});
  ASSERT_TRUE(named.exited(0)) << named.Describe();
  const RunResult after = RunTool(top);
  EXPECT_THAT(after.out, Not(HasSubstr("names    "))) << after.Describe();
  EXPECT_THAT(after.out, HasSubstr(known[0].function));
}

TEST_F(FirstGlance, AProgramIsCalledAsItWasStarted) {
  const std::string link = folder() + "/called-so";
  std::filesystem::create_symlink(ProgramPath("threads_exact"), link);
  ASSERT_TRUE(RunAs(Launch::kRun, {link}, {{"heap-interval", "1"}}).exited(0));
  for (const char* by : {"function", "object", "package"}) {
    const RunResult top = RunTool({"top", "--metric", "alloc_space", "--by", by, out()});
    EXPECT_THAT(top.out, HasSubstr("called-so")) << top.Describe();
    EXPECT_THAT(top.out, Not(HasSubstr("threads_exact"))) << top.Describe();
  }
  EXPECT_THAT(NewestHeap().at(0).path, HasSubstr("/called-so."));
}

}  // namespace
}  // namespace holdfast::testing
