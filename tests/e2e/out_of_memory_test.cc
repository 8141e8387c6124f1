// The kernel's out-of-memory killer kills the program: its last profile exists and is exact. Needs a control group with
// a memory limit (root, and cgroup v1 or v2 mounted for writing).
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class OutOfMemory : public Profiled, public ::testing::WithParamInterface<Launch> {
 protected:
  void SetUp() override {
    Profiled::SetUp();
    Limit("100663296");  // 96 MiB: a program of a few, the table, and the exporter
  }
  void Limit(const char* bytes) {
    const std::string name = "/holdfast-test." + std::to_string(getpid());
    struct Version {
      const char *parent, *limit, *swap, *swap_limit;
    };
    for (const Version& version :
         {Version{"/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.memsw.limit_in_bytes", bytes},
          Version{"/sys/fs/cgroup", "/memory.max", "/memory.swap.max", "0"}}) {
      group_ = version.parent + name;
      if (mkdir(group_.c_str(), 0755) != 0) continue;
      if (Write(version.limit, bytes)) {
        Write(version.swap, version.swap_limit);  // where swap is counted
        return;
      }
      rmdir(group_.c_str());
    }
    group_.clear();
    GTEST_SKIP() << "no control group with a memory limit can be made here";
  }
  void TearDown() override {
    Profiled::TearDown();
    if (!group_.empty()) Eventually([&] { return rmdir(group_.c_str()) == 0; });
  }
  bool Write(const std::string& file, const char* value) const {
    return std::filesystem::exists(group_ + file) &&
           static_cast<bool>(std::ofstream(group_ + file) << value << std::flush);
  }
  // Enters the group before the program starts; what the program starts is in it too.
  Command InGroup(Command command) const {
    std::vector<std::string> argv = {"/bin/sh", "-c", "echo $$ >" + group_ + "/cgroup.procs; exec \"$@\"", "sh", "env"};
    for (const auto& [name, value] : command.env) argv.push_back(name + "=" + value);
    command.env.clear();
    argv.insert(argv.end(), command.argv.begin(), command.argv.end());
    command.argv = argv;
    return command;
  }

  const std::string& group() const { return group_; }

 private:
  std::string group_;
};

TEST_P(OutOfMemory, TheLastProfileIsThere) {
  const RunResult bare = Execute(InGroup(CommandFor(Launch::kBare, {"endings", "out_of_memory"})));
  ASSERT_TRUE(bare.killed_by(SIGKILL)) << bare.Describe();
  const RunResult r =
      RunAndSettle(InGroup(CommandFor(GetParam(), {"endings", "out_of_memory"}, {{"heap-interval", "1"}})));
  EXPECT_EQ(r.status, bare.status) << r.Describe();
  EXPECT_EQ(r.out, bare.out);
  ExpectKnownHeap(r.out);
  ExpectAllWhole();
}

// Near the limit the exporter takes snapshots, and who builds one goes first when the killer comes. The program grows on and
// goes next: somebody must be left for its last profile. The test kills in the killer's place: whoever offers itself.
TEST_P(OutOfMemory, AnotherProcessWritesTheLastSnapshotAfterAKill) {
  if (std::stoi("0" + ReadFile("/proc/self/oom_score_adj")) != 0) GTEST_SKIP() << "this process offers itself already";
  const std::string said = folder() + "/said";
  Running running(InGroup(CommandFor(GetParam(), {"grows_until_killed", "30", said},
                                     {{"snapshot-every", "0"}, {"heap-interval", "64KiB"}})));
  const std::string status = "/proc/" + std::to_string(running.pid()) + "/stat";
  const auto has_ended = [&] { return ReadFile(status).find(") Z ") != std::string::npos; };
  // True once one that offered itself was killed.
  const auto kill_one = [&] {
    std::ifstream processes(group() + "/cgroup.procs");
    for (pid_t process = 0; processes >> process;) {
      const bool offers = ReadFile("/proc/" + std::to_string(process) + "/oom_score_adj") == "1000\n";
      if (offers && !has_ended()) return kill(process, SIGKILL) == 0;
    }
    return false;
  };
  // It offers itself for some milliseconds: not to be missed where other tests are at work.
  const sched_param first = {.sched_priority = 1}, usual = {};
  sched_setscheduler(0, SCHED_FIFO, &first);
  bool killed = false;
  for (const double end = Now() + 60; !has_ended() && Now() < end && !(killed = kill_one());) usleep(200);
  sched_setscheduler(0, SCHED_OTHER, &usual);
  EXPECT_TRUE(killed);
  ASSERT_TRUE(running.Wait().killed_by(SIGKILL));
  EXPECT_TRUE(Settled());
  const double held = std::stod(ReadFile(said).substr(5));
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_GE(static_cast<double>(NewestHeap()[0].Total().at("inuse_space")), 0.9 * held) << NewestHeap()[0].Summary();
  EXPECT_GE(NewestHeap()[0].CommentNumber("snapshots put off"), 1) << NewestHeap()[0].Summary();
  ExpectAllWhole();
}

