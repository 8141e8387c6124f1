// `holdfast run` in place of its program: signals, job control, processes, and what it prints at the end.
#include <pty.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/profiled.h"
#include "tests/support/tracer.h"

namespace holdfast::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const Options kEvery = {{"heap-interval", "1"}};

class RunTest : public Profiled {
 protected:
  static char State(pid_t pid) {
    const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
    const size_t name_end = stat.rfind(')');
    return name_end == std::string::npos ? 'X' : stat[name_end + 2];
  }
  static pid_t ChildOf(pid_t pid) {
    const std::string id = std::to_string(pid);
    return std::atoi(ReadFile("/proc/" + id + "/task/" + id + "/children").c_str());
  }
  // A shell that counts the signals that reach it and ends with status 9 at TERM. It prints the count outside of the trap:
  // bash loses a signal that arrives before the trap of the one before has returned.
  Command Counting(Launch launch) const {
    return CommandFor(launch, {"/bin/bash", "-c",
                               "n=0; said=0; trap 'n=$((n+1))' USR1; trap 'echo cont' CONT; trap 'echo int' INT; "
                               "trap 'exit 9' TERM; echo ready; while :; do read -t 0.02 x; "
                               "[ $n = $said ] || { said=$n; echo usr1 $n; }; done"});
  }
};

TEST_F(RunTest, PassesEachSignalOnOnce) {
  Running running(Counting(Launch::kRun));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  for (int i = 1; i <= 3; ++i) {
    running.Signal(SIGUSR1);
    ASSERT_TRUE(running.WaitForOutput("usr1 " + std::to_string(i)));
  }
  running.Signal(SIGCONT);
  ASSERT_TRUE(running.WaitForOutput("cont"));
  running.Signal(SIGINT);
  ASSERT_TRUE(running.WaitForOutput("int"));
  running.Signal(SIGTERM);
  const RunResult r = running.Wait();
  EXPECT_TRUE(r.exited(9)) << r.Describe();
  EXPECT_EQ(r.out, "ready\nusr1 1\nusr1 2\nusr1 3\ncont\nint\n");
}

TEST_F(RunTest, StopsAndGoesOnWithItsProgram) {
  // The kernel discards SIGTSTP in an orphaned process group, which the tests' own may be.
  Command command = Counting(Launch::kRun);
  command.own_group = true;
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const pid_t program = ChildOf(running.pid());
  for (int i = 0; i < 3; ++i) {
    running.Signal(SIGTSTP);
    EXPECT_TRUE(Eventually([&] { return State(program) == 'T' && State(running.pid()) == 'T'; })) << i;
    running.Signal(SIGCONT);
    EXPECT_TRUE(Eventually([&] { return State(program) != 'T' && State(running.pid()) != 'T'; })) << i;
  }
  running.Signal(SIGTERM);
  EXPECT_TRUE(running.Wait().exited(9));
}

// Who stops only the program, without a terminal, will continue only the program.
TEST_F(RunTest, IsNotStoppedByOthersWhoStopTheProgramAlone) {
  Running running(Counting(Launch::kRun));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const pid_t program = ChildOf(running.pid());
  kill(program, SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return State(program) == 'T'; }));
  kill(program, SIGCONT);
  kill(program, SIGTERM);
  EXPECT_TRUE(running.Wait().exited(9));
}

