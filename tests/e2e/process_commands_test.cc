// `holdfast ls`, `dump`, `set` and `doctor`: what they print about real processes, and what they do to them.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <thread>

#include "sampler/contract/layout.h"
#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const Options kEvery = {{"heap-interval", "1"}, {"snapshot-every", "0"}};

class ProcessCommands : public Profiled {
 protected:
  RunResult Tool(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin() + 1, {"--tables", tables()});
    return RunTool(std::move(arguments));
  }
  static std::string Pid(const Running& running) { return std::to_string(running.pid()); }
  // Objects that `for_each_line` of waits_for_input allocated, as the newest snapshot has it.
  int64_t Sampled(const Running& running) {
    const RunResult r = Tool({"dump", Pid(running)});
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    return NewestHeap().at(0).SumLeaf("for_each_line").at("alloc_objects");
  }
  static void Lines(Running& running, int count, int* done) {
    for (int i = 0; i < count; ++i) {
      running.Write("line\n");
      ASSERT_TRUE(running.WaitForOutput("done " + std::to_string(++*done) + "\n"));
    }
  }
};

// ---- dump ----

TEST_F(ProcessCommands, AnOutputFolderMayHaveANewlineInItsName) {
  Options options = kEvery;
  options["out"] = out() + "/two\nlines";
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, options));
  int done = 0;
  Lines(running, 1, &done);
  const RunResult dumped = Tool({"dump", Pid(running)});
  EXPECT_EQ(dumped.out, out() + "/two\nlines/waits_for_input." + Pid(running) + ".0001.heap.pb.gz\n");
  const RunResult top = RunTool({"top", Pid(running)});
  EXPECT_TRUE(top.exited(0)) << top.Describe();
  EXPECT_THAT(top.out, HasSubstr("waits_for_input (pid " + Pid(running)));
  running.Wait();
}

TEST_F(ProcessCommands, DumpSaysThatTheOutputFolderWasMoved) {
  Options options = kEvery;
  options["out"] = out() + "/first";
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, options));
  int done = 0;
  Lines(running, 1, &done);
  ASSERT_TRUE(Tool({"dump", Pid(running)}).exited(0));
  std::filesystem::rename(out() + "/first", out() + "/second");
  const RunResult dumped = Tool({"dump", Pid(running)});
  EXPECT_TRUE(dumped.exited(3)) << dumped.Describe();
  EXPECT_THAT(dumped.err, HasSubstr("/first is no longer its output folder (it was moved or replaced). Name another"));
  running.Wait();
}

TEST_F(ProcessCommands, DumpTakesASnapshotOfAStoppedProgram) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery));
  int done = 0;
  Lines(running, 1, &done);
  running.Signal(SIGSTOP);
  const RunResult r = Tool({"dump", Pid(running)});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(r.out, out() + "/waits_for_input." + Pid(running) + ".0001.heap.pb.gz\n");
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_EQ(NewestHeap()[0].SumLeaf("for_each_line").at("alloc_objects"), 100);
  EXPECT_THAT(Tool({"ls"}).out, HasSubstr("stopped"));
  running.Signal(SIGCONT);
  running.Wait();
}

TEST_F(ProcessCommands, DumpTakesASnapshotOfADeadlockedProgram) {
  for (const char* exporter : {"", "no"}) {
    Command command = CommandFor(Launch::kPreload, {"deadlock"}, kEvery);
    command.env["HOLDFAST_EXPORTER"] = exporter;
    command.env["HOLDFAST_OUT"] = out() + "/" + exporter;
    Running running(command);
    ASSERT_TRUE(running.WaitForOutput("ready"));
    const RunResult r = Tool({"dump", Pid(running)});
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    const std::vector<Decoded> heap = Newest(command.env["HOLDFAST_OUT"], "heap");
    ASSERT_EQ(heap.size(), 1u);
    EXPECT_EQ(heap[0].SumLeaf("before_the_deadlock").at("alloc_objects"), 100);
    EXPECT_EQ(heap[0].SumLeaf("before_the_deadlock").at("inuse_space"), 5000);
    // `stuck` and `top -H` print the ids of threads.
    for (const auto& thread : std::filesystem::directory_iterator("/proc/" + Pid(running) + "/task")) {
      const std::string id = thread.path().filename();
      if (id == Pid(running)) continue;
      EXPECT_THAT(Tool({"dump", id}).err,
                  HasSubstr("is a thread of process " + Pid(running) + ". Give " + Pid(running)));
    }
    running.Signal(SIGKILL);
    running.Wait();
  }
  EXPECT_TRUE(RunTool({"collect", out() + "/no", "--tables", tables()}).exited(0));
}

