// `holdfast run --exact --leak-check`: what is unreachable when a program ends, however it ends, and `leaks PID`
// (tests/programs/lost_at_end.cc).
#include <signal.h>

#include <regex>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LeakCheck : public Profiled {
 protected:
  Command CommandOf(const std::string& how, std::vector<std::string> options = {}) const {
    Command command;
    command.argv = {Tool(), "run", "--exact", "--leak-check", "-o", out(), "--tables", tables()};
    command.argv.insert(command.argv.end(), options.begin(), options.end());
    command.argv.insert(command.argv.end(), {"--", ProgramPath("lost_at_end"), how});
    return command;
  }
  RunResult Check(const std::string& how, const std::vector<std::string>& options = {}) const {
    return Execute(CommandOf(how, options));
  }
  static void ExpectLost(const RunResult& r) {
    EXPECT_TRUE(std::regex_search(r.err, std::regex("50 +50  lose_blocks"))) << r.Describe();
    EXPECT_TRUE(std::regex_search(r.err, std::regex("40 +1  lose_list"))) << r.Describe();
    EXPECT_THAT(r.err, Not(HasSubstr("keep_blocks")));
  }
};

TEST_F(LeakCheck, FailsWhereverTheProgramEndsInOrder) {
  for (const char* how : {"return", "exit", "_exit", "quick_exit"}) {
    const RunResult r = Check(how);
    EXPECT_TRUE(r.exited(1)) << how << r.Describe();
    ExpectLost(r);
  }
}

TEST_F(LeakCheck, AProgramThatLosesNothingIsFine) {
  const RunResult r = Check("none");
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("has a pointer to it (one copy, stopped for "));
  EXPECT_THAT(Check("none", {"-q"}).err, Not(HasSubstr("pointer")));
}

TEST_F(LeakCheck, AProgramThatRecordedNothingWasNotSearched) {
  const RunResult r = Execute({.argv = {Tool(), "run", "--heap-interval", "1GiB", "--leak-check", "-o", out(),
                                        "--tables", tables(), "--", ProgramPath("lost_at_end"), "return"}});
  EXPECT_TRUE(r.exited(125)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("was not searched: nothing was recorded in it. Add --exact"));
}

TEST_F(LeakCheck, TheProgramsOwnStatusComesFirst) {
  const RunResult r = Check("status");
  EXPECT_TRUE(r.exited(3)) << r.Describe();
  ExpectLost(r);
}

TEST_F(LeakCheck, SaysThatAKilledProgramWasNotSearched) {
  const RunResult aborted = Check("abort");
  EXPECT_TRUE(aborted.killed_by(SIGABRT)) << aborted.Describe();
  EXPECT_THAT(aborted.err, HasSubstr("was not searched: signal 6 ended it"));
  EXPECT_TRUE(Check("kill").killed_by(SIGKILL));
}

TEST_F(LeakCheck, AForkedChildIsSearchedForItsOwnBlocks) {
  const RunResult r = Check("fork");
  EXPECT_TRUE(r.exited(1)) << r.Describe();
  EXPECT_TRUE(std::regex_search(r.err, std::regex("50 +50  lose_blocks"))) << r.Describe();
  EXPECT_THAT(r.err, AllOf(Not(HasSubstr("lose_list")), HasSubstr("has a pointer to it")));
}

TEST_F(LeakCheck, AnExecutedProgramIsSearchedInsteadOfTheOneBefore) {
  const RunResult r = Check("exec");
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("has a pointer to it"));
}

TEST_F(LeakCheck, ThreadsThatStillRunHoldTheirBlocks) {
  const RunResult r = Check("threads");
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("has a pointer to it"));
}

TEST_F(LeakCheck, SearchesBeforeItForwardsTheSignalThatEndsTheProgram) {
  Running program(CommandOf("wait"));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  program.HoldInput();
  program.Signal(SIGTERM);
  const RunResult r = program.Wait();
  EXPECT_TRUE(r.killed_by(SIGTERM)) << r.Describe();
  ExpectLost(r);
}