// A machine that is busy, or a profile that takes long to write: whoever asks for the profiles next finds them.
TEST_F(RunTest, WaitsForAnExporterThatIsAtWork) {
  Command command = CommandFor(Launch::kRun, {"/bin/sh", "-c", "echo ready; read line; kill -9 $$"},
                               {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  ASSERT_TRUE(Eventually([&] { return Exporters().size() == 1; }));
  const pid_t exporter = Exporters().at(0), program = ChildOf(running.pid());
  const Tracer tracer(exporter);
  if (!tracer.attached()) GTEST_SKIP() << "the exporter cannot be traced here (kernel.yama.ptrace_scope)";
  running.Write("\n");
  const double end = Now() + 6;  // longer than run waits for an exporter that does nothing
  tracer.StepUntil([end] { return Now() > end; });
  EXPECT_NE(kill(program, 0), 0);
  EXPECT_TRUE(ListProfiles(out()).empty());
  EXPECT_NE(State(running.pid()), 'Z');
  tracer.Leave(0);
  running.CloseInput();
  const RunResult result = running.Wait();
  EXPECT_THAT(result.err, HasSubstr("writing the last profiles of 1 process …"));
  EXPECT_THAT(result.err, HasSubstr(".heap.pb.gz"));
  EXPECT_FALSE(ListProfiles(out()).empty());
}

// A terminal of its own: ^C goes to the whole process group, so the program has it without run's help.
TEST_F(RunTest, TheTerminalsInterruptReachesTheProgramOnce) {
  const Command command = Counting(Launch::kRun);
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, nullptr);
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    std::vector<char*> argv;
    for (const std::string& word : command.argv) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(99);
  }
  std::string text;
  const auto shows = [&](const std::string& wanted) {
    return Eventually([&] {
      fd_set ready;
      FD_ZERO(&ready);
      FD_SET(terminal, &ready);
      timeval now = {0, 0};
      char buffer[4096];
      if (select(terminal + 1, &ready, nullptr, nullptr, &now) > 0) {
        const ssize_t got = read(terminal, buffer, sizeof buffer);
        if (got > 0) text.append(buffer, static_cast<size_t>(got));
      }
      return text.find(wanted) != std::string::npos;
    });
  };
  ASSERT_TRUE(shows("ready")) << text;
  ASSERT_EQ(write(terminal, "\x03", 1), 1);
  ASSERT_TRUE(shows("int")) << text;
  kill(ChildOf(pid), SIGUSR1);
  ASSERT_TRUE(shows("usr1 1")) << text;  // an interrupt that came twice would stand before it
  EXPECT_EQ(text.find("int"), text.rfind("int")) << text;
  kill(pid, SIGTERM);
  int status = 0;
  EXPECT_TRUE(Eventually([&] { return waitpid(pid, &status, WNOHANG) == pid; }));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 9) << status;
  close(terminal);
}

TEST_F(RunTest, TheFolderIsNamedAfterProgramAndPid) {
  Command command;
  command.argv = {Tool(), "run", "--heap-interval", "1", "--tables", tables(), "bash", "-c", "echo $$"};
  command.cwd = folder();
  const RunResult r = RunAndSettle(command);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const std::string pid = r.out.substr(0, r.out.find('\n'));
  EXPECT_TRUE(fs::exists(folder() + "/holdfast.bash." + pid + "/bash." + pid + ".0001.heap.pb.gz")) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("holdfast top holdfast.bash." + pid + "/bash." + pid + ".0001.heap.pb.gz"));
}

TEST_F(RunTest, NextStepsFitTheFiles) {
  const RunResult r = RunAndSettle(CommandFor(Launch::kRun, {"frees_all"}, {{"heap-interval", "1"}}));
  EXPECT_THAT(r.err, HasSubstr("# 6.25MiB allocated, all freed\n")) << r.Describe();
  EXPECT_THAT(r.err, ::testing::Not(HasSubstr("holdfast locks"))) << "it waited for none";
  EXPECT_THAT(r.err, HasSubstr("holdfast html "));
  for (const char* command : {"top", "tree"}) {
    const RunResult view = RunTool({command, out()});
    EXPECT_THAT(view.out, HasSubstr("metric   alloc_space (heap)\n")) << view.Describe();
    EXPECT_THAT(view.out,
                HasSubstr("note     nothing is in use any more, so this shows all allocations (alloc_space)\n"));
    EXPECT_THAT(view.out, HasSubstr("passing_blocks"));
  }
  EXPECT_THAT(RunTool({"top", "--metric", "inuse_space", out()}).out, HasSubstr("total    0")) << "it was asked for";
  const RunResult waits =
      RunAndSettle(CommandFor(Launch::kRun, {"hot_mutex"}, {{"lock-interval", "1ns"}, {"out", out() + ".waits"}}));
  EXPECT_THAT(waits.err, HasSubstr("holdfast locks ")) << waits.Describe();
}