// Without peak profiles: a process has one after its first second, whether or not it samples anything meanwhile.
TEST_F(ProcessCommands, DumpSaysWhenThereIsNothingNewAndNamesTheLastFile) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"},
                             {{"heap-interval", "1"}, {"snapshot-every", "0"}, {"peak", "no"}, {"lifetimes", "no"}}));
  int done = 0;
  Lines(running, 1, &done);
  const RunResult first = Tool({"dump", Pid(running)}), second = Tool({"dump", Pid(running)});
  EXPECT_TRUE(second.exited(0)) << second.Describe();
  EXPECT_EQ(second.out, first.out);
  EXPECT_EQ(first.err, "");
  EXPECT_THAT(second.err, HasSubstr("nothing new has been sampled since"));
  Lines(running, 1, &done);
  EXPECT_THAT(Tool({"dump", Pid(running)}).out, HasSubstr(".0002.heap.pb.gz"));
}

TEST_F(ProcessCommands, DumpOfAllAndIntoAnotherFolder) {
  Running one(CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery));
  Running other(CommandFor(Launch::kExec, {"waits_for_input"}, kEvery));
  int done = 0, others_done = 0;
  Lines(one, 1, &done);
  Lines(other, 2, &others_done);
  const std::string elsewhere = folder() + "/else where";
  const RunResult r = Tool({"dump", "--all", "-o", elsewhere});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(Newest(elsewhere, "heap").size(), 2u) << r.out;
  EXPECT_TRUE(ListProfiles(out()).empty());
}

// ---- set ----

TEST_F(ProcessCommands, SetSwitchesOffAndOnWithoutASignal) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery));
  int done = 0;
  Lines(running, 1, &done);
  EXPECT_EQ(Sampled(running), 100);
  const RunResult off = Tool({"set", Pid(running), "all=off"});
  EXPECT_TRUE(off.exited(0)) << off.Describe();
  EXPECT_THAT(off.err, HasSubstr("heap-interval 1B → off, in each thread within the next 1MiB"));
  Lines(running, 4, &done);
  // The allocation that was due already; then none.
  EXPECT_EQ(Sampled(running), 101);
  const RunResult on = Tool({"set", Pid(running), "heap=on"});
  EXPECT_THAT(on.err, HasSubstr("heap-interval off → 1B"));
  Lines(running, 14, &done);
  // 1,400 blocks of 1,000 bytes: on again within 1,049 of them.
  EXPECT_GE(Sampled(running), 101 + 1400 - 1049);
  EXPECT_LE(Sampled(running), 101 + 1400);
  EXPECT_THAT(Tool({"ls"}).out, HasSubstr("1B"));
  // The command that the help gives to stop all sampling.
  EXPECT_THAT(Tool({"set", "--help"}).out, HasSubstr("holdfast set --all all=off cpu=off wall=off  stop all sampling"));
  const RunResult none = Tool({"set", "--all", "all=off", "cpu=off", "wall=off"});
  EXPECT_TRUE(none.exited(0)) << none.Describe();
  for (const char* part : {"heap-interval 1B → off", "lock-interval is already off", "cpu is already off", "wall off"})
    EXPECT_THAT(none.err, HasSubstr(part));
  EXPECT_TRUE(running.Wait().exited(0));
}

class SwitchedOff : public ProcessCommands, public ::testing::WithParamInterface<std::string> {};