TEST_F(LeakCheck, SuppressionsHaveValgrindsForm) {
  const std::string file = folder() + "/known.supp";
  WriteFile(
      file,
      "leak:lose_list\n{\n  known\n  Memcheck:Leak\n  match-leak-kinds: definite\n  fun:malloc\n  fun:*lose_blocks*\n"
      "  ...\n  fun:main\n}\n");
  const RunResult r = Check("return", {"--suppressions", file});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("2 suppressed"));
  const RunResult bad = Check("return", {"--suppressions", folder() + "/none"});
  EXPECT_TRUE(bad.exited(125)) << bad.Describe();
  EXPECT_THAT(bad.err, HasSubstr("none: cannot be read"));
}

TEST_F(LeakCheck, CheckReadsTheResultOfARun) {
  ASSERT_TRUE(Check("return").exited(1));
  const RunResult text = RunTool({"check", "--max-unreachable", "0", out()});
  EXPECT_TRUE(text.exited(1)) << text.Describe();
  EXPECT_THAT(text.out, HasSubstr("FAIL  unreachable: "));
  EXPECT_THAT(text.out, HasSubstr("lose_blocks"));
  const std::string junit = folder() + "/leaks.xml";
  const RunResult markdown = RunTool({"check", "--max-unreachable", "0", "--markdown", "--junit", junit, out()});
  EXPECT_THAT(markdown.out, AllOf(HasSubstr("not kept"), HasSubstr("lose\\_list")));
  EXPECT_THAT(ReadFile(junit), AllOf(HasSubstr("<failure message=\"unreachable: "), HasSubstr("lose_list")));
  EXPECT_TRUE(RunTool({"check", "--max-unreachable", "1MiB", out()}).exited(0));
  // The profile serves every view.
  const RunResult top = RunTool({"top", "--kind", "unreachable", out()});
  EXPECT_THAT(top.out, HasSubstr("lose_blocks")) << top.Describe();
  EXPECT_TRUE(RunTool({"info", out()}).exited(0));
  EXPECT_TRUE(RunTool({"html", out(), "-o", folder() + "/page.html"}).exited(0));
}

TEST_F(LeakCheck, CheckKnowsThatAProcessWithoutLeaksWasSearched) {
  ASSERT_TRUE(Check("none").exited(0));
  const RunResult r = RunTool({"check", "--max-unreachable", "0", out()});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(r.out, HasSubstr(": 0, at most 0"));
  EXPECT_TRUE(RunTool({"top", out()}).exited(0));
  EXPECT_TRUE(RunTool({"html", out(), "-o", folder() + "/page.html"}).exited(0));
}

TEST_F(LeakCheck, LeaksOfAProcessAlsoSearchesForPointers) {
  Running program(CommandFor(Launch::kPreload, {"lost_at_end", "wait"}, {{"heap-interval", "1"}}));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  const std::string pid = std::to_string(program.pid());
  const RunResult text = RunTool({"leaks", pid});
  EXPECT_TRUE(text.exited(1)) << text.Describe();
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("pointers no pointer found to "), HasSubstr("unreachable"), HasSubstr("lose_blocks")));
  const RunResult json = RunTool({"leaks", pid, "--json"});
  EXPECT_THAT(json.out, AllOf(HasSubstr("\"unreachable\": \"yes\""), HasSubstr("\"finding\": \"unreachable\"")));
  const RunResult csv = RunTool({"leaks", pid, "--format", "csv"});
  EXPECT_THAT(csv.out, AllOf(HasSubstr(",stack,finding\n"), HasSubstr(",unreachable\n")));
  EXPECT_THAT(RunTool({"leaks", pid, "--format", "markdown"}).out, HasSubstr("unreachable: "));
  EXPECT_THAT(RunTool({"leaks", pid, "--format", "junit"}).out, HasSubstr("<failure message=\"unreachable: "));
  EXPECT_TRUE(RunTool({"check", "--max-unreachable", "0", pid}).exited(1));
  EXPECT_TRUE(RunTool({"check", "--max-unreachable", "1MiB", pid}).exited(0));
}

}  // namespace
}  // namespace holdfast::testing