// A helper that has more in use at its end than the program, which has freed all, is not what the user asked about.
TEST_F(RunTest, NextStepsAreOfTheProgramAndNotOfItsHelper) {
  const std::string script = ProgramPath("leaks_beside_a_cache") + " 0; exec " + ProgramPath("frees_all");
  const RunResult r = RunAndSettle(CommandFor(Launch::kRun, {"/bin/bash", "-c", script}, {{"heap-interval", "1"}}));
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("leaks_beside_a_cache.")) << "it is profiled, too";
  EXPECT_THAT(r.err, ::testing::ContainsRegex("holdfast top [^ ]*frees_all\\.")) << r.Describe();
}

TEST_F(RunTest, AFolderInWhichNothingCameIsTakenAwayIfItWasMade) {
  RunAs(Launch::kRun, {"nothing"}, {{"out", out() + "/a/b"}});
  EXPECT_FALSE(fs::exists(out()));
  fs::create_directories(out());
  RunAs(Launch::kRun, {"nothing"});
  EXPECT_TRUE(fs::exists(out()));
}

TEST_F(RunTest, TheProgramIsStartedWithWhatRunGot) {
  const std::string script =
      "echo \"$LD_PRELOAD|$HOLDFAST_OUT|$HOLDFAST_ROOT|$$|$HOLDFAST_SEED|$0|$1\"; set -- /proc/$$/fd/*; echo $#";
  for (const Launch launch : {Launch::kRun, Launch::kExec}) {
    Command command = CommandFor(launch, {"/bin/sh", "-c", script, "name", "a b"}, {{"seed", "5"}});
    command.env["LD_PRELOAD"] = "libz.so.1";
    Command bare;
    bare.argv = {"/bin/sh", "-c", script, "name", "a b"};
    const std::string descriptors = Execute(bare).out;
    const RunResult r = RunAndSettle(command);
    const size_t line = r.out.find('\n');
    std::vector<std::string> parts;
    for (size_t at = 0; at < line;) {
      const size_t end = std::min(r.out.find('|', at), line);
      parts.push_back(r.out.substr(at, end - at));
      at = end + 1;
    }
    ASSERT_EQ(parts.size(), 7u) << r.Describe();
    EXPECT_EQ(parts[0], Library() + ":libz.so.1");
    EXPECT_EQ(parts[1], out());
    EXPECT_EQ(parts[2], parts[3]);  // the root is the program
    EXPECT_EQ(parts[4], "5");
    EXPECT_EQ(parts[5] + "|" + parts[6], "name|a b");
    EXPECT_EQ(r.out.substr(line), descriptors.substr(descriptors.find('\n')));
    if (launch == Launch::kExec) {
      EXPECT_EQ(parts[3], std::to_string(r.pid));
      EXPECT_EQ(r.err, "");
    }
  }
}

TEST_F(RunTest, VariablesCountWhereNoOptionIsGiven) {
  Command command;
  command.argv = {Tool(), "run", "--tables", tables(), ProgramPath("threads_exact")};
  command.env["HOLDFAST_OUT"] = out();
  command.env["HOLDFAST_HEAP_INTERVAL"] = "1";
  const RunResult r = RunAndSettle(command);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  ExpectKnownHeap(r.out);
  command.argv.insert(command.argv.begin() + 2,
                      {"-o", folder() + "/other", "--heap-interval", "0", "--lock-interval", "0"});
  RunAndSettle(command);
  EXPECT_TRUE(ListProfiles(folder() + "/other").empty());
}

TEST_F(RunTest, TheToolIsNeverProfiledItself) {
  for (const std::string& preload : {Library(), "libz.so.1:" + Library(), Library() + " libz.so.1"}) {
    Command command;
    command.argv = {Tool(), "--version"};
    command.env = {{"LD_PRELOAD", preload},
                   {"HOLDFAST_HEAP_INTERVAL", "1"},
                   {"HOLDFAST_OUT", out()},
                   {"HOLDFAST_TABLES", tables()}};
    const RunResult r = RunAndSettle(command);
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    EXPECT_TRUE(ListProfiles(out()).empty()) << preload;
  }
}

TEST_F(RunTest, AProgramMayBeHandedToTheLoader) {
  const RunResult r = RunAs(Launch::kRun, {"/lib64/ld-linux-x86-64.so.2", ProgramPath("threads_exact")}, kEvery);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  ExpectKnownHeap(r.out);
}