TEST_P(SwitchedOff, SetSwitchesOnWhatBeganSwitchedOff) {
  if (access(ProgramPath(GetParam()).c_str(), X_OK) != 0) GTEST_SKIP() << "that archive is not installed";
  Running running(CommandFor(Launch::kPreload, {GetParam()},
                             {{"heap-interval", "0"}, {"lock-interval", "0"}, {"snapshot-every", "0"}}));
  int done = 0;
  Lines(running, 12, &done);  // 1.2 MB: from then on it can be found
  EXPECT_THAT(Tool({"ls"}).out, HasSubstr(GetParam()));
  const RunResult on = Tool({"set", Pid(running), "heap-interval=1"});
  EXPECT_TRUE(on.exited(0)) << on.Describe();
  EXPECT_THAT(on.err, HasSubstr("heap-interval off → 1B"));
  EXPECT_TRUE(ListProfiles(out()).empty());
  Lines(running, 14, &done);
  const int64_t sampled = Sampled(running);
  EXPECT_GE(sampled, 1400 - 1049);  // on within 1 MiB
  EXPECT_LE(sampled, 1400);
  EXPECT_TRUE(running.Wait().exited(0));
}
INSTANTIATE_TEST_SUITE_P(Programs, SwitchedOff,
                         ::testing::Values("waits_for_input", "linked_waits_jemalloc", "linked_waits_tcmalloc"),
                         [](const auto& info) { return info.param; });

TEST_F(ProcessCommands, ASampleWeighsWhatTheIntervalItWasDrawnFromSays) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery));
  int done = 0;
  Lines(running, 1, &done);
  EXPECT_TRUE(Tool({"set", Pid(running), "heap-interval=1GiB"}).exited(0));
  Lines(running, 1, &done);
  // One was drawn under the old interval and counts 1; that any other of the 99 is sampled has p = 1e-4.
  EXPECT_EQ(Sampled(running), 101);
  const Decoded heap = NewestHeap().at(0);
  EXPECT_EQ(heap.SumLeaf("for_each_line").at("alloc_space"), 101'000);
  // And the frees of what was sampled before are seen: 9 of 10 blocks are freed.
  EXPECT_EQ(heap.SumLeaf("for_each_line").at("inuse_objects"), 11);
}

TEST_F(ProcessCommands, SetTellsWhatItDoesNotTake) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery));
  int done = 0;
  Lines(running, 1, &done);
  const std::string pid = Pid(running);
  struct Case {
    std::vector<std::string> arguments;
    int code;
    std::string says;
  };
  for (const Case& c : std::vector<Case>{
           {{"set", pid}, 2, "nothing to set"},
           {{"set", "heap=on"}, 2, "name a PID, or --all"},
           {{"set", pid, "heap-interval=5parsecs"}, 2, "takes a size"},
           {{"set", pid, "lock-interval=5"}, 2, "takes a time"},
           {{"set", pid, "lock=maybe"}, 2, "takes on or off"},
           {{"set", pid, "colour=red"}, 2, "use heap-interval=SIZE"},
           {{"set", pid, "--all", "heap=on"}, 2, "both"},
           {{"set", "0", "heap=on"}, 2, "not a process id"},
           {{"set", pid, "heap-interval=1"}, 0, "is already 1B"},
           {{"set", "4194999", "heap=off"}, 3, "no such process"},
           {{"set", std::to_string(getpid()), "heap=off"}, 3, "is not profiled"},
       }) {
    const RunResult r = Tool(c.arguments);
    EXPECT_TRUE(r.exited(c.code)) << r.Describe();
    EXPECT_THAT(r.err, HasSubstr(c.says));
  }
  for (int i = 1; i <= 31; ++i)
    ASSERT_TRUE(Tool({"set", pid, "heap-interval=" + std::to_string(1000 + i)}).exited(0)) << i;
  const RunResult full = Tool({"set", pid, "heap-interval=7"});
  EXPECT_TRUE(full.exited(3)) << full.Describe();
  EXPECT_THAT(full.err, HasSubstr("no space for another change"));
}

// ---- what all commands refuse ----

