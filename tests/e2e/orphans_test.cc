// The exporter never becomes a child that a program can see: below a subreaper, below PID 1 of a container, or after
// the exporter was killed. Where it would, no exporter is started, the tables wait for `collect`, and doctor says so.
#include <signal.h>

#include <filesystem>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const Options kEvery = {{"heap-interval", "1"}};

class Orphans : public Profiled {
 protected:
  // Not profiled itself, but all that it starts: with the library in each worker.
  Command MasterOf(Command worker, const std::string& how, const std::string& master = "") const {
    std::vector<std::string> argv = {master.empty() ? ProgramPath("takes_orphans") : master, how};
    argv.insert(argv.end(), worker.argv.begin(), worker.argv.end());
    worker.argv = argv;
    worker.env["WORKER_PRELOAD"] = worker.env["LD_PRELOAD"];
    worker.env.erase("LD_PRELOAD");
    worker.input = "line\n";
    return worker;
  }
  Command ProfiledMaster(const std::string& how) const {
    Command command = CommandFor(Launch::kPreload, {"takes_orphans", how}, kEvery);
    command.input = "line\nline\n";
    return command;
  }
  // As PID 1 of a pid namespace.
  static Command AsPidOne(Command command, const std::string& mount = "--mount-proc") {
    std::vector<std::string> argv = {"unshare", "--pid", "--fork", "--kill-child"};
    if (!mount.empty()) argv.push_back(mount);
    argv.push_back("env");
    for (const auto& [name, value] : command.env) argv.push_back(name + "=" + value);
    command.env.clear();
    argv.insert(argv.end(), command.argv.begin(), command.argv.end());
    command.argv = argv;
    return command;
  }
  static bool HasPidNamespaces() {
    return Execute({.argv = {"unshare", "--pid", "--fork", "--mount-proc", "true"}}).exited(0);
  }
  static void ExpectNoStrangers(const RunResult& r) {
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    EXPECT_THAT(r.out, HasSubstr("0 strangers, then No child processes")) << r.Describe();
  }
  void ExpectTablesForCollect() {
    EXPECT_THAT(NewestHeap(), IsEmpty());
    EXPECT_THAT(Tables(), Not(IsEmpty()));
    const RunResult collected = RunTool({"collect", out(), "--tables", tables()});
    EXPECT_TRUE(collected.exited(0)) << collected.Describe();
    EXPECT_THAT(NewestHeap(), Not(IsEmpty()));
  }
  // On a busy machine the exporter may not be done after the 2 s that PID 1 waits; it ends with PID 1.
  void CollectLeft() {
    EXPECT_TRUE(Eventually([&] {
      RunTool({"collect", out(), "--tables", tables()});
      return Tables().empty();
    }));
  }
  std::string CopyAs(const std::string& name) const {
    const std::string path = folder() + "/" + name;
    std::filesystem::copy_file(ProgramPath("takes_orphans"), path);
    return path;
  }
};

#define NEEDS_PID_NAMESPACES() \
  if (!HasPidNamespaces())     \
  GTEST_SKIP() << "no pid namespace can be made here (it needs root, and a container that allows it)"

TEST_F(Orphans, BelowASubreaperThatIsNotProfiledNoExporterIsStarted) {
  ExpectNoStrangers(Execute(MasterOf(CommandFor(Launch::kPreload, {"threads_exact"}, kEvery), "subreaper")));
  ExpectTablesForCollect();
}

// /proc shows such a process as a zombie, without an executable.
TEST_F(Orphans, ASubreaperWithoutItsMainThreadIsRecognized) {
  ExpectNoStrangers(Execute(MasterOf(CommandFor(Launch::kPreload, {"threads_exact"}, kEvery), "main-ended")));
  ExpectTablesForCollect();
}

// This test is such a program, and so is what started it.
TEST_F(Orphans, AnExporterIsStartedBelowAnUnknownProgramThatTakesNoOrphans) {
  const RunResult r = RunAs(Launch::kPreload, {"threads_exact"}, kEvery);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(Tables(), IsEmpty());
  ExpectKnownHeap(r.out);
}

TEST_F(Orphans, AScriptThatBecomesASubreaperIsKnownByItsText) {
  Command worker = CommandFor(Launch::kPreload, {"threads_exact"}, kEvery);
  const std::string script =
      "import ctypes, os, sys\n"
      "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
      "child = os.fork()\n"
      "if child == 0: os.environ['LD_PRELOAD'] = os.environ['WORKER_PRELOAD']; os.execv(sys.argv[1], sys.argv[1:])\n"
      "strangers = 0\n"
      "try:\n"
      "  while True: strangers += os.wait()[0] != child\n"
      "except ChildProcessError: print(f'{strangers} strangers, then No child processes')\n";
  WriteFile(folder() + "/master.py", script);
  worker.env["WORKER_PRELOAD"] = worker.env["LD_PRELOAD"];
  worker.env.erase("LD_PRELOAD");
  worker.argv = {"python3", folder() + "/master.py", worker.argv[0]};
  ExpectNoStrangers(Execute(worker));
  ExpectTablesForCollect();
}