// The allocator's free accepts only its own blocks, so the tool must not pass it a block of another allocator.
TEST_F(RunTest, TheToolWorksBelowAPreloadedAllocator) {
  for (const std::string& preload : {std::string(HOLDFAST_PROGRAMS "/own_blocks_only.so"),
                                     Library() + ":" HOLDFAST_PROGRAMS "/own_blocks_only.so"}) {
    const std::string folder = out() + "/" + std::to_string(preload.size());
    Command run = CommandFor(Launch::kRun, {"threads_exact"}, {{"heap-interval", "1"}, {"out", folder}});
    run.env["LD_PRELOAD"] = preload;
    const RunResult r = RunAndSettle(run);
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    ASSERT_EQ(Newest(folder, "heap").size(), 1u);
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"top", folder},
                                               {"symbolize", "-q", folder},
                                               {"html", "-o", folder + "/report.html", folder},
                                               {"doctor", "--", "/bin/true"}}) {
      Command command;
      command.argv = arguments;
      command.argv.insert(command.argv.begin(), Tool());
      command.env["LD_PRELOAD"] = preload;
      const RunResult view = Execute(command);
      EXPECT_TRUE(view.exited(0)) << arguments[0] << "\n" << view.Describe();
    }
  }
}

TEST_F(RunTest, RunInsideOfRunProfilesTheProgramOnce) {
  Command inner = CommandFor(Launch::kRun, {"endings", "return"}, {{"heap-interval", "1"}, {"out", out() + "/inner"}});
  const RunResult r = RunAs(Launch::kRun, inner.argv, {{"heap-interval", "1"}, {"out", out() + "/outer"}});
  EXPECT_TRUE(r.exited(5)) << r.Describe();
  EXPECT_EQ(ListProfiles(out() + "/inner").size(), 1u);
  EXPECT_TRUE(ListProfiles(out() + "/outer").empty()) << r.Describe();
}

TEST_F(RunTest, SaysThatADaemonRunsOn) {
  // The daemon runs until somebody opens the pipe: if it were waited for, this would not come back.
  const std::string pipe = folder() + "/pipe", begun = folder() + "/begun";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string daemon = ": >" + begun + "; exec cat " + pipe;
  const RunResult r =
      Execute(CommandFor(Launch::kRun,
                         {"/bin/bash", "-c",
                          "(exec setsid /bin/bash -c '" + daemon + "' </dev/null >/dev/null 2>&1) & until [ -e " +
                              begun + " ]; do :; done; exit 3"},
                         kEvery));
  std::ofstream(pipe) << "end\n";
  EXPECT_TRUE(r.exited(3)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("1 process runs on; profiles go to " + out() + "."));
  EXPECT_TRUE(Settled());
  int daemons = 0;
  for (const ProfileName& name : ListProfiles(out())) daemons += name.program == "cat";
  EXPECT_GE(daemons, 1) << "the daemon, which ended after run did, has no profile";
}

TEST_F(RunTest, AKilledExporterCostsNothing) {
  Running running(CommandFor(Launch::kRun, {"waits_for_input"}, kEvery));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 1"));
  RunResult found = Execute({.argv = {"pgrep", "-f", "exporter --out " + out() + " "}});
  const pid_t exporter = std::atoi(found.out.c_str());
  ASSERT_GT(exporter, 1) << found.Describe();
  kill(exporter, SIGKILL);
  running.Signal(SIGTERM);
  EXPECT_TRUE(running.Wait().killed_by(SIGTERM));
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_EQ(NewestHeap()[0].SumLeaf("for_each_line").at("alloc_objects"), 100);
}

TEST_F(RunTest, WithoutAnExporterItSaysHowToCollect) {
  Command command = CommandFor(Launch::kRun, {"endings", "_exit"}, kEvery);
  command.env["HOLDFAST_EXPORTER"] = "no";
  const RunResult r = Execute(command);
  EXPECT_TRUE(r.exited(7)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("1 table is not written as profiles (HOLDFAST_EXPORTER=no)"));
  EXPECT_THAT(r.err, HasSubstr("holdfast collect " + out() + " --tables " + tables()));
  EXPECT_TRUE(RunTool({"collect", out(), "--tables", tables()}).exited(0));
  EXPECT_EQ(ListProfiles(out()).size(), 1u);
}

