// `holdfast attach` and `detach`: a program that already runs is profiled from then on, and is never worse off.
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/control_group.h"
#include "tests/support/profiled.h"
#include "tests/support/tracer.h"

namespace holdfast::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// checked_threads, and the same with these allocators in the executable, where their archives are installed.
constexpr const char* kCheckedThreads[] = {"checked_threads", "linked_threads_jemalloc", "linked_threads_tcmalloc",
                                           "linked_threads_mimalloc"};

class Attach : public Profiled {
 protected:
  void SetUp() override {
    Profiled::SetUp();
    Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
    ASSERT_TRUE(running.WaitForOutput("ready"));
    if (RunTool({"doctor", Pid(running), "--attach"}).out.find("glibc is older than 2.35") != std::string::npos)
      GTEST_SKIP() << "attach needs glibc 2.35 or newer";
  }
  RunResult AttachTo(const Running& running, std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"attach", Pid(running), "-o", out(), "--tables", tables()});
    return RunTool(std::move(options));
  }
  // The first child of a program that became another program by exec. "": it has none.
  static std::string ChildOf(const Running& running) {
    const std::string process = "/proc/" + Pid(running);
    std::istringstream children(ReadFile(process + "/task/" + Pid(running) + "/children"));
    std::string child;
    children >> child;
    return child;
  }
  RunResult DetachFrom(const Running& running) { return RunTool({"detach", Pid(running), "--tables", tables()}); }
  static std::string Pid(const Running& running) { return std::to_string(running.pid()); }
  // Whether the tool may trace this process: only its ancestors may, where kernel.yama.ptrace_scope is 1.
  static bool IsPermitted(const Running& running) {
    return RunTool({"doctor", Pid(running), "--attach"}).out.find("the kernel does not permit it") == std::string::npos;
  }
  // The program answers a line, and has made no mistake.
  static void ExpectWorks(Running& running, int* lines) {
    running.Write("line\n");
    EXPECT_TRUE(running.WaitForOutput("line " + std::to_string(++*lines) + ": 0 mistakes\n"));
  }
  static void Line(Running& running, int number) {
    running.Write("line\n");
    ASSERT_TRUE(running.WaitForOutput("done " + std::to_string(number) + "\n"));
  }
  // What a process has mapped read-only from files other than the library: its code, and entries that are sealed after
  // relocation.
  static std::string ReadOnlyBytes(const Running& running) {
    const std::string process = "/proc/" + Pid(running);
    std::istringstream maps(ReadFile(process + "/maps"));
    const int memory = open((process + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
    std::string all;
    for (std::string line; std::getline(maps, line);) {
      unsigned long start = 0, end = 0;
      char permissions[5] = {};
      if (sscanf(line.c_str(), "%lx-%lx %4s", &start, &end, permissions) != 3 || permissions[1] == 'w' ||
          line.find('/') == std::string::npos || line.find("libholdfast") != std::string::npos)
        continue;
      std::string bytes(end - start, '\0');
      EXPECT_EQ(pread(memory, bytes.data(), bytes.size(), static_cast<off_t>(start)),
                static_cast<ssize_t>(bytes.size()))
          << line;
      all += bytes;
    }
    close(memory);
    return all;
  }

  // Attaches to a program that allocates 100 blocks for each line and keeps 10, with this library preloaded, for two lines.
  void ExpectTwoLinesRecorded(const char* program, const std::string& allocator);
  // Ends a program that allocates 100 blocks for each line and keeps 10. `lines`: those while attached; one, the last, was in the
  // newest attach.
  void EndAndExpectRecordedLines(Running& running, int lines) {
    running.CloseInput();
    EXPECT_TRUE(running.Wait().exited(0));
    ASSERT_TRUE(Settled());
    ASSERT_EQ(NewestHeap().size(), 1u);
    const auto sums = NewestHeap()[0].SumLeaf("for_each_line");
    EXPECT_EQ(sums.at("alloc_objects"), 100 * lines);
    EXPECT_EQ(sums.at("inuse_objects"), 10);  // a second attach forgets those of the first
    EXPECT_EQ(sums.at("inuse_space"), 10'000);
  }
};

void Attach::ExpectTwoLinesRecorded(const char* program, const std::string& allocator) {
  SCOPED_TRACE(allocator);
  const auto folders = {"/usr/lib/x86_64-linux-gnu/", "/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/"};
  const bool is_there = std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
    return access((folder + allocator).c_str(), R_OK) == 0;
  });
  if (!is_there) return;
  Command command = CommandFor(Launch::kBare, {program});
  command.env["LD_PRELOAD"] = allocator;
  command.env["MALLOC_CHECK_"] = "3";
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const std::string before = ReadOnlyBytes(running);
  const std::string folder = out() + "." + allocator;
  const RunResult attached =
      RunTool({"attach", Pid(running), "-o", folder, "--tables", tables(), "--heap-interval", "1"});
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  Line(running, 1);
  Line(running, 2);
  const RunResult detached = DetachFrom(running);
  ASSERT_TRUE(detached.exited(0)) << detached.Describe();
  EXPECT_TRUE(ReadOnlyBytes(running) == before);
  Line(running, 3);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  ASSERT_TRUE(Settled());
  const auto heaps = Newest(folder, "heap");
  ASSERT_EQ(heaps.size(), 1u);
  const auto sums = heaps[0].SumLeaf("for_each_line");
  EXPECT_EQ(sums.at("alloc_objects"), 200);
  EXPECT_EQ(sums.at("inuse_objects"), 20);
}

TEST_F(Attach, RecordsWhatIsAllocatedFromThenOn) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  Line(running, 1);  // 10 blocks stay
  const std::string before = ReadOnlyBytes(running);

  const RunResult attached = AttachTo(running, {"--heap-interval", "1"});
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  EXPECT_THAT(attached.err, HasSubstr("attached, "));
  EXPECT_THAT(attached.err, HasSubstr("not recorded: blocks and waits from before, libraries that are loaded later"));
  EXPECT_NE(ReadOnlyBytes(running), before);
  Line(running, 2);
  EXPECT_THAT(RunTool({"ls", "--tables", tables()}).out, HasSubstr("waits_for_input"));
  const std::string already = AttachTo(running).err;
  EXPECT_THAT(already, HasSubstr("is attached already; nothing was changed"));
  EXPECT_THAT(already, Not(HasSubstr("--for")));
  EXPECT_THAT(AttachTo(running, {"--for", "1ms"}).err,
              HasSubstr("--for has no effect: holdfast detach " + Pid(running) + " ends it."));
  EXPECT_THAT(RunTool({"set", Pid(running), "cpu=100", "--tables", tables()}).err,
              HasSubstr("holdfast attach takes no CPU samples"));

  const RunResult detached = DetachFrom(running);
  ASSERT_TRUE(detached.exited(0)) << detached.Describe();
  EXPECT_TRUE(ReadOnlyBytes(running) == before);
  EXPECT_THAT(RunTool({"ls", "--tables", tables()}).out, HasSubstr("detached"));
  const RunResult doctor = RunTool({"doctor", Pid(running), "--tables", tables()});
  EXPECT_TRUE(doctor.exited(1)) << doctor.Describe();
  EXPECT_THAT(doctor.out, HasSubstr("was detached: nothing has been recorded since"));
  EXPECT_THAT(doctor.out, HasSubstr("note  allocator   malloc and free are those of glibc; since the detach, no call"));
  EXPECT_THAT(doctor.out, HasSubstr("of the time since the attach); since the detach, calls do not come through"));
  const RunResult set = RunTool({"set", Pid(running), "heap-interval=64KiB", "--tables", tables()});
  EXPECT_TRUE(set.exited(3)) << set.Describe();
  EXPECT_THAT(set.err, HasSubstr("is detached, so nothing is sampled. First: holdfast attach " + Pid(running)));
  for (const char* command : {"top", "leaks", "memory"})
    EXPECT_THAT(RunTool({command, Pid(running)}).err, HasSubstr("was detached, and nothing has been recorded since"))
        << command;
  Line(running, 3);
  EXPECT_THAT(DetachFrom(running).err, HasSubstr("is not attached"));
  EndAndExpectRecordedLines(running, 1);
}

// The program binds its functions at their first calls, so the tool must know which allocator the linker will find then. One has
// no versions; glibc's own that checks has only hidden ones, and libc's default version is another function.
TEST_F(Attach, OfAProgramWithAPreloadedAllocator) {
  for (const char* allocator : {"libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libc_malloc_debug.so.0"})
    ExpectTwoLinesRecorded("waits_for_input", allocator);
}

TEST_F(Attach, ADetachNamesNoProfilesIfNothingWasSampled) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  ASSERT_TRUE(AttachTo(running).exited(0));
  const RunResult detached = DetachFrom(running);
  EXPECT_TRUE(detached.exited(0)) << detached.Describe();
  EXPECT_THAT(detached.err, HasSubstr("nothing was sampled while it was attached, so " + out() + " has no profile"));
  EXPECT_THAT(detached.err, Not(HasSubstr("profiles: ")));
}

// These allocators have operators of their own, which do not call malloc.
TEST_F(Attach, OfACxxProgramWithAPreloadedAllocator) {
  for (const char* allocator : {"libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"})
    ExpectTwoLinesRecorded("waits_by_new", allocator);
}

// Blocks of the first attach may have been freed meanwhile, and others be at their addresses.
TEST_F(Attach, ASecondTimeAfterOneThatRecordedEveryAllocation) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  for (int i = 1; i <= 7; i += 2) {
    const RunResult attached = AttachTo(running, {"--exact"});
    ASSERT_TRUE(attached.exited(0)) << attached.Describe();
    EXPECT_EQ(attached.err.find("the options of its first attach stay") != std::string::npos, i > 1) << attached.err;
    Line(running, i);
    if (i == 7) break;
    const RunResult detached = DetachFrom(running);
    ASSERT_TRUE(detached.exited(0)) << detached.Describe();
    Line(running, i + 1);
  }
  EndAndExpectRecordedLines(running, 4);
  EXPECT_EQ(RunTool({"info", out()}).out.find("frees not seen"), std::string::npos);
}

// Also after `set` has changed the interval: samples of both intervals are forgotten at the second attach.
TEST_F(Attach, CommandsWorkAsForAProgramStartedWithTheLibrary) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  ASSERT_TRUE(AttachTo(running, {"--heap-interval", "2KiB"}).exited(0));
  Line(running, 1);
  const RunResult set = RunTool({"set", Pid(running), "heap-interval=1", "--tables", tables()});
  EXPECT_TRUE(set.exited(0)) << set.Describe();
  Line(running, 2);
  Line(running, 3);
  EXPECT_THAT(RunTool({"top", Pid(running)}).out, HasSubstr("for_each_line"));
  EXPECT_THAT(RunTool({"locks", Pid(running)}).out, HasSubstr("waits that began before the attach are not recorded"));
  EXPECT_THAT(RunTool({"info", Pid(running)}).out,
              HasSubstr("duration    0 (cumulative: since holdfast attach; what came before is in no profile)"));
  EXPECT_THAT(RunTool({"doctor", Pid(running), "--tables", tables()}).out,
              HasSubstr("of the time since the attach); and"));
  for (const char* command : {"dump", "locks", "stuck"}) {
    const RunResult r = RunTool({command, Pid(running)});
    EXPECT_TRUE(r.exited(0)) << r.Describe();
  }
  ASSERT_TRUE(DetachFrom(running).exited(0));
  Line(running, 4);
  ASSERT_TRUE(AttachTo(running).exited(0));
  Line(running, 5);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  ASSERT_TRUE(Settled());
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_EQ(NewestHeap()[0].SumLeaf("for_each_line").at("inuse_objects"), 10);
}

