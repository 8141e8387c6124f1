// Files of programs and libraries that are replaced, deleted or hidden while they are loaded: their functions keep
// their names.
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ReplacedFiles : public Profiled, public ::testing::WithParamInterface<Launch> {
 protected:
  void SetUp() override {
    Profiled::SetUp();
    serv_ = folder() + "/serv";
    std::filesystem::copy_file(ProgramPath("replaced_file"), serv_);
  }
  Command Server() const {
    return CommandFor(GetParam(), {serv_}, {{"heap-interval", "1"}, {"snapshot-every", "200ms"}, {"peak", "no"}});
  }
  // A line, and its answer.
  void Ask(Running* running, const std::string& line) {
    running->Write(line + "\n");
    ASSERT_TRUE(running->WaitForOutput("done " + std::to_string(++asked_))) << line;
  }
  // Waits for a snapshot with this number of blocks of this function.
  bool IsWritten(const char* function, int64_t blocks) const {
    return Eventually([&] {
      const std::vector<Decoded> heaps = NewestHeap();
      return heaps.size() == 1 && heaps[0].SumLeaf(function).at("alloc_objects") == blocks;
    });
  }
  // As a package manager does it: another file under the same name.
  void Replace() const {
    std::filesystem::copy_file("/bin/true", serv_ + ".new");
    std::filesystem::rename(serv_ + ".new", serv_);
  }
  // In every snapshot each function goes by its name.
  void ExpectNamed() const {
    size_t heaps = 0;
    for (const ProfileName& file : ListProfiles(out())) {
      if (file.kind != "heap") continue;
      ++heaps;
      const Decoded heap = Decode(file.path);
      EXPECT_EQ(heap.Comment("no names").value_or(""), "") << file.path;
      for (const DecodedSample& sample : heap.samples) {
        for (const DecodedFrame& frame : sample.frames) {
          ASSERT_FALSE(frame.functions.empty());
          EXPECT_THAT(frame.functions.back(), Not(HasSubstr("serv!0x"))) << file.path;
        }
      }
    }
    EXPECT_GT(heaps, 0u);
  }
  // The program's own, where `run` stays as its parent.
  pid_t Pid() const { return static_cast<pid_t>(ListProfiles(out()).at(0).pid); }
  int64_t Blocks(const char* function) const { return NewestHeap().at(0).SumLeaf(function).at("alloc_objects"); }

  std::string serv_;
  int asked_ = 0;
};

TEST_P(ReplacedFiles, AProgramThatWasReplacedIsNamed) {
  Running running(Server());
  ASSERT_TRUE(running.WaitForOutput("ready"));
  Ask(&running, "s");
  ASSERT_TRUE(IsWritten("cache_session", 100)) << AllSummaries();
  Replace();
  Ask(&running, "r");  // no stack passed through this function before
  ASSERT_TRUE(IsWritten("cache_report", 100)) << AllSummaries();
  Ask(&running, "s");
  running.Wait();
  ASSERT_TRUE(Settled());
  ExpectNamed();
  EXPECT_EQ(Blocks("cache_session"), 200);
  const RunResult diff = RunTool({"diff", out()});
  EXPECT_THAT(diff.out, HasSubstr("cache_report"));
  EXPECT_THAT(diff.out, Not(HasSubstr("serv!0x")));
}

// Nothing of it can be opened any more when its last profile is written.
TEST_P(ReplacedFiles, AProgramThatWasDeletedAndKilledIsNamed) {
  Running running(Server());
  ASSERT_TRUE(running.WaitForOutput("ready"));
  Ask(&running, "s");
  ASSERT_TRUE(IsWritten("cache_session", 100)) << AllSummaries();
  std::filesystem::remove(serv_);
  Ask(&running, "r");
  kill(Pid(), SIGKILL);
  running.Wait();
  ASSERT_TRUE(Settled());
  ExpectNamed();
  EXPECT_EQ(Blocks("cache_report"), 100);
}

// JNI, PyInstaller, netty: unpacked, loaded, deleted before the first stack passes through it.
TEST_P(ReplacedFiles, ALibraryThatWasDeletedOnceItWasLoadedIsNamed) {
  const std::string plugin = folder() + "/libunpacked.so";
  std::filesystem::copy_file(ProgramPath("replaced_plugin.so"), plugin);
  Running running(Server());
  ASSERT_TRUE(running.WaitForOutput("ready"));
  Ask(&running, "l " + plugin);
  Ask(&running, "p");
  ASSERT_TRUE(Eventually([&] {
    const std::vector<Decoded> heaps = NewestHeap();
    return heaps.size() == 1 && heaps[0].Names("on_event");
  })) << AllSummaries();
  running.Wait();
  ASSERT_TRUE(Settled());
  ExpectNamed();
  // The file that is mapped may be opened by privileged users alone; others have what is in memory.
  if (IsRoot()) {
    EXPECT_EQ(Blocks("hook_keeps_config"), 100);
  }
}

