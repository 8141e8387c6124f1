// Where the time of each thread goes, from looks from outside: what is exact, and that every part has its state, its stack,
// its lock and its holder.
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <functional>
#include <sstream>

#include "tests/support/control_group.h"
#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class Wall : public Profiled {
 protected:
  Decoded Only() const {
    const std::vector<Decoded> files = Newest(out(), "wall");
    EXPECT_EQ(files.size(), 1u) << AllSummaries();
    return files.empty() ? Decoded{} : files[0];
  }
  // Whether the next snapshot of the process has a wall profile that is as expected.
  bool Shows(pid_t pid, const std::function<bool(const Decoded&)>& what) {
    RunTool({"dump", std::to_string(pid), "--tables", tables()});
    const std::vector<Decoded> files = Newest(out(), "wall");
    return !files.empty() && what(files[0]);
  }
  // Runs two workers until a snapshot shows what is expected. `prepare` gets the process before that.
  RunResult RunUntil(
      const std::function<bool(const Decoded&)>& is_there, const std::function<void(pid_t)>& prepare = [](pid_t) {}) {
    Running running(CommandFor(Launch::kPreload, {"known_wall", "0", "2", "1"}, {{"wall", "yes"}}));
    EXPECT_TRUE(running.WaitForOutput("ready"));
    EXPECT_TRUE(Eventually([&] { return Shows(running.pid(), [](const Decoded&) { return true; }); }, 60))
        << AllSummaries();
    prepare(running.pid());
    EXPECT_TRUE(Eventually([&] { return Shows(running.pid(), is_there); }, 60)) << AllSummaries();
    running.Write("\n");
    RunResult result = running.Wait();
    EXPECT_TRUE(Settled());
    return result;
  }
  // With looks at both waits of the workers.
  RunResult RunUntilSeen() {
    return RunUntil([](Decoded profile) {
      return profile.SumAny("LookUp")["wall"] > 0 && profile.SumAny("ReadInput")["wall"] > 0;
    });
  }
  // The kernel's counts, which the program reads itself, are an upper bound: the last look is earlier.
  void ExpectNoMoreThanTheKernelCounts(const RunResult& result);
};

std::map<std::string, double> KnownWall(const std::string& output) {
  std::map<std::string, double> known;
  std::istringstream lines(output);
  for (std::string word, part; lines >> word;) {
    if (word == "wall" && lines >> part) lines >> known[part];
  }
  return known;
}

std::string LabelOf(const DecodedSample& sample, const std::string& label) {
  const auto found = sample.labels.find(label);
  return found == sample.labels.end() ? "" : found->second;
}

double SumOf(const Decoded& profile, const std::string& thread, const std::string& state) {
  double sum = 0;
  for (const DecodedSample& sample : profile.samples) {
    if (LabelOf(sample, "thread").starts_with(thread) && (state.empty() || LabelOf(sample, "state") == state))
      sum += static_cast<double>(sample.values.at("wall"));
  }
  return sum;
}

constexpr double kTickNs = 10e6;  // of the kernel: how old schedstat may be

void Wall::ExpectNoMoreThanTheKernelCounts(const RunResult& result) {
  std::map<std::string, double> known = KnownWall(result.out);
  const Decoded profile = Only();
  for (const char* state : {"cpu", "runnable"}) {
    const double shown = SumOf(profile, "worker-", state);
    EXPECT_GT(shown, 0) << state << "\n" << profile.Summary();
    EXPECT_LT(shown, known[state] + 2 * kTickNs) << state << "\n" << profile.Summary();
  }
}