TEST_F(ProcessCommands, RefuseWhatIsNoProcess) {
  pid_t thread = 0;
  std::atomic<bool> is_over = false;
  std::thread waits([&] {
    thread = static_cast<pid_t>(syscall(SYS_gettid));
    is_over.wait(false);
  });
  const pid_t zombie = fork();
  if (zombie == 0) _exit(0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(zombie), &info, WEXITED | WNOWAIT), 0);
  while (thread == 0) sched_yield();
  const std::string none = "4194999", url = "http://127.0.0.1:9";
  struct Case {
    std::string pid, says;
  };
  for (const auto& [pid, says] : std::vector<Case>{
           {none, "process " + none + ": no such process. holdfast ls lists the profiled processes."},
           {std::to_string(thread), "process " + std::to_string(thread) + ": is a thread of process " +
                                        std::to_string(getpid()) + ". Give " + std::to_string(getpid()) + "."},
           {std::to_string(zombie),
            "process " + std::to_string(zombie) + ": has exited; its parent has not yet collected it."}}) {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"attach", pid},
                                               {"detach", pid},
                                               {"doctor", pid},
                                               {"doctor", pid, "--attach"},
                                               {"holders", pid},
                                               {"stuck", pid},
                                               {"check", "--max", "inuse_space=1MB", pid},
                                               {"memory", pid},
                                               {"dump", pid},
                                               {"push", url, pid, "--once"},
                                               {"serve", pid}}) {
      const RunResult r = RunTool(words);
      EXPECT_TRUE(r.exited(3)) << words[0] << ": " << r.Describe();
      EXPECT_EQ(r.err, "holdfast: " + says + "\n") << words[0];
    }
  }
  is_over = true;
  is_over.notify_all();
  waits.join();
  waitpid(zombie, nullptr, 0);
  EXPECT_THAT(RunTool({"stuck", std::to_string(getpid())}).err, HasSubstr("is not profiled. Start"));
}

TEST_F(ProcessCommands, LeaksFollowsOnlyWhatExists) {
  const RunResult r = RunTool({"leaks", "--follow", "4194999"});
  EXPECT_TRUE(r.exited(3)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("process 4194999: no such process."));
}

TEST_F(ProcessCommands, SayByTheirStatusThatANamedProcessWasNotExamined) {
  const RunResult r = RunTool({"stuck", "4194999", "4194998"});
  EXPECT_TRUE(r.exited(3)) << r.Describe();
}

TEST_F(ProcessCommands, RefuseWrongUsageWithStatus2) {
  const std::string none = folder() + "/none", file = folder() + "/file", url = "http://127.0.0.1:9";
  WriteFile(file, "text");
  struct Case {
    std::vector<std::string> words;
    int code;
    std::string says;
  };
  for (const Case& c : std::vector<Case>{
           {{"dump", "abc"}, 2, "\"abc\": not a process id"},
           {{"holders", "abc"}, 2, "abc: neither a process id nor a core file. holdfast ls lists"},
           {{"memory", "abc"}, 2, "nor a profile or a folder of them.\n"},
           {{"set", "--all"}, 2, "nothing to set: give NAME=VALUE"},
           {{"set"}, 2, "nothing to set: give NAME=VALUE"},
           {{"top", folder(), "--kind", "foo"}, 2, "\"foo\" is not heap, mutex"},
           {{"push", url, "abc", "--once"}, 2, "abc: neither a process id nor a folder. holdfast ls lists both."},
           {{"push", url, none, "--once"}, 2, none + ": neither a process id nor a folder. holdfast ls lists both."},
           {{"push", url, file, "--once"}, 2, file + ": neither a process id nor a folder. holdfast ls lists both."},
           {{"serve", "abc"}, 2, "abc: neither a process id nor a folder. holdfast ls lists both."},
           {{"attach", std::to_string(getpid()), "--cpu"}, 2, "attach: --cpu: a program that was attached"},
           {{"run", "--cpu", "100", "--", "true"}, 127, "100: not found in PATH. To sample 100 times"},
           {{"collect", none}, 3, none + ": no such folder, and no table names it"},
           {{"ls", "--tables", none}, 3, "--tables " + none + ": no such folder."}}) {
    const RunResult r = RunTool(c.words, folder());
    EXPECT_TRUE(r.exited(c.code)) << r.Describe();
    EXPECT_THAT(r.err, HasSubstr(c.says));
  }
  EXPECT_NE(access(none.c_str(), F_OK), 0);
}