// The call is in a module that the script imports.
TEST_F(Orphans, AScriptThatBecomesASubreaperIsKnownByItsModules) {
  Command worker = CommandFor(Launch::kPreload, {"threads_exact"}, kEvery);
  std::filesystem::create_directories(folder() + "/pool");
  WriteFile(folder() + "/pool/__init__.py", "");
  WriteFile(folder() + "/pool/start.py",
            "import ctypes, os\n"
            "def start(program):\n"
            "  ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
            "  child = os.fork()\n"
            "  if child == 0: os.environ['LD_PRELOAD'] = os.environ['WORKER_PRELOAD']; os.execv(program, [program])\n"
            "  return child\n");
  WriteFile(folder() + "/master.py",
            "import os, sys\n"
            "from pool.start import start\n"
            "child, strangers = start(sys.argv[1]), 0\n"
            "try:\n"
            "  while True: strangers += os.wait()[0] != child\n"
            "except ChildProcessError: print(f'{strangers} strangers, then No child processes')\n");
  worker.env["WORKER_PRELOAD"] = worker.env["LD_PRELOAD"];
  worker.env.erase("LD_PRELOAD");
  worker.argv = {"python3", folder() + "/master.py", worker.argv[0]};
  ExpectNoStrangers(Execute(worker));
  ExpectTablesForCollect();
}

class SubreaperWays : public Orphans, public ::testing::WithParamInterface<std::string> {};

TEST_P(SubreaperWays, AreKnownByTheCodeOfTheProgram) {
  Command worker = CommandFor(Launch::kPreload, {"threads_exact"}, kEvery);
  ExpectNoStrangers(Execute(MasterOf(worker, "36", ProgramPath("takes_orphans_" + GetParam()))));
  ExpectTablesForCollect();
}

INSTANTIATE_TEST_SUITE_P(Every, SubreaperWays,
                         ::testing::Values("by_library", "by_computed_option", "by_computed_number", "by_instruction",
                                           "static"),
                         [](const auto& info) { return info.param; });

TEST_F(Orphans, AProfiledSubreaperHasItsExporterFromBefore) {
  ExpectNoStrangers(RunAndSettle(ProfiledMaster("subreaper")));
  EXPECT_THAT(NewestHeap(), SizeIs(3)) << AllSummaries();
}

TEST_F(Orphans, BelowAnUnknownPidOneNoExporterIsStarted) {
  NEEDS_PID_NAMESPACES();
  ExpectNoStrangers(Execute(AsPidOne(MasterOf(CommandFor(Launch::kPreload, {"threads_exact"}, kEvery), "plain"))));
  ExpectTablesForCollect();
}

TEST_F(Orphans, BelowAnUnknownPidOneWithTheOuterProcNoExporterIsStarted) {
  NEEDS_PID_NAMESPACES();
  ExpectNoStrangers(Execute(AsPidOne(MasterOf(CommandFor(Launch::kPreload, {"threads_exact"}, kEvery), "plain"), "")));
  ExpectTablesForCollect();
}

TEST_F(Orphans, AReaperThatIsKnownToReapSilentlyGetsTheExporter) {
  NEEDS_PID_NAMESPACES();
  const RunResult r = RunAndSettle(
      AsPidOne(MasterOf(CommandFor(Launch::kPreload, {"threads_exact"}, kEvery), "plain", CopyAs("dumb-init"))));
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(r.out, HasSubstr("1 strangers")) << "the exporter is one of its children";
  EXPECT_THAT(Tables(), IsEmpty());
  EXPECT_THAT(NewestHeap(), Not(IsEmpty()));
}

// Its workers may need the exporter before PID 1 itself samples anything.
TEST_F(Orphans, AProfiledPidOneHasTheExporterBeforeItsFirstWorker) {
  NEEDS_PID_NAMESPACES();
  ExpectNoStrangers(Execute(AsPidOne(ProfiledMaster("plain"))));
  CollectLeft();
  EXPECT_THAT(NewestHeap(), SizeIs(3)) << AllSummaries();
}

