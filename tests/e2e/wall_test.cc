// Where the time of each thread goes, from looks from outside: what is exact, and that every part has its state, its stack,
// its lock and its holder.
#include <signal.h>
#include <time.h>

#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Wall : public Profiled {
 protected:
  Decoded Only() const {
    const std::vector<Decoded> files = Newest(out(), "wall");
    EXPECT_EQ(files.size(), 1u) << AllSummaries();
    return files.empty() ? Decoded{} : files[0];
  }
  // Two workers, until a snapshot has looks at them in both of their waits.
  RunResult RunUntilSeen() {
    Running running(CommandFor(Launch::kPreload, {"known_wall", "0", "2", "1"}, {{"wall", "yes"}}));
    EXPECT_TRUE(running.WaitForOutput("ready"));
    const auto is_seen = [&] {
      RunTool({"dump", std::to_string(running.pid()), "--tables", tables()});
      const std::vector<Decoded> files = Newest(out(), "wall");
      return !files.empty() && files[0].SumAny("LookUp")["wall"] > 0 && files[0].SumAny("ReadInput")["wall"] > 0;
    };
    EXPECT_TRUE(Eventually(is_seen, 60)) << AllSummaries();
    running.Write("\n");
    RunResult result = running.Wait();
    EXPECT_TRUE(Settled());
    return result;
  }
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
  EXPECT_LT(lived, 1.01 * known["lived"] + kWorkers * kTickNs) << profile.Summary();
  EXPECT_GT(lived, known["lived"] / 4) << profile.Summary();
  const std::map<std::string, std::string> states = {{"ReadInput", "io"}, {"LookUp", "lock"}, {"Feed", "sleep"}};
  std::map<std::string, int> seen;
  for (const DecodedSample& sample : profile.samples) {
    for (const auto& [function, state] : states) {
      if (!sample.Has(function)) continue;
      ++seen[function];
      EXPECT_EQ(LabelOf(sample, "state"), state) << function << "\n" << profile.Summary();
    }
    if (sample.Has("LookUp")) {
      EXPECT_EQ(LabelOf(sample, "holder"), "Evict") << profile.Summary();
    }
  }
  EXPECT_GT(seen["LookUp"], 0) << profile.Summary();
  EXPECT_GT(seen["ReadInput"], 0) << profile.Summary();
}

TEST_F(Wall, ThreadsBeginsWithWhatMatters) {
  const RunResult result = RunUntilSeen();
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  const RunResult table = RunTool({"threads", out(), "--color", "never"});
  ASSERT_TRUE(table.exited(0)) << table.Describe();
  EXPECT_THAT(table.out.substr(0, table.out.find('\n')), HasSubstr("2 threads worker-* spend "));
  EXPECT_THAT(table.out.substr(0, table.out.find('\n')), HasSubstr("held by Evict()"));
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
    RunTool({"dump", pid, "--tables", tables()});
    const std::vector<Decoded> files = Newest(out(), "wall");
    return !files.empty() && SumOf(files[0], "worker-", "cpu") > 0;
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

TEST_F(Wall, IsNotRecordedUnlessItIsRequested) {
  const RunResult result = RunAs(Launch::kPreload, {"known_wall", "0.2", "1"}, {{"heap-interval", "1"}});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  EXPECT_TRUE(Newest(out(), "wall").empty()) << AllSummaries();
  const RunResult none = RunTool({"threads", out()});
  EXPECT_TRUE(none.exited(3)) << none.Describe();
  EXPECT_THAT(none.err, HasSubstr("holdfast run --wall"));
  EXPECT_THAT(none.out, Not(HasSubstr("thread")));
}

}  // namespace
}  // namespace holdfast::testing
