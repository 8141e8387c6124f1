// An exporter that cannot respond, because it is stopped or held by a debugger, keeps its lock. Nobody waits for it;
// recorded data is written once the exporter continues. A slow exporter is waited for.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <filesystem>
#include <memory>
#include <string>

#include "sampler/contract/exporter_service.h"
#include "tests/support/profiled.h"
#include "tests/support/tracer.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Options kEvery = {{"heap-interval", "1"}, {"snapshot-every", "0"}};

class StoppedExporter : public Profiled {
 protected:
  // With the exporter of all that follows.
  std::unique_ptr<Running> StartWaiter() {
    auto waiter = std::make_unique<Running>(CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery));
    EXPECT_TRUE(waiter->WaitForOutput("ready"));
    waiter->Write("line\n");
    EXPECT_TRUE(waiter->WaitForOutput("done 1"));
    EXPECT_TRUE(Eventually([&] { return Exporters().size() == 1; }));
    return waiter;
  }
  static char StateOf(pid_t pid) {
    const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
    const size_t name = stat.rfind(')');
    return name != std::string::npos && name + 2 < stat.size() ? stat[name + 2] : '?';
  }
  static void Stop(pid_t exporter) {
    kill(exporter, SIGSTOP);
    EXPECT_TRUE(Eventually([&] { return StateOf(exporter) == 'T'; }));
  }
};

// Each would wait for 2 s: 24 s.
TEST_F(StoppedExporter, ProgramsEndAtOnce) {
  const auto waiter = StartWaiter();
  const pid_t exporter = Exporters().at(0);
  Stop(exporter);
  Command programs = CommandFor(Launch::kPreload, {"threads_exact"}, kEvery);
  programs.argv = {"/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do \"$0\" >/dev/null; done; exit",
                   programs.argv[0]};
  programs.timeout_seconds = 20;
  const RunResult r = Execute(programs);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(Exporters().size(), 1u);
  kill(exporter, SIGCONT);
  waiter->CloseInput();
  EXPECT_TRUE(waiter->Wait().exited(0));
  ASSERT_TRUE(Settled());
  EXPECT_EQ(NewestHeap().size(), 14u) << "of these, of the shell, and of the one that waits";
}

// A server that forks a child for each request would reach its limit of children: ended ones that wait count.
TEST_F(StoppedExporter, ForkedChildrenWaitOnlyATenthOfASecondForASlowOne) {
  // Somebody holds the lock, and says nothing of itself: it may be slow.
  std::filesystem::create_directories(out());
  struct stat folder;
  ASSERT_EQ(stat(out().c_str(), &folder), 0);
  char path[kLongestLockPath];
  ExporterLockPath(tables().c_str(), out().c_str(), {folder.st_dev, folder.st_ino}, geteuid(), path, sizeof path);
  const int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  Command program = CommandFor(Launch::kPreload, {"forked_siblings", "10", "6400", "fork"}, kEvery);
  program.timeout_seconds = 12;  // each would wait for 2 s; the parent does
  const RunResult r = Execute(program);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  close(lock);
  EXPECT_TRUE(RunTool({"collect", out(), "--tables", tables()}).exited(0));
  EXPECT_EQ(NewestHeap().size(), 11u);
}

TEST_F(StoppedExporter, RunEndsAndSaysWhy) {
  const auto waiter = StartWaiter();
  const pid_t exporter = Exporters().at(0);
  Stop(exporter);
  Command run = CommandFor(Launch::kRun, {"threads_exact"}, kEvery);
  run.timeout_seconds = 30;  // it would wait for 60
  const RunResult r = Execute(run);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  const std::string why = "its exporter, process " + std::to_string(exporter) +
                          ", is stopped; resume it with kill -CONT " + std::to_string(exporter);
  EXPECT_THAT(r.err, HasSubstr("1 table is not written as profiles (" + why + "):\n"));
  EXPECT_THAT(RunTool({"collect", out(), "--tables", tables()}).err, HasSubstr(why));
  const std::string pid = std::to_string(waiter->pid());
  EXPECT_THAT(RunTool({"doctor", pid, "--tables", tables()}).out, HasSubstr("not written: " + why));
  const RunResult dump = RunTool({"dump", pid, "--tables", tables()});
  EXPECT_TRUE(dump.exited(3)) << dump.Describe();
  EXPECT_THAT(dump.err, HasSubstr(why));
  kill(exporter, SIGCONT);
  waiter->CloseInput();
  EXPECT_TRUE(waiter->Wait().exited(0));
  EXPECT_TRUE(Settled());
  ExpectKnownHeap(r.out);
}

#define NEEDS_TRACER(tracer) \
  if (!(tracer).attached()) GTEST_SKIP() << "the exporter cannot be traced here (kernel.yama.ptrace_scope)"

TEST_F(StoppedExporter, StoppingWhileItWritesDelaysNobodyAndTheFileIsComplete) {
  const auto waiter = StartWaiter();
  const pid_t exporter = Exporters().at(0);
  const Tracer tracer(exporter);
  NEEDS_TRACER(tracer);
  waiter->CloseInput();
  tracer.RunTo({SYS_renameat, SYS_renameat2}, [] { return false; });  // the file is written, and has no name yet
  EXPECT_EQ(StateOf(exporter), 't');
  EXPECT_THAT(NewestHeap(), IsEmpty());
  Command run = CommandFor(Launch::kRun, {"threads_exact"}, kEvery);
  run.timeout_seconds = 30;
  const RunResult r = Execute(run);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("is held by a debugger"));
  EXPECT_TRUE(waiter->Wait().exited(0));
  tracer.Leave(SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return StateOf(exporter) == 'T'; }));
  EXPECT_TRUE(Execute(run).exited(0));
  kill(exporter, SIGCONT);
  ASSERT_TRUE(Settled());
  EXPECT_EQ(NewestHeap().size(), 3u);
  ExpectAllWhole();
}

// Stopped at each of its system calls, the exporter works all the same.
TEST_F(StoppedExporter, OneThatIsTracedCallByCallIsWaitedFor) {
  const auto waiter = StartWaiter();
  const Tracer tracer(Exporters().at(0));
  NEEDS_TRACER(tracer);
  waiter->CloseInput();
  siginfo_t ended = {};
  tracer.RunTo({}, [&] {
    return waitid(P_PID, static_cast<id_t>(waiter->pid()), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == waiter->pid();
  });
  tracer.Leave(0);
  EXPECT_EQ(NewestHeap().size(), 1u) << "the file is there when the program ends";
  EXPECT_TRUE(waiter->Wait().exited(0));
  EXPECT_TRUE(Settled());
}

}  // namespace
}  // namespace holdfast::testing