TEST_F(Orphans, AKilledExporterComesBackWithoutBecomingAChildOfPidOne) {
  NEEDS_PID_NAMESPACES();
  Command command = ProfiledMaster("plain");
  command.input = "";
  Running running(AsPidOne(command));
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("worker 1"));
  ASSERT_TRUE(Eventually([&] { return Exporters().size() == 1; }));
  const pid_t first = Exporters().at(0);
  kill(first, SIGKILL);
  // A worker finds no exporter, and starts none.
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("worker 2"));
  EXPECT_TRUE(Eventually([&] {
    const std::vector<pid_t> now = Exporters();
    return now.size() == 1 && now[0] != first;
  }));
  running.CloseInput();
  ExpectNoStrangers(running.Wait());
  CollectLeft();
  EXPECT_THAT(NewestHeap(), SizeIs(3)) << AllSummaries();
}

TEST_F(Orphans, RunBelowAnUnknownPidOneKeepsTheExporterAsItsOwnChild) {
  NEEDS_PID_NAMESPACES();
  Command run = CommandFor(Launch::kRun, {"threads_exact"}, kEvery);
  ExpectNoStrangers(Execute(AsPidOne(MasterOf(run, "plain"))));
  CollectLeft();
  EXPECT_THAT(NewestHeap(), Not(IsEmpty()));
}

TEST_F(Orphans, DoctorNamesWhoWouldSeeTheExporter) {
  NEEDS_PID_NAMESPACES();
  Command doctor{.argv = {Tool(), "doctor", "--", ProgramPath("nothing")}};
  const RunResult r = Execute(AsPidOne(MasterOf(doctor, "plain")));
  EXPECT_THAT(
      r.out,
      HasSubstr("exporter    no exporter starts without `holdfast run`, because takes_orphans (pid 1) would see it "
                "as a child. Write the profiles with `holdfast collect`"))
      << r.Describe();
  const RunResult tini = Execute(AsPidOne(MasterOf(doctor, "plain", CopyAs("tini"))));
  EXPECT_THAT(
      tini.out,
      HasSubstr(
          "tini (pid 1) ends the container as soon as its child exits, so the last profile is missing after a crash or "
          "SIGKILL. Start the program as tini -- holdfast run -- PROGRAM"))
      << tini.Describe();
}

TEST_F(Orphans, DoctorOfAProcessSaysWhyItHasNoExporter) {
  NEEDS_PID_NAMESPACES();
  Command command = MasterOf(CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery), "plain");
  command.input = "";
  Running running(AsPidOne(command));
  running.Write("line\n");  // starts the worker, which reads the next ones
  ASSERT_TRUE(running.WaitForOutput("ready"));
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 1"));
  std::string pid;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::error_code error;
    const auto target = std::filesystem::read_symlink(entry.path() / "exe", error);
    const std::string environment = ReadFile((entry.path() / "environ").string());
    if (!error && target == ProgramPath("waits_for_input") && environment.find(out()) != std::string::npos)
      pid = entry.path().filename();
  }
  ASSERT_NE(pid, "");
  const RunResult r = RunTool({"doctor", pid, "--tables", tables()});
  EXPECT_THAT(r.out, HasSubstr("takes_orphans (pid 1) would see it as a child")) << r.Describe();
  running.CloseInput();
  running.Wait();
}

// /proc shows PID 1 of the namespace under another number: the exporter must not take it for another, ended process.
TEST_F(Orphans, AProcessSeenThroughTheOuterProcIsAliveUntilItExits) {
  NEEDS_PID_NAMESPACES();
  Running running(AsPidOne(CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery), ""));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 1"));
  ASSERT_TRUE(Eventually([&] { return Exporters().size() == 1; }));
  const pid_t exporter = Exporters().at(0);
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 2"));
  EXPECT_THAT(Exporters(), ElementsAre(exporter));
  EXPECT_THAT(Tables(), SizeIs(1));
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  CollectLeft();
  ASSERT_THAT(NewestHeap(), SizeIs(1));
  EXPECT_EQ(NewestHeap()[0].SumLeaf("for_each_line").at("alloc_objects"), 200);
}

// Half a second at each end is more than the bound allows.
TEST_F(Orphans, NobodyWaitsForAnExporterThatCannotServe) {
  Command command = CommandFor(Launch::kPreload, {"/bin/sh"}, kEvery);
  command.env["HOLDFAST_EXPORTER"] = "/bin/true";
  command.argv = {"/bin/sh", "-c",
                  "i=0; while [ $i -lt 60 ]; do i=$((i+1)); " + ProgramPath("endings") + " return > /dev/null; done"};
  Command bare = command;
  bare.env.clear();
  EXPECT_TRUE(Execute(command).AboutAsFastAs(Execute(bare)));
}

}  // namespace
}  // namespace holdfast::testing
