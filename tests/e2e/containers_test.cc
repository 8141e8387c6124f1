// The program as PID 1 of a pid namespace, as in a container. After three restarts into one folder, nothing is lost,
// mixed or overwritten, although each process has pid 1. Also restricted containers: a read-only root, no /dev/shm, no
// second process.
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class Containers : public Profiled {
 protected:
  void SetUp() override {
    Profiled::SetUp();
    if (!Execute({.argv = {"unshare", "--pid", "--fork", "--mount-proc", "true"}}).exited(0)) {
      GTEST_SKIP() << "no pid namespace can be made here (it needs root, and a container that allows it)";
    }
  }
  static Command InNamespace(Command command) {
    std::vector<std::string> argv = {"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"};
    if (!command.env.empty()) {  // for the program only, not for unshare
      argv.push_back("env");
      for (const auto& [name, value] : command.env) argv.push_back(name + "=" + value);
      command.env.clear();
    }
    argv.insert(argv.end(), command.argv.begin(), command.argv.end());
    command.argv = argv;
    return command;
  }
  // Start number n allocates n × 100 blocks.
  RunResult Start(Launch launch, int n) {
    Command command = InNamespace(CommandFor(launch, {"waits_for_input"}, {{"heap-interval", "1"}}));
    for (int i = 0; i < n; ++i) command.input += "line\n";
    return Execute(command);
  }
  void ExpectThreeStarts() {
    std::multiset<int64_t> blocks;
    std::set<std::string> processes;
    for (const Decoded& heap : NewestHeap()) {
      EXPECT_EQ(heap.error, "") << heap.path;
      blocks.insert(heap.SumLeaf("for_each_line").at("alloc_objects"));
      processes.insert(heap.Comment("process").value_or(""));
    }
    EXPECT_THAT(blocks, ::testing::ElementsAre(100, 200, 300)) << AllSummaries();
    EXPECT_EQ(processes.size(), 3u);
    std::set<std::string> names;
    for (const ProfileName& name : ListProfiles(out())) names.insert(name.path);
    EXPECT_GE(names.size(), 3u);
    ExpectAllWhole();
  }
};

class RestartsAsPidOne : public Containers, public ::testing::WithParamInterface<Launch> {};

TEST_P(RestartsAsPidOne, LoseAndMixNothing) {
  for (int n = 1; n <= 3; ++n) {
    std::map<std::string, std::string> before;
    for (const ProfileName& name : ListProfiles(out())) before[name.path] = ReadFile(name.path);
    const RunResult r = Start(GetParam(), n);
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    EXPECT_NE(r.out.find("done " + std::to_string(n)), std::string::npos) << r.Describe();
    if (GetParam() != Launch::kRun) {
      EXPECT_EQ(r.err, "");
    }
    for (const auto& [path, bytes] : before) EXPECT_EQ(ReadFile(path), bytes) << path << " was changed";
  }
  ExpectThreeStarts();
}
INSTANTIATE_TEST_SUITE_P(EachWay, RestartsAsPidOne, ::testing::Values(Launch::kPreload, Launch::kRun, Launch::kExec),
                         LaunchName);

// With PID 1 dies every process of the namespace, the exporter too: what remains are the tables, where they lie on a
// tmpfs that outlives the container.
TEST_F(Containers, AfterSigkillOfPidOneTheTablesAreLeftForCollect) {
  Running running(InNamespace(
      CommandFor(Launch::kPreload, {"waits_for_input"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}})));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  running.Write("line\nline\n");
  ASSERT_TRUE(running.WaitForOutput("done 2"));
  running.HoldInput();
  running.Signal(SIGKILL);  // unshare; --kill-child takes its child, PID 1, along
  running.Wait();
  EXPECT_EQ(Tables().size(), 1u);
  // The kernel takes the namespace down after unshare; until then `collect` says that the program still runs.
  EXPECT_TRUE(Eventually([&] {
    const RunResult collected = RunTool({"collect", out(), "--tables", tables()});
    EXPECT_TRUE(collected.exited(0)) << collected.Describe();
    return Tables().empty();
  }));
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_EQ(NewestHeap()[0].SumLeaf("for_each_line").at("alloc_objects"), 200);
}

TEST_F(Containers, APidOneThatReapsSeesNoChildOfOurs) {
  const RunResult bare = Execute(InNamespace(CommandFor(Launch::kBare, {"surroundings"})));
  const RunResult r = Execute(InNamespace(CommandFor(Launch::kPreload, {"surroundings"}, {{"heap-interval", "1"}})));
  EXPECT_EQ(r.out, bare.out);
  EXPECT_EQ(r.err, bare.err);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
}