TEST_F(ProcessCommands, OutputThatCannotBeWrittenIsAnError) {
  Command command = CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery);
  command.env["HOLDFAST_EXPORTER"] = "no";
  Running running(command);
  int done = 0;
  Lines(running, 1, &done);
  const std::string tables_option = " --tables " + tables() + " ";
  const auto expect_failed = [&](const std::string& words) {
    const RunResult r = Execute({.argv = {"sh", "-c", testing::Tool() + " " + words + " >/dev/full"}});
    EXPECT_TRUE(r.exited(3)) << words << ": " << r.Describe();
    EXPECT_THAT(r.err, HasSubstr("standard output: could not write (No space left on device)")) << words;
  };
  expect_failed("stuck" + tables_option + Pid(running));
  expect_failed("stuck --json" + tables_option + Pid(running));
  expect_failed("memory" + tables_option + Pid(running));
  expect_failed("memory --json" + tables_option + Pid(running));
  running.Signal(SIGKILL);
  running.Wait();
  expect_failed("collect" + tables_option + out());
}

// ---- ls, and tables that are none ----

TEST_F(ProcessCommands, LsShowsRunningAndExitedPrograms) {
  EXPECT_THAT(Tool({"ls"}).out, Not(HasSubstr("waits_for_input")));
  Command command = CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery);
  command.env["HOLDFAST_EXPORTER"] = "no";
  Running running(command);
  int done = 0;
  Lines(running, 1, &done);
  const RunResult r = Tool({"ls"});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(r.out, HasSubstr("PROGRAM"));
  EXPECT_THAT(r.out, ::testing::ContainsRegex(Pid(running) + "  running .* none .* waits_for_input  " + out()));
  running.Signal(SIGKILL);
  running.Wait();
  const RunResult ended = Tool({"ls"});
  EXPECT_THAT(ended.out, ::testing::ContainsRegex(Pid(running) + "  ended "));
  EXPECT_THAT(ended.err, HasSubstr("holdfast collect " + out()));
  const RunResult dump = Tool({"dump", Pid(running)});
  EXPECT_TRUE(dump.exited(3)) << dump.Describe();
  EXPECT_THAT(dump.err, HasSubstr("has exited, but its table is still there"));
  EXPECT_TRUE(RunTool({"collect", out(), "--tables", tables()}).exited(0));
}

TEST_F(ProcessCommands, LsSaysHowMuchIsInUse) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery));
  int done = 0;
  Lines(running, 200, &done);
  // Ten blocks of 1,000 bytes of each line, 2,000,000 in all, and less than 10 KB of libc's.
  EXPECT_THAT(Tool({"ls"}).out, HasSubstr("  1.91MiB  "));
}

