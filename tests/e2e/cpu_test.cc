// CPU time by function, sampled by timers of the kernel; and that their signals change nothing in programs.
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tests/support/profiled.h"
#include "tests/support/tracer.h"

namespace holdfast::testing {
namespace {

class Cpu : public Profiled {
 protected:
  Decoded Only() const {
    const std::vector<Decoded> files = Newest(out(), "cpu");
    EXPECT_EQ(files.size(), 1u) << AllSummaries();
    return files.empty() ? Decoded{} : files[0];
  }
};

std::map<std::string, double> KnownCpu(const std::string& output) {
  std::map<std::string, double> known;
  std::istringstream lines(output);
  for (std::string word, function; lines >> word;) {
    if (word == "cpu" && lines >> function) lines >> known[function];
  }
  return known;
}

// The kernel checks CPU timers at its ticks, 250 a second or more, so each tick is one sample.
constexpr double kTickNs = 4e6;

TEST_F(Cpu, IsThatOfEachFunctionAndOfShortThreads) {
  const RunResult result = RunAs(Launch::kPreload, {"known_cpu", "0.6", "200"}, {{"cpu", "1000"}});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  const std::map<std::string, double> known = KnownCpu(result.out);
  ASSERT_EQ(known.size(), 4u) << result.out;
  const Decoded profile = Only();
  EXPECT_EQ(profile.types, (std::vector<std::string>{"samples/count", "cpu/nanoseconds"}));
  EXPECT_EQ(profile.default_type, "cpu");
  EXPECT_EQ(profile.period_type, "cpu/nanoseconds");
  EXPECT_EQ(profile.period, 1'000'000);
  double total = 0;
  for (const auto& [function, ns] : known) {
    total += ns;
    const auto sampled = static_cast<double>(profile.SumAny(function)["cpu"]);
    // 6 sigma of samples at random: fails once in a billion runs.
    EXPECT_NEAR(sampled, ns, 6 * std::sqrt(ns * kTickNs)) << function << "\n" << profile.Summary();
  }
  const Values all = profile.Total();
  EXPECT_EQ(all.at("cpu"), all.at("samples") * 1'000'000);
  // Also counted: starting threads, and the last interval of each, which is drawn at random.
  EXPECT_NEAR(static_cast<double>(all.at("cpu")), total, 0.1 * total + 6 * 1e6 * std::sqrt(200)) << profile.Summary();
}

TEST_F(Cpu, OfASpinningThreadIsThatOfTheLocks) {
  const RunResult result = RunAs(Launch::kPreload, {"spins_for_lock"}, {{"cpu", "1000"}, {"lock-interval", "1ns"}});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  double spun_ns = 0;
  ASSERT_EQ(sscanf(result.out.c_str(), "spun %lf", &spun_ns), 1) << result.Describe();
  const RunResult locks = RunTool({"locks", "--format", "json", out()});
  std::vector<double> cpu, delay;
  const auto number_after = [&](size_t from, const std::string& key) {
    const size_t at = locks.out.find("\"" + key + "\":", from);
    return at == std::string::npos ? -1 : atof(locks.out.c_str() + at + key.size() + 3);
  };
  for (size_t row = locks.out.find("{\"kind\": \"spin\""); row != std::string::npos;
       row = locks.out.find("{\"kind\": \"spin\"", row + 1)) {
    cpu.push_back(number_after(row, "call_cpu_ns"));
    delay.push_back(number_after(row, "delay_ns"));
  }
  ASSERT_EQ(cpu.size(), 2u) << locks.Describe();
  // The thread does nothing else. The first sample comes after a random part of a tick.
  EXPECT_NEAR(cpu[0] + cpu[1], spun_ns, 4 * kTickNs) << locks.Describe();
  // It waits for both at the same place, so each has a part in proportion to the wait.
  EXPECT_GT(delay[0], delay[1]) << locks.Describe();
  EXPECT_NEAR(cpu[0] / (cpu[0] + cpu[1]), delay[0] / (delay[0] + delay[1]), 0.02) << locks.Describe();
}

TEST_F(Cpu, IsNotSampledUnlessItIsRequested) {
  const RunResult result = RunAs(Launch::kPreload, {"known_cpu", "0.1"}, {{"heap-interval", "1"}});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  EXPECT_TRUE(Newest(out(), "cpu").empty()) << AllSummaries();
}

TEST_F(Cpu, IsRequestedByAnOptionWithOrWithoutARate) {
  for (const char* option : {"--cpu", "--cpu=1000"}) {
    const RunResult result =
        RunTool({"run", option, "-o", out(), "--tables", tables(), "--", ProgramPath("known_cpu"), "0.2"});
    ASSERT_TRUE(result.exited(0)) << result.Describe();
  }
  const RunResult bad = RunTool({"run", "--cpu=5000", "--", "/bin/true"});
  EXPECT_TRUE(bad.exited(125)) << bad.Describe();
  EXPECT_THAT(bad.err, ::testing::HasSubstr("samples a second from 1 to 1000"));
  std::vector<int64_t> periods;
  for (const Decoded& file : Newest(out(), "cpu")) periods.push_back(file.period);
  EXPECT_THAT(periods, ::testing::UnorderedElementsAre(10'000'000, 1'000'000)) << AllSummaries();
}

TEST_F(Cpu, IsSwitchedOnAndOffWhileTheProgramRuns) {
  Running running(CommandFor(Launch::kPreload, {"cpu_timer_cases", "until-input"}, {{"heap-interval", "64KiB"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const std::string pid = std::to_string(running.pid());
  const auto set = [&](const std::string& wish) { return RunTool({"set", pid, wish, "--tables", tables()}); };
  const RunResult on = set("cpu=1000");
  EXPECT_TRUE(on.exited(0)) << on.Describe();
  EXPECT_THAT(on.err + on.out, ::testing::HasSubstr("cpu off → 1000 Hz"));
  // Its computing thread, which enters no slow path, is sampled too.
  running.Write("\n");
  ASSERT_TRUE(running.WaitForOutput("computed"));
  // More often than the table has places for changes.
  for (int i = 0; i < 40; ++i) {
    const RunResult changed = set(i % 2 == 0 ? "cpu=500" : "cpu=1000");
    EXPECT_THAT(changed.err, ::testing::HasSubstr("threads with a timer")) << i << changed.Describe();
  }
  const RunResult off = set("cpu=off");
  EXPECT_THAT(off.err + off.out, ::testing::HasSubstr("cpu 1000 Hz → off"));
  running.Write("\n");
  EXPECT_TRUE(running.Wait().exited(0));
  EXPECT_TRUE(Settled());
  const Decoded profile = Only();
  EXPECT_GT(profile.SumAny("BurnCpu")["samples"], 50) << profile.Summary();
}

TEST_F(Cpu, ThatIsSwitchedOnInAProgramThatSleepsIsPendingUntilItAllocates) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, {{"heap-interval", "1"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  running.Write("1\n");  // the library makes its table
  ASSERT_TRUE(running.WaitForOutput("done 1"));
  const std::string pid = std::to_string(running.pid());
  const RunResult on = RunTool({"set", pid, "cpu=1000", "--tables", tables()});
  EXPECT_TRUE(on.exited(0)) << on.Describe();
  EXPECT_THAT(on.err, ::testing::HasSubstr("cpu off → 1000 Hz: pending until its next slow path"));
  running.Write("2\n");
  ASSERT_TRUE(running.WaitForOutput("done 2"));
  const RunResult again = RunTool({"set", pid, "cpu=1000", "--tables", tables()});
  EXPECT_THAT(again.err, ::testing::HasSubstr("cpu is already 1000 Hz.")) << again.Describe();
}

// Each case expects every result to be what it is without signals.
class CpuCases : public Cpu, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Of, CpuCases,
                         ::testing::Values("calls", "masks", "cancel", "processes", "altstacks", "jumps",
                                           "jumps-disarmed", "jumps-within", "coroutines", "timers", "executes",
                                           "filter", "threads"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(CpuCases, AreNotChanged) {
  const RunResult result = RunAs(Launch::kPreload, {"cpu_timer_cases", GetParam(), "0.2"}, {{"cpu", "1000"}});
  EXPECT_TRUE(result.exited(0)) << result.Describe();
  EXPECT_EQ(result.out, "") << result.Describe();
  EXPECT_EQ(result.err, "") << result.Describe();
  ASSERT_FALSE(Newest(out(), "cpu").empty()) << AllSummaries();
  double samples = 0;
  for (const Decoded& file : Newest(out(), "cpu")) samples += static_cast<double>(file.SumAny("BurnCpu")["samples"]);
  EXPECT_GT(samples, 10) << AllSummaries();
}

// Go installs handlers of its own for all signals, also for this one.
TEST_F(Cpu, ChangesNothingInGoAndTheCThatItCalls) {
  if (!std::filesystem::exists(ProgramPath("go_with_cgo"))) GTEST_SKIP() << "go was not installed at the build";
  const RunResult result = RunAs(Launch::kPreload, {"go_with_cgo"}, {{"cpu", "1000"}});
  EXPECT_TRUE(result.exited(0)) << result.Describe();
  EXPECT_EQ(result.out, "") << result.Describe();
  EXPECT_EQ(result.err, "") << result.Describe();
  Values samples;  // the children that it starts have files of their own
  for (const Decoded& file : Newest(out(), "cpu")) {
    for (const char* function : {"BurnCpu", "main.compute"}) samples[function] += file.SumAny(function)["samples"];
  }
  EXPECT_GT(samples["BurnCpu"], 10) << AllSummaries();
  EXPECT_GT(samples["main.compute"], 10) << AllSummaries();
}

// The program's signal and the timer's are due at the same time, which is rare: the program arranges it.
TEST_F(Cpu, LeavesTheEndOfEachCallToTheProgramsOwnSignals) {
  const RunResult without = RunAs(Launch::kBare, {"ended_calls", "none"});
  EXPECT_TRUE(without.exited(0)) << without.Describe();
  const RunResult result = RunAs(Launch::kPreload, {"ended_calls", "tick"}, {{"cpu", "1000"}});
  EXPECT_TRUE(result.exited(0)) << result.Describe();
  EXPECT_EQ(result.out, without.out);
}

// musl uses signal 32 itself.
TEST_F(Cpu, IsRefusedWithMusl) {
  const RunResult result =
      RunTool({"run", "--cpu=1000", "-o", out(), "--tables", tables(), "--", ProgramPath("musl_program")});
  EXPECT_THAT(result.err, ::testing::HasSubstr("--cpu takes no samples: its libc is not glibc"));
  EXPECT_FALSE(Newest(out(), "heap").empty()) << AllSummaries();
  EXPECT_TRUE(Newest(out(), "cpu").empty()) << AllSummaries();
  const RunResult doctor = RunTool({"doctor", "--", ProgramPath("musl_program")});
  EXPECT_THAT(doctor.out, ::testing::HasSubstr("--cpu takes no samples: its libc is not glibc"));
}

TEST_F(Cpu, IsSampledInADebugger) {
  if (Execute({.argv = {"gdb", "--version"}}).status != 0) GTEST_SKIP() << "gdb is not installed";
  // The variables are those of the program, not of gdb.
  Command command = CommandFor(Launch::kPreload, {"cpu_timer_cases", "burn", "0.2"}, {{"cpu", "1000"}});
  std::vector<std::string> argv = {"gdb", "-nx", "-batch", "-ex", "set startup-with-shell off"};
  for (const auto& [name, value] : command.env) {
    argv.insert(argv.end(), {"-ex", "set environment " + name + " " + value});
  }
  argv.insert(argv.end(), {"-ex", "break BurnCpu", "-ex", "run", "-ex", "backtrace 2", "-ex", "continue", "--args"});
  argv.insert(argv.end(), command.argv.begin(), command.argv.end());
  command.argv = argv;
  command.env.clear();
  const RunResult result = RunAndSettle(command);
  EXPECT_TRUE(result.exited(0)) << result.Describe();
  EXPECT_THAT(result.out, ::testing::HasSubstr("exited normally"));
  EXPECT_THAT(result.out, ::testing::Not(::testing::HasSubstr("received signal")));
  EXPECT_GT(Only().SumAny("BurnCpu")["samples"], 50) << AllSummaries();
}

TEST_F(Cpu, ChangesNothingInTheFirstProcessOfAContainer) {
  const std::vector<std::string> first = {"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"};
  std::vector<std::string> argv = first;
  argv.push_back("true");
  if (!Execute({.argv = argv}).exited(0)) GTEST_SKIP() << "no pid namespace can be made here (it needs root)";
  Command command = CommandFor(Launch::kPreload, {"cpu_timer_cases", "processes"}, {{"cpu", "1000"}});
  command.argv.insert(command.argv.begin(), first.begin(), first.end());
  const RunResult result = RunAndSettle(command);
  EXPECT_TRUE(result.exited(0)) << result.Describe();
  EXPECT_EQ(result.out, "") << result.Describe();
  EXPECT_FALSE(Newest(out(), "cpu").empty()) << AllSummaries();
}

TEST_F(Cpu, ChangesNothingBelowValgrind) {
  if (Execute({.argv = {"valgrind", "--version"}}).status != 0) GTEST_SKIP() << "valgrind is not installed";
  Command command = CommandFor(Launch::kPreload, {"cpu_timer_cases", "calls", "0.1"}, {{"cpu", "1000"}});
  const std::vector<std::string> valgrind = {"valgrind", "-q", "--tool=none"};
  command.argv.insert(command.argv.begin(), valgrind.begin(), valgrind.end());
  const RunResult result = RunAndSettle(command);
  EXPECT_TRUE(result.exited(0)) << result.Describe();
  EXPECT_EQ(result.out, "") << result.Describe();
}

TEST_F(Cpu, TakesAtMostAQuarterOfTheSignalsThatMayBePending) {
  Command command =
      CommandFor(Launch::kPreload, {"cpu_timer_cases", "together"}, {{"cpu", "1000"}, {"heap-interval", "1"}});
  // Other processes of this user may use some, but not as many.
  command.limits = {{RLIMIT_SIGPENDING, 40}};
  const RunResult result = RunAndSettle(command);
  EXPECT_TRUE(result.exited(0)) << result.Describe();
  EXPECT_EQ(result.out, "") << result.Describe();
  const std::vector<Decoded> heap = Newest(out(), "heap");
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  EXPECT_GE(heap[0].CommentNumber("lost cpu-timers-full"), 20) << heap[0].Summary();
}

// The kernel looks at both timers at the same tick. Ours must not move the program's signal to a thread that sleeps.
TEST_F(Cpu, IsNotSampledWhileTheProgramHasAProfilerOfItsOwn) {
  const RunResult result = RunAs(Launch::kPreload, {"cpu_timer_cases", "profiler"}, {{"cpu", "1000"}});
  EXPECT_TRUE(result.exited(0)) << result.Describe();
  EXPECT_EQ(result.out, "") << result.Describe();
}

// timer_create cannot be asked whether a timer exists, so samples end when one is made.
TEST_F(Cpu, IsNotSampledWhileTheProgramHasATimerOnACpuClock) {
  Running running(CommandFor(Launch::kPreload, {"cpu_timer_cases", "posix-profiler", "0.2"},
                             {{"cpu", "1000"}, {"heap-interval", "1"}}));
  ASSERT_TRUE(running.WaitForOutput("deleted"));
  const std::string pid = std::to_string(running.pid());
  const RunResult doctor = RunTool({"doctor", pid, "--tables", tables()});
  EXPECT_THAT(doctor.out, ::testing::HasSubstr("has a CPU timer of its own (setitimer or timer_create)"));
  // All of its timers are deleted.
  RunResult on;
  const auto is_on = [&] {
    on = RunTool({"set", pid, "cpu=1000", "--tables", tables()});
    return on.err.find("threads with a timer") != std::string::npos ||
           on.err.find("already 1000 Hz") != std::string::npos;
  };
  EXPECT_TRUE(Eventually(is_on, 60)) << on.Describe();
  running.Write("\n");
  const RunResult result = running.Wait();
  EXPECT_TRUE(result.exited(0)) << result.Describe();
  EXPECT_EQ(result.err, "") << result.Describe();
}

// The oldest thread but the first one; 0: there is none.
pid_t OtherThreadOf(pid_t pid) {
  pid_t oldest = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    const pid_t id = atoi(entry.path().filename().c_str());
    if (id != pid && (oldest == 0 || id < oldest)) oldest = id;
  }
  return oldest;
}

// The program makes its timer when the library has found none and has not switched its own on, or is about to make the first.
class CpuBegins : public Cpu, public ::testing::WithParamInterface<long> {};
INSTANTIATE_TEST_SUITE_P(Before, CpuBegins, ::testing::Values(SYS_rt_sigaction, SYS_timer_create));
TEST_P(CpuBegins, ATimerThatTheProgramMakesMeanwhileEndsSamples) {
  Running running(CommandFor(Launch::kPreload, {"cpu_timer_cases", "makes-timer"}, {{"heap-interval", "64KiB"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const std::string pid = std::to_string(running.pid());
  const Tracer allocates(OtherThreadOf(running.pid()));
  if (!allocates.attached()) GTEST_SKIP() << "the system forbids to trace processes";
  const RunResult on = RunTool({"set", pid, "cpu=1000", "--tables", tables()});
  EXPECT_THAT(on.err, ::testing::HasSubstr("pending")) << on.Describe();
  EXPECT_EQ(allocates.RunTo({GetParam()}, [] { return false; }), GetParam());
  running.Write("\n");
  ASSERT_TRUE(running.WaitForOutput("made"));
  allocates.Leave(0);
  RunResult doctor;
  const auto has_ended = [&] {
    doctor = RunTool({"doctor", pid, "--tables", tables()});
    return doctor.out.find("has a CPU timer of its own (setitimer or timer_create)") != std::string::npos &&
           ReadFile("/proc/" + pid + "/timers").find("signal: 32/") == std::string::npos;
  };
  EXPECT_TRUE(Eventually(has_ended, 20)) << doctor.Describe() << ReadFile("/proc/" + pid + "/timers");
  running.Write("\n");
  EXPECT_TRUE(running.Wait().exited(0));
}

// The interval is another one already, and the thread's timer still counts by the one before.
TEST_F(Cpu, OfAThreadThatEndsAtAChangeCountsOnce) {
  Running running(CommandFor(Launch::kPreload, {"cpu_timer_cases", "ends-at-change"},
                             {{"cpu", "100"}, {"heap-interval", "64KiB"}}));
  ASSERT_TRUE(running.WaitForOutput("computed"));
  const Tracer allocates(OtherThreadOf(running.pid()));
  if (!allocates.attached()) GTEST_SKIP() << "the system forbids to trace processes";
  const RunResult change = RunTool({"set", std::to_string(running.pid()), "cpu=1000", "--tables", tables()});
  EXPECT_THAT(change.err, ::testing::HasSubstr("pending")) << change.Describe();
  EXPECT_EQ(allocates.RunTo({SYS_timer_settime}, [] { return false; }), SYS_timer_settime);
  running.Write("\n");
  ASSERT_TRUE(running.WaitForOutput("joined"));
  allocates.Leave(0);
  running.Write("\n");
  EXPECT_TRUE(running.Wait().exited(0));
  EXPECT_TRUE(Settled());
  Decoded profile = Only();
  // The rest is a whole interval, right on average.
  EXPECT_NEAR(static_cast<double>(profile.SumAny("ComputesThenWaits")["cpu"]), 0.3e9, 0.05e9) << profile.Summary();
}

// It waits for the signal itself.
TEST_F(Cpu, ThreadsOfLibcThatWaitForItsSignalHaveNoTimer) {
  Running running(
      CommandFor(Launch::kPreload, {"cpu_timer_cases", "sigev-thread"}, {{"cpu", "1000"}, {"heap-interval", "1"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const RunResult change = RunTool({"set", std::to_string(running.pid()), "cpu=500", "--tables", tables()});
  EXPECT_THAT(change.err, ::testing::HasSubstr(", 2 threads with a timer")) << change.Describe();
  running.Write("\n");
  EXPECT_TRUE(running.Wait().exited(0));
}

// A thread that allocates does not wait for one that changes the timers of all others.
TEST_F(Cpu, AnAllocationDoesNotWaitForAChange) {
  Running running(CommandFor(Launch::kPreload, {"cpu_timer_cases", "allocates-at-input"},
                             {{"cpu", "100"}, {"heap-interval", "64KiB"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const Tracer main(running.pid()), allocates(OtherThreadOf(running.pid()));
  if (!main.attached() || !allocates.attached()) GTEST_SKIP() << "the system forbids to trace processes";
  const RunResult change = RunTool({"set", std::to_string(running.pid()), "cpu=1000", "--tables", tables()});
  EXPECT_THAT(change.err, ::testing::HasSubstr("pending")) << change.Describe();
  EXPECT_EQ(allocates.RunTo({SYS_timer_settime}, [] { return false; }), SYS_timer_settime);
  running.Write("\n");
  EXPECT_EQ(main.RunTo({SYS_ppoll, SYS_write}, [] { return false; }), SYS_write);
  allocates.Leave(0);
  main.Leave(0);
  ASSERT_TRUE(running.WaitForOutput("allocated"));
  running.Write("\n");
  EXPECT_TRUE(running.Wait().exited(0));
}

// 100 samples a second take less than 0.1 % of the time if each takes less than 10 µs. A signal itself takes about 2 µs, a
// system call about 0.2.
TEST_F(Cpu, ASampleTakesAFewThousandInstructions) {
  Running running(CommandFor(Launch::kPreload, {"cpu_timer_cases", "ends-with-threads", "1"}, {{"cpu", "1000"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const Tracer computes(OtherThreadOf(running.pid()));
  if (!computes.attached()) GTEST_SKIP() << "the system forbids to trace processes";
  // The first sample may be that of a new table.
  computes.StepThroughHandler(32);
  const Tracer::Steps steps = computes.StepThroughHandler(32);
  computes.Leave(0);
  EXPECT_GT(steps.instructions, 500);
  EXPECT_LT(steps.instructions, 4000);
  EXPECT_LE(steps.calls, 8);  // one for each page of the stack that the walk has not read before, and six
  running.Write("\n");
  EXPECT_TRUE(running.Wait().exited(0));
}

// One thread is not scheduled while it takes a sample. The end of the process waits for it once, not once for each thread.
TEST_F(Cpu, AtTheEndOneWaitIsForAllThreads) {
  constexpr int kThreads = 100;
  Running running(CommandFor(Launch::kPreload, {"cpu_timer_cases", "ends-with-threads", std::to_string(kThreads)},
                             {{"cpu", "1000"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const Tracer main(running.pid()), other(OtherThreadOf(running.pid()));
  if (!main.attached() || !other.attached()) GTEST_SKIP() << "the system forbids to trace processes";
  ASSERT_TRUE(other.RunIntoHandler(32));
  running.Write("\n");
  int stops = 0;  // two for each sleep
  while (main.RunTo({SYS_ppoll, SYS_exit_group}, [] { return false; }) == SYS_ppoll) ++stops;
  other.Leave(0);
  main.Leave(0);
  EXPECT_TRUE(running.Wait().exited(0));
  EXPECT_LT(stops, kThreads);
}

// What a process has used since its last signal is reported at its end, also of its other threads.
TEST_F(Cpu, OfProcessesOfSomeMillisecondsIsTheirs) {
  constexpr int kProcesses = 150;
  for (const char* how : {"executed", "forked", "threads", "stacks"}) {
    SCOPED_TRACE(how);
    const RunResult result =
        RunAs(Launch::kPreload, {"short_processes", how, std::to_string(kProcesses)}, {{"cpu", "1000"}});
    ASSERT_TRUE(result.exited(0)) << result.Describe();
    double burned = 0, used = 0;
    ASSERT_EQ(sscanf(result.out.c_str(), "burned %lf of %lf", &burned, &used), 2) << result.Describe();
    double sampled = 0;
    for (const Decoded& file : Newest(out(), "cpu")) sampled += static_cast<double>(file.Total().at("cpu"));
    // The rest of each process is a whole number of intervals, right on average: 6 sigma.
    const double error = 6 * 1e6 * std::sqrt(kProcesses);
    EXPECT_GT(sampled, burned - error) << AllSummaries();
    EXPECT_LT(sampled, used + error) << AllSummaries();
    std::filesystem::remove_all(out());
  }
}

// No list of threads is kept then, and these threads do not allocate.
TEST_F(Cpu, OfThreadsIsKnownWhereNothingElseIsRecorded) {
  constexpr int kProcesses = 60;
  for (const Options& others : {Options{{"heap-interval", "0"}, {"lock-interval", "0"}}, {{"profiles", "heap"}}}) {
    Options options = {{"cpu", "1000"}};
    options.insert(others.begin(), others.end());
    const RunResult result =
        RunAs(Launch::kPreload, {"short_processes", "stacks", std::to_string(kProcesses)}, options);
    ASSERT_TRUE(result.exited(0)) << result.Describe();
    double burned = 0;
    ASSERT_EQ(sscanf(result.out.c_str(), "burned %lf", &burned), 1) << result.Describe();
    double sampled = 0;
    for (const Decoded& file : Newest(out(), "cpu")) sampled += static_cast<double>(file.Total().at("cpu"));
    EXPECT_GT(sampled, burned - 6 * 1e6 * std::sqrt(kProcesses)) << AllSummaries();
    std::filesystem::remove_all(out());
  }
}

// Each look at the clock passes through it.
TEST_F(Cpu, FunctionsOfTheVdsoHaveNames) {
  const RunResult result = RunAs(Launch::kPreload, {"cpu_timer_cases", "burn", "0.5"}, {{"cpu", "1000"}});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  EXPECT_THAT(Only().Summary(), ::testing::Not(::testing::HasSubstr("[vdso]!0x")));
}

TEST_F(Cpu, RunAndDoctorSayThatNoSignalMayBePending) {
  const std::vector<std::vector<std::string>> commands = {
      {Tool(), "run", "--cpu", "-o", out(), "--tables", tables(), "--", "/bin/true"},
      {Tool(), "doctor", "--", "/bin/true"}};
  for (const std::vector<std::string>& words : commands) {
    Command command;
    command.argv = words;
    command.limits = {{RLIMIT_SIGPENDING, 0}};
    const RunResult result = Execute(command);
    EXPECT_THAT(result.err + result.out, ::testing::HasSubstr("its timers take at most a quarter of the signals"))
        << result.Describe();
  }
}

// A timer that another thread makes must not send a signal to a thread that has no room for it on its stack.
TEST_F(Cpu, ThatIsSwitchedOnLeavesOutThreadsWithLittleStack) {
  Running running(CommandFor(Launch::kPreload, {"cpu_timer_cases", "little-stacks"}, {{"heap-interval", "64KiB"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const RunResult on = RunTool({"set", std::to_string(running.pid()), "cpu=1000", "--tables", tables()});
  EXPECT_TRUE(on.exited(0)) << on.Describe();
  EXPECT_THAT(on.err, ::testing::HasSubstr("cpu off → 1000 Hz, 2 threads with a timer")) << on.Describe();
  running.Write("\n");
  const RunResult result = running.Wait();
  EXPECT_TRUE(result.exited(0)) << result.Describe();
}

TEST_F(Cpu, IsNotSampledBehindAFilterFromBeforeTheStart) {
  const RunResult result =
      RunAs(Launch::kPreload, {"cpu_timer_cases", "below-filter"}, {{"cpu", "1000"}, {"heap-interval", "1"}});
  EXPECT_TRUE(result.exited(0)) << result.Describe();
  EXPECT_FALSE(Newest(out(), "heap").empty()) << AllSummaries();
  // The program that installs the filter may have used enough CPU time for a sample before.
  for (const Decoded& profile : Newest(out(), "cpu"))
    EXPECT_THAT(profile.Comment("command").value_or(""), ::testing::HasSubstr("below-filter"));
}

}  // namespace
}  // namespace holdfast::testing