// The program in a mount namespace, after a shell has done there what makes its surroundings poor. $0 is the test's folder.
class PoorContainers : public Profiled {
 protected:
  void SetUp() override {
    Profiled::SetUp();
    std::filesystem::create_directories(out());
    if (!Execute({.argv = {"unshare", "--mount", "true"}}).exited(0))
      GTEST_SKIP() << "no mount namespace can be made here (it needs root, and a container that allows it)";
  }
  RunResult RunAfter(const std::string& preparation, Command command) const {
    std::vector<std::string> argv = {"unshare", "--mount", "/bin/sh", "-c", preparation + " && exec \"$@\"",
                                     folder(),  "env"};
    for (const auto& [name, value] : command.env) argv.push_back(name + "=" + value);
    command.env.clear();
    argv.insert(argv.end(), command.argv.begin(), command.argv.end());
    command.argv = std::move(argv);
    return Execute(command);
  }
  Command Program(const Options& options = {{"heap-interval", "1"}}) const {
    return CommandFor(Launch::kPreload, {"allocators"}, options);
  }
  void ExpectAsBare(const RunResult& r) const {
    const RunResult bare = Execute(CommandFor(Launch::kBare, {"allocators"}));
    EXPECT_EQ(r.out, bare.out);
    EXPECT_EQ(r.err, bare.err);
    EXPECT_TRUE(r.exited(0)) << r.Describe();
  }
  // Writes the files of the tables that no exporter serves any more.
  void Collect() {
    EXPECT_TRUE(Eventually([&] {
      const RunResult collected = RunTool({"collect", "-o", out(), tables()});
      EXPECT_TRUE(collected.exited(0)) << collected.Describe();
      return Tables().empty();
    }));
  }
};

constexpr const char* kReadOnly = "mount -o remount,bind,ro /";

TEST_F(PoorContainers, AReadOnlyRootNeedsOnlyAWritableOutputFolder) {
  const RunResult r =
      RunAfter(std::string("mount --bind \"$0/out\" \"$0/out\" && ") + kReadOnly + " && ! touch \"$0/x\" 2>/dev/null",
               Program());
  ExpectAsBare(r);
  EXPECT_TRUE(Settled());
  ExpectKnownHeap(r.out);
}

TEST_F(PoorContainers, TablesAloneSufficeForCollect) {
  const RunResult r = RunAfter(kReadOnly, Program());
  ExpectAsBare(r);
  ASSERT_EQ(Tables().size(), 1u);
  Collect();
  ExpectKnownHeap(r.out);
}

TEST_F(PoorContainers, TheProgramRunsOnIfNothingCanBeWritten) {
  ExpectAsBare(RunAfter(std::string("mount -o remount,bind,ro /dev/shm && ") + kReadOnly, Program()));
  EXPECT_TRUE(Tables().empty());
  EXPECT_TRUE(NewestHeap().empty());
}

constexpr const char* kNoShm =
    "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/zero c 1 5 && "
    "mknod -m 666 /dev/urandom c 1 9";

TEST_F(PoorContainers, WithoutDevShmTablesAreInTheRuntimeFolder) {
  Command command = Program();
  command.env.erase("HOLDFAST_TABLES");
  command.env["XDG_RUNTIME_DIR"] = folder() + "/runtime";
  const RunResult r =
      RunAfter(std::string(kNoShm) + " && mkdir \"$0/runtime\" && mount -t tmpfs none \"$0/runtime\"", command);
  ExpectAsBare(r);
  EXPECT_TRUE(Eventually([&] { return !NewestHeap().empty(); }));
  ExpectKnownHeap(r.out);
}

TEST_F(PoorContainers, WithoutDevShmTablesAreInTheOutputFolderIfThatIsInMemory) {
  Command command = Program();
  command.env.erase("HOLDFAST_TABLES");
  ExpectAsBare(RunAfter(kNoShm, command));
  EXPECT_TRUE(NewestHeap().empty()) << "on a disk each count would be written there";
  ASSERT_EQ(mount("out", out().c_str(), "tmpfs", 0, nullptr), 0);
  const RunResult r = RunAfter(kNoShm, command);
  ExpectAsBare(r);
  ExpectKnownHeap(r.out);
  umount2(out().c_str(), MNT_DETACH);
}

// No process may be made beside the program: no exporter.
TEST_F(PoorContainers, TablesAreCollectedUnderPidsMaxOf1) {
  const std::string group = "/sys/fs/cgroup/pids/holdfast-test." + std::to_string(getpid());
  if (mkdir(group.c_str(), 0755) != 0) GTEST_SKIP() << "no cgroup can be made in /sys/fs/cgroup/pids";
  std::ofstream(group + "/pids.max") << "1";
  const RunResult r = RunAfter("echo $$ > " + group + "/cgroup.procs", Program());
  EXPECT_TRUE(Eventually([&] { return rmdir(group.c_str()) == 0; }));
  ExpectAsBare(r);
  ASSERT_EQ(Tables().size(), 1u);
  Collect();
  ExpectKnownHeap(r.out);
}

}  // namespace
}  // namespace holdfast::testing