// A user may not open what is mapped, and reads the names of exported functions from the process's memory.
TEST_P(ReplacedFiles, ADeletedLibraryOfAUserIsNamedByWhatItExports) {
  if (!IsRoot()) GTEST_SKIP() << "needs root to become another user";
  chmod(folder().c_str(), 0777);
  chmod(tables().c_str(), 01777);
  const std::string plugin = folder() + "/libunpacked.so";
  std::filesystem::copy_file(ProgramPath("replaced_plugin.so"), plugin);
  Command command = Server();
  command.uid = 65534;
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  Ask(&running, "l " + plugin);
  Ask(&running, "p");
  running.Wait();
  ASSERT_TRUE(Settled());
  const std::vector<Decoded> heaps = NewestHeap();
  ASSERT_EQ(heaps.size(), 1u);
  EXPECT_TRUE(heaps[0].Names("on_event")) << AllSummaries();
}

// A plugin that is updated and loaded again: only its place in memory says which of the two files it is.
TEST_P(ReplacedFiles, ALibraryThatIsLoadedAgainFromAnotherFileHasTheNamesOfBoth) {
  const std::string plugin = folder() + "/plugin.so";
  Running running(Server());
  ASSERT_TRUE(running.WaitForOutput("ready"));
  for (const char* which : {"first", "second"}) {
    std::filesystem::copy_file(ProgramPath(std::string("replaced_plugin_") + which + ".so"), plugin + ".new");
    std::filesystem::rename(plugin + ".new", plugin);
    Ask(&running, "k " + plugin);
    Ask(&running, "p");
    ASSERT_TRUE(IsWritten((std::string(which) + "_hook").c_str(), 100)) << AllSummaries();
    Ask(&running, "c");
  }
  running.Wait();
  ASSERT_TRUE(Settled());
  EXPECT_EQ(Blocks("first_hook"), 100);
  EXPECT_EQ(Blocks("second_hook"), 100);
}

// The process itself has such a file open, so that every user can read it.
TEST_P(ReplacedFiles, ALibraryInAFileOfMemoryIsNamed) {
  chmod(folder().c_str(), 0777);
  chmod(tables().c_str(), 01777);
  Command command = Server();
  if (IsRoot()) command.uid = 65534;
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  Ask(&running, "m " + ProgramPath("replaced_plugin.so"));
  Ask(&running, "p");
  ASSERT_TRUE(IsWritten("hook_keeps_config", 100)) << AllSummaries();
  running.Wait();
}

// flatpak, snap, containers: the path leads to the file in the program's own mount namespace alone.
TEST_P(ReplacedFiles, AProgramInItsOwnMountNamespaceIsNamed) {
  if (!IsRoot()) GTEST_SKIP() << "needs root for a mount namespace";
  if (GetParam() != Launch::kRun) GTEST_SKIP() << "its exporter is in the same namespace";
  const std::string real = folder() + "/real", place = folder() + "/place";
  std::filesystem::create_directories(real);
  std::filesystem::create_directories(place);
  std::filesystem::rename(serv_, real + "/serv");
  Running running(CommandFor(Launch::kRun,
                             {"/usr/bin/unshare", "--mount", "/bin/sh", "-c",
                              "mount --bind " + real + " " + place + " && exec " + place + "/serv"},
                             {{"heap-interval", "1"}, {"peak", "no"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  Ask(&running, "s");
  running.Wait();
  ASSERT_TRUE(Settled());
  bool found = false;
  for (const Decoded& heap : NewestHeap()) found = found || heap.SumLeaf("cache_session").at("alloc_objects") == 100;
  EXPECT_TRUE(found) << AllSummaries();
}

// A PID names the profiles of that process, with a snapshot of now, wherever a file is expected.
TEST_P(ReplacedFiles, APidNamesTheProfilesOfItsProcess) {
  if (GetParam() != Launch::kPreload) GTEST_SKIP() << "the same for each way of launching";
  Running running(CommandFor(GetParam(), {serv_}, {{"heap-interval", "1"}, {"snapshot-every", "0"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  Ask(&running, "s");
  const std::string pid = std::to_string(running.pid());
  for (const char* command : {"top", "tree", "callers", "info"}) {
    const RunResult r = RunTool({command, pid});
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    EXPECT_THAT(r.out, HasSubstr(command == std::string("info") ? "kind: heap" : "cache_session")) << r.Describe();
  }
  EXPECT_TRUE(RunTool({"html", pid, "-o", folder() + "/page.html"}).exited(0));
  const RunResult leaks = RunTool({"leaks", pid});
  EXPECT_THAT(leaks.out + leaks.err, HasSubstr("snapshot")) << leaks.Describe();
  const RunResult locks = RunTool({"locks", pid});
  EXPECT_THAT(locks.out, HasSubstr("no thread waited for a lock")) << locks.Describe();
  EXPECT_THAT(RunTool({"top", "999999999"}).err, HasSubstr("process 999999999"));
  running.Wait();
}

INSTANTIATE_TEST_SUITE_P(Ways, ReplacedFiles, ::testing::Values(Launch::kPreload, Launch::kRun), LaunchName);

}  // namespace
}  // namespace holdfast::testing