// A container of 64 MiB for a program of 44, which it survives bare: snapshots for which there is no room are put off.
TEST_P(OutOfMemory, AProgramThatFitsBareFitsWithSnapshots) {
  rmdir(group().c_str());
  Limit("67108864");
  const RunResult bare = Execute(InGroup(CommandFor(Launch::kBare, {"fills_most", "44"})));
  ASSERT_TRUE(bare.exited(0)) << bare.Describe();
  Command command =
      InGroup(CommandFor(GetParam(), {"fills_most", "44"}, {{"heap-interval", "4KiB"}, {"snapshot-every", "100ms"}}));
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  for (int line = 1; line <= 30; ++line) {
    running.Write("line\n");
    ASSERT_TRUE(running.WaitForOutput("done " + std::to_string(line))) << running.Wait().Describe();
  }
  const RunResult r = running.Wait();
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_TRUE(Settled());
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_GE(NewestHeap()[0].CommentNumber("snapshots put off"), 1) << NewestHeap()[0].Summary();
  ExpectAllWhole();
}
// Before the killer comes, with the process alive: also where that takes the exporter and the table along (a container).
TEST_P(OutOfMemory, NearTheLimitASnapshotIsTakenBefore) {
  rmdir(group().c_str());
  Limit("268435456");
  const std::string said = folder() + "/said";
  const RunResult r = RunAndSettle(InGroup(CommandFor(GetParam(), {"grows_until_killed", "50", said},
                                                      {{"snapshot-every", "0"}, {"heap-interval", "64KiB"}})));
  ASSERT_TRUE(r.killed_by(SIGKILL)) << r.Describe();
  const double held = std::stod(ReadFile(said).substr(5));
  ASSERT_GT(held, 100 << 20);
  std::vector<Decoded> before;
  for (const ProfileName& name : ListProfiles(out())) {
    if (name.kind != "heap") continue;
    Decoded heap = Decode(name.path);
    EXPECT_EQ(heap.error, "") << name.path;
    if (heap.Comment("snapshot-when").value_or("").starts_with("memory limit at ")) before.push_back(std::move(heap));
  }
  ASSERT_FALSE(before.empty()) << AllSummaries();
  const auto latest = std::max_element(before.begin(), before.end(),
                                       [](const Decoded& a, const Decoded& b) { return a.time_nanos < b.time_nanos; });
  EXPECT_GE(static_cast<double>(latest->Total().at("inuse_space")), 0.85 * held) << latest->Summary();
  // One for which there was no room for names has them afterwards.
  Decoded named = *latest;
  if (latest->Comment("names left out").has_value()) {
    const RunResult names = RunTool({"symbolize", latest->path, "-o", folder() + "/named.pb.gz"});
    ASSERT_TRUE(names.exited(0)) << names.Describe();
    named = Decode(folder() + "/named.pb.gz");
  }
  EXPECT_GE(static_cast<double>(named.SumAny("hold_for_ever").at("inuse_space")), 0.85 * held) << named.Summary();
  // And what it held in the end, as after any other end.
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_GE(static_cast<double>(NewestHeap()[0].Total().at("inuse_space")), 0.9 * held);
}
INSTANTIATE_TEST_SUITE_P(BothWays, OutOfMemory, ::testing::Values(Launch::kPreload, Launch::kExec), LaunchName);

}  // namespace
}  // namespace holdfast::testing