TEST_F(RunTest, SaysWhyATableCouldNotBeWritten) {
  if (!IsRoot()) GTEST_SKIP() << "mounting a small tmpfs needs root";
  const std::string small = folder() + "/small";
  fs::create_directories(small);
  ASSERT_EQ(mount("none", small.c_str(), "tmpfs", 0, "size=16k"), 0);
  WriteFile(small + "/filler", std::string(16384, 'x'));
  const RunResult r = Execute(CommandFor(Launch::kRun, {"endings", "_exit"}, {{"heap-interval", "1"}, {"out", small}}));
  EXPECT_TRUE(r.exited(7)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("no space is left in " + small));
  EXPECT_THAT(r.err, HasSubstr("holdfast collect " + small));
  EXPECT_THAT(r.err, HasSubstr("writing the last profiles of 1 process"));
  EXPECT_THAT(r.err, Not(HasSubstr("nothing was sampled")));
  for (const std::string& table : Tables()) fs::remove(tables() + "/" + table);
  EXPECT_TRUE(Eventually([&] { return umount(small.c_str()) == 0; }));
}

TEST_F(RunTest, HoldfastEnableZeroRecordsNothingAndSaysSo) {
  Command command = CommandFor(Launch::kRun, {"endings", "return"}, kEvery);
  command.env["HOLDFAST_ENABLE"] = "0";
  const RunResult r = RunAndSettle(command);
  EXPECT_TRUE(r.exited(5)) << r.Describe();
  EXPECT_EQ(r.err, "holdfast: HOLDFAST_ENABLE=0: nothing is recorded.\n");
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(RunTest, TablesMustLieInMemory) {
  for (const std::string& place : {folder() + "/missing", std::string("/proc/self/exe"), std::string("/proc")}) {
    const RunResult r = RunTool({"run", "-o", out(), "--tables", place, "true"});
    EXPECT_TRUE(r.exited(125)) << r.Describe();
    EXPECT_THAT(r.err, HasSubstr("--tables: "));
    EXPECT_FALSE(fs::exists(out()));
  }
}

TEST_F(RunTest, WithoutItsLibraryItSaysWhereItLooked) {
  const std::string lonely = folder() + "/lonely/bin/holdfast";
  fs::create_directories(folder() + "/lonely/bin");
  fs::copy_file(Tool(), lonely);
  const RunResult r = Execute({.argv = {lonely, "run", "true"}});
  EXPECT_TRUE(r.exited(125)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr(folder() + "/lonely/lib/holdfast/libholdfast.so"));
}

TEST_F(RunTest, ClosedStandardDescriptorsStayClosed) {
  const std::string listing = folder() + "/descriptors";
  const auto listed = [&](Launch launch) {
    const Command inner = CommandFor(launch, {"/bin/sh", "-c", "ls /proc/$$/fd > " + listing + "; exit 4"}, kEvery);
    std::string line;
    for (const std::string& word : inner.argv) line += "'" + word + "' ";
    const RunResult r = RunAndSettle({.argv = {"/bin/sh", "-c", line + "<&- >&- 2>&-"}});
    EXPECT_TRUE(r.exited(4)) << r.Describe();
    return ReadFile(listing);
  };
  const std::string bare = listed(Launch::kBare);
  EXPECT_EQ(listed(Launch::kRun), bare);
  EXPECT_EQ(listed(Launch::kExec), bare);
}

// The names of the files escape a blank and a percent sign.
TEST_F(RunTest, AProgramIsNamedAsItIsAndItsFilesAsTheyAre) {
  const std::string program = folder() + "/my 100% program";
  fs::copy_file(ProgramPath("endings"), program);
  const RunResult r =
      RunTool({"run", "--heap-interval", "1", "--tables", tables(), "-o", out(), "--", program, "return"});
  EXPECT_TRUE(r.exited(5)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("  my 100% program (pid "));
  EXPECT_THAT(r.err, HasSubstr("    my%20100%25%20program."));
}

}  // namespace
}  // namespace holdfast::testing
