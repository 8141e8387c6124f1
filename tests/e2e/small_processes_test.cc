// --skip-small: child processes that end soon and allocate little leave no profile and no table. All others leave theirs
// whole, however they end.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;

class SmallProcesses : public Profiled {
 protected:
  // Nearly every block is a sample, and its weight 1.
  static Options Skip(const std::string& size) { return {{"heap-interval", "2"}, {"skip-small", size}}; }
  // As a child of the shell that `run` starts.
  Command InShell(const std::vector<std::string>& argv, const Options& options) const {
    std::string script = ProgramPath(argv[0]);
    for (size_t i = 1; i < argv.size(); ++i) script += " " + argv[i];
    Command command = CommandFor(Launch::kRun, {"/bin/sh"}, options);
    command.argv.insert(command.argv.end(), {"-c", script + "; exit 0"});
    return command;
  }
  std::vector<std::string> HiddenTables() const {
    std::vector<std::string> hidden;
    for (const auto& file : std::filesystem::directory_iterator(tables())) {
      if (file.path().extension() == ".small") hidden.push_back(file.path());
    }
    return hidden;
  }
  size_t FilesOf(const std::string& program) const {
    const std::vector<ProfileName> all = ListProfiles(out());
    return static_cast<size_t>(
        std::count_if(all.begin(), all.end(), [&](const ProfileName& name) { return name.program == program; }));
  }
};

class SmallEndings : public SmallProcesses, public ::testing::WithParamInterface<const char*> {};

TEST_P(SmallEndings, LeaveNothing) {
  const RunResult r = RunAndSettle(InShell({"endings", GetParam()}, Skip("4MiB")));
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(r.out, HasSubstr("expect before_the_end"));
  EXPECT_EQ(FilesOf("endings"), 0u) << AllSummaries();
  EXPECT_GT(FilesOf("sh") + FilesOf("dash"), 0u) << "the program that was named has its profile: " << AllSummaries();
  EXPECT_TRUE(HiddenTables().empty());
}

INSTANTIATE_TEST_SUITE_P(Ways, SmallEndings,
                         ::testing::Values("return", "exit", "_exit", "_Exit", "quick_exit", "thread_exits"),
                         [](const auto& info) { return std::string(info.param); });

// They cannot or must not remove their table: what ends a process by surprise is of interest.
class UnusualEndings : public SmallProcesses, public ::testing::WithParamInterface<const char*> {};

TEST_P(UnusualEndings, LeaveAWholeProfile) {
  std::vector<std::string> argv = {"endings", GetParam()};
  const bool needs_root = argv[1] == "chroot" || argv[1] == "setuid";
  if (needs_root && !IsRoot()) GTEST_SKIP() << "needs root";
  if (argv[1] == "chroot") {
    argv.push_back(folder() + "/jail");
    mkdir(argv.back().c_str(), 0755);
  }
  const RunResult r = RunAndSettle(InShell(argv, Skip("4MiB")));
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  ExpectKnownHeap(r.out);
  ExpectAllWhole();
  EXPECT_TRUE(HiddenTables().empty());
}

INSTANTIATE_TEST_SUITE_P(Ways, UnusualEndings,
                         ::testing::Values("abort", "segv", "sigterm", "sigkill", "exec", "chroot", "setuid",
                                           "seccomp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(SmallProcesses, OneThatAllocatesMoreLeavesAllOfIt) {
  constexpr int64_t kBytes = 3 << 20;
  const RunResult r = RunAs(Launch::kRun, {"forked_siblings", "3", std::to_string(kBytes), "fork"}, Skip("2MiB"));
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  int children = 0;
  for (const Decoded& profile : NewestHeap()) {
    if (profile.SumLeaf("parent_allocates").at("alloc_space") != 0) continue;
    ++children;
    EXPECT_EQ(profile.SumLeaf("sibling_allocates").at("alloc_space"), kBytes);
  }
  EXPECT_EQ(children, 3) << AllSummaries();
  EXPECT_TRUE(HiddenTables().empty());
}

TEST_F(SmallProcesses, ForkedOnesLeaveNothingAndTheirParentItsProfile) {
  const RunResult r = RunAs(Launch::kRun, {"forked_siblings", "10", "1000000", "fork"}, Skip("2MiB"));
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const std::vector<Decoded> profiles = NewestHeap();
  ASSERT_EQ(profiles.size(), 1u) << AllSummaries();
  EXPECT_EQ(profiles[0].SumLeaf("parent_allocates").at("alloc_space"), 1000);
  EXPECT_TRUE(HiddenTables().empty());
}

TEST_F(SmallProcesses, MappedMemoryCounts) {
  const RunResult r = RunAndSettle(InShell({"mappings", "kinds"}, {{"heap-interval", "0"}, {"skip-small", "1MiB"}}));
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_GT(FilesOf("mappings"), 0u) << AllSummaries();
}

// After a second it is served as any other, though it only waits.
TEST_F(SmallProcesses, OneThatRunsForASecondIsShownAndDumped) {
  Running program(InShell({"waits_for_input"}, Skip("1GiB")));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  program.Write("line\n");
  ASSERT_TRUE(program.WaitForOutput("done 1"));
  RunResult listed;
  EXPECT_TRUE(Eventually([&] {
    listed = RunTool({"ls", "--tables", tables()});
    return listed.out.find("waits_for_input") != std::string::npos;
  })) << listed.Describe();
  EXPECT_TRUE(HiddenTables().empty());
  program.CloseInput();
  EXPECT_TRUE(program.Wait().exited(0));
  EXPECT_TRUE(Settled());
  EXPECT_GT(FilesOf("waits_for_input"), 0u) << AllSummaries();
}

// The program that `run` started has ended, and so has `run`: the exporter waits for what may still become a profile.
TEST_F(SmallProcesses, OneThatOutlivesRunIsServed) {
  Command command = CommandFor(Launch::kRun, {"/bin/sh"}, Skip("1GiB"));
  command.argv.insert(command.argv.end(), {"-c", ProgramPath("waits_for_input") + " <&4 & sleep 0.2; exit 0"});
  command.argv.insert(
      command.argv.begin(),
      {"/bin/sh", "-c", "mkfifo " + folder() + "/in; exec 4<>" + folder() + "/in; echo >&4; \"$@\"", "sh"});
  const RunResult r = Execute(command);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  RunResult listed;
  EXPECT_TRUE(Eventually([&] {
    listed = RunTool({"ls", "--tables", tables()});
    return listed.out.find("waits_for_input") != std::string::npos;
  })) << listed.Describe();
  std::istringstream lines(listed.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("waits_for_input") != std::string::npos) kill(std::stoi(line), SIGKILL);
  }
  EXPECT_TRUE(Settled());
  EXPECT_TRUE(HiddenTables().empty());
  EXPECT_GT(FilesOf("waits_for_input"), 0u) << AllSummaries();
}

// Nobody would find a hidden table.
TEST_F(SmallProcesses, WithoutAnExporterNoneIsHidden) {
  Command command = CommandFor(Launch::kPreload, {"endings", "sigkill"}, Skip("4MiB"));
  command.env["HOLDFAST_EXPORTER"] = "no";
  const RunResult r = Execute(command);
  EXPECT_TRUE(r.killed_by(SIGKILL)) << r.Describe();
  EXPECT_TRUE(HiddenTables().empty());
  const RunResult collected = RunTool({"collect", out(), "--tables", tables()});
  EXPECT_TRUE(collected.exited(0)) << collected.Describe();
  ExpectKnownHeap(r.out);
}

}  // namespace
}  // namespace holdfast::testing