// Its waits began before, so nothing knows them.
TEST_F(Attach, OfADeadlockedProgramSaysThatItCannotTell) {
  Running running(CommandFor(Launch::kBare, {"stuck", "abba"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  ASSERT_TRUE(AttachTo(running).exited(0));
  const RunResult stuck = RunTool({"stuck", Pid(running), "--tables", tables()});
  EXPECT_TRUE(stuck.exited(3)) << stuck.Describe();
  EXPECT_THAT(stuck.out, HasSubstr("no waits seen that began since the attach"));
  EXPECT_THAT(stuck.out,
              HasSubstr("cannot tell whether there is a deadlock: 2 threads sleep in waits that are not recorded"));
  const RunResult json = RunTool({"stuck", Pid(running), "--json", "--tables", tables()});
  EXPECT_TRUE(json.exited(3)) << json.Describe();
  EXPECT_THAT(json.out, HasSubstr("\"unknown_waits\":2"));
}

// That allocator throws.
TEST_F(Attach, DoctorSaysThatExceptionsAreNotRecorded) {
  if (access(ProgramPath("linked_threads_tcmalloc").c_str(), X_OK) != 0) GTEST_SKIP() << "no archive of tcmalloc";
  Running running(CommandFor(Launch::kBare, {"linked_threads_tcmalloc"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  ASSERT_TRUE(AttachTo(running).exited(0));
  const RunResult doctor = RunTool({"doctor", Pid(running), "--tables", tables()});
  EXPECT_THAT(doctor.out, HasSubstr("note  exceptions  exceptions of a program that was attached are not recorded"));
  EXPECT_THAT(doctor.out, Not(HasSubstr("exceptions are seen")));
}

// 3,000 blocks of 1,008 bytes with their heads; libc has a few more.
TEST_F(Attach, ViewsTellHowMuchWasAllocatedBefore) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  for (int i = 0; i < 300; ++i) running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 300\n"));
  const RunResult attached = AttachTo(running, {"--exact"});
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  Line(running, 301);
  constexpr char kOlder[] = "unknown age, allocated before the attach: ";
  const RunResult json = RunTool({"memory", Pid(running), "--tables", tables(), "--json"});
  ASSERT_TRUE(json.exited(0)) << json.Describe();
  long before = 0, error = -1;
  if (const size_t at = json.out.find("\"before_attach\":"); at != std::string::npos)
    sscanf(json.out.c_str() + at, "\"before_attach\":{\"value\":%ld,\"error\":%ld}", &before, &error);
  EXPECT_GE(before, 3000 * 1008 - 16 * 1024) << json.out;
  EXPECT_LE(before, 3000 * 1008 + 256 * 1024) << json.out;
  EXPECT_EQ(error, 0);
  EXPECT_THAT(RunTool({"memory", Pid(running), "--tables", tables()}).out,
              ContainsRegex(std::string(kOlder) + "[23]\\.[0-9]*MiB in glibc's heaps"));
  for (const char* view : {"info", "leaks", "top"}) {
    const RunResult shown = RunTool({view, Pid(running)});
    EXPECT_THAT(shown.out, HasSubstr(kOlder)) << view << shown.err;
  }
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  ASSERT_TRUE(Settled());
  for (const char* view : {"info", "leaks", "top"}) {
    const RunResult shown = RunTool({view, out()});
    EXPECT_THAT(shown.out, HasSubstr(kOlder)) << view << shown.err;
  }
}

TEST_F(Attach, RedirectsAnAllocatorInTheExecutable) {
  if (access(ProgramPath("linked_waits_jemalloc").c_str(), X_OK) != 0) GTEST_SKIP() << "no archive of jemalloc";
  Running running(CommandFor(Launch::kBare, {"linked_waits_jemalloc"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  Line(running, 1);  // 10 blocks stay
  const std::string before = ReadOnlyBytes(running);
  const RunResult attached = AttachTo(running, {"--heap-interval", "1"});
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  EXPECT_THAT(attached.err, ContainsRegex("; all [0-9]+ threads at once for "));
  EXPECT_NE(ReadOnlyBytes(running), before);
  Line(running, 2);
  const RunResult detached = DetachFrom(running);
  ASSERT_TRUE(detached.exited(0)) << detached.Describe();
  EXPECT_TRUE(ReadOnlyBytes(running) == before);
  const RunResult again = AttachTo(running, {"--heap-interval", "1"});
  EXPECT_TRUE(again.exited(0)) << again.Describe();
  EXPECT_NE(ReadOnlyBytes(running), before);
  Line(running, 3);
  EndAndExpectRecordedLines(running, 2);
}

// It is listed with the program's threads, can be stopped, and has no stack.
TEST_F(Attach, AWorkerOfTheKernelIsWithinNoEntry) {
  if (access(ProgramPath("linked_waits_jemalloc").c_str(), X_OK) != 0) GTEST_SKIP() << "no archive of jemalloc";
  Running running(CommandFor(Launch::kBare, {"linked_waits_jemalloc", "ring"}));
  if (!running.WaitForOutput("ready", 10)) {
    ASSERT_TRUE(running.Wait().exited(77));
    GTEST_SKIP() << "the kernel gives nobody an io_uring";
  }
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const RunResult attached = AttachTo(running);
  EXPECT_TRUE(attached.exited(0)) << attached.Describe();
  Line(running, 1);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

// The allocator in the executable is at the same addresses in both programs, and the library's code is not.
TEST_F(Attach, ChangesNothingInAProgramThatWasExecutedMeanwhile) {
  if (access(ProgramPath("stopped_rarely").c_str(), X_OK) != 0) GTEST_SKIP() << "no archive of jemalloc";
  Running running(CommandFor(Launch::kBare, {"stopped_rarely", "vfork"}));
  ASSERT_TRUE(running.WaitForOutput("ready vfork\n"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  Line(running, 1);  // a thread cannot be stopped from now on
  Running tool({.argv = {Tool(), "attach", Pid(running), "-o", out(), "--tables", tables()}});
  const auto has_begun = [&] {
    return ReadFile("/proc/" + Pid(running) + "/maps").find("libholdfast") != std::string::npos;
  };
  EXPECT_TRUE(Eventually(has_begun));
  usleep(100'000);  // it is about to change the code
  running.Signal(SIGUSR1);
  ASSERT_TRUE(running.WaitForOutput("ready again\n"));
  const RunResult attached = tool.Wait();
  EXPECT_TRUE(attached.exited(3)) << attached.Describe();
  Line(running, 1);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

// Its memory is its parent's, where the library would remain.
TEST_F(Attach, OfAChildOfVforkIsRefused) {
  if (access(ProgramPath("stopped_rarely").c_str(), X_OK) != 0) GTEST_SKIP() << "no archive of jemalloc";
  Running running(CommandFor(Launch::kBare, {"stopped_rarely", "vfork"}));
  ASSERT_TRUE(running.WaitForOutput("ready vfork\n"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  Line(running, 1);
  std::string child;
  ASSERT_TRUE(Eventually([&] {
    for (const auto& thread : std::filesystem::directory_iterator("/proc/" + Pid(running) + "/task")) {
      if (std::istringstream children(ReadFile(thread.path().string() + "/children")); children >> child) return true;
    }
    return false;
  }));
  const RunResult attached = RunTool({"attach", child, "-o", out(), "--tables", tables()});
  EXPECT_TRUE(attached.exited(3)) << attached.Describe();
  EXPECT_THAT(attached.err, HasSubstr("shares the memory of process " + Pid(running) + ". Attach that one"));
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

// All threads were stopped for less than this, all stops together.
void ExpectRarelyStopped(const RunResult& attached, double most_ms) {
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  const size_t at = attached.err.find(" threads at once for ");
  ASSERT_NE(at, std::string::npos) << attached.Describe();
  char unit[3] = {};
  double time = 0;
  ASSERT_EQ(sscanf(attached.err.c_str() + at, " threads at once for %lf%2[a-z]", &time, unit), 2) << attached.err;
  time *= std::string(unit) == "s" ? 1000 : std::string(unit) == "us" ? 0.001 : 1;
  EXPECT_LT(time, most_ms) << attached.err;
}

TEST_F(Attach, StopsNothingWhileAThreadCannotBeStopped) {
  if (access(ProgramPath("stopped_rarely").c_str(), X_OK) != 0) GTEST_SKIP() << "no archive of jemalloc";
  Running running(CommandFor(Launch::kBare, {"stopped_rarely", "vfork"}));
  ASSERT_TRUE(running.WaitForOutput("ready vfork\n"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  Line(running, 1);
  ExpectRarelyStopped(AttachTo(running), 500);
  running.CloseInput();
  const RunResult r = running.Wait();
  long stopped_ms = 10'000;
  const size_t at = r.out.find("stopped for ");
  ASSERT_NE(at, std::string::npos) << r.Describe();
  sscanf(r.out.c_str() + at, "stopped for %ld", &stopped_ms);
  EXPECT_LT(stopped_ms, 1000) << r.Describe();
}

// The kernel has no mapping for it.
TEST_F(Attach, SearchesAStackUpToItsGuard) {
  if (access(ProgramPath("stopped_rarely").c_str(), X_OK) != 0) GTEST_SKIP() << "no archive of jemalloc";
  Running running(CommandFor(Launch::kBare, {"stopped_rarely", "guard"}));
  if (!running.WaitForOutput("ready guard\n")) GTEST_SKIP() << "the kernel has no such guards";
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const RunResult attached = AttachTo(running);
  EXPECT_TRUE(attached.exited(0)) << attached.Describe();
  Line(running, 1);
  const RunResult detached = DetachFrom(running);
  EXPECT_TRUE(detached.exited(0)) << detached.Describe();
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

TEST_F(Attach, ToAProgramWhoseThreadsBeginOthersAndEnd) {
  if (access(ProgramPath("stopped_rarely").c_str(), X_OK) != 0) GTEST_SKIP() << "no archive of jemalloc";
  Running running(CommandFor(Launch::kBare, {"stopped_rarely", "short"}));
  ASSERT_TRUE(running.WaitForOutput("ready short\n"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  for (int i = 1; i <= 5; ++i) {
    const RunResult attached = AttachTo(running);
    EXPECT_TRUE(attached.exited(0)) << attached.Describe();
    const RunResult detached = DetachFrom(running);
    EXPECT_TRUE(detached.exited(0)) << detached.Describe();
    Line(running, i);
  }
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

class AttachUnderLoad : public Attach, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (access(ProgramPath(GetParam()).c_str(), X_OK) != 0) GTEST_SKIP() << "its allocator has no archive here";
    Attach::SetUp();
  }
};
INSTANTIATE_TEST_SUITE_P(Programs, AttachUnderLoad, ::testing::ValuesIn(kCheckedThreads),
                         [](const auto& info) { return std::string(info.param); });

// Blocks that are freed between two attaches are not in use afterwards, wherever their addresses were.
class AttachManyTimes : public AttachUnderLoad {
 protected:
  void AttachEachTime(const std::vector<std::string>& options) {
    Running running(CommandFor(Launch::kBare, {GetParam()}));
    ASSERT_TRUE(running.WaitForOutput("ready"));
    if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
    int lines = 0;
    const int times = Full() ? 100 : 4;
    const std::string before = ReadOnlyBytes(running);
    for (int i = 0; i < times; ++i) {
      const RunResult attached = AttachTo(running, options);
      ASSERT_TRUE(attached.exited(0)) << attached.Describe();
      ExpectWorks(running, &lines);
      const RunResult detached = DetachFrom(running);
      ASSERT_TRUE(detached.exited(0)) << detached.Describe();
      ASSERT_EQ(ReadOnlyBytes(running), before);
    }
    ExpectWorks(running, &lines);
    running.CloseInput();
    const RunResult r = running.Wait();
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    ASSERT_TRUE(Settled());
    ExpectAllWhole();
  }
};
INSTANTIATE_TEST_SUITE_P(Programs, AttachManyTimes, ::testing::ValuesIn(kCheckedThreads),
                         [](const auto& info) { return std::string(info.param); });
TEST_P(AttachManyTimes, Sampled) { AttachEachTime({"--heap-interval", "4KiB"}); }
TEST_P(AttachManyTimes, Exact) { AttachEachTime({"--exact"}); }

TEST_F(Attach, ForATimeThenDetaches) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const RunResult r = AttachTo(running, {"--for", "1ms"});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("attached, "));
  EXPECT_THAT(r.err, HasSubstr("detached, "));
  Line(running, 1);
}

// Its message comes when the last profiles are there.
TEST_F(Attach, AwaitsTheProfilesOfAProgramThatEnds) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  Running tool({.argv = {"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>&1", Tool(), "attach", Pid(running), "-o", out(),
                         "--tables", tables(), "--exact", "--for", "1h"}});
  ASSERT_TRUE(tool.WaitForOutput("profiles go to "));
  Line(running, 1);
  running.Signal(SIGKILL);
  running.Wait();
  const RunResult ended = tool.Wait();
  EXPECT_THAT(ended.out, HasSubstr("has ended. Its profiles are in "));
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_EQ(NewestHeap()[0].SumLeaf("for_each_line").at("alloc_objects"), 100);
}

// Runs `holdfast attach` and kills all of it at the given use of ptrace or write to the process's memory, or only the process
// that traces. Returns whether it was killed: it makes fewer of these. Step 0: each. `earlier`: processes that trace before that one.
// `at_step`: is called instead, with the tool and the process that traces, and returns whether that is to be killed.
bool KilledAtStep(const std::vector<std::string>& arguments, int step, bool only_tracer = false, int earlier = 0,
                  const std::string& messages = "/dev/null", const std::function<bool(pid_t, pid_t)>& at_step = {}) {
  const pid_t tool = fork();
  if (tool == 0) {
    std::vector<char*> words;
    for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    const int nowhere = open(messages.c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(nowhere, STDERR_FILENO);
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    execv(words[0], words.data());
    _exit(127);
  }
  int status = 0;
  waitpid(tool, &status, 0);
  ptrace(PTRACE_SETOPTIONS, tool, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL);
  ptrace(PTRACE_SYSCALL, tool, nullptr, 0);
  pid_t child = 0;  // the one that traces the program
  bool killed = false;
  for (int seen = 0; true;) {
    const pid_t stopped = waitpid(-1, &status, __WALL);
    if (stopped < 0) return killed;
    if (!WIFSTOPPED(status)) {
      if (stopped == tool) return killed;
      continue;
    }
    const int signal = WSTOPSIG(status);
    if (stopped != tool && child == 0 && earlier-- == 0) child = stopped;
    if (stopped != tool && stopped != child) {  // the exporter
      ptrace(PTRACE_DETACH, stopped, nullptr, signal == SIGSTOP ? 0 : signal);
      continue;
    }
    user_regs_struct registers{};
    if (signal == (SIGTRAP | 0x80) && ptrace(PTRACE_GETREGS, stopped, nullptr, &registers) == 0) {
      const bool is_step = (registers.orig_rax == SYS_ptrace && registers.rdi != PTRACE_POKEDATA) ||
                           registers.orig_rax == SYS_process_vm_writev;
      if (is_step && stopped == child && (step == 0 || ++seen == step)) {
        const bool is_to_be_killed = !at_step || at_step(tool, child);
        killed = true;
        if (is_to_be_killed) kill(child, SIGKILL);
        if (is_to_be_killed && !only_tracer) kill(tool, SIGKILL);
        if (is_to_be_killed) continue;
      }
    }
    const bool is_signal = signal != (SIGTRAP | 0x80) && status >> 16 == 0 && signal != SIGSTOP && signal != SIGTRAP;
    ptrace(PTRACE_SYSCALL, stopped, nullptr, is_signal ? signal : 0);
  }
}

TEST_P(AttachUnderLoad, KilledAtAnyStepLeavesTheProgramRunning) {
  Running running(CommandFor(Launch::kBare, {GetParam()}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  int lines = 0, kills = 0;
  // Each step is a beginning or an end of a call. The others come with HOLDFAST_TEST_FULL=1.
  // It also makes fewer where no thread is at a safe place in time.
  for (int step = 1, misses = 0; step < 2000 && misses < (Full() || kills < 4 ? 5 : 1);) {
    const bool killed = KilledAtStep({Tool(), "attach", Pid(running), "-o", out(), "--tables", tables(), "-q"}, step);
    ExpectWorks(running, &lines);
    DetachFrom(running);  // the killed one may have been late enough
    misses = killed ? 0 : misses + 1;
    kills += killed ? 1 : 0;
    if (killed) step += Full() ? 1 : 13;
  }
  EXPECT_GE(kills, 4);
  // The thread may have finished what the last one began.
  const RunResult attached = AttachTo(running);
  EXPECT_TRUE(attached.exited(0) || attached.err.find("is attached already") != std::string::npos)
      << attached.Describe();
  ExpectWorks(running, &lines);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

// The tool undoes what was begun, by another process.
TEST_P(AttachUnderLoad, IsUndoneIfOnlyTheTracerIsKilled) {
  int kills = 0;
  for (int step = 1; step < 500; step += Full() ? 5 : 40) {
    // Only a first attach may be undone.
    Running running(CommandFor(Launch::kBare, {GetParam()}));
    ASSERT_TRUE(running.WaitForOutput("ready"));
    if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
    if (!KilledAtStep({Tool(), "attach", Pid(running), "-o", out(), "--tables", tables(), "-q"}, step, true)) break;
    int lines = 0;
    ExpectWorks(running, &lines);
    const RunResult detached = DetachFrom(running);
    const bool is_undone = detached.err.find("is not attached") != std::string::npos;
    EXPECT_TRUE(is_undone || detached.exited(0)) << step << '\n' << detached.Describe();
    running.CloseInput();
    EXPECT_TRUE(running.Wait().exited(0));
    if (!is_undone) break;  // nothing was left to do
    ++kills;
  }
  EXPECT_GE(kills, 2);
}

// Whether we can make a container as below.
bool CanMakeNamespaces() {
  return Execute({.argv = {"unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"}}).exited(0);
}

// Lets the command run in namespaces of its own, where another file system hides the library. `prepare`: commands before it.
void Isolate(Command* command, const std::vector<std::string>& namespaces, const std::string& prepare = "") {
  const std::string library = Library();
  std::vector<std::string> argv = {"unshare", "--mount", "--fork", "--kill-child"};
  argv.insert(argv.end(), namespaces.begin(), namespaces.end());
  for (const std::string& word :
       {std::string("/bin/sh"), std::string("-c"), "mount -t tmpfs tmpfs \"$0\" && " + prepare + "exec \"$@\"",
        library.substr(0, library.rfind('/'))})
    argv.push_back(word);
  command->argv.insert(command->argv.begin(), argv.begin(), argv.end());
}

// In a container: the program sees neither the library, nor our /dev/shm, nor our process ids.
// The thread is stopped from then on until 0.5 s after, so it finishes the call late.
TEST_F(Attach, IsUndoneIfTheTracerIsKilledAndTheCallTakesLong) {
  int kills = 0;
  for (int step = 8; step < 60; ++step) {
    SCOPED_TRACE(step);
    Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
    ASSERT_TRUE(running.WaitForOutput("ready"));
    if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
    const pid_t pid = running.pid();
    const auto stop_a_while = [pid](pid_t, pid_t) {
      kill(pid, SIGSTOP);
      if (fork() == 0) {
        usleep(500'000);
        kill(pid, SIGCONT);
        _exit(0);
      }
      return true;
    };
    const bool killed = KilledAtStep({Tool(), "attach", Pid(running), "-o", out(), "--tables", tables(), "-q"}, step,
                                     true, 0, "/dev/null", stop_a_while);
    if (!killed) break;
    ++kills;
    Line(running, 1);
    const RunResult detached = DetachFrom(running);
    EXPECT_THAT(detached.err, HasSubstr("is not attached")) << detached.Describe();
    running.CloseInput();
    EXPECT_TRUE(running.Wait().exited(0));
    step += Full() ? 0 : 6;
  }
  EXPECT_GE(kills, 3);
}

TEST_F(Attach, HandsTheLibraryOverToAContainer) {
  Command command = CommandFor(Launch::kBare, {"waits_for_input"});
  if (!CanMakeNamespaces())
    GTEST_SKIP() << "no namespaces can be made here (it needs root, and a container that allows it)";
  Isolate(&command, {"--pid", "--mount-proc"}, "mount -t tmpfs -o noexec tmpfs /dev/shm && ");
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const std::string program = ChildOf(running);
  const auto attach = [&] { return RunTool({"attach", program, "-o", out(), "--heap-interval", "10"}); };
  const RunResult attached = attach();
  if (attached.err.find("the kernel does not permit it") != std::string::npos)
    GTEST_SKIP() << "the system forbids to trace processes";
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  Line(running, 1);
  EXPECT_EQ(ReadFile("/proc/" + program + "/environ").find("HOLDFAST_"), std::string::npos);
  EXPECT_THAT(RunTool({"doctor", program}).out, HasSubstr("ok    recording   heap every 10B"));
  EXPECT_TRUE(RunTool({"detach", program}).exited(0));
  EXPECT_THAT(RunTool({"ls"}).out, HasSubstr(program + "  detached"));
  // The table names a folder outside. It is believed because attach has left a note there.
  const std::string inside = "/root" + out();
  EXPECT_THAT(RunTool({"ls"}).out, Not(HasSubstr(inside)));
  std::string note;
  for (const auto& entry : std::filesystem::directory_iterator(out())) {
    if (entry.path().filename().string().starts_with(".holdfast.tables.")) note = entry.path();
  }
  ASSERT_EQ(rename(note.c_str(), (note + ".away").c_str()), 0) << note;
  EXPECT_THAT(RunTool({"ls"}).out, HasSubstr(inside));
  ASSERT_EQ(rename((note + ".away").c_str(), note.c_str()), 0);
  Line(running, 2);
  const RunResult again = attach();
  ASSERT_TRUE(again.exited(0)) << again.Describe();
  Line(running, 3);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  // The table is out of sight as soon as the program ends. The exporter still has it, and writes the last profile.
  const auto value = [&](const char* name) {
    return NewestHeap().empty() ? 0 : NewestHeap()[0].SumLeaf("for_each_line").at(name);
  };
  EXPECT_TRUE(Eventually([&] { return value("alloc_objects") == 200; })) << value("alloc_objects");
  EXPECT_EQ(value("inuse_objects"), 10);  // of the second attach, which forgets those of the first
}

// The library is handed over in memory, which takes other steps.
TEST_P(AttachUnderLoad, KilledAtAnyStepInAContainer) {
  if (!CanMakeNamespaces()) GTEST_SKIP() << "no namespaces can be made here";
  Command command = CommandFor(Launch::kBare, {GetParam()});
  Isolate(&command, {});
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const std::string program = ChildOf(running);
  if (RunTool({"doctor", program, "--attach"}).out.find("the kernel does not permit it") != std::string::npos)
    GTEST_SKIP() << "the system forbids to trace processes";
  int lines = 0, kills = 0;
  for (int step = 1, misses = 0; step < 2000 && misses < 2;) {
    const bool killed = KilledAtStep({Tool(), "attach", program, "-o", out(), "-q"}, step);
    ExpectWorks(running, &lines);
    RunTool({"detach", program});
    misses = killed ? 0 : misses + 1;
    kills += killed ? 1 : 0;
    if (killed) step += Full() ? 1 : 23;
  }
  EXPECT_GE(kills, 2);
  const RunResult attached = RunTool({"attach", program, "-o", out()});
  EXPECT_TRUE(attached.exited(0) || attached.err.find("is attached already") != std::string::npos)
      << attached.Describe();
  ExpectWorks(running, &lines);
  const RunResult detached = RunTool({"detach", program});
  EXPECT_TRUE(detached.exited(0)) << detached.Describe();
  ExpectWorks(running, &lines);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

// At the limit itself: a plugin has 64 bytes, and the library needs 256.
TEST_F(Attach, IsRefusedIfTheLinkerHasTooLittleStaticTls) {
  for (const int unloaded : {0, 3, 4}) {
    const std::string copies = folder() + "/copies" + std::to_string(unloaded);
    ASSERT_EQ(mkdir(copies.c_str(), 0700), 0);
    Running running(CommandFor(
        Launch::kBare, {"fills_static_tls", ProgramPath("static_tls_plugin.so"), copies, std::to_string(unloaded)}));
    ASSERT_TRUE(running.WaitForOutput("ready"));
    if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
    const std::string before = ReadOnlyBytes(running), maps = ReadFile("/proc/" + Pid(running) + "/maps");
    const RunResult doctor = RunTool({"doctor", Pid(running), "--attach"});
    const RunResult attached = AttachTo(running);
    if (unloaded < 4) {
      EXPECT_THAT(doctor.out,
                  ContainsRegex("NO +TLS +has [0-9]+ bytes of static TLS left, and the library needs 256:"));
      EXPECT_TRUE(attached.exited(3)) << attached.Describe();
      EXPECT_THAT(attached.err, HasSubstr(" bytes of static TLS left, and the library needs 256:"));
      EXPECT_TRUE(ReadOnlyBytes(running) == before);
      EXPECT_EQ(ReadFile("/proc/" + Pid(running) + "/maps"), maps);
    } else {
      EXPECT_THAT(doctor.out, ContainsRegex("ok +TLS +has [0-9]+ bytes of static TLS left, and the library needs 256"));
      EXPECT_TRUE(attached.exited(0)) << attached.Describe();
      EXPECT_TRUE(DetachFrom(running).exited(0));
    }
    Line(running, 1);
    running.CloseInput();
    EXPECT_TRUE(running.Wait().exited(0));
  }
}

TEST_F(Attach, OfAProgramInAChrootIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string root = folder() + "/root";
  // Everything is there, but under names that only the program knows.
  Command command = CommandFor(Launch::kBare, {"waits_for_input"});
  command.argv.insert(command.argv.begin(),
                      {"unshare", "--mount", "/bin/sh", "-c",
                       "mkdir \"$0\" && mount --rbind / \"$0\" && exec chroot \"$0\" \"$@\"", root});
  if (!CanMakeNamespaces()) GTEST_SKIP() << "no mount namespace can be made here";
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const RunResult attached = AttachTo(running);
  EXPECT_TRUE(attached.exited(3)) << attached.Describe();
  EXPECT_THAT(attached.err, HasSubstr("not attached: runs in a chroot, " + root));
  Line(running, 1);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

// A write of the library beyond the limit would send SIGXFSZ.
TEST_F(Attach, IsRefusedIfAFileMayNotBeAsLargeAsTheLibrary) {
  if (!CanMakeNamespaces()) GTEST_SKIP() << "no namespaces can be made here";
  Command command = CommandFor(Launch::kBare, {"waits_for_input"});
  Isolate(&command, {}, "ulimit -f 100 && ");
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const RunResult attached = RunTool({"attach", ChildOf(running), "-o", out()});
  if (attached.err.find("the kernel does not permit it") != std::string::npos)
    GTEST_SKIP() << "the system forbids to trace processes";
  EXPECT_TRUE(attached.exited(3)) << attached.Describe();
  EXPECT_THAT(attached.err, HasSubstr("RLIMIT_FSIZE"));
  Line(running, 1);
}

// dlopen would fail, but only after a thread was stopped.
TEST_F(Attach, IsRefusedIfTheLibraryMayNotBeMapped) {
  const std::pair<const char*, const char*> cases[] = {
      {"ulimit -v 4000", "RLIMIT_AS"},
      {"ulimit -d 600", "RLIMIT_DATA"},
      {"ulimit -d 7000", "RLIMIT_DATA"},  // would do for the library, but not for its table
      {"ulimit -n 4", "RLIMIT_NOFILE"}};
  for (const auto& [limit, why] : cases) {
    Command command = CommandFor(Launch::kBare, {"waits_for_input"});
    command.argv = {"/bin/sh", "-c", std::string(limit) + "; exec \"$0\"", command.argv[0]};
    Running running(command);
    ASSERT_TRUE(running.WaitForOutput("ready"));
    if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
    const RunResult doctor = RunTool({"doctor", Pid(running), "--attach"});
    EXPECT_TRUE(doctor.exited(1)) << doctor.Describe();
    EXPECT_THAT(doctor.out, HasSubstr(why));
    const RunResult attached = AttachTo(running);
    EXPECT_TRUE(attached.exited(3)) << attached.Describe();
    EXPECT_THAT(attached.err, HasSubstr(why));
    Line(running, 1);
  }
}

TEST_F(Attach, DetachSaysThatTheProgramMayMapNoMoreMemory) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  ASSERT_TRUE(AttachTo(running).exited(0));
  rlimit before{};
  ASSERT_EQ(prlimit(running.pid(), RLIMIT_AS, nullptr, &before), 0);
  const rlimit small = {1 << 20, before.rlim_max};
  prlimit(running.pid(), RLIMIT_AS, &small, nullptr);
  const RunResult refused = DetachFrom(running);
  EXPECT_TRUE(refused.exited(3)) << refused.Describe();
  EXPECT_THAT(refused.err, HasSubstr("RLIMIT_AS, ulimit -v). Raise it with prlimit --as"));
  EXPECT_THAT(refused.err, Not(HasSubstr("Try again")));
  Line(running, 1);
  prlimit(running.pid(), RLIMIT_AS, &before, nullptr);
  EXPECT_TRUE(DetachFrom(running).exited(0));
}

// To read what is no longer there would end the program.
TEST_F(Attach, IsRefusedIfALibraryWasShortened) {
  const std::string copy = folder() + "/plugin.so";
  for (const bool detaches : {false, true}) {
    std::filesystem::copy_file(ProgramPath("replaced_plugin.so"), copy,
                               std::filesystem::copy_options::overwrite_existing);
    Command command = CommandFor(Launch::kBare, {"waits_for_input"});
    command.env["LD_PRELOAD"] = copy;
    command.env["LD_BIND_NOW"] = "1";  // the program reads nothing of it later
    Running running(command);
    ASSERT_TRUE(running.WaitForOutput("ready"));
    if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
    if (detaches) {
      ASSERT_TRUE(AttachTo(running).exited(0));
    }
    std::filesystem::resize_file(copy, 100);
    const RunResult refused = detaches ? DetachFrom(running) : AttachTo(running);
    EXPECT_TRUE(refused.exited(3)) << refused.Describe();
    EXPECT_THAT(refused.err, HasSubstr(copy + " was shortened since it was loaded"));
    Line(running, 1);
    running.Signal(SIGKILL);
  }
}

// Of a real-time program, which locks its memory.
TEST_F(Attach, IsRefusedIfNoMoreMemoryMayBeLocked) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  Command command = CommandFor(Launch::kBare, {"attach_harms", "lock"});
  command.uid = 65534;
  Running running(command);
  if (!running.WaitForOutput("ready")) GTEST_SKIP() << "may not lock memory";
  const RunResult attached = AttachTo(running);
  EXPECT_TRUE(attached.exited(3)) << attached.Describe();
  EXPECT_THAT(attached.err, HasSubstr("RLIMIT_MEMLOCK")) << attached.Describe();
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

// A call in one of their threads would end these programs. They continue.
TEST_F(Attach, IsRefusedWhereACallWouldEndTheProgram) {
  const std::pair<const char*, const char*> cases[] = {{"dispatch", "Syscall User Dispatch"},
                                                       {"clock", "PR_SET_TSC"},
                                                       {"pointer", "was not made by the C library"},
                                                       {"coroutine", "than its own. Try again"},
                                                       {"inner", "the last one runs on another stack than its own"},
                                                       {"tables", "the stacks of its 1 threads cannot be walked"}};
  // At once: of most, the tool asks for ten seconds.
  struct Attempt {
    std::string why;
    std::unique_ptr<Running> running, tool;
  };
  std::vector<Attempt> attempts;
  for (const auto& [how, why] : cases) {
    SCOPED_TRACE(how);
    auto running = std::make_unique<Running>(CommandFor(Launch::kBare, {"attach_harms", how}));
    if (!running->WaitForOutput("ready")) continue;  // this kernel does not have it
    EXPECT_THAT(RunTool({"doctor", Pid(*running), "--attach"}).out, HasSubstr("asked of the stopped thread only"));
    auto tool = std::make_unique<Running>(
        Command{.argv = {Tool(), "attach", Pid(*running), "-o", out(), "--tables", tables()}});
    attempts.push_back({why, std::move(running), std::move(tool)});
  }
  for (const Attempt& attempt : attempts) {
    const RunResult attached = attempt.tool->Wait();
    EXPECT_TRUE(attached.exited(3)) << attached.Describe();
    EXPECT_THAT(attached.err, HasSubstr(attempt.why)) << attached.Describe();
    attempt.running->CloseInput();
    const RunResult ended = attempt.running->Wait();
    EXPECT_TRUE(ended.exited(0)) << ended.Describe();
  }
}

TEST_F(Attach, ReadsFiltersBeforeAnythingIsChanged) {
  const auto start = [&](std::vector<std::string> filter) {
    Command command = CommandFor(Launch::kBare, {"waits_for_input"});
    filter[0] = ProgramPath(filter[0]);
    command.argv.insert(command.argv.begin(), filter.begin(), filter.end());
    return command;
  };
  {
    Running running(start({"denies_code_changes", "systemd"}));
    ASSERT_TRUE(running.WaitForOutput("ready"));
    const RunResult attached = AttachTo(running, {"--heap-interval", "1"});
    if (!attached.exited(0) && (attached.err.find("only root") != std::string::npos || !IsPermitted(running)))
      GTEST_SKIP() << "only root outside of containers may read filters";
    ASSERT_TRUE(attached.exited(0)) << attached.Describe();
    Line(running, 1);
    EXPECT_TRUE(DetachFrom(running).exited(0));
    running.CloseInput();
    EXPECT_TRUE(running.Wait().exited(0));
  }
  Running running(start({"under_filter", "kill", std::to_string(SYS_renameat), "--"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const RunResult attached = AttachTo(running);
  EXPECT_TRUE(attached.exited(3)) << attached.Describe();
  EXPECT_THAT(attached.err, HasSubstr("has a seccomp filter that may end it at a call of renameat"));
  Line(running, 1);
}

TEST_F(Attach, ExaminesTheFiltersOfEachThread) {
  Running running(CommandFor(Launch::kBare, {"filters_of_threads", "at_start", std::to_string(SYS_renameat)}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const RunResult attached = AttachTo(running);
  if (attached.err.find("only root") != std::string::npos || !IsPermitted(running))
    GTEST_SKIP() << "only root outside of containers may read filters";
  EXPECT_TRUE(attached.exited(3)) << attached.Describe();
  EXPECT_THAT(attached.err, HasSubstr("has a seccomp filter that may end it at a call of renameat"));
  Line(running, 1);
}

// The detach at the end of --for would be the first to call ppoll.
TEST_F(Attach, DetachesNoProgramThatGotAnotherFilterMeanwhile) {
  Running running(CommandFor(Launch::kBare, {"filters_of_threads", "later", std::to_string(SYS_ppoll)}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  Running tool({.argv = {"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>&1", Tool(), "attach", Pid(running), "-o", out(),
                         "--tables", tables(), "--for", "1h"}});
  ASSERT_TRUE(tool.WaitForOutput("profiles go to "));
  Line(running, 1);
  tool.Signal(SIGINT);
  const RunResult detached = tool.Wait();
  EXPECT_TRUE(detached.exited(3)) << detached.Describe();
  EXPECT_THAT(detached.out, HasSubstr("not detached: has installed a seccomp filter since"));
  Line(running, 2);
}

// Both threads have one filter, but the filter of the new thread kills.
TEST_F(Attach, DoesNotDetachWithANewThreadWhoseFilterWasNotExamined) {
  Running running(CommandFor(Launch::kBare, {"filters_of_threads", "replaced", std::to_string(SYS_ppoll)}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  Running tool({.argv = {"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>&1", Tool(), "attach", Pid(running), "-o", out(),
                         "--tables", tables(), "--for", "1h"}});
  if (!tool.WaitForOutput("profiles go to ")) {
    const RunResult attached = tool.Wait();
    if (attached.out.find("only root") != std::string::npos || !IsPermitted(running))
      GTEST_SKIP() << "only root outside of containers may read filters";
    FAIL() << attached.Describe();
  }
  Line(running, 1);
  tool.Signal(SIGINT);
  const RunResult detached = tool.Wait();
  EXPECT_TRUE(detached.exited(3)) << detached.Describe();
  EXPECT_THAT(detached.out, HasSubstr("has a seccomp filter that was not read"));
  EXPECT_THAT(detached.out, HasSubstr("Run holdfast detach " + Pid(running) + " as root"));
  Line(running, 2);
}

// The new program is another one: it has no library.
TEST_F(Attach, SaysAtTheEndThatAnotherProgramWasExecuted) {
  Command command = CommandFor(Launch::kBare, {"waits_for_input"});
  command.argv = {"/bin/sh", "-c", "echo ready; read line; exec \"$0\"", command.argv[0]};
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  Running tool({.argv = {"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>&1", Tool(), "attach", Pid(running), "-o", out(),
                         "--tables", tables(), "--for", "1h"}});
  ASSERT_TRUE(tool.WaitForOutput("profiles go to "));
  running.Write("x\n");
  ASSERT_TRUE(running.WaitForOutput("ready\nready"));
  tool.Signal(SIGINT);
  const RunResult ended = tool.Wait();
  EXPECT_TRUE(ended.exited(3)) << ended.Describe();
  EXPECT_THAT(ended.out,
              HasSubstr("has executed another program, which is not recorded: holdfast attach " + Pid(running)));
}

TEST_F(Attach, SaysThatTheExporterHasEnded) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  ASSERT_TRUE(AttachTo(running, {"--exact"}).exited(0));
  Line(running, 1);
  for (const pid_t exporter : Exporters()) kill(exporter, SIGKILL);
  ASSERT_TRUE(Eventually([&] { return Exporters().empty(); }));
  const RunResult detached = RunTool({"detach", Pid(running), "--tables", tables(), "--quiet"});
  EXPECT_TRUE(detached.exited(3)) << detached.Describe();
  EXPECT_THAT(detached.err,
              HasSubstr("the last profiles are not written, because their exporter has ended: holdfast dump " +
                        Pid(running) + " writes them."));
  const RunResult dumped = RunTool({"dump", Pid(running), "--tables", tables()});
  EXPECT_TRUE(dumped.exited(0)) << dumped.Describe();
  Line(running, 2);
}

constexpr uid_t kNobody = 65534;

// The kernel lets only root trace a process that was root: nginx's workers, mariadbd --user.
TEST_F(Attach, OfAProgramThatGaveUpRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  chmod(folder().c_str(), 0755);
  chmod(tables().c_str(), 01777);
  mkdir(out().c_str(), 0700);
  ASSERT_EQ(chown(out().c_str(), kNobody, kNobody), 0);
  Running running(CommandFor(Launch::kBare, {"gives_up_root"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const RunResult attached = AttachTo(running);
  if (attached.err.find("Permission denied") != std::string::npos) GTEST_SKIP() << "nobody cannot read the library";
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  const RunResult detached = DetachFrom(running);
  EXPECT_TRUE(detached.exited(0)) << detached.Describe();
  running.Write("x");
  EXPECT_TRUE(running.Wait().exited(0));
}

// In a container, an ancestor that cannot be examined may take orphans. One of root's is known by its name.
TEST_F(Attach, OfAProgramThatGaveUpRootBelowACommandOfRoots) {
  if (!IsRoot() || !CanMakeNamespaces()) GTEST_SKIP() << "needs root and namespaces";
  chmod(folder().c_str(), 0755);
  chmod(tables().c_str(), 01777);
  mkdir(out().c_str(), 0700);
  ASSERT_EQ(chown(out().c_str(), kNobody, kNobody), 0);
  const std::string script =
      "sleep 20 | \"$0\" & while ! p=$(pidof gives_up_root); do sleep 0.05; done; sleep 0.1; flock \"$4\" \"$1\" attach $p -o \"$2\" "
      "--tables \"$3\"; s=$?; kill $p; exit $s";
  const RunResult attached =
      Execute({.argv = {"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script,
                        ProgramPath("gives_up_root"), Tool(), out(), tables(), folder() + "/lock"}});
  if (attached.err.find("Permission denied") != std::string::npos) GTEST_SKIP() << "nobody cannot read the library";
  EXPECT_TRUE(attached.exited(0)) << attached.Describe();
}

TEST_F(Attach, AgainRedirectsLibrariesThatWereLoadedSince) {
  Running running(CommandFor(Launch::kBare, {"replaced_file"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  ASSERT_TRUE(AttachTo(running, {"--heap-interval", "1"}).exited(0));
  const auto send = [&](const std::string& line, int number) {
    running.Write(line + "\n");
    ASSERT_TRUE(running.WaitForOutput("done " + std::to_string(number) + "\n"));
  };
  send("k " + ProgramPath("replaced_plugin.so"), 1);
  send("p", 2);  // 100 blocks that are not seen
  const RunResult again = AttachTo(running);
  EXPECT_TRUE(again.exited(0)) << again.Describe();
  EXPECT_THAT(again.err, HasSubstr("is attached already. "));
  send("p", 3);
  EXPECT_TRUE(DetachFrom(running).exited(0));
  send("p", 4);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  ASSERT_TRUE(Settled());
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_EQ(NewestHeap()[0].SumAny("on_event").at("alloc_objects"), 100);
}

// A worker that was forked while its parent was detached. The library is there, and no table.
// The kernel then shows neither memory nor files in the folder of the process, but in those of its threads.
TEST_F(Attach, WorksThoughTheMainThreadHasEnded) {
  Running running(CommandFor(Launch::kBare, {"attach_moments", "ended"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  ASSERT_TRUE(
      Eventually([&] { return ReadFile("/proc/" + Pid(running) + "/status").find("State:\tZ") != std::string::npos; }));
  const RunResult checked = RunTool({"doctor", Pid(running), "--attach"});
  if (checked.out.find("the kernel does not permit it") != std::string::npos)
    GTEST_SKIP() << "the system forbids to trace processes";
  EXPECT_TRUE(checked.exited(0)) << checked.Describe();
  for (int i = 1; i <= 2; ++i) {
    const RunResult attached = AttachTo(running, {"--exact"});
    ASSERT_TRUE(attached.exited(0)) << attached.Describe();
    Line(running, 2 * i - 1);
    const RunResult top = RunTool({"top", Pid(running)});
    EXPECT_THAT(top.out, HasSubstr("for_each_line")) << top.Describe();
    const RunResult detached = DetachFrom(running);
    EXPECT_TRUE(detached.exited(0)) << detached.Describe();
    Line(running, 2 * i);
  }
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  ASSERT_TRUE(Settled());
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_EQ(NewestHeap()[0].SumLeaf("for_each_line").at("alloc_objects"), 200);
}

// A child that is forked after the detach is not excluded.
TEST_F(Attach, OfAChildThatWasExcluded) {
  for (const bool is_detached : {false, true}) {
    SCOPED_TRACE(is_detached);
    Running running(CommandFor(Launch::kBare, {"attach_moments"}));
    ASSERT_TRUE(running.WaitForOutput("ready"));
    if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
    const RunResult parent = RunTool({"attach", Pid(running), "-o", folder() + "/parents" + Pid(running), "--tables",
                                      tables(), "--exact", "--children", "no"});
    ASSERT_TRUE(parent.exited(0)) << parent.Describe();
    if (is_detached) {
      ASSERT_TRUE(DetachFrom(running).exited(0));
    }
    running.Write("child\n");
    ASSERT_TRUE(running.WaitForOutput("done 1\n"));
    const std::string child = ChildOf(running);
    Line(running, 2);
    const auto attach = [&] { return RunTool({"attach", child, "-o", out(), "--tables", tables(), "--exact"}); };
    const RunResult attached = attach();
    if (is_detached) {
      EXPECT_TRUE(attached.exited(0)) << attached.Describe();
    } else {
      EXPECT_TRUE(attached.exited(3)) << attached.Describe();
      EXPECT_THAT(attached.err, HasSubstr("records nothing until it ends: because of --children no"));
    }
    Line(running, 3);
    EXPECT_TRUE(RunTool({"detach", child, "--tables", tables()}).exited(is_detached ? 0 : 3));
    EXPECT_TRUE(is_detached || attach().exited(3));
    running.CloseInput();
    EXPECT_TRUE(running.Wait().exited(0));
  }
  ASSERT_TRUE(Settled());
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_EQ(NewestHeap()[0].SumLeaf("for_each_line").at("alloc_objects"), 100);
}

// The cause arises between the dry run and the call, and is gone at the second attach.
TEST_F(Attach, WorksAfterOneThatFoundNoPlaceForItsTable) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const auto limit_files = [&](rlim_t most) {
    const rlimit limit = {most, RLIM_INFINITY};
    EXPECT_EQ(prlimit(running.pid(), RLIMIT_FSIZE, &limit, nullptr), 0);
    return false;
  };
  const std::string messages = folder() + "/messages";
  ASSERT_TRUE(KilledAtStep({Tool(), "attach", Pid(running), "-o", out(), "--tables", tables(), "--exact"}, 1, false, 0,
                           messages, [&](pid_t, pid_t) { return limit_files(4096); }));
  EXPECT_THAT(ReadFile(messages), HasSubstr("not attached: no table could be created"));
  const RunResult checked = RunTool({"doctor", Pid(running), "--attach"});
  EXPECT_TRUE(checked.exited(1)) << checked.Describe();
  EXPECT_THAT(checked.out, HasSubstr("may not make a file as large as its table"));
  limit_files(RLIM_INFINITY);
  const RunResult attached = AttachTo(running, {"--heap-interval", "1"});
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  Line(running, 1);
  const RunResult detached = DetachFrom(running);
  EXPECT_TRUE(detached.exited(0)) << detached.Describe();
  EndAndExpectRecordedLines(running, 1);
}

TEST_F(Attach, OfAChildOfADetachedProgram) {
  Running running(CommandFor(Launch::kBare, {"attach_moments"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  ASSERT_TRUE(
      RunTool({"attach", Pid(running), "-o", folder() + "/parents", "--tables", tables(), "--exact"}).exited(0));
  Line(running, 1);
  ASSERT_TRUE(DetachFrom(running).exited(0));
  running.Write("child\n");
  ASSERT_TRUE(running.WaitForOutput("done 2\n"));
  const std::string child = ChildOf(running);
  rlimit before{};
  ASSERT_EQ(prlimit(atoi(child.c_str()), RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit no_more = {3, before.rlim_max};
  prlimit(atoi(child.c_str()), RLIMIT_NOFILE, &no_more, nullptr);
  const RunResult refused = RunTool({"attach", child, "-o", out(), "--tables", tables()});
  EXPECT_TRUE(refused.exited(3)) << refused.Describe();
  EXPECT_THAT(refused.err, HasSubstr("may open no more files (RLIMIT_NOFILE"));
  prlimit(atoi(child.c_str()), RLIMIT_NOFILE, &before, nullptr);
  const RunResult attached = RunTool({"attach", child, "-o", out(), "--tables", tables(), "--exact"});
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  EXPECT_THAT(attached.err, HasSubstr("its library was loaded by an earlier attach"));
  EXPECT_THAT(RunTool({"ls", "--tables", tables()}).out, HasSubstr(child + " "));
  Line(running, 3);
  EXPECT_TRUE(RunTool({"detach", child, "--tables", tables()}).exited(0));
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  ASSERT_TRUE(Settled());
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_EQ(NewestHeap()[0].SumLeaf("for_each_line").at("alloc_objects"), 100);
}

// Where /proc/PID/maps has the file first.
std::string StartOf(const Running& running, const std::string& file) {
  std::istringstream maps(ReadFile("/proc/" + std::to_string(running.pid()) + "/maps"));
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(file)) return line.substr(0, line.find('-'));
  }
  return "";
}

// The second library is at the same place, and was loaded while nobody saw it.
TEST_F(Attach, ASecondTimeAfterALibraryWasReplaced) {
  const std::string plugin = folder() + "/plugin.so";
  Running running(CommandFor(Launch::kBare, {"replaced_file"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  int lines = 0;
  const auto send = [&](const std::string& line) {
    running.Write(line + "\n");
    ASSERT_TRUE(running.WaitForOutput("done " + std::to_string(++lines) + "\n"));
  };
  std::string place;
  for (const char* which : {"first", "second"}) {
    std::filesystem::copy_file(ProgramPath(std::string("replaced_plugin_") + which + ".so"), plugin + ".new");
    std::filesystem::rename(plugin + ".new", plugin);
    send("k " + plugin);
    const std::string here = StartOf(running, plugin);
    EXPECT_NE(here, "");
    EXPECT_EQ(std::exchange(place, here), which == std::string("first") ? "" : here);
    const RunResult attached = AttachTo(running, {"--exact"});
    ASSERT_TRUE(attached.exited(0)) << attached.Describe();
    send("p");
    ASSERT_TRUE(DetachFrom(running).exited(0));
    send("c");
  }
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  ASSERT_TRUE(Settled());
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_EQ(NewestHeap()[0].SumAny("first_hook").at("alloc_objects"), 100);
  EXPECT_EQ(NewestHeap()[0].SumAny("second_hook").at("alloc_objects"), 100);
}

TEST_F(Attach, IsRefusedIfEntriesAreSealed) {
  Running running(CommandFor(Launch::kBare, {"seals_entries", "now"}));
  if (!running.WaitForOutput("ready")) GTEST_SKIP() << "the kernel has no mseal";
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const RunResult doctor = RunTool({"doctor", Pid(running), "--attach"});
  EXPECT_TRUE(doctor.exited(1)) << doctor.Describe();
  EXPECT_THAT(doctor.out, ContainsRegex("the entries of .* are in sealed memory \\(mseal\\)"));
  const std::string before = ReadFile("/proc/" + Pid(running) + "/maps");
  const RunResult attached = AttachTo(running);
  EXPECT_TRUE(attached.exited(3)) << attached.Describe();
  EXPECT_THAT(attached.err, HasSubstr("are in sealed memory (mseal)"));
  EXPECT_EQ(ReadFile("/proc/" + Pid(running) + "/maps"), before);
  Line(running, 1);
}

// What detach cannot restore, it names. The calls pass through the library, which records nothing.
TEST_F(Attach, EndsWithoutRestoringWhatWasSealedMeanwhile) {
  Running running(CommandFor(Launch::kBare, {"seals_entries"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const RunResult attached = AttachTo(running, {"--heap-interval", "1"});
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  running.Write("seal\n");
  if (!running.WaitForOutput("done 1\n")) GTEST_SKIP() << "the kernel has no mseal";
  const RunResult detached = DetachFrom(running);
  EXPECT_TRUE(detached.exited(3)) << detached.Describe();
  EXPECT_THAT(detached.err, ContainsRegex("[1-9][0-9]* of its entries still lead through the library"));
  Line(running, 2);
  EXPECT_THAT(AttachTo(running).err, HasSubstr("are in sealed memory (mseal)"));
  EndAndExpectRecordedLines(running, 1);
}

// The check from outside would take too long, so attach meets the sealed entries. It undoes what it has begun.
TEST_F(Attach, IsUndoneIfALargeProgramHasSealedEntries) {
  Running running(CommandFor(Launch::kBare, {"seals_entries", "large"}));
  if (!running.WaitForOutput("ready")) GTEST_SKIP() << "the kernel has no mseal";
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  EXPECT_THAT(RunTool({"doctor", Pid(running), "--attach"}).out, HasSubstr("is not asked of so large a process"));
  const std::string before = ReadOnlyBytes(running);
  const RunResult attached = AttachTo(running);
  EXPECT_TRUE(attached.exited(3)) << attached.Describe();
  EXPECT_THAT(attached.err,
              ContainsRegex("not attached: [1-9][0-9]* of its entries are in memory that cannot be made writable"));
  EXPECT_THAT(attached.err, HasSubstr("Every entry is as before. Start it with holdfast run."));
  EXPECT_EQ(ReadOnlyBytes(running), before);
  EXPECT_THAT(DetachFrom(running).err, HasSubstr("is not attached"));
  Line(running, 1);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

TEST_F(Attach, SaysIfItCouldNotBeUndone) {
  Running running(CommandFor(Launch::kBare, {"seals_entries", "large"}));
  if (!running.WaitForOutput("ready")) GTEST_SKIP() << "the kernel has no mseal";
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const std::string before = ReadOnlyBytes(running), messages = folder() + "/messages";
  // The second process that traces is the one that undoes it.
  ASSERT_TRUE(KilledAtStep({Tool(), "attach", Pid(running), "-o", out(), "--tables", tables()}, 1, true, 1, messages));
  EXPECT_THAT(ReadFile(messages), HasSubstr(" attached only in part: "));
  EXPECT_THAT(ReadFile(messages),
              HasSubstr("That was not undone: the process that traces it was killed. holdfast detach " + Pid(running) +
                        " undoes it."));
  const RunResult detached = DetachFrom(running);
  EXPECT_TRUE(detached.exited(0)) << detached.Describe();
  EXPECT_EQ(ReadOnlyBytes(running), before);
  Line(running, 1);
}

// A library came since, and nobody can change its entries. The rest stays attached.
TEST_F(Attach, AgainSaysWhichLibrariesItCannotRedirect) {
  Running running(CommandFor(Launch::kBare, {"seals_entries"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  ASSERT_TRUE(AttachTo(running, {"--heap-interval", "1"}).exited(0));
  running.Write("load " + ProgramPath("sealed_plugin.so") + "\n");
  if (!running.WaitForOutput("done 1\n")) GTEST_SKIP() << "the kernel has no mseal";
  const RunResult again = AttachTo(running);
  EXPECT_TRUE(again.exited(3)) << again.Describe();
  EXPECT_THAT(again.err, HasSubstr("is attached already"));
  EXPECT_THAT(
      again.err,
      ContainsRegex("[1-9][0-9]* entries of libraries that were loaded since are in sealed memory \\(mseal\\)"));
  EXPECT_THAT(RunTool({"doctor", Pid(running), "--attach"}).out,
              HasSubstr("the entries of sealed_plugin.so are in sealed memory"));
  EXPECT_TRUE(DetachFrom(running).exited(0));
  EndAndExpectRecordedLines(running, 1);
}

// Nothing would be recorded.
TEST_F(Attach, IsUndoneIfNoEntryCanBeRedirected) {
  Running running(CommandFor(Launch::kBare, {"names_no_objects"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const RunResult attached = AttachTo(running);
  EXPECT_TRUE(attached.exited(3)) << attached.Describe();
  EXPECT_THAT(attached.err, HasSubstr("not attached: none of its calls can be redirected"));
  EXPECT_THAT(attached.err, HasSubstr("a dl_iterate_phdr of its own"));
  EXPECT_THAT(attached.err, HasSubstr("Start it with holdfast run."));
  EXPECT_THAT(DetachFrom(running).err, HasSubstr("is not attached"));
  Line(running, 1);
  Running never(CommandFor(Launch::kBare, {"names_no_objects", "never"}));
  ASSERT_TRUE(never.WaitForOutput("ready"));
  const RunResult refused = AttachTo(never);
  EXPECT_TRUE(refused.exited(3)) << refused.Describe();
  EXPECT_THAT(refused.err, HasSubstr("its dl_iterate_phdr names no object"));
  Line(never, 1);
}

// A deploy replaces the file, and a clean-up removes it, while the program runs.
TEST_F(Attach, WorksThoughTheExecutableWasReplaced) {
  for (const char* program : {"checked_threads", "linked_threads_jemalloc"}) {
    const std::string real = ProgramPath(program), copy = folder() + "/server";
    if (access(real.c_str(), X_OK) != 0) continue;  // its allocator has no archive here
    for (const bool is_removed : {false, true}) {
      std::filesystem::copy_file(real, copy, std::filesystem::copy_options::overwrite_existing);
      Command command = CommandFor(Launch::kBare, {program});
      command.argv[0] = copy;
      Running running(command);
      ASSERT_TRUE(running.WaitForOutput("ready"));
      if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
      std::filesystem::rename(copy, copy + ".old");
      std::filesystem::remove(copy + ".old");
      if (!is_removed) std::filesystem::copy_file(ProgramPath("nothing"), copy);
      int lines = 0;
      ExpectWorks(running, &lines);
      const std::string before = ReadOnlyBytes(running);
      const RunResult attached = AttachTo(running);
      ASSERT_TRUE(attached.exited(0)) << attached.Describe();
      EXPECT_TRUE(ReadOnlyBytes(running) != before);
      ExpectWorks(running, &lines);
      const RunResult detached = DetachFrom(running);
      ASSERT_TRUE(detached.exited(0)) << detached.Describe();
      EXPECT_TRUE(ReadOnlyBytes(running) == before);
      ExpectWorks(running, &lines);
      running.CloseInput();
      EXPECT_TRUE(running.Wait().exited(0));
    }
  }
}

TEST_F(Attach, EndsThoughTheExecutableWasReplacedMeanwhile) {
  for (const char* program : {"checked_threads", "linked_threads_jemalloc"}) {
    const std::string real = ProgramPath(program), copy = folder() + "/server";
    if (access(real.c_str(), X_OK) != 0) continue;  // its allocator has no archive here
    for (const bool is_removed : {false, true}) {
      std::filesystem::copy_file(real, copy, std::filesystem::copy_options::overwrite_existing);
      Command command = CommandFor(Launch::kBare, {program});
      command.argv[0] = copy;
      Running running(command);
      ASSERT_TRUE(running.WaitForOutput("ready"));
      if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
      int lines = 0;
      ExpectWorks(running, &lines);
      const std::string before = ReadOnlyBytes(running);
      const RunResult attached = AttachTo(running);
      ASSERT_TRUE(attached.exited(0)) << attached.Describe();
      ExpectWorks(running, &lines);
      std::filesystem::rename(copy, copy + ".old");
      std::filesystem::remove(copy + ".old");
      if (!is_removed) std::filesystem::copy_file(ProgramPath("nothing"), copy);
      const RunResult detached = DetachFrom(running);
      ASSERT_TRUE(detached.exited(0)) << detached.Describe();
      EXPECT_TRUE(ReadOnlyBytes(running) == before);
      ExpectWorks(running, &lines);
      running.CloseInput();
      EXPECT_TRUE(running.Wait().exited(0));
    }
  }
}

// A detach needs none of what an attach does: no files of the process, and no user of its own.
TEST_F(Attach, EndsWhateverTheProgramBecameMeanwhile) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string library = std::filesystem::path(Library()).parent_path();
  for (const std::string& change :
       {std::string("root ") + folder(), std::string("user"), "hide " + library, std::string("namespace")}) {
    SCOPED_TRACE(change);
    if (change == "namespace" && !Execute({.argv = {"unshare", "--user", "true"}}).exited(0)) continue;
    Running running(CommandFor(Launch::kBare, {"changes_itself"}));
    ASSERT_TRUE(running.WaitForOutput("ready"));
    if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
    const std::string before = ReadOnlyBytes(running);
    const RunResult attached =
        RunTool({"attach", Pid(running), "-o", out() + "." + Pid(running), "--tables", tables(), "--exact"});
    ASSERT_TRUE(attached.exited(0)) << attached.Describe();
    Line(running, 1);
    running.Write(change + "\n");
    ASSERT_TRUE(running.WaitForOutput("done 2\n"));
    const RunResult detached = DetachFrom(running);
    EXPECT_TRUE(detached.exited(0)) << detached.Describe();
    EXPECT_TRUE(ReadOnlyBytes(running) == before);
    running.Write("line\n");
    EXPECT_TRUE(running.WaitForOutput("done 3\n"));
    running.CloseInput();
    EXPECT_TRUE(running.Wait().exited(0));
    const std::vector<Decoded> heap = Newest(out() + "." + Pid(running), "heap");
    ASSERT_EQ(heap.size(), 1u);
    EXPECT_EQ(heap[0].SumLeaf("for_each_line").at("alloc_objects"), 100);
  }
}

// The server that was started last week: its C library has been upgraded since.
TEST_F(Attach, WorksThoughLibcWasReplacedMeanwhile) {
  const std::string libraries = folder() + "/libraries";
  std::filesystem::create_directory(libraries);
  std::string libc;
  std::istringstream maps(ReadFile("/proc/self/maps"));
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with("/libc.so.6")) libc = line.substr(line.find('/'));
  }
  ASSERT_NE(libc, "");
  const std::string copy = libraries + "/libc.so.6";
  const auto replace = [&] {
    std::filesystem::copy_file(libc, copy + ".new");
    std::filesystem::rename(copy + ".new", copy);
  };
  replace();
  Command command = CommandFor(Launch::kBare, {"waits_for_input"});
  command.env["LD_LIBRARY_PATH"] = libraries;
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  ASSERT_THAT(ReadFile("/proc/" + Pid(running) + "/maps"), HasSubstr(copy));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const std::string before = ReadOnlyBytes(running);
  replace();
  const RunResult attached = AttachTo(running, {"--exact"});
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  Line(running, 1);
  replace();
  const RunResult detached = DetachFrom(running);
  ASSERT_TRUE(detached.exited(0)) << detached.Describe();
  EXPECT_TRUE(ReadOnlyBytes(running) == before);
  EndAndExpectRecordedLines(running, 1);
}

// Holdfast's files are replaced by equal ones while a program is attached.
// Also if it is of another build.
class AttachAndReplace : public Attach, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Builds, AttachAndReplace, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Other" : "Same"; });

TEST_P(AttachAndReplace, EndsThoughItsLibraryWasReplaced) {
  const std::string bin = folder() + "/installed/bin", library = folder() + "/installed/lib/holdfast/libholdfast.so";
  std::filesystem::create_directories(bin);
  std::filesystem::create_directories(std::filesystem::path(library).parent_path());
  std::filesystem::copy_file(Tool(), bin + "/holdfast");
  const auto install = [&](bool is_other = false) {
    std::string bytes = ReadFile(Library());
    const std::string id_of_build("\x14\0\0\0\x03\0\0\0GNU\0", 12);
    const size_t at = bytes.find(id_of_build);
    ASSERT_NE(at, std::string::npos);
    if (is_other) bytes[at + id_of_build.size()] ^= 1;
    WriteFile(library + ".new", bytes);
    std::filesystem::rename(library + ".new", library);
  };
  install();
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const std::string before = ReadOnlyBytes(running);
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), bin + "/holdfast");
    arguments.insert(arguments.end(), {"--tables", tables()});
    return Execute({.argv = arguments});
  };
  const RunResult attached = run({"attach", Pid(running), "-o", out(), "--exact"});
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  Line(running, 1);
  install(GetParam());
  if (GetParam()) {
    const RunResult again = run({"attach", Pid(running)});
    EXPECT_TRUE(again.exited(3)) << again.Describe();
    EXPECT_THAT(again.err, HasSubstr("has another build of the library loaded: " + library + ". holdfast detach "));
  }
  const RunResult detached = run({"detach", Pid(running)});
  EXPECT_TRUE(detached.exited(0)) << detached.Describe();
  EXPECT_TRUE(ReadOnlyBytes(running) == before);
  EndAndExpectRecordedLines(running, 1);
}

// A cleaner of /dev/shm, or RemoveIPC=yes at logout.
TEST_F(Attach, EndsThoughItsTableWasDeleted) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const std::string before = ReadOnlyBytes(running);
  ASSERT_TRUE(AttachTo(running, {"--exact"}).exited(0));
  Line(running, 1);
  ASSERT_EQ(Tables().size(), 1u);
  std::filesystem::remove(tables() + "/" + Tables()[0]);
  const RunResult detached = DetachFrom(running);
  EXPECT_TRUE(detached.exited(3)) << detached.Describe();
  EXPECT_THAT(detached.err, HasSubstr("what was recorded since its last profiles is lost. process " + Pid(running) +
                                      ": its table was deleted"));
  EXPECT_TRUE(ReadOnlyBytes(running) == before);
  Line(running, 2);
  const RunResult again = AttachTo(running);
  EXPECT_TRUE(again.exited(3)) << again.Describe();
  EXPECT_THAT(again.err, HasSubstr("its table was deleted"));
  EXPECT_TRUE(ReadOnlyBytes(running) == before);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

class AttachAtAMoment : public Attach, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (access(ProgramPath(GetParam()).c_str(), X_OK) != 0) GTEST_SKIP() << "its allocator has no archive here";
    Attach::SetUp();
  }
  void Send(Running& running, const std::string& line, int number) {
    running.Write(line + "\n");
    ASSERT_TRUE(running.WaitForOutput("done " + std::to_string(number) + "\n"));
  }
  static void ExpectEndsWithoutMistakes(Running& running) {
    running.CloseInput();
    const RunResult r = running.Wait();
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    EXPECT_THAT(r.out, Not(HasSubstr("mistakes")));
  }
  // Ends the program. Returns the instructions of one malloc and free, for each line "steps".
  static std::vector<long> StepsOf(Running& running) {
    running.CloseInput();
    const RunResult r = running.Wait();
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    std::vector<long> steps;
    for (size_t at = 0; (at = r.out.find("steps ", at)) != std::string::npos; ++at)
      steps.push_back(strtol(r.out.c_str() + at + strlen("steps "), nullptr, 10));
    return steps;
  }
};
INSTANTIATE_TEST_SUITE_P(Programs, AttachAtAMoment, ::testing::Values("attach_moments", "linked_moments_jemalloc"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(AttachAtAMoment, DetachWhileAThreadWaitsForALock) {
  Running running(CommandFor(Launch::kBare, {GetParam()}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  int line = 0;
  for (int i = 0; i < 3; ++i) {
    // It begins to wait while the program is attached, and gets the lock afterwards; then the other way round.
    EXPECT_TRUE(AttachTo(running).exited(0));
    Send(running, "hold", ++line);
    EXPECT_TRUE(DetachFrom(running).exited(0));
    Send(running, "release", ++line);
    Send(running, "hold", ++line);
    EXPECT_TRUE(AttachTo(running).exited(0));
    Send(running, "release", ++line);
    EXPECT_TRUE(DetachFrom(running).exited(0));
  }
  ExpectEndsWithoutMistakes(running);
}

TEST_P(AttachAtAMoment, WhileThreadsLoadAndUnloadALibrary) {
  Running running(CommandFor(Launch::kBare, {GetParam(), ProgramPath("replaced_plugin.so")}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  int line = 0;
  for (int i = 0; i < 5; ++i) {
    const RunResult attached = AttachTo(running);
    EXPECT_TRUE(attached.exited(0) || attached.err.find("was called by the dynamic linker") != std::string::npos)
        << attached.Describe();
    Send(running, "line", ++line);
    if (!attached.exited(0)) continue;
    EXPECT_TRUE(Eventually([&] { return DetachFrom(running).exited(0); }));
    Send(running, "line", ++line);
  }
  Send(running, "calm", ++line);
  EXPECT_TRUE(AttachTo(running).exited(0));
  Send(running, "line", ++line);
  EXPECT_TRUE(DetachFrom(running).exited(0));
  ExpectEndsWithoutMistakes(running);
}

// setgid holds a lock of libc until each thread has handled a signal, also the borrowed one. Its dlopen takes this lock.
TEST_P(AttachAtAMoment, WhileAThreadSetsIdsOfAllThreads) {
  Running running(CommandFor(Launch::kBare, {GetParam()}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  Send(running, "ids", 1);
  int line = 1;
  for (int i = 0; i < 3; ++i) {
    const RunResult attached = AttachTo(running);
    ASSERT_TRUE(attached.exited(0)) << attached.Describe();
    Send(running, "line", ++line);
    const RunResult detached = DetachFrom(running);
    ASSERT_TRUE(detached.exited(0)) << detached.Describe();
  }
  Send(running, "calm", ++line);
  ExpectEndsWithoutMistakes(running);
}

// The borrowed thread may be about to ask what the dynamic linker said last.
TEST_P(AttachAtAMoment, BetweenAFailureAndItsExplanation) {
  Running running(CommandFor(Launch::kBare, {GetParam()}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  for (int line = 0; line < 8;) {
    Send(running, "fail", ++line);
    EXPECT_TRUE(AttachTo(running).exited(0));
    Send(running, "explain", ++line);
    Send(running, "fail", ++line);
    EXPECT_TRUE(DetachFrom(running).exited(0));
    Send(running, "explain", ++line);
  }
  ExpectEndsWithoutMistakes(running);
}

// Forked children are profiled, executed programs are not.
TEST_P(AttachAtAMoment, ChildrenOfAnAttachedProgram) {
  Running running(CommandFor(Launch::kBare, {GetParam()}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const RunResult attached = AttachTo(running, {"--heap-interval", "1"});
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  Send(running, "fork", 1);
  Send(running, "exec", 2);
  EXPECT_TRUE(DetachFrom(running).exited(0));
  Send(running, "fork", 3);
  ExpectEndsWithoutMistakes(running);
  ASSERT_TRUE(Settled());
  std::vector<long> objects;
  for (const Decoded& heap : NewestHeap()) {
    const auto sums = heap.SumLeaf("for_each_line");
    objects.push_back(sums.contains("alloc_objects") ? sums.at("alloc_objects") : 0);
  }
  EXPECT_THAT(objects,
              ::testing::UnorderedElementsAre(200, 100));  // 100 in each of the two lines; the child that is forked
}

// An interval that is never reached: no pair of malloc and free is sampled.
TEST_P(AttachAtAMoment, CostsWhatRunCostsAndNothingAfterwards) {
  Running preloaded(CommandFor(Launch::kPreload, {GetParam()}, {{"heap-interval", "1GiB"}}));
  ASSERT_TRUE(preloaded.WaitForOutput("ready"));
  Send(preloaded, "steps", 1);
  const std::vector<long> run = StepsOf(preloaded);
  ASSERT_EQ(run.size(), 1u);
  Running running(CommandFor(Launch::kBare, {GetParam()}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  Send(running, "steps", 1);
  ASSERT_TRUE(AttachTo(running, {"--heap-interval", "1GiB"}).exited(0));
  Send(running, "steps", 2);
  ASSERT_TRUE(DetachFrom(running).exited(0));
  Send(running, "steps", 3);
  const std::vector<long> attached = StepsOf(running);
  ASSERT_EQ(attached.size(), 3u);
  std::printf("instructions of malloc and free: %ld bare, %ld with run, %ld attached, %ld detached\n", attached[0],
              run[0], attached[1], attached[2]);
  EXPECT_GT(attached[1], attached[0]);
  EXPECT_EQ(attached[1], run[0]);
  EXPECT_EQ(attached[2], attached[0]);
}

// 200 MB at one sample in 64 KiB: 3,052 samples, a standard error of 1.8 %. 6 of them: fails once in a billion runs.
TEST_F(Attach, MeasuresWhatIsAllocatedFromThenOn) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  constexpr int kBefore = 500, kAttached = 2000, kAfter = 500;
  int line = 0;
  const auto send = [&](int count) {
    std::string lines;
    for (int i = 0; i < count; ++i) lines += "line\n";
    running.Write(lines);
    line += count;
    ASSERT_TRUE(running.WaitForOutput("done " + std::to_string(line) + "\n"));
  };
  send(kBefore);
  ASSERT_TRUE(AttachTo(running, {"--heap-interval", "64KiB"}).exited(0));
  send(kAttached);
  ASSERT_TRUE(DetachFrom(running).exited(0));
  send(kAfter);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  ASSERT_TRUE(Settled());
  ASSERT_EQ(NewestHeap().size(), 1u);
  const auto sums = NewestHeap()[0].SumLeaf("for_each_line");
  const double bytes = kAttached * 100.0 * 1000;
  EXPECT_NEAR(static_cast<double>(sums.at("alloc_space")), bytes, 6 * 0.018 * bytes);
  EXPECT_NEAR(static_cast<double>(sums.at("inuse_space")), bytes / 10, 6 * 0.057 * bytes / 10);
}

// Its only thread is in a function that the C library calls, and cannot be borrowed.
TEST_F(Attach, EndsAtOnceIfAskedToWhileItLooksForAThread) {
  Running running(CommandFor(Launch::kBare, {"attach_moments", "inside"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  Running tool({.argv = {Tool(), "attach", Pid(running), "-o", out(), "--tables", tables(), "--for", "1h"}});
  const auto holds_signals = [&] {
    const std::string status = ReadFile("/proc/" + Pid(tool) + "/status");
    const size_t at = status.find("SigBlk:");
    // To start a process blocks all signals.
    constexpr unsigned long long kInt = 1 << (SIGINT - 1), kSegv = 1 << (SIGSEGV - 1);
    return at != std::string::npos && (strtoull(status.c_str() + at + 7, nullptr, 16) & (kInt | kSegv)) == kInt;
  };
  ASSERT_TRUE(Eventually(holds_signals));
  tool.Signal(SIGINT);
  const RunResult attached = tool.Wait();
  EXPECT_TRUE(attached.exited(3)) << attached.Describe();
  EXPECT_THAT(attached.err, HasSubstr("not attached: was asked to end before: none of its 1 threads"));
  Line(running, 1);
}

class AttachToOneThread : public Attach, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Calls, AttachToOneThread,
                         ::testing::Values("poll", "sleep", "sem_wait", "sem_timedwait", "lockf"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(AttachToOneThread, AgainWhileItWaitsInTheSameCall) {
  Running running(CommandFor(Launch::kBare, {"waits_alone", GetParam()}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  for (int i = 0; i < 2; ++i) {
    const RunResult attached = AttachTo(running);
    EXPECT_TRUE(attached.exited(0)) << attached.Describe();
    const RunResult detached = DetachFrom(running);
    EXPECT_TRUE(detached.exited(0)) << detached.Describe();
  }
  running.Signal(SIGTERM);
  EXPECT_TRUE(running.Wait().exited(0));
}

class AttachToMoves : public Attach, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Calls, AttachToMoves, ::testing::Values("write", "send", "receive"),
                         [](const auto& info) { return std::string(info.param); });

// Another thread can be borrowed.
TEST_P(AttachToMoves, CutsNoneShort) {
  Running running(CommandFor(Launch::kBare, {"large_moves", GetParam()}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  EXPECT_TRUE(AttachTo(running).exited(0));
  EXPECT_TRUE(DetachFrom(running).exited(0));
  running.Write("line\n");
  EXPECT_TRUE(running.WaitForOutput("moved 1048576\n"));
  EXPECT_TRUE(running.Wait().exited(0));
}

TEST_F(Attach, CountsAWriteThatItCutsShort) {
  Running running(CommandFor(Launch::kBare, {"large_moves", "alone"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const RunResult attached = AttachTo(running);
  EXPECT_TRUE(attached.exited(0)) << attached.Describe();
  EXPECT_THAT(attached.err, HasSubstr("1 system call returned EINTR or fewer bytes"));
  EXPECT_TRUE(running.WaitForOutput("moved 65536\n"));
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

// All threads are stopped at once.
TEST_F(Attach, CountsWhatItCutsShortInOtherThreads) {
  if (access(ProgramPath("linked_moves_jemalloc").c_str(), X_OK) != 0) GTEST_SKIP() << "no archive of jemalloc";
  Running running(CommandFor(Launch::kBare, {"linked_moves_jemalloc", "write"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const RunResult attached = AttachTo(running);
  EXPECT_TRUE(attached.exited(0)) << attached.Describe();
  EXPECT_THAT(attached.err, ContainsRegex("[2-9] system calls returned EINTR or fewer bytes"));
  running.Write("line\n");
  EXPECT_TRUE(running.Wait().exited(0));
}

TEST_F(Attach, DoesNotStopAThreadThatMayBeInsideItsAllocator) {
  if (access(ProgramPath("linked_moves_jemalloc").c_str(), X_OK) != 0) GTEST_SKIP() << "no archive of jemalloc";
  Running running(CommandFor(Launch::kBare, {"linked_moves_jemalloc", "loop"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  Running tool({.argv = {Tool(), "attach", Pid(running), "-o", out(), "--tables", tables()}});
  ASSERT_TRUE(running.WaitForOutput("20 writes"));
  tool.Signal(SIGINT);
  EXPECT_TRUE(tool.Wait().exited(3));
  running.CloseInput();
  EXPECT_TRUE(running.WaitForOutput("short writes: 0\n"));
  EXPECT_TRUE(running.Wait().exited(0));
}

// Also without --for, and a detach.
TEST_F(Attach, SaysWhatWasDoneWhenAskedToEnd) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const auto ask_to_end = [](pid_t tool, pid_t) {
    kill(tool, SIGTERM);
    return false;
  };
  const auto said_at = [&](std::vector<std::string> arguments, int step) {
    const std::string messages = folder() + "/messages";
    std::filesystem::remove(messages);
    EXPECT_TRUE(KilledAtStep(arguments, step, false, 0, messages, ask_to_end));
    return ReadFile(messages);
  };
  const std::vector<std::string> attach = {Tool(), "attach", Pid(running), "-o", out(), "--tables", tables()};
  // The call had begun: it is made, and undone.
  const std::string attached = said_at(attach, 8);
  EXPECT_THAT(attached, HasSubstr("attached, "));
  EXPECT_THAT(attached, HasSubstr("detached, "));
  Line(running, 1);
  ASSERT_TRUE(AttachTo(running).exited(0));
  EXPECT_THAT(said_at({Tool(), "detach", Pid(running), "--tables", tables()}, 8), HasSubstr("detached, "));
  Line(running, 2);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

// Once the code is changed, the library is called to the end.
TEST_F(Attach, EndsWhatItHasPatchedIfAskedToEnd) {
  if (access(ProgramPath("linked_waits_jemalloc").c_str(), X_OK) != 0) GTEST_SKIP() << "no archive of jemalloc";
  Running running(CommandFor(Launch::kBare, {"linked_waits_jemalloc"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const std::string before = ReadOnlyBytes(running);
  bool is_asked = false;
  const auto ask_when_patched = [&](pid_t tool, pid_t) {
    if (is_asked || ReadOnlyBytes(running) == before) return false;
    is_asked = true;
    kill(tool, SIGTERM);
    // It asks after each 0.1 s.
    for (int status = 0, polls = 0; polls < 8 && waitpid(tool, &status, __WALL) == tool && WIFSTOPPED(status);) {
      user_regs_struct registers{};
      ptrace(PTRACE_GETREGS, tool, nullptr, &registers);
      if (registers.orig_rax == SYS_poll) ++polls;
      ptrace(PTRACE_SYSCALL, tool, nullptr, 0);
    }
    return false;
  };
  const std::string messages = folder() + "/messages";
  KilledAtStep({Tool(), "attach", Pid(running), "-o", out(), "--tables", tables()}, 0, false, 0, messages,
               ask_when_patched);
  EXPECT_TRUE(is_asked);
  EXPECT_THAT(ReadFile(messages), HasSubstr("attached, "));
  EXPECT_THAT(ReadFile(messages), HasSubstr("detached, "));
  EXPECT_TRUE(ReadOnlyBytes(running) == before);
  Line(running, 1);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

// Linux before 4.7 answers so.
TEST_F(Attach, WhereWaitidKnowsNoThreadsOfOthers) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const std::string no_waitid = std::to_string(SYS_waitid) + "/9/0/" + std::to_string(EINVAL);
  for (const char* command : {"attach", "detach"}) {
    std::vector<std::string> arguments = {
        ProgramPath("under_filter"), "answer", no_waitid, "--", Tool(), command, Pid(running), "--tables", tables()};
    if (command == std::string("attach")) arguments.insert(arguments.end(), {"-o", out()});
    const RunResult r = Execute({.argv = arguments});
    EXPECT_TRUE(r.exited(0)) << r.Describe();
  }
  Line(running, 1);
}

TEST_F(Attach, IsRefusedIfAnEntryCrossesAPage) {
  Running running(CommandFor(Launch::kBare, {"entry_cases_crosses", "again"}));
  ASSERT_TRUE(running.WaitForOutput("worked"));
  for (const char* command : {"doctor", "attach"}) {
    Command tool;
    tool.argv = {Tool(), command, Pid(running)};
    if (command == std::string("doctor")) {
      tool.argv.emplace_back("--attach");
    } else {
      tool.argv.insert(tool.argv.end(), {"-o", out(), "--tables", tables()});
    }
    tool.env["HOLDFAST_ENTRIES"] = "yes";
    const RunResult r = Execute(tool);
    EXPECT_FALSE(r.exited(0)) << r.Describe();
    EXPECT_THAT(r.out + r.err, HasSubstr("free would have a jump across the end of a page"));
    EXPECT_THAT(r.out + r.err, HasSubstr("Start it with holdfast run"));
  }
}

TEST_F(Attach, WaitsForAHandlerThatReturnsIntoAnEntryFromAStackOfItsOwn) {
  Running running(CommandFor(Launch::kBare, {"entry_cases_plain", "within"}));
  ASSERT_TRUE(running.WaitForOutput("within"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const auto code = [&] {
    const int memory = open(("/proc/" + Pid(running) + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
    std::istringstream maps(ReadFile("/proc/" + Pid(running) + "/maps"));
    std::string bytes;
    for (std::string line; bytes.empty() && std::getline(maps, line);) {
      unsigned long start = 0, end = 0;
      if (line.find("r-xp") == std::string::npos || line.find("entry_cases") == std::string::npos ||
          sscanf(line.c_str(), "%lx-%lx", &start, &end) != 2)
        continue;
      bytes.resize(end - start);
      EXPECT_EQ(pread(memory, bytes.data(), bytes.size(), static_cast<off_t>(start)),
                static_cast<ssize_t>(end - start));
    }
    close(memory);
    return bytes;
  };
  const std::string before = code();
  Command command;
  command.argv = {Tool(), "attach", Pid(running), "-o", out(), "--tables", tables()};
  command.env["HOLDFAST_ENTRIES"] = "yes";
  Running tool(command);
  EXPECT_TRUE(
      Eventually([&] { return ReadFile("/proc/" + Pid(running) + "/maps").find("libholdfast") != std::string::npos; }));
  usleep(300'000);  // it would have changed the code
  EXPECT_EQ(code(), before);
  running.Write("x\n");
  EXPECT_TRUE(running.Wait().exited(0));
  tool.Wait();
}

// A copy of the dynamic linker's lock would be taken for good.
TEST_F(Attach, LeavesTheLinkersLockFreeInForkedChildren) {
  Running running(CommandFor(Launch::kBare, {"forks_and_loads"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  EXPECT_TRUE(AttachTo(running).exited(0));
  Line(running, 1);
  for (int i = 0; i < 8; ++i) {
    const RunResult detached = DetachFrom(running);
    EXPECT_TRUE(detached.exited(0)) << detached.Describe();
    const RunResult attached = AttachTo(running);
    EXPECT_TRUE(attached.exited(0)) << attached.Describe();
  }
  running.CloseInput();
  EXPECT_TRUE(running.WaitForOutput("0 hang"));
  EXPECT_TRUE(running.Wait().exited(0));
}

// Handlers of fork come with the library.
TEST_F(Attach, FreesTheLinkersLockInChildrenForkedWhileTheLibraryIsLoaded) {
  for (int i = 0; i < 5; ++i) {
    Running running(CommandFor(Launch::kBare, {"forks_and_loads"}));
    ASSERT_TRUE(running.WaitForOutput("ready"));
    if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
    Line(running, 1);
    const RunResult attached = AttachTo(running);
    EXPECT_TRUE(attached.exited(0)) << attached.Describe();
    running.CloseInput();
    EXPECT_TRUE(running.WaitForOutput("0 hang"));
    EXPECT_TRUE(running.Wait().exited(0));
  }
}

// A fork does not wait for a call for longer than 0.1 s.
TEST_F(Attach, FreesTheLinkersLockInAChildForkedDuringALongCall) {
  Running running(CommandFor(Launch::kBare, {"forks_in_search"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  for (int line = 1; line <= 2; ++line) {
    running.Write("fork\n");
    ASSERT_TRUE(running.WaitForOutput("done " + std::to_string(line) + "\n"));
    const RunResult attached = AttachTo(running);
    EXPECT_TRUE(attached.exited(0)) << attached.Describe();
    const RunResult detached = DetachFrom(running);
    EXPECT_TRUE(detached.exited(0)) << detached.Describe();
  }
  running.CloseInput();
  EXPECT_TRUE(running.WaitForOutput("2 forked, 0 hang"));
  EXPECT_TRUE(running.Wait().exited(0));
}

// glibc 2.35 holds a lock while it runs handlers of fork.
TEST_F(Attach, DoesNotWaitForAForkWithALockOfTheProgram) {
  Running running(CommandFor(Launch::kBare, {"fork_with_lock"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  Running tool({.argv = {Tool(), "attach", Pid(running), "-o", out(), "--tables", tables()}});
  EXPECT_TRUE(
      Eventually([&] { return ReadFile("/proc/" + Pid(running) + "/maps").find("libholdfast") != std::string::npos; }));
  Line(running, 1);
  running.Write("fork\n");
  EXPECT_TRUE(running.WaitForOutput("done 2\n"));
  const RunResult attached = tool.Wait();
  EXPECT_TRUE(attached.exited(0)) << attached.Describe();
  Line(running, 3);
  EXPECT_TRUE(DetachFrom(running).exited(0));
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

TEST_F(Attach, OfAProgramThatProtectsItsPointers) {
  for (const std::string when : {"before", "between"}) {
    for (const std::string rights : {"read", "none"}) {
      Running running(CommandFor(Launch::kBare, {"protected_pointers"}));
      ASSERT_TRUE(running.WaitForOutput("ready"));
      if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
      int lines = 0;
      const auto send = [&](const std::string& line) {
        running.Write(line + "\n");
        ASSERT_TRUE(running.WaitForOutput("done " + std::to_string(++lines) + "\n"))
            << when << " " << rights << " " << line;
      };
      if (when == "before") send(rights);
      const RunResult attached = AttachTo(running);
      EXPECT_TRUE(attached.exited(0)) << when << " " << rights << attached.Describe();
      if (when == "between") send(rights);
      if (rights == "read") send("use");
      const RunResult detached = DetachFrom(running);
      // What nobody may read cannot be restored: it still leads through the library.
      EXPECT_TRUE(detached.exited(rights == "none" ? 3 : 0)) << when << " " << rights << detached.Describe();
      EXPECT_EQ(detached.err.find("unreadable (PROT_NONE)") != std::string::npos, rights == "none")
          << detached.Describe();
      send("write");
      send("use");
      running.CloseInput();
      EXPECT_TRUE(running.Wait().exited(0)) << when << " " << rights;
    }
  }
}

// Linux before 5.14 does not know MADV_POPULATE.
TEST_F(Attach, OfAProgramThatProtectsItsPointersOnAnOldKernel) {
  Command command = CommandFor(Launch::kBare, {"protected_pointers"});
  std::vector<std::string> filter = {ProgramPath("under_filter"), "answer"};
  for (const int advice : {22, 23})
    filter.push_back(std::to_string(SYS_madvise) + "/2/" + std::to_string(advice) + "/" + std::to_string(EINVAL));
  filter.emplace_back("--");
  command.argv.insert(command.argv.begin(), filter.begin(), filter.end());
  for (const std::string rights : {"read", "none"}) {
    SCOPED_TRACE(rights);
    Running running(command);
    ASSERT_TRUE(running.WaitForOutput("ready"));
    if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
    running.Write(rights + "\n");
    ASSERT_TRUE(running.WaitForOutput("done 1\n"));
    const RunResult attached = AttachTo(running);
    if (attached.err.find("which only root may read") != std::string::npos ||
        attached.err.find("be read") != std::string::npos)
      GTEST_SKIP() << "only root outside of containers may read filters";
    EXPECT_TRUE(attached.exited(0)) << attached.Describe();
    EXPECT_TRUE(DetachFrom(running).exited(rights == "none" ? 3 : 0));
    running.Write("write\n");
    running.Write("use\n");
    EXPECT_TRUE(running.WaitForOutput("done 3\n"));
    running.CloseInput();
    EXPECT_TRUE(running.Wait().exited(0));
  }
}

TEST_F(Attach, RecordsNothingAfterTheDetachThroughPointersThatWereTaken) {
  Running running(CommandFor(Launch::kBare, {"protected_pointers"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  ASSERT_TRUE(AttachTo(running, {"--heap-interval", "1"}).exited(0));
  for (const char* line : {"take", "taken"}) running.Write(std::string(line) + "\n");
  ASSERT_TRUE(running.WaitForOutput("done 2\n"));
  ASSERT_TRUE(DetachFrom(running).exited(0));
  running.Write("taken\n");
  ASSERT_TRUE(running.WaitForOutput("done 3\n"));
  ASSERT_TRUE(AttachTo(running).exited(0));
  running.Write("taken\n");
  ASSERT_TRUE(running.WaitForOutput("done 4\n"));
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  ASSERT_TRUE(Settled());
  ASSERT_EQ(NewestHeap().size(), 1u);
  const auto sums = NewestHeap()[0].SumLeaf("taken_blocks");
  EXPECT_EQ(sums.at("alloc_space"), 2 * 1000 * 10000);
  EXPECT_EQ(sums.at("inuse_space"), 0);
}

TEST_F(Attach, DoesNotWaitForTheLinkerWithALockOfTheProgram) {
  for (const std::vector<std::string>& call :
       std::vector<std::vector<std::string>>{{"callback"}, {"constructor", ProgramPath("linker_calls_plugin.so")}}) {
    std::vector<std::string> command = {"linker_calls"};
    command.insert(command.end(), call.begin(), call.end());
    Running running(CommandFor(Launch::kBare, command));
    ASSERT_TRUE(running.WaitForOutput("ready"));
    if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
    for (int i = 0; i < 5; ++i) {
      const RunResult attached = AttachTo(running);
      ASSERT_TRUE(attached.exited(0)) << call[0] << attached.Describe();
      const RunResult detached = DetachFrom(running);
      ASSERT_TRUE(detached.exited(0)) << call[0] << detached.Describe();
    }
    running.CloseInput();
    EXPECT_TRUE(running.WaitForOutput("calls"));
    EXPECT_TRUE(running.Wait().exited(0));
  }
}

class AttachToFrozen : public Attach, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Versions, AttachToFrozen, ::testing::Values(1, 2));

TEST_P(AttachToFrozen, IsRefusedUntilItIsThawed) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const ControlGroup group(running.pid(), GetParam() == 2);
  if (!group.has_process()) GTEST_SKIP() << "no control group can be made here";
  const std::string frozen = "its control group /holdfast-test." + Pid(running) + " is frozen";
  group.Freeze(true);
  ASSERT_TRUE(Eventually([&] { return group.is_frozen(); }));
  const RunResult checked = RunTool({"doctor", Pid(running), "--attach"});
  EXPECT_TRUE(checked.exited(1)) << checked.Describe();
  EXPECT_THAT(checked.out, HasSubstr(frozen));
  const RunResult refused = AttachTo(running);
  EXPECT_TRUE(refused.exited(3)) << refused.Describe();
  EXPECT_THAT(refused.err, HasSubstr("not attached: " + frozen));
  group.Freeze(false);
  const RunResult attached = AttachTo(running, {"--exact"});
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  group.Freeze(true);
  ASSERT_TRUE(Eventually([&] { return group.is_frozen(); }));
  const RunResult kept = DetachFrom(running);
  EXPECT_TRUE(kept.exited(3)) << kept.Describe();
  EXPECT_THAT(kept.err, HasSubstr("not detached: " + frozen));
  group.Freeze(false);
  Line(running, 1);
  EXPECT_TRUE(DetachFrom(running).exited(0));
  EndAndExpectRecordedLines(running, 1);
}

// The tool gives up after some seconds; once thawed, the program runs as before, and can be attached.
TEST_P(AttachToFrozen, GivesUpIfItIsFrozenMeanwhile) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const ControlGroup group(running.pid(), GetParam() == 2);
  if (!group.has_process()) GTEST_SKIP() << "no control group can be made here";
  int lines = 0, times = 0;
  for (int step = 1; step < 60; step += 7) {
    SCOPED_TRACE(step);
    const std::string messages = folder() + "/messages" + std::to_string(step);
    const bool is_frozen = KilledAtStep({Tool(), "attach", Pid(running), "-o", out(), "--tables", tables()}, step,
                                        false, 0, messages, [&](pid_t, pid_t) { return group.Freeze(true), false; });
    group.Freeze(false);
    Line(running, ++lines);
    const std::string said = ReadFile(messages);
    EXPECT_TRUE(said.find("attached, ") != std::string::npos || said.find(" is frozen") != std::string::npos) << said;
    if (is_frozen && said.find(" is frozen") != std::string::npos) ++times;
    // Whatever it said, one of them is true now.
    const RunResult detached = DetachFrom(running);
    EXPECT_TRUE(detached.exited(0) || detached.err.find("is not attached") != std::string::npos) << detached.Describe();
    if (!is_frozen) break;
  }
  EXPECT_GE(times, 2);
  const RunResult attached = AttachTo(running);
  EXPECT_TRUE(attached.exited(0)) << attached.Describe();
  Line(running, ++lines);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

// The dynamic linker has loaded a second libc for the audit library. Its functions are not those of the program.
TEST_F(Attach, IsRefusedIfItsGroupHasNoMemoryLeft) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  struct sysinfo system {};
  if (sysinfo(&system) == 0 && system.freeswap > 0) GTEST_SKIP() << "there is swap space";
  for (const bool is_v2 : {true, false}) {
    const ControlGroup group(running.pid(), is_v2, "memory");
    constexpr long kMiB = 1 << 20;
    if (!group.has_process() || !group.LimitMemory(4 * kMiB)) continue;
    const RunResult attached = AttachTo(running);
    EXPECT_TRUE(attached.exited(3)) << attached.Describe();
    EXPECT_THAT(attached.err, HasSubstr("MiB of memory are left in its control group"));
    group.LimitMemory(30 * kMiB);
    const RunResult told = RunTool({"doctor", Pid(running), "--attach"});
    EXPECT_THAT(told.out, HasSubstr("the table grows to 64 MiB")) << told.Describe();
    group.LimitMemory(200 * kMiB);
    EXPECT_THAT(RunTool({"doctor", Pid(running), "--attach"}).out, Not(HasSubstr("in its control group")));
    Line(running, 1);
    return;
  }
  GTEST_SKIP() << "no control group for memory can be made";
}

TEST_F(Attach, OfAProgramWithASecondLibc) {
  Command command = CommandFor(Launch::kBare, {"waits_for_input"});
  command.env["LD_AUDIT"] = ProgramPath("audits_with_libc.so");
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const RunResult attached = AttachTo(running, {"--exact"});
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  Line(running, 1);
  EXPECT_TRUE(DetachFrom(running).exited(0));
  EndAndExpectRecordedLines(running, 1);
}

TEST_F(Attach, OfAProgramThatHasMovedItsCode) {
  Running running(CommandFor(Launch::kBare, {"attach_moments", "moved"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  const RunResult attached = AttachTo(running, {"--exact"});
  ASSERT_TRUE(attached.exited(0)) << attached.Describe();
  Line(running, 1);
  EXPECT_TRUE(DetachFrom(running).exited(0));
  Line(running, 2);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  ASSERT_TRUE(Settled());
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_EQ(NewestHeap()[0].SumLeaf("for_each_line").at("alloc_objects"), 100);
}

// As a garbage collector stops them. The borrowed thread answers its signal after the call.
TEST_F(Attach, OfAProgramThatStopsItsThreads) {
  Running running(CommandFor(Launch::kBare, {"stops_its_threads"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  int lines = 0;
  for (int i = 0; i < (Full() ? 50 : 10); ++i) {
    const RunResult attached = AttachTo(running);
    ASSERT_TRUE(attached.exited(0)) << attached.Describe();
    ExpectWorks(running, &lines);
    const RunResult detached = DetachFrom(running);
    ASSERT_TRUE(detached.exited(0)) << detached.Describe();
    ExpectWorks(running, &lines);
  }
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

TEST_F(Attach, OfNoProcess) {
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  waitpid(ended, nullptr, 0);
  for (const char* command : {"attach", "detach"}) {
    const RunResult r = RunTool({command, std::to_string(ended)});
    EXPECT_TRUE(r.exited(3)) << r.Describe();
    EXPECT_THAT(r.err, HasSubstr("process " + std::to_string(ended) + ": no such process"));
  }
}

// Made by hand, because few machines have a compiler for it. It writes "ready", then waits for signals.
TEST_F(Attach, OfA32BitProgramIsRefused) {
  static constexpr unsigned char kProgram[] = {
      0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 1, 0, 0, 0,  // ELFCLASS32, EM_386
      0x54, 0x80, 0x04, 0x08, 52, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 52, 0, 32, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,
      0, 0, 0, 0, 0x80, 0x04, 0x08, 0, 0x80, 0x04, 0x08, 0x80, 0, 0, 0, 0x80, 0, 0, 0, 5, 0, 0, 0, 0, 0x10, 0, 0,
      // write(1, "ready\n", 6); then pause() again and again
      0xb8, 4, 0, 0, 0, 0xbb, 1, 0, 0, 0, 0xb9, 0x73, 0x80, 0x04, 0x08, 0xba, 6, 0, 0, 0, 0xcd, 0x80, 0xb8, 29, 0, 0, 0,
      0xcd, 0x80, 0xeb, 0xf7, 'r', 'e', 'a', 'd', 'y', '\n', 0, 0, 0, 0, 0, 0, 0};
  const std::string path = folder() + "/32_bit";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
  ASSERT_EQ(write(file, kProgram, sizeof kProgram), static_cast<ssize_t>(sizeof kProgram));
  close(file);
  Running running({.argv = {path}});
  if (!running.WaitForOutput("ready", 10)) GTEST_SKIP() << "the kernel runs no 32-bit programs";
  const RunResult attached = AttachTo(running);
  EXPECT_TRUE(attached.exited(3)) << attached.Describe();
  EXPECT_THAT(attached.err, HasSubstr("is not a "));
}

TEST_F(Attach, SaysWhatToDoInsteadOfOptionsThatItLacks) {
  for (const auto& [option, instead] : {std::pair("--cpu=100", "holdfast run --cpu"),
                                        {"--cpu", "holdfast run --cpu"},
                                        {"--profiles=heap,exceptions", "records no exceptions"},
                                        {"--signal=USR1", "holdfast dump PID"},
                                        {"--push=http://localhost", "holdfast push URL"}}) {
    const RunResult refused = RunTool({"attach", std::to_string(getpid()), option});
    EXPECT_TRUE(refused.exited(2)) << refused.Describe();
    EXPECT_THAT(refused.err, HasSubstr(instead));
  }
}

// What Yama does, on any kernel: the tool sees this scope, and is refused. Root is only refused where the scope is 3.
TEST_F(Attach, NamesTheScopeOfYama) {
  if (geteuid() != 0 || !CanMakeNamespaces()) GTEST_SKIP() << "needs root and namespaces";
  constexpr uid_t kNobody = 65534;
  Command command = CommandFor(Launch::kBare, {"waits_for_input"});
  command.uid = kNobody;
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const std::string refuse = std::to_string(SYS_process_vm_readv) + "/9/0/" + std::to_string(EPERM);
  const auto attach = [&](const std::string& scope, const std::string& user) {
    return Execute(
        {.argv = {"unshare", "--mount", "/bin/sh", "-c",
                  "mount -t tmpfs tmpfs /proc/sys/kernel && mkdir /proc/sys/kernel/yama && "
                  "echo \"$0\" >/proc/sys/kernel/yama/ptrace_scope && exec \"$@\"",
                  scope, "setpriv", "--reuid=" + user, "--regid=" + user, "--clear-groups", ProgramPath("under_filter"),
                  "answer", refuse, "--", Tool(), "attach", Pid(running), "-o", out()}});
  };
  for (const char* scope : {"1", "2"}) {
    const RunResult refused = attach(scope, std::to_string(kNobody));
    EXPECT_TRUE(refused.exited(3)) << refused.Describe();
    EXPECT_THAT(refused.err,
                HasSubstr("kernel.yama.ptrace_scope is " + std::string(scope) + "; as root: holdfast attach " +
                          Pid(running) + ", or sysctl -w kernel.yama.ptrace_scope=0"));
  }
  for (const char* user : {"65534", "0"}) {
    const RunResult refused = attach("3", user);
    EXPECT_TRUE(refused.exited(3)) << refused.Describe();
    EXPECT_THAT(refused.err,
                HasSubstr("kernel.yama.ptrace_scope is 3, so that nobody may look into a process until the next boot"));
  }
  Line(running, 1);
}

// As a kernel with CET describes such a thread. Where it has none, the line is empty.
TEST_F(Attach, IsRefusedWhereAThreadHasAShadowStack) {
  if (geteuid() != 0 || !CanMakeNamespaces()) GTEST_SKIP() << "needs root and namespaces";
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const std::string real = "/proc/" + Pid(running) + "/status", status = folder() + "/status";
  const std::string before = ReadFile(real).substr(0, ReadFile(real).find("x86_Thread_features:"));
  for (const bool has : {true, false}) {
    WriteFile(status, before + (has ? "x86_Thread_features:\tshstk \nx86_Thread_features_locked:\tshstk wrss \n"
                                    : "x86_Thread_features:\t\nx86_Thread_features_locked:\tshstk wrss \n"));
    const RunResult doctor =
        Execute({.argv = {"unshare", "--mount", "/bin/sh", "-c", "mount --bind \"$0\" " + real + " && exec \"$@\"",
                          status, Tool(), "doctor", Pid(running), "--attach"}});
    EXPECT_EQ(doctor.out.find("uses a shadow stack, which allows no borrowed thread") != std::string::npos, has)
        << doctor.Describe();
  }
  Line(running, 1);
}

TEST_F(Attach, IsRefusedWithTheReason) {
  const auto expect_refused = [&](const Running& running, const std::string& why) {
    const RunResult attached = AttachTo(running);
    EXPECT_TRUE(attached.exited(3)) << attached.Describe();
    EXPECT_THAT(attached.err, HasSubstr(why));
    const RunResult checked = RunTool({"doctor", Pid(running), "--attach"});
    EXPECT_TRUE(checked.exited(1)) << checked.Describe();
    EXPECT_THAT(checked.out, HasSubstr(why));
  };
  {
    Running with_library(CommandFor(Launch::kPreload, {"waits_for_input"}));
    ASSERT_TRUE(with_library.WaitForOutput("ready"));
    // The first sample makes the table.
    expect_refused(with_library, "was started with the library. It has no table: nothing was sampled so far");
    Line(with_library, 1);
    const RunResult detached = DetachFrom(with_library);
    EXPECT_TRUE(detached.exited(3)) << detached.Describe();
    EXPECT_THAT(detached.err, HasSubstr("is profiled until it ends"));
  }
  {  // a program that shows a title overwrites its environment
    Command perl = CommandFor(Launch::kPreload, {"waits_for_input"}, {{"heap-interval", "1"}});
    perl.argv = {"perl", "-e", "$0 = 'x' x 5000; $| = 1; print qq(ready\n); <STDIN>"};
    Running titled(perl);
    ASSERT_TRUE(titled.WaitForOutput("ready"));
    expect_refused(titled, "was started with the library, and is profiled already");
  }
  {
    Running switched_off(CommandFor(Launch::kPreload, {"waits_for_input"}, {{"enable", "0"}}));
    ASSERT_TRUE(switched_off.WaitForOutput("ready"));
    expect_refused(switched_off, "was started with the library switched off (HOLDFAST_ENABLE=0)");
    EXPECT_THAT(DetachFrom(switched_off).err, HasSubstr("is not attached: was started with the library switched off"));
  }
  {
    Running excluded(CommandFor(Launch::kExec, {"/bin/sh", "-c", "\"$0\"; true", ProgramPath("waits_for_input")},
                                {{"children", "no"}}));
    ASSERT_TRUE(excluded.WaitForOutput("ready"));
    const RunResult attached = RunTool({"attach", ChildOf(excluded), "-o", out(), "--tables", tables()});
    EXPECT_TRUE(attached.exited(3)) << attached.Describe();
    EXPECT_THAT(attached.err, HasSubstr("is a child of a program that was started with --children no"));
  }
  {  // its environment is overwritten: only the library can tell
    Command perl = CommandFor(Launch::kPreload, {"waits_for_input"}, {{"enable", "0"}});
    perl.argv = {"perl", "-e", "$0 = 'x' x 5000; $| = 1; print qq(ready\n); <STDIN>"};
    Running titled(perl);
    ASSERT_TRUE(titled.WaitForOutput("ready"));
    const RunResult attached = AttachTo(titled);
    EXPECT_TRUE(attached.exited(3)) << attached.Describe();
    EXPECT_THAT(attached.err, HasSubstr("it was started with the library, which records nothing there"));
  }
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  if (!IsPermitted(running)) GTEST_SKIP() << "the system forbids to trace processes";
  {
    const Tracer tracer(running.pid());
    if (!tracer.attached()) GTEST_SKIP() << "the system forbids to trace processes";
    expect_refused(running, "is traced by process " + std::to_string(getpid()));
    tracer.Leave(0);
  }
  const RunResult checked = RunTool({"doctor", Pid(running), "--attach"});
  EXPECT_TRUE(checked.exited(0)) << checked.Describe();
  EXPECT_THAT(checked.out, Not(HasSubstr("NO")));
  Line(running, 1);
  Running is_static(CommandFor(Launch::kBare, {"waits_for_input_static"}));
  ASSERT_TRUE(is_static.WaitForOutput("ready"));
  expect_refused(is_static, "is linked statically");
  Command by_linker = CommandFor(Launch::kBare, {"waits_for_input"});
  by_linker.argv.insert(by_linker.argv.begin(), "/lib64/ld-linux-x86-64.so.2");
  Running argument(by_linker);
  ASSERT_TRUE(argument.WaitForOutput("ready"));
  expect_refused(argument, "was started as an argument of the dynamic linker");
  if (access(ProgramPath("waits_for_input_sanitized").c_str(), X_OK) == 0) {
    Running sanitized(CommandFor(Launch::kBare, {"waits_for_input_sanitized"}));
    ASSERT_TRUE(sanitized.WaitForOutput("ready"));
    expect_refused(sanitized, "has a sanitizer");
  }
  if (Execute({.argv = {"unshare", "--user", "--map-root-user", "true"}}).exited(0)) {
    Command command = CommandFor(Launch::kBare, {"waits_for_input"});
    command.argv.insert(command.argv.begin(), {"unshare", "--user", "--map-root-user"});
    Running apart(command);
    ASSERT_TRUE(apart.WaitForOutput("ready"));
    expect_refused(apart, "has another user namespace");
  }
}

}  // namespace
}  // namespace holdfast::testing
