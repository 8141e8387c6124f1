// However a process ends, its last profile exists, complete and exact, and the process ends as it would without the
// library.
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

const Options kEvery = {{"heap-interval", "1"}};

struct Ending {
  std::string way;
  Launch launch;
  bool needs_root = false;
};

std::ostream& operator<<(std::ostream& out, const Ending& ending) { return out << ending.way; }

class Endings : public Profiled, public ::testing::WithParamInterface<Ending> {};

TEST_P(Endings, LeaveTheLastProfileAndTheStatus) {
  const Ending& ending = GetParam();
  if (ending.needs_root && !IsRoot()) GTEST_SKIP() << "needs root";
  std::vector<std::string> argv = {"endings", ending.way};
  if (ending.way == "chroot") {
    argv.push_back(folder() + "/jail");
    mkdir(argv.back().c_str(), 0755);
  }
  const RunResult bare = Execute(CommandFor(Launch::kBare, argv));
  const RunResult r = RunAs(ending.launch, argv, kEvery);
  EXPECT_EQ(r.status, bare.status) << r.Describe() << bare.Describe();
  EXPECT_EQ(r.out, bare.out);
  if (ending.launch != Launch::kRun) {
    EXPECT_EQ(r.err, bare.err);
  }
  ExpectKnownHeap(r.out);
  ExpectAllWhole();
  // The same end at other intervals, where it meets few samples or none.
  for (const char* interval : {"4KiB", "512KiB"}) {
    const RunResult other =
        Execute(CommandFor(ending.launch, argv, {{"heap-interval", interval}, {"out", out() + "/" + interval}}));
    EXPECT_EQ(other.status, bare.status) << interval << other.Describe();
    EXPECT_EQ(other.out, bare.out);
  }
  EXPECT_TRUE(Settled());
}

std::vector<Ending> AllEndings() {
  std::vector<Ending> endings;
  for (const Launch launch : {Launch::kPreload, Launch::kRun}) {
    for (const char* way :
         {"return", "exit", "_exit", "_Exit", "quick_exit", "exit_group", "abort", "segv", "stack_overflow", "sigterm",
          "sigint", "sigkill", "thread_exits", "pthread_exit", "exec", "close_all", "chdir", "seccomp"}) {
      endings.push_back({way, launch});
    }
    endings.push_back({"chroot", launch, true});
    endings.push_back({"setuid", launch, true});
  }
  for (const char* way : {"return", "sigkill", "exec", "segv"}) endings.push_back({way, Launch::kExec});
  return endings;
}

INSTANTIATE_TEST_SUITE_P(Ways, Endings, ::testing::ValuesIn(AllEndings()), [](const auto& info) {
  return info.param.way + "_" + LaunchName(::testing::TestParamInfo<Launch>(info.param.launch, 0));
});

class Orderly : public Profiled {};

TEST_F(Orderly, AfterAnOrderlyEndTheFilesAreThereAtOnce) {
  for (const char* way : {"return", "exit", "_exit", "quick_exit"}) {
    const std::string folder = out() + "/" + way;
    std::filesystem::create_directories(folder);
    Execute(CommandFor(Launch::kPreload, {"endings", way}, {{"heap-interval", "1"}, {"out", folder}}));
    EXPECT_EQ(ListProfiles(folder).size(), 1u) << way;  // no waiting in between
  }
}

TEST_F(Orderly, AfterRunReturnedTheFilesAreThereHoweverTheProgramEnded) {
  for (const char* way : {"return", "sigkill", "segv", "abort", "exit_group"}) {
    const std::string folder = out() + "/" + way;
    Execute(CommandFor(Launch::kRun, {"endings", way}, {{"heap-interval", "1"}, {"out", folder}}));
    EXPECT_EQ(ListProfiles(folder).size(), 1u) << way;
  }
}

TEST_F(Orderly, ASignalToRunReachesTheProgramAndRunDiesOfItToo) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    Running running(CommandFor(Launch::kRun, {"waits_for_input"}, kEvery));
    ASSERT_TRUE(running.WaitForOutput("ready"));
    running.HoldInput();
    running.Signal(signal);
    const RunResult r = running.Wait();
    EXPECT_TRUE(r.killed_by(signal)) << signal << ": " << r.Describe();
  }
}

TEST_F(Orderly, RunSaysWhatItWroteAndWhatToTypeNext) {
  const RunResult r = RunAs(Launch::kRun, {"endings", "return"}, kEvery);
  EXPECT_TRUE(r.exited(5)) << r.Describe();
  EXPECT_NE(r.err.find(".heap.pb.gz"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("holdfast top"), std::string::npos) << r.err;
}

TEST_F(Orderly, WithoutSamplesRunWritesNoFileAndSaysHowToGetOne) {
  const RunResult r = RunAs(Launch::kRun, {"nothing"});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(r.out, "");
  EXPECT_NE(r.err.find("--heap-interval"), std::string::npos) << r.err;
  EXPECT_TRUE(ListProfiles(out()).empty());
  const RunResult preloaded = RunAs(Launch::kPreload, {"nothing"});
  EXPECT_EQ(preloaded.out + preloaded.err, "");
  EXPECT_TRUE(ListProfiles(out()).empty());
}

}  // namespace
}  // namespace holdfast::testing
