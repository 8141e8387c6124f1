// The first commands of a new user: which process and program they refer to, and what they print if nothing was
// recorded.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kNobody = 65534;

class FirstCommands : public Profiled {
 protected:
  std::string Script(const std::string& text) const {
    const std::string path = folder() + "/start.sh";
    WriteFile(path, "#!/bin/sh\n" + text + "\n");
    chmod(path.c_str(), 0755);
    return path;
  }
  // What `run` says of a program that left no profile: never to lower an interval where that cannot help.
  std::string SaidOf(std::vector<std::string> argv) const {
    // At the default a shell has a sample in one of a hundred runs.
    const RunResult r = Execute(CommandFor(Launch::kRun, std::move(argv), {{"heap-interval", "1GiB"}}));
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    EXPECT_THAT(r.err, Not(HasSubstr("lower --"))) << r.Describe();
    return r.err;
  }
};

TEST_F(FirstCommands, RunSaysWhyNothingWasPreloaded) {
  const std::string program = ProgramPath("nothing"), fixed = ProgramPath("static_program");
  EXPECT_THAT(SaidOf({"/usr/bin/env", "-i", program}), HasSubstr("env -i starts " + program + " without LD_PRELOAD"));
  EXPECT_THAT(SaidOf({"/bin/sh", "-c", "exec env -u LD_PRELOAD " + program}), HasSubstr("env -u LD_PRELOAD starts"));
  EXPECT_THAT(SaidOf({"/bin/sh", "-c", fixed}), HasSubstr(fixed + ": is linked statically"));
  EXPECT_THAT(SaidOf({Script("exec " + fixed)}), HasSubstr(fixed + ": is linked statically"));
  EXPECT_THAT(SaidOf({Script("exec " + program)}), HasSubstr("holdfast run -- " + program));
  // Its own child, that no script names.
  EXPECT_THAT(Execute(CommandFor(Launch::kRun, {program})).err, HasSubstr("To see more, lower"));
}

TEST_F(FirstCommands, DoctorJudgesTheProgramThatAScriptExecs) {
  const std::string program = ProgramPath("nothing");
  const RunResult fine = RunTool({"doctor", "--", Script("DIR=x\nexec " + program + " --port \"$@\"")});
  EXPECT_TRUE(fine.exited(0)) << fine.Describe();
  EXPECT_THAT(fine.out, HasSubstr(program + " ("));
  EXPECT_THAT(fine.out, HasSubstr("start.sh starts it"));
  const RunResult fixed = RunTool({"doctor", "--", Script("exec " + ProgramPath("static_program"))});
  EXPECT_TRUE(fixed.exited(1)) << fixed.Describe();
  EXPECT_THAT(fixed.out, HasSubstr("is linked statically"));
  const RunResult cleaned = RunTool({"doctor", "--", "env", "-i", program});
  EXPECT_TRUE(cleaned.exited(1)) << cleaned.Describe();
  EXPECT_THAT(cleaned.out, HasSubstr("env -i starts it without LD_PRELOAD"));
}

// redis-server is a link to redis-check-rdb.
TEST_F(FirstCommands, DoctorNamesTheProgramAsItWasStarted) {
  const std::string link = folder() + "/redis-server";
  std::filesystem::create_symlink(ProgramPath("waits_for_input"), link);
  Running running(CommandFor(Launch::kPreload, {link}, {{"heap-interval", "1"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const RunResult r = RunTool({"doctor", std::to_string(running.pid()), "--tables", tables()});
  EXPECT_TRUE(r.out.starts_with(link + " (pid ")) << r.Describe();
  EXPECT_THAT(r.out, Not(HasSubstr("names in waits_for_input")));
}

// In a preloaded shell: head is none of what the user profiles.
TEST_F(FirstCommands, ReadersOfOurOutputLeaveNoProfile) {
  RunAs(Launch::kPreload, {"nothing"}, {{"heap-interval", "1"}});
  RunAs(Launch::kPreload,
        {"/bin/sh", "-c", Tool() + " top " + out() + " | tail -n +2 | head -3; cat /dev/null | head -1"},
        {{"heap-interval", "1"}});
  int heads = 0;
  for (const ProfileName& file : ListProfiles(out())) {
    heads += file.program == "head" && file.kind == "heap" && file.seq == 1;
    EXPECT_NE(file.program, "tail");
    EXPECT_NE(file.program, "holdfast");
  }
  EXPECT_EQ(heads, 1) << "the one that reads from cat is a program like any other";
}

TEST_F(FirstCommands, RootSeesTheProgramsOfAllUsers) {
  if (!IsRoot()) GTEST_SKIP() << "needs root to become another user";
  chmod(tables().c_str(), 01777);
  chmod(folder().c_str(), 0777);
  Command command = CommandFor(Launch::kPreload, {"waits_for_input"}, {{"heap-interval", "1"}});
  command.uid = kNobody;
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 1"));
  const std::string pid = std::to_string(running.pid());
  const RunResult ls = RunTool({"ls", "--tables", tables()});
  EXPECT_THAT(ls.out, HasSubstr(pid)) << ls.Describe();
  EXPECT_THAT(ls.out, HasSubstr("waits_for_input"));
  const RunResult doctor = RunTool({"doctor", pid, "--tables", tables()});
  EXPECT_THAT(doctor.out, HasSubstr("heap every 1B")) << doctor.Describe();
  const RunResult stuck = RunTool({"stuck", "--children", std::to_string(getpid()), "--tables", tables()});
  EXPECT_THAT(stuck.out + stuck.err, HasSubstr("waits_for_input")) << stuck.Describe();
  running.Wait();
}

// A folder of ours is never refused as a whole.
TEST_F(FirstCommands, AFolderWithoutHeapProfilesIsShownByAnotherKind) {
  RunAs(Launch::kPreload, {"hot_mutex"}, {{"profiles", "mutex,block,threads"}, {"lock-interval", "1ns"}});
  const RunResult top = RunTool({"top", out()});
  EXPECT_TRUE(top.exited(0)) << top.Describe();
  EXPECT_THAT(top.out, HasSubstr("(block)"));
  EXPECT_THAT(top.err, HasSubstr("no heap profile found: showing the block profile"));
  EXPECT_THAT(RunTool({"top", "--kind", "heap", out()}).err,
              HasSubstr("no heap profiles in this folder. It has block, mutex, threads"));
}

TEST_F(FirstCommands, NextStepsNameTheLargestProcess) {
  const RunResult r = RunAs(Launch::kRun, {"child_holds_most"}, {{"heap-interval", "1"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const std::string child = r.out.substr(sizeof "child " - 1, r.out.find('\n') - (sizeof "child " - 1));
  EXPECT_THAT(r.err.substr(r.err.find("what to type next")), HasSubstr("/child_holds_most." + child + ".0001.heap"))
      << r.Describe();
}

}  // namespace
}  // namespace holdfast::testing