TEST_F(ProcessCommands, AHostileTableIsNamedAndFollowedNowhere) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery));
  int done = 0;
  Lines(running, 1, &done);
  ASSERT_EQ(Tables().size(), 1u);
  const std::string good = ReadFile(tables() + "/" + Tables()[0]);
  const std::string start = tables() + "/holdfast." + std::to_string(geteuid()) + ".";
  const auto name = [&](int i) { return start + std::to_string(i) + ".1.00000000000000ff.table"; };
  std::string zeroed = good, wild = good;
  std::fill(zeroed.begin() + 8, zeroed.end(), '\0');
  for (size_t i = 64; i + 8 < wild.size(); i += 97) wild[i] = static_cast<char>(i * 31);
  WriteFile(name(1), "not a table");
  WriteFile(name(2), good.substr(0, 3000));
  WriteFile(name(3), zeroed);
  WriteFile(name(4), wild);
  ASSERT_EQ(symlink("/etc/passwd", name(5).c_str()), 0);
  ASSERT_EQ(mkfifo(name(6).c_str(), 0600), 0);
  ASSERT_EQ(mkdir(name(7).c_str(), 0700), 0);
  if (IsRoot()) {
    WriteFile(name(8), "");  // the exporter takes a whole table of ours at once
    ASSERT_EQ(chown(name(8).c_str(), 65534, 65534), 0);
    WriteFile(name(8), good);
  }
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{{"ls"}, {"dump", "--all"}}) {
    const RunResult r = Tool(command);
    EXPECT_TRUE(r.exited(3)) << r.Describe();
    for (const int i : {1, 5}) EXPECT_THAT(r.err, HasSubstr(name(i))) << i;
    EXPECT_THAT(r.err, ::testing::ContainsRegex(
                           "2 tables cannot be read, one of them .*/holdfast\\.[0-9]+\\.[67]\\..*regular file"));
    // Whole at its head, and nobody's: only who reads on finds that it was cut.
    if (command[0] == "ls") {
      EXPECT_THAT(r.err, HasSubstr(name(2) + ": damaged table"));
    }
    if (IsRoot()) {
      EXPECT_THAT(r.err, HasSubstr("belongs to user 65534"));
    }
    EXPECT_THAT(r.out, HasSubstr("waits_for_input"));  // the good one among them is served all the same
  }
  EXPECT_TRUE(running.Wait().exited(0));
  for (int i = 1; i < 9; ++i) std::filesystem::remove_all(name(i));
}

TEST_F(ProcessCommands, TablesOfAnotherVersionAreOneLine) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery));
  int done = 0;
  Lines(running, 1, &done);
  ASSERT_EQ(Tables().size(), 1u);
  std::string old = ReadFile(tables() + "/" + Tables()[0]);
  old[offsetof(TableHeader, version)] = 1;
  for (int i = 1; i <= 38; ++i) {
    WriteFile(
        tables() + "/holdfast." + std::to_string(geteuid()) + "." + std::to_string(i) + ".1.00000000000000ff.table",
        old.substr(0, 4096));
  }
  const RunResult r = Tool({"ls"});
  EXPECT_TRUE(r.exited(3)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("holdfast: 38 tables cannot be read, one of them " + tables() + "/holdfast."));
  EXPECT_THAT(r.err, HasSubstr("layout version 1, this holdfast reads "));
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_THAT(r.out, HasSubstr("waits_for_input"));
  EXPECT_TRUE(running.Wait().exited(0));
}