TEST_F(Wall, StatesAddUpToTheLifetimeAndAreThoseOfTheFunctions) {
  constexpr int kWorkers = 2;
  const RunResult result = RunUntilSeen();
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  std::map<std::string, double> known = KnownWall(result.out);
  const Decoded profile = Only();
  EXPECT_EQ(profile.types, (std::vector<std::string>{"wall/nanoseconds"}));
  // Exact, but not known after the last look, which may be long ago on a busy machine.
  const double cpu = SumOf(profile, "worker-", "cpu"), lived = SumOf(profile, "worker-", "");
  EXPECT_LT(cpu, known["cpu"] + kWorkers * kTickNs) << profile.Summary();
  EXPECT_GT(cpu, 0) << profile.Summary();
  EXPECT_LT(lived, kWorkers * 1e9 * result.seconds) << profile.Summary();
  EXPECT_GT(lived, known["lived"] / 4) << profile.Summary();
  const std::map<std::string, std::string> states = {{"ReadInput", "io"}, {"LookUp", "lock"}, {"Feed", "sleep"}};
  std::map<std::string, int> seen;
  int64_t holder_sleeps = 0;
  for (const DecodedSample& sample : profile.samples) {
    for (const auto& [function, state] : states) {
      if (!sample.Has(function)) continue;
      ++seen[function];
      EXPECT_EQ(LabelOf(sample, "state"), state) << function << "\n" << profile.Summary();
    }
    if (sample.Has("LookUp")) {
      EXPECT_EQ(LabelOf(sample, "holder"), "Evict") << profile.Summary();
      // It sleeps while it holds the lock. It also wakes up, and unlocks.
      holder_sleeps += LabelOf(sample, "holder_state") == "sleep" ? sample.values.at("wall") : 0;
    }
  }
  EXPECT_GT(seen["LookUp"], 0) << profile.Summary();
  EXPECT_GT(seen["ReadInput"], 0) << profile.Summary();
  EXPECT_GT(holder_sleeps, 0) << profile.Summary();
  const RunResult locks = RunTool({"locks", "-v", out(), "--color", "never"});
  EXPECT_THAT(locks.out, ContainsRegex("holders +asleep ")) << locks.Describe();
  const RunResult json = RunTool({"locks", "--format", "json", out()});
  EXPECT_THAT(json.out, ContainsRegex("\"holder_sleep_ns\": *[1-9]")) << json.Describe();
  // The looks are not in the file, so no error is stated.
  const RunResult top = RunTool({"top", "--kind", "wall", "--error", out(), "--color", "never"});
  EXPECT_TRUE(top.exited(0)) << top.Describe();
  EXPECT_THAT(top.out, ContainsRegex("\ntotal +[0-9.]+m?s\n")) << top.Describe();
}