TEST_F(ProcessCommands, TablesAreTheirOwnersAlone) {
  umask(0);
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery));
  umask(022);
  int done = 0;
  Lines(running, 1, &done);
  ASSERT_EQ(Tables().size(), 1u);
  struct stat info;
  ASSERT_EQ(stat((tables() + "/" + Tables()[0]).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_TRUE(Tool({"dump", Pid(running)}).exited(0));
  ASSERT_EQ(stat(ListProfiles(out()).at(0).path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  if (!IsRoot()) return;
  // Another user gets a message, and no profile.
  chmod(tables().c_str(), 0777);
  Command command;
  command.argv = {HOLDFAST_TOOL, "dump", Pid(running), "--tables", tables()};
  command.uid = 65534;
  const RunResult r = Execute(command);
  EXPECT_TRUE(r.exited(3)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("belongs to another user"));
}

TEST_F(ProcessCommands, RootSwitchesToTheOwnerOfTheProcess) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  chmod(tables().c_str(), 0777);
  std::filesystem::create_directories(out());
  chmod(out().c_str(), 0777);
  Command command = CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery);
  command.uid = 65534;
  Running running(command);
  int done = 0;
  Lines(running, 1, &done);
  const RunResult r = Tool({"dump", Pid(running)});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  struct stat info;
  ASSERT_EQ(stat(ListProfiles(out()).at(0).path.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 65534u);
}

// ---- doctor ----

TEST_F(ProcessCommands, DoctorOfAProgram) {
  const RunResult usual = RunTool({"doctor", "--", ProgramPath("threads_exact"), "--its-own-option"});
  EXPECT_TRUE(usual.exited(0)) << usual.Describe();
  for (const char* part :
       {"ok    recording   loads the library", "allocator   malloc and free are those of glibc", "locks ", "symbols ",
        "threads_exact", "kernel ", "limits ", "tables      in /dev/shm", "profiles    go to", "overhead "}) {
    EXPECT_THAT(usual.out, HasSubstr(part));
  }
  const RunResult still = RunTool({"doctor", "--", ProgramPath("static_program")});
  EXPECT_TRUE(still.exited(1)) << still.Describe();
  EXPECT_THAT(still.out, HasSubstr("NO    recording"));
  EXPECT_THAT(still.out, HasSubstr("linked statically"));
  EXPECT_TRUE(RunTool({"doctor", "--", "/no/such/program"}).exited(3));
  EXPECT_TRUE(RunTool({"doctor"}).exited(2));
  EXPECT_TRUE(RunTool({"doctor", "17x"}).exited(2));
  EXPECT_TRUE(RunTool({"doctor", "4194999"}).exited(3));
}

TEST_F(ProcessCommands, DoctorSaysWhichHeapsOfRuntimesAreNotSeen) {
  // Known by its name alone: a program that is called as the runtime is.
  for (const auto& [name, says] : {std::pair<const char*, const char*>{"node", "V8's own heap is not seen"},
                                   {"php8.2", "PHP's own heap is not seen"},
                                   {"beam.smp", "Erlang's own heap is not seen"},
                                   {"python3.11", "PYTHONMALLOC=malloc"}}) {
    const std::string path = folder() + "/" + name;
    std::filesystem::copy_file(ProgramPath("nothing"), path);
    EXPECT_THAT(RunTool({"doctor", "--", path}).out, HasSubstr(says));
  }
  EXPECT_THAT(RunTool({"doctor", "--", ProgramPath("nims_heap")}).out, HasSubstr("Nim's own heap is not seen"));
  EXPECT_THAT(RunTool({"doctor", "--", ProgramPath("nothing")}).out, ::testing::Not(HasSubstr("own heap")));
}

TEST_F(ProcessCommands, DoctorFollowsALinkToWhereTheLibrariesAre) {
  const std::string link = folder() + "/early_and_late";
  std::filesystem::create_symlink(ProgramPath("early_and_late"), link);  // its library is found by $ORIGIN or a path
  EXPECT_THAT(RunTool({"doctor", "--", link}).out, HasSubstr("malloc and free are those of glibc"));
}

TEST_F(ProcessCommands, DoctorKnowsPluginsThatFreeElsewhere) {
  const std::string plugin = ProgramPath("deep_plugin_now.so");
  Running running(CommandFor(Launch::kPreload,
                             {"/usr/bin/python3", "-c",
                              "import ctypes, os, sys\n"
                              "plugin = ctypes.CDLL('" +
                                  plugin +
                                  "', mode=os.RTLD_NOW | os.RTLD_DEEPBIND)\n"
                                  "print('ready', flush=True)\n"
                                  "sys.stdin.read()\n"},
                             kEvery));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  // Before glibc 2.34 the file is libc-2.31.so.
  const std::string doctor = Tool({"doctor", Pid(running)}).out;
  EXPECT_THAT(doctor, HasSubstr(plugin + " calls the free of libc"));
  EXPECT_THAT(doctor, HasSubstr(" (RTLD_DEEPBIND, or its own free): its own allocations"));
  const std::string opens = " opens plugins with RTLD_DEEPBIND: their own allocations and frees are not seen";
  EXPECT_THAT(Tool({"doctor", "--", ProgramPath("loads_deep")}).out, HasSubstr("loads_deep" + opens));
  EXPECT_THAT(Tool({"doctor", "--", ProgramPath("loads_plugins")}).out, ::testing::Not(HasSubstr(opens)));
}

TEST_F(ProcessCommands, DoctorOfAProcess) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery));
  int done = 0;
  Lines(running, 1, &done);
  RunResult r;
  // Until the exporter has been started up.
  Eventually([&] { return (r = Tool({"doctor", Pid(running)})).out.find("go to " + out()) != std::string::npos; });
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  for (const char* part : {"ok    recording   heap every 1B, locks every 100us", "losses      none",
                           "allocator   malloc and free are those of glibc", "waits_for_input", "for samples so far"}) {
    EXPECT_THAT(r.out, HasSubstr(part));
  }
  EXPECT_THAT(r.out, HasSubstr("go to " + out()));

  Running bare(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(bare.WaitForOutput("ready"));
  const RunResult without = Tool({"doctor", Pid(bare)});
  EXPECT_TRUE(without.exited(1)) << without.Describe();
  EXPECT_THAT(without.out, HasSubstr("started without the library"));

  Command off = CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery);
  off.env["HOLDFAST_ENABLE"] = "0";
  Running disabled(off);
  ASSERT_TRUE(disabled.WaitForOutput("ready"));
  EXPECT_THAT(Tool({"doctor", Pid(disabled)}).out, HasSubstr("HOLDFAST_ENABLE=0"));
}