TEST_F(Wall, WithoutRecordedLocksNothingIsSaidAboutThem) {
  Running running(CommandFor(Launch::kPreload, {"known_wall", "0", "2"}, {{"wall", "yes"}, {"lock-interval", "0"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  RunResult table;
  const auto is_seen = [&] {
    RunTool({"dump", std::to_string(running.pid()), "--tables", tables()});
    const std::vector<Decoded> files = Newest(out(), "wall");
    if (files.empty()) return false;
    table = RunTool({"threads", out(), "--color", "never"});
    return Decoded(files[0]).SumAny("LookUp")["wall"] > 0;
  };
  EXPECT_TRUE(Eventually(is_seen, 60)) << AllSummaries();
  EXPECT_THAT(table.out, HasSubstr("\nnote     waits for locks were not always recorded (--lock-interval 0"))
      << table.Describe();
  EXPECT_THAT(table.out, ::testing::Not(HasSubstr("waiting for a lock"))) << table.Describe();
  running.Write("\n");
  running.Wait();
}

TEST_F(Wall, OnOneCpuTheWaitForItIsShown) {
  const auto is_seen = [](const Decoded& profile) { return SumOf(profile, "worker-", "runnable") > 20e6; };
  const auto pin = [](pid_t pid) {
    cpu_set_t allowed;
    ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed)) ++cpu;
    const RunResult pinned = Execute({.argv = {"taskset", "-a", "-c", "-p", std::to_string(cpu), std::to_string(pid)}});
    EXPECT_TRUE(pinned.exited(0)) << pinned.Describe();
  };
  const RunResult result = RunUntil(is_seen, pin);
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  ExpectNoMoreThanTheKernelCounts(result);
}

TEST_F(Wall, ThrottledThreadsWaitForACpu) {
  const bool is_old = access("/sys/fs/cgroup/cpu", F_OK) == 0;
  const std::string group =
      (is_old ? "/sys/fs/cgroup/cpu/holdfast_" : "/sys/fs/cgroup/holdfast_") + std::to_string(getpid());
  const std::string quota = group + (is_old ? "/cpu.cfs_quota_us" : "/cpu.max");
  if (mkdir(group.c_str(), 0755) != 0 || access(quota.c_str(), W_OK) != 0) {
    rmdir(group.c_str());
    GTEST_SKIP() << "needs a writable cgroup for CPU time";
  }
  const auto is_seen = [](const Decoded& profile) { return SumOf(profile, "worker-", "runnable") > 100e6; };
  const RunResult result = RunUntil(is_seen, [&](pid_t pid) {
    WriteFile(quota, is_old ? "10000" : "10000 100000");  // 10 ms in each period of 100
    WriteFile(group + "/cgroup.procs", std::to_string(pid));
  });
  EXPECT_EQ(rmdir(group.c_str()), 0);
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  ExpectNoMoreThanTheKernelCounts(result);
}

TEST_F(Wall, WhereTheKernelForbidsToLookTheCpuTimeIsKnown) {
  if (!IsRoot()) GTEST_SKIP() << "needs root to become another user";
  chmod(tables().c_str(), 01777);
  ASSERT_TRUE(mkdir(out().c_str(), 0777) == 0 && chmod(out().c_str(), 0777) == 0);
  Command command = CommandFor(Launch::kPreload, {"known_wall", "0", "2", "1", "closed"}, {{"wall", "yes"}});
  command.uid = 65534;
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const auto is_seen = [&] {
    RunTool({"dump", std::to_string(running.pid()), "--tables", tables()});
    const std::vector<Decoded> files = Newest(out(), "wall");
    return !files.empty() && SumOf(files[0], "worker-", "cpu") > 0;
  };
  ASSERT_TRUE(Eventually(is_seen, 60)) << AllSummaries();
  const RunResult table = RunTool({"threads", out(), "--color", "never"});
  EXPECT_THAT(table.out, HasSubstr("calls    not known: ")) << table.Describe();
  EXPECT_EQ(SumOf(Only(), "worker-", "lock"), 0) << Only().Summary();
  running.Write("\n");
  running.Wait();
}

// Root's exporter looks without reading the program's memory.
TEST_F(Wall, OfAProgramThatRootRunsAsAnotherUserIsKnown) {
  if (!IsRoot()) GTEST_SKIP() << "needs root to become another user";
  chmod(tables().c_str(), 01777);
  Command command = CommandFor(Launch::kPreload, {"known_wall", "0", "2", "1"}, {{"wall", "yes"}});
  command.argv.insert(command.argv.begin(), {"setpriv", "--reuid", "65534", "--clear-groups"});
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  Decoded profile;
  const auto is_seen = [&] {
    RunTool({"dump", std::to_string(running.pid()), "--tables", tables()});
    for (const Decoded& file : Newest(out(), "wall")) {
      if (SumOf(file, "worker-", "") > 0) profile = file;  // not setpriv's own
    }
    return SumOf(profile, "worker-", "lock") > 0 && SumOf(profile, "worker-", "io") > 0 &&
           SumOf(profile, "worker-", "sleep") > 0;
  };
  ASSERT_TRUE(Eventually(is_seen, 60)) << AllSummaries();
  for (const DecodedSample& sample : profile.samples) {
    if (!LabelOf(sample, "thread").starts_with("worker-")) continue;
    const std::string state = LabelOf(sample, "state");
    // The table has the stacks of waits for locks; others are in memory that root does not read.
    EXPECT_EQ(sample.Has("LookUp"), state == "lock") << state << "\n" << profile.Summary();
    if (state == "lock") {
      EXPECT_EQ(LabelOf(sample, "holder"), "Evict") << profile.Summary();
      EXPECT_EQ(LabelOf(sample, "holder_state"), "") << profile.Summary();
    }
  }
  const RunResult table = RunTool({"threads", out(), "--color", "never"});
  EXPECT_THAT(table.out, ::testing::Not(HasSubstr("not known: "))) << table.Describe();
  EXPECT_THAT(table.out, HasSubstr("held by Evict()")) << table.Describe();
  running.Write("\n");
  running.Wait();
  EXPECT_TRUE(Settled());
}

// Its table is read as nobody then.
TEST_F(Wall, OfAProgramInAnotherRootIsKnown) {
  if (!IsRoot()) GTEST_SKIP() << "needs root for chroot";
  Running running(CommandFor(Launch::kPreload, {"changes_itself"}, {{"heap-interval", "1"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  running.Write("root /\n");
  ASSERT_TRUE(running.WaitForOutput("done 1"));
  const std::string pid = std::to_string(running.pid());
  const RunResult on = RunTool({"set", pid, "wall=on", "--tables", tables()});
  ASSERT_TRUE(on.exited(0)) << on.Describe();
  const auto is_seen = [&] {
    return Shows(running.pid(), [](const Decoded& profile) { return SumOf(profile, "", "io") > 0; });
  };
  EXPECT_TRUE(Eventually(is_seen, 60)) << AllSummaries();
  running.CloseInput();
  running.Wait();
}

TEST_F(Wall, ThreadsBeginsWithWhatMatters) {
  // Long enough that the workers' waits outweigh main, which reads its input all the time.
  const RunResult result = RunUntil([](Decoded profile) { return profile.SumAny("LookUp")["wall"] > 4e8; });
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  const RunResult table = RunTool({"threads", out(), "--color", "never"});
  ASSERT_TRUE(table.exited(0)) << table.Describe();
  EXPECT_THAT(table.out.substr(0, table.out.find('\n')), HasSubstr("2 threads worker-* spend "));
  EXPECT_THAT(table.out, HasSubstr("held by Evict()"));
  const RunResult each = RunTool({"threads", "--each", out(), "--json"});
  ASSERT_TRUE(each.exited(0)) << each.Describe();
  EXPECT_THAT(each.out, HasSubstr("\"worker-2\""));
  EXPECT_THAT(each.out, HasSubstr("\"summary\""));
  const RunResult csv = RunTool({"threads", out(), "--format", "csv"});
  EXPECT_THAT(csv.out, HasSubstr("thread,tid,threads,lived_ns,cpu_ns,runnable_ns,lock_ns,io_ns,sleep_ns,syscall_ns,"));
}

TEST_F(Wall, CpuTimeBeforeTheFirstLookIsUnknown) {
  constexpr int kWorkers = 2;
  Running running(CommandFor(Launch::kPreload, {"known_wall", "0", "2", "1"}, {{"heap-interval", "1"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  clockid_t clock;
  ASSERT_EQ(clock_getcpuclockid(running.pid(), &clock), 0);
  const auto cpu_ns = [clock] {
    timespec used = {};
    clock_gettime(clock, &used);
    return 1e9 * static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec);
  };
  ASSERT_TRUE(Eventually([&] { return cpu_ns() > 0.3e9; }, 60));
  const double before_ns = cpu_ns();
  const std::string pid = std::to_string(running.pid());
  const RunResult on = RunTool({"set", pid, "wall=on", "--tables", tables()});
  ASSERT_TRUE(on.exited(0)) << on.Describe();
  const auto is_seen = [&] {
    return Shows(running.pid(), [](const Decoded& profile) { return SumOf(profile, "worker-", "cpu") > 0; });
  };
  ASSERT_TRUE(Eventually(is_seen, 60)) << AllSummaries();
  const Decoded profile = Only();
  EXPECT_LT(SumOf(profile, "worker-", "cpu"), cpu_ns() - before_ns + kWorkers * kTickNs) << profile.Summary();
  EXPECT_GT(SumOf(profile, "worker-", "unknown"), before_ns / 2) << profile.Summary();
  running.Write("\n");
  running.Wait();
}

TEST_F(Wall, AThreadThatIsStoppedInsideASystemCallIsStopped) {
  Running running(CommandFor(Launch::kPreload, {"known_wall", "0", "1"}, {{"wall", "yes"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  // A helper nearly always is in a system call.
  const auto is_helper_seen = [&](const std::string& state) {
    RunTool({"dump", std::to_string(running.pid()), "--tables", tables()});
    const std::vector<Decoded> files = Newest(out(), "wall");
    return !files.empty() && SumOf(files[0], "helper-", state) > 0;
  };
  ASSERT_TRUE(Eventually([&] { return is_helper_seen(""); }, 60)) << AllSummaries();
  running.Signal(SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return is_helper_seen("stopped"); }, 60)) << AllSummaries();
  running.Signal(SIGCONT);
  running.Write("\n");
  running.Wait();
}

TEST_F(Wall, AFrozenProgramIsStopped) {
  bool is_possible = false;
  for (const bool is_v2 : {false, true}) {
    Running running(CommandFor(Launch::kPreload, {"known_wall", "0", "1"}, {{"wall", "yes"}}));
    ASSERT_TRUE(running.WaitForOutput("ready"));
    const ControlGroup group(running.pid(), is_v2);
    if (group.has_process()) {
      is_possible = true;
      const std::string name = "." + std::to_string(running.pid()) + ".";
      const auto is_seen = [&](const std::string& state) {
        RunTool({"dump", std::to_string(running.pid()), "--tables", tables()});
        double ns = 0;
        for (const Decoded& file : Newest(out(), "wall")) {
          if (file.path.find(name) != std::string::npos) ns += SumOf(file, "", state);
        }
        return ns > 0;
      };
      EXPECT_TRUE(Eventually([&] { return is_seen(""); }, 60)) << AllSummaries();
      group.Freeze(true);
      EXPECT_TRUE(Eventually([&] { return group.is_frozen(); }));
      EXPECT_TRUE(Eventually([&] { return is_seen("stopped"); }, 60)) << AllSummaries();
      group.Freeze(false);
    }
    running.Write("\n");
    running.Wait();
  }
  if (!is_possible) GTEST_SKIP() << "no control group can be made here";
}

TEST_F(Wall, WithoutItThreadsHaveNamesLifetimesAndWaitsForLocks) {
  Running running(
      CommandFor(Launch::kPreload, {"known_wall", "0", "2"}, {{"heap-interval", "1"}, {"lock-interval", "1ns"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const std::string pid = std::to_string(running.pid());
  RunResult live;
  const auto has_waits = [&] {
    RunTool({"dump", pid, "--tables", tables()});
    live = RunTool({"threads", out(), "--color", "never"});
    return live.exited(0) && live.out.find("held by Evict()") != std::string::npos;
  };
  ASSERT_TRUE(Eventually(has_waits, 60)) << live.Describe() << AllSummaries();
  EXPECT_THAT(live.out, ContainsRegex("^2 threads worker-[*] waited .* for locks, most for .*held by Evict"));
  EXPECT_THAT(live.out, ContainsRegex("\nhelper-[*] +2 +[0-9.]+m?s"));
  EXPECT_THAT(live.out, ContainsRegex("\nnote     [^\n]*holdfast run --wall [^\n]*wall=on\n$"));
  const RunResult each = RunTool({"threads", "--each", "--json", out()});
  EXPECT_THAT(each.out, HasSubstr("\"worker-2\""));
  EXPECT_THAT(each.out, HasSubstr("\"not_recorded\""));
  EXPECT_THAT(each.out, HasSubstr("\"holder\": \"Evict\""));
  running.Write("\n");
  ASSERT_TRUE(running.Wait().exited(0));
  ASSERT_TRUE(Settled());
  EXPECT_TRUE(Newest(out(), "wall").empty()) << AllSummaries();
  // The workers have ended: their lifetimes are those that a snapshot saw.
  const RunResult ended = RunTool({"threads", out(), "--color", "never"});
  ASSERT_TRUE(ended.exited(0)) << ended.Describe();
  EXPECT_THAT(ended.out, ContainsRegex("\nworker-[*] +2 +[0-9.]+m?s"));
  EXPECT_THAT(ended.out, HasSubstr("ended: their time after the last snapshot that saw them is missing"));
}

// Nothing of it is sampled.
TEST_F(Wall, AProgramThatOnlyWaitsIsSeen) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, {{"wall", "yes"}}));
  const auto is_seen = [&] {
    RunTool({"dump", std::to_string(running.pid()), "--tables", tables()});
    const std::vector<Decoded> files = Newest(out(), "wall");
    return !files.empty() && SumOf(files[0], "", "io") > 0;
  };
  EXPECT_TRUE(Eventually(is_seen, 60)) << AllSummaries();
  running.Write("\n");
  running.Wait();
}

TEST_F(Wall, ThatIsOnButHasNoProfileYetIsNotSaidToBeOff) {
  RunResult threads;
  // The exporter begins to look within a second, which may be sooner than our question.
  const auto has_no_looks_yet = [&] {
    Running running(CommandFor(Launch::kPreload, {"known_wall", "0", "1"}, {{"heap-interval", "1"}}));
    EXPECT_TRUE(running.WaitForOutput("ready"));
    const std::string pid = std::to_string(running.pid());
    EXPECT_TRUE(RunTool({"set", pid, "wall=on", "--tables", tables()}).exited(0));
    threads = RunTool({"threads", pid, "--color", "never"});
    running.Write("\n");
    running.Wait();
    return threads.out.find("\nnote     wall is on, but no profile has yet ") != std::string::npos;
  };
  EXPECT_TRUE(Eventually(has_no_looks_yet, 60)) << threads.Describe();
}

TEST_F(Wall, AFileThatSaysNothingAboutThreadsIsRefused) {
  WriteFile(folder() + "/nothing.pb.gz", "");
  const RunResult none = RunTool({"threads", folder() + "/nothing.pb.gz"});
  EXPECT_TRUE(none.exited(3)) << none.Describe();
}

}  // namespace
}  // namespace holdfast::testing