TEST_F(ProcessCommands, DoctorNamesAnEmulator) {
  const std::string emulator = "/usr/bin/qemu-x86_64-static";
  if (access(emulator.c_str(), X_OK) != 0) GTEST_SKIP() << "there is no " << emulator;
  const auto emulated = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {emulator, HOLDFAST_TOOL});
    return Execute({.argv = arguments});
  };
  const std::string line = "note  emulator    qemu-x86_64-static runs";
  EXPECT_THAT(emulated({"doctor", "--", ProgramPath("nothing")}).out, HasSubstr(line));
  EXPECT_THAT(RunTool({"doctor", "--", ProgramPath("nothing")}).out, Not(HasSubstr("emulator")));

  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery));
  int done = 0;
  Lines(running, 1, &done);
  const RunResult r = emulated({"doctor", "--tables", tables(), Pid(running)});
  EXPECT_THAT(r.out, HasSubstr("ok    recording   heap every 1B"));
  EXPECT_THAT(r.out, HasSubstr(line));
  EXPECT_THAT(emulated({"stuck", "--tables", tables(), Pid(running)}).err, HasSubstr("in place of a running program"));
  EXPECT_EQ(Tool({"stuck", Pid(running)}).err, "");

  Running bare(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(bare.WaitForOutput("ready"));
  const RunResult unknown = emulated({"doctor", "--tables", tables(), Pid(bare)});
  EXPECT_TRUE(unknown.exited(3)) << unknown.Describe();
  EXPECT_THAT(unknown.err, HasSubstr("Why cannot be told under qemu-x86_64-static"));
  const std::string refusal = "qemu-x86_64-static executes holdfast, and emulated programs cannot trace others";
  const RunResult check = emulated({"doctor", Pid(bare), "--attach"});
  EXPECT_TRUE(check.exited(1)) << check.Describe();
  EXPECT_THAT(check.out, HasSubstr(refusal));
  EXPECT_THAT(emulated({"attach", Pid(bare)}).err, HasSubstr(refusal));
}

// libc is at a lower address, but a name is searched in libjemalloc first.
TEST_F(ProcessCommands, DoctorOfAProcessNamesTheAllocatorThatIsSearchedFirst) {
  Running running(CommandFor(Launch::kPreload, {"waits_with_jemalloc"}, kEvery));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  EXPECT_THAT(Tool({"doctor", Pid(running)}).out, ContainsRegex("malloc and free are those of .*libjemalloc"));
}

TEST_F(ProcessCommands, DoctorOfAProcessNamesItAsItWasStarted) {
  std::filesystem::create_symlink(ProgramPath("waits_for_input"), folder() + "/server");
  for (const std::string& name : {folder() + "/server", std::string("./server")}) {
    Command command = CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery);
    command.argv.back() = name;
    command.cwd = folder();
    Running running(command);
    ASSERT_TRUE(running.WaitForOutput("ready"));
    EXPECT_THAT(Tool({"doctor", Pid(running)}).out, StartsWith(folder() + "/server (pid ")) << name;
  }
}

}  // namespace
}  // namespace holdfast::testing
