// The exporter beside the program: its costs, its death, which folder it serves, and what remains without it.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "sampler/contract/spawn_exporter.h"
#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;

const Options kEvery = {{"heap-interval", "1"}};
Options With(Options options, const std::string& name, const std::string& value) {
  options[name] = value;
  return options;
}

class ExporterLife : public Profiled {
 protected:
  static int64_t StatusKib(pid_t pid, const std::string& field) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1));
    }
    return -1;
  }
  // The exporter of a program that runs as long as this object, in out().
  class Served {
   public:
    explicit Served(const ExporterLife& test, const Options& options = kEvery)
        : test_(test),
          program_(test.CommandFor(Launch::kPreload, {"waits_for_input"}, With(options, "snapshot-every", "0"))) {
      program_.WaitForOutput("ready");
      program_.Write("line\n");
      program_.WaitForOutput("done 1");
      Eventually([&] { return test_.Exporters().size() == 1; });
    }
    pid_t exporter() const { return test_.Exporters().at(0); }
    // Returns once the exporter has written a snapshot, and so knows the program's files.
    void AwaitSnapshot() const {
      EXPECT_TRUE(RunTool({"dump", std::to_string(program_.pid()), "--tables", test_.tables()}).exited(0));
    }
    // The exporter's calls of these kinds during `work`, one a line; nothing if it cannot be traced.
    template <typename Work>
    std::optional<std::string> CallsDuring(const std::string& kinds, Work work, bool of_children = false) const {
      const std::string trace = test_.folder() + "/trace";
      const pid_t traced = exporter();
      std::vector<std::string> argv = {
          "strace", "-y", "-o", trace, "-e", "trace=" + kinds, "-p", std::to_string(traced)};
      if (of_children) argv.emplace_back("-f");
      Running strace({.argv = argv});
      const auto is_traced = [&] { return StatusKib(traced, "TracerPid") == strace.pid(); };
      if (!Eventually([&] { return is_traced() || kill(strace.pid(), 0) != 0; }, 10) || !is_traced())
        return std::nullopt;
      work();
      strace.Signal(SIGINT);
      strace.Wait();
      return ReadFile(trace);
    }
    void End() {
      program_.CloseInput();
      program_.Wait();
    }

   private:
    const ExporterLife& test_;
    Running program_;
  };
  static size_t LinesWith(const std::string& text, const std::string& word, const std::string& without = "\n") {
    size_t count = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      count += line.find(word) != std::string::npos && line.find(without) == std::string::npos;
    }
    return count;
  }
  static size_t Descriptors(pid_t pid) {
    const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid) + "/fd");
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }
  static size_t Watches(pid_t pid) {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fdinfo"))
      count += LinesWith(ReadFile(entry.path()), "inotify wd");
    return count;
  }
  static int Badness(pid_t pid) { return std::stoi("0" + ReadFile("/proc/" + std::to_string(pid) + "/oom_score_adj")); }
};

TEST_F(ExporterLife, AtRestItHoldsLessThanFourMebibytesAndGoesBeforeTheProgram) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, With(kEvery, "snapshot-every", "0")));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 1"));
  ASSERT_TRUE(Eventually([&] { return Exporters().size() == 1; }));
  const pid_t exporter = Exporters().at(0);
  for (int turn = 0; turn < 2; ++turn) {  // before its first snapshot, and after it
    EXPECT_TRUE(Eventually([&] {
      return Badness(exporter) == Badness(running.pid()) + 300 && StatusKib(exporter, "VmRSS") < 4096;
    })) << Badness(exporter)
        << ", " << StatusKib(exporter, "VmRSS") << " KiB, of files " << StatusKib(exporter, "RssFile") << " KiB, turn "
        << turn << "\n"
        << ReadFile("/proc/" + std::to_string(exporter) + "/smaps");
    if (turn == 0) {
      EXPECT_TRUE(RunTool({"dump", std::to_string(running.pid()), "--tables", tables()}).exited(0));
      EXPECT_EQ(NewestHeap().size(), 1u);
    }
  }
  running.CloseInput();
  running.Wait();
  EXPECT_TRUE(Settled());
}

TEST_F(ExporterLife, StartsOfOtherProgramsDoNotWakeIt) {
  Served served(*this);
  served.AwaitSnapshot();
  const auto start_some = [&](const std::string& out) {
    for (int i = 0; i < 3; ++i) {
      Command other = CommandFor(Launch::kPreload, {"fork_profiles"}, kEvery);
      other.env["HOLDFAST_OUT"] = out;
      EXPECT_TRUE(Execute(other).exited(0));
    }
  };
  const auto alone = served.CallsDuring("read,openat", [&] { start_some(folder() + "/other"); });
  if (!alone.has_value()) GTEST_SKIP() << "needs strace, and the right to trace";
  // Root's exporter reads the names of all new tables, because some may be of programs that root started.
  if (!IsRoot()) EXPECT_EQ(LinesWith(*alone, "inotify>", "EAGAIN"), 0u) << *alone;
  EXPECT_EQ(LinesWith(*alone, "\"holdfast."), 0u) << *alone;
  const auto its_own = served.CallsDuring("read,openat", [&] { start_some(out()); });
  EXPECT_GE(LinesWith(*its_own, "inotify>", "EAGAIN"), 3u);
  EXPECT_GE(LinesWith(*its_own, "\"holdfast."), 3u);
  served.End();
  EXPECT_TRUE(Settled());
}

// A machine may have a hundred of such programs. It sleeps for at most a tenth of a second, lest it is taken for hung.
TEST_F(ExporterLife, AnIdleProgramWakesItTenTimesASecond) {
  Served served(*this, {{"heap-interval", "2"}});
  served.AwaitSnapshot();
  usleep(2'500'000);  // idle is who has been so for two seconds
  const std::string trace = folder() + "/trace";
  // Once a second it lists the folder twice.
  const auto calls = served.CallsDuring(
      "poll,openat", [&] { EXPECT_TRUE(Eventually([&] { return LinesWith(ReadFile(trace), "openat") >= 8; })); });
  if (!calls.has_value()) GTEST_SKIP() << "needs strace, and the right to trace";
  const size_t sleeps = LinesWith(*calls, "poll(", ", 0)"), seconds = LinesWith(*calls, "openat(") / 2;
  EXPECT_LE(sleeps, 12 * (seconds + 1)) << *calls;
  served.End();
  EXPECT_TRUE(Settled());
}

// A descendant of root's program that became another user is known as such only while it lives.
TEST_F(ExporterLife, RootsNoticesATableOfAnotherUserAtOnce) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  Served served(*this);
  served.AwaitSnapshot();
  const auto calls = served.CallsDuring("read,openat", [&] {
    const std::string table = tables() + "/holdfast.65534.1.1.1.table";
    std::ofstream(tables() + "/unnamed") << "none";
    std::filesystem::rename(tables() + "/unnamed", table);
    EXPECT_TRUE(Eventually([&] { return LinesWith(ReadFile(folder() + "/trace"), "inotify>", "EAGAIN") > 0; }));
    std::filesystem::remove(table);
  });
  if (!calls.has_value()) GTEST_SKIP() << "needs strace, and the right to trace";
  served.End();
}

TEST_F(ExporterLife, AnotherProcessOfAProgramCostsItNoLookAtTheSameFiles) {
  Served served(*this);
  served.AwaitSnapshot();
  const auto calls = served.CallsDuring("openat,readlink", [&] {
    for (int i = 0; i < 3; ++i) {
      Command same = CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery);
      same.input = "line\n";
      EXPECT_TRUE(Execute(same).exited(0));
    }
  });
  if (!calls.has_value()) GTEST_SKIP() << "needs strace, and the right to trace";
  EXPECT_GE(LinesWith(*calls, "\"holdfast."), 3u);
  EXPECT_EQ(LinesWith(*calls, "map_files"), 0u) << *calls;
  EXPECT_EQ(LinesWith(*calls, "\"/proc/self\""), 0u) << *calls;
  served.End();
  EXPECT_TRUE(Settled());
}

// Each is read by a child with that user's rights, which would look up all names of libc anew.
TEST_F(ExporterLife, ChildrenForAnotherUsersProcessesReadNoSystemFileAgain) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  Served served(*this);
  Command command = CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery);
  command.argv.insert(command.argv.begin(), {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"});
  command.input = "line\n";
  const auto run = [&] {
    EXPECT_TRUE(Execute(command).exited(0));
    EXPECT_TRUE(Eventually([&] { return Tables().size() == 1; }));  // root's
  };
  run();
  const auto calls = served.CallsDuring("pread64,setresuid", run, true);
  if (!calls.has_value()) GTEST_SKIP() << "needs strace, and the right to trace";
  EXPECT_GE(LinesWith(*calls, "setresuid(65534"), 1u) << *calls;
  EXPECT_GE(LinesWith(*calls, "pread64("), 1u) << *calls;
  EXPECT_EQ(LinesWith(*calls, "libc.so.6>"), 0u) << *calls;
  served.End();
  EXPECT_TRUE(Settled());
}

TEST_F(ExporterLife, ProcessesThatEndedLeaveNoDescriptorAndNoWatch) {
  Served served(*this);
  const pid_t exporter = served.exporter();
  const auto run_some = [&] {
    EXPECT_TRUE(Execute(CommandFor(Launch::kPreload, {"forked_siblings", "20", "6400", "fork"}, kEvery)).exited(0));
    EXPECT_TRUE(Eventually([&] { return Tables().size() == 1; }));
  };
  run_some();
  const size_t descriptors = Descriptors(exporter);
  ASSERT_TRUE(Eventually([&] { return Watches(exporter) <= 3; })) << "the lock, the table, the output folder";
  run_some();
  EXPECT_TRUE(Eventually([&] { return Descriptors(exporter) <= descriptors && Watches(exporter) <= 3; }))
      << Descriptors(exporter) << " descriptors, before " << descriptors << "; " << Watches(exporter) << " watches";
  served.End();
  EXPECT_TRUE(Settled());
}

// By its next samples, which look at the beat of the exporter in the table; the program may then be killed itself.
TEST_F(ExporterLife, AKilledExporterIsReplacedWhileTheProgramRuns) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, With(kEvery, "snapshot-every", "500ms")));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 1"));
  ASSERT_TRUE(Eventually([&] { return Exporters().size() == 1; }));
  const pid_t first = Exporters().at(0);
  kill(first, SIGKILL);
  int lines = 1;
  ASSERT_TRUE(Eventually([&] {
    running.Write("line\n");
    EXPECT_TRUE(running.WaitForOutput("done " + std::to_string(++lines)));
    const std::vector<pid_t> now = Exporters();
    return now.size() == 1 && now[0] != first;
  }));
  running.HoldInput();
  running.Signal(SIGKILL);
  running.Wait();
  ASSERT_TRUE(Settled());
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_EQ(NewestHeap()[0].SumLeaf("for_each_line").at("alloc_objects"), lines * 100);
}

TEST_F(ExporterLife, AUmaskOfAllBitsHidesNothingFromIt) {
  Command command = CommandFor(Launch::kPreload, {"threads_exact"}, kEvery);
  command.argv = {"/bin/sh", "-c", "umask 0777; exec \"$0\"", ProgramPath("threads_exact")};
  if (IsRoot()) {  // who may open anything
    constexpr int kNobody = 65534;
    std::filesystem::create_directories(out());
    ASSERT_EQ(chown(out().c_str(), kNobody, kNobody), 0);
    chmod(tables().c_str(), 0777);
    command.uid = kNobody;
  }
  const RunResult r = RunAndSettle(command);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(Tables(), ::testing::IsEmpty());
  ExpectKnownHeap(r.out);
}

TEST_F(ExporterLife, AnUnwritableFolderIsNamedWhenAskedAndItsTablesCanBeHadOrThrownAway) {
  Command command = CommandFor(Launch::kPreload, {"threads_exact"}, With(kEvery, "out", "/proc/holdfast"));
  const RunResult silent = Execute(command);
  EXPECT_EQ(silent.err, "");
  command.env["HOLDFAST_VERBOSE"] = "1";
  const RunResult r = Execute(command);
  EXPECT_THAT(
      r.err,
      HasSubstr("/proc/holdfast: cannot be made; what is recorded stays in memory. Set HOLDFAST_OUT, or afterwards: "
                "holdfast collect -o DIR /proc/holdfast\n"));
  ASSERT_EQ(Tables().size(), 2u);
  ASSERT_TRUE(Eventually([&] {  // once its exporter has given up
    const RunResult collected = RunTool({"collect", "-o", out(), "/proc/holdfast", "--tables", tables()});
    EXPECT_TRUE(collected.exited(0)) << collected.Describe();
    return Tables().empty();
  }));
  EXPECT_EQ(NewestHeap().size(), 2u);
  Execute(command);
  ASSERT_TRUE(Eventually([&] {
    const RunResult discarded = RunTool({"collect", "--discard", "/proc/holdfast", "--tables", tables()});
    EXPECT_TRUE(discarded.exited(0)) << discarded.Describe();
    return Tables().empty();
  }));
}

TEST_F(ExporterLife, AMisspeltVariableIsNamedOnceByRun) {
  Command command = CommandFor(Launch::kRun, {"starts_children"}, kEvery);
  command.env["HOLDFAST_HEAP_INTERVALL"] = "1";
  const RunResult r = RunAndSettle(command);
  const std::string said =
      "holdfast: HOLDFAST_HEAP_INTERVALL: no such variable, it is ignored. holdfast run --help names them.\n";
  const size_t at = r.err.find(said);
  ASSERT_NE(at, std::string::npos) << r.err;
  EXPECT_EQ(r.err.find("HOLDFAST_HEAP_INTERVALL", at + said.size()), std::string::npos) << r.err;
}

// What the program says of its start is by the clock of its own namespace.
TEST_F(ExporterLife, AProcessOfAnotherTimeNamespaceIsAlive) {
  if (!Execute({.argv = {"unshare", "--time", "--boottime", "100000", "--fork", "true"}}).exited(0)) {
    GTEST_SKIP() << "no time namespace can be made here (it needs root)";
  }
  Running running(CommandFor(
      Launch::kRun, {"/usr/bin/unshare", "--time", "--boottime", "100000", "--fork", ProgramPath("waits_for_input")},
      kEvery));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 1"));
  const RunResult ls = RunTool({"ls", "--tables", tables()});
  EXPECT_THAT(ls.out, ::testing::ContainsRegex("running .*waits_for_input")) << ls.out;
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 2"));
  running.CloseInput();
  running.Wait();
  ASSERT_TRUE(Settled());
  int64_t objects = 0;
  for (const Decoded& heap : NewestHeap()) {
    if (heap.Names("for_each_line")) objects += heap.SumLeaf("for_each_line").at("alloc_objects");
  }
  EXPECT_EQ(objects, 200) << AllSummaries();
}

// Two containers of one user share /dev/shm, and write to folders with the same path.
TEST_F(ExporterLife, EachContainerHasItsOwnFolderOfThatPath) {
  const std::string place = folder() + "/place", a = folder() + "/a", b = folder() + "/b";
  for (const std::string& each : {place, a, b}) std::filesystem::create_directories(each);
  const Command command = CommandFor(Launch::kPreload, {"waits_for_input"}, With(kEvery, "out", place));
  Running first(InContainer(command, a, place)), second(InContainer(command, b, place));
  if (!first.WaitForOutput("ready", 10)) GTEST_SKIP() << "no mount namespace can be made here (it needs root)";
  ASSERT_TRUE(second.WaitForOutput("ready"));
  first.Write("line\n");
  second.Write("line\nline\n");
  ASSERT_TRUE(first.WaitForOutput("done 1"));
  ASSERT_TRUE(second.WaitForOutput("done 2"));
  // From outside of both, the folder is the process's, and not the one that we have there.
  const RunResult dump = RunTool({"dump", std::to_string(second.pid()), "--tables", tables()});
  EXPECT_THAT(dump.out, ::testing::HasSubstr("/proc/" + std::to_string(second.pid()) + "/root" + place + "/waits_for"))
      << dump.Describe();
  first.Wait();
  second.Wait();
  EXPECT_THAT(ListProfiles(place), ::testing::IsEmpty());
  ASSERT_TRUE(Settled());
  ASSERT_EQ(Newest(a, "heap").size(), 1u);
  ASSERT_EQ(Newest(b, "heap").size(), 1u);
  EXPECT_EQ(Newest(a, "heap")[0].SumLeaf("for_each_line").at("alloc_objects"), 100);
  EXPECT_EQ(Newest(b, "heap")[0].SumLeaf("for_each_line").at("alloc_objects"), 200);
}

// What a limit of the folder counts: the blocks of all profiles.
constexpr uint64_t kBlock = 4096;
uint64_t BytesIn(const std::string& folder) {
  uint64_t bytes = 0;
  for (const ProfileName& name : ListProfiles(folder))
    bytes += (std::filesystem::file_size(name.path) + kBlock - 1) / kBlock * kBlock;
  return bytes;
}
constexpr uint64_t kLimit = 50'000;

TEST_F(ExporterLife, ALimitOfTheFolderHoldsOverManyProcesses) {
  Command command = CommandFor(Launch::kRun, {"/bin/sh"}, With(kEvery, "max-disk", std::to_string(kLimit)));
  command.argv.push_back("-c");
  command.argv.push_back("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do " +
                         ProgramPath("threads_exact") + " > /dev/null; done");
  const RunResult r = RunAndSettle(command);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_LE(BytesIn(out()), kLimit);
  EXPECT_GT(BytesIn(out()), kLimit / 2);
}

// Each run has an exporter of its own. What it finds of ended programs counts and goes; what it cannot know for certain stays.
TEST_F(ExporterLife, ALimitOfTheFolderHoldsOverItsExporters) {
  const Options limited = With(kEvery, "max-disk", std::to_string(kLimit));
  const auto run = [&] { ASSERT_TRUE(RunAs(Launch::kRun, {"threads_exact"}, limited).exited(0)); };
  run();
  const std::string first = NewestHeap().at(0).path;
  // Under a name of somebody's own; and something else under a name as ours.
  const std::string baseline = out() + "/baseline.7.0001.heap.pb.gz", notes = out() + "/notes.7.0001.heap.pb.gz";
  std::filesystem::copy_file(first, baseline);
  WriteFile(notes, std::string(100, 'x'));
  for (int i = 0; i < 12; ++i) run();
  EXPECT_LE(BytesIn(out()), kLimit);
  EXPECT_GT(BytesIn(out()), kLimit / 2);
  EXPECT_FALSE(std::filesystem::exists(first));
  EXPECT_TRUE(std::filesystem::exists(baseline));
  EXPECT_TRUE(std::filesystem::exists(notes));
}

TEST_F(ExporterLife, ALimitOfTheFolderHoldsForTheFilesThatProcessesShare) {
  std::string script;
  for (int i = 0; i < 20; ++i) {
    const std::string program = folder() + "/program" + std::to_string(i);
    std::filesystem::copy_file(ProgramPath("threads_exact"), program);
    script += program + " > /dev/null\n";
  }
  Command command = CommandFor(Launch::kRun, {"/bin/sh"},
                               With(With(kEvery, "max-disk", std::to_string(kLimit)), "merge-children", "yes"));
  command.argv.insert(command.argv.end(), {"-c", script});
  const RunResult r = RunAndSettle(command);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_LE(BytesIn(out()), kLimit);
  EXPECT_GT(BytesIn(out()), kLimit / 2);
}

TEST_F(ExporterLife, ShortProcessesOfABuildShareOneFileForEachProgram) {
  Command command = CommandFor(Launch::kRun, {"/bin/sh"}, With(kEvery, "merge-children", "yes"));
  command.argv.push_back("-c");
  command.argv.push_back("for i in 1 2 3 4 5; do " + ProgramPath("threads_exact") + "; done");
  const RunResult r = RunAndSettle(command);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  std::vector<ProfileName> of_program;
  for (const ProfileName& name : ListProfiles(out())) {
    if (name.program == "threads_exact" && name.kind == "heap") of_program.push_back(name);
  }
  ASSERT_EQ(of_program.size(), 1u) << AllSummaries();
  EXPECT_EQ(of_program[0].pid, 0);
  const Decoded sum = Decode(of_program[0].path);
  EXPECT_EQ(sum.error, "");
  EXPECT_EQ(sum.Comment("merged"), "sum of 5 processes");
  // Each of the five said the same.
  for (const Known& known : KnownHeap(r.out.substr(0, r.out.size() / 5))) {
    EXPECT_EQ(sum.SumLeaf(known.function).at("alloc_objects"), 5 * known.alloc_objects) << known.function;
    EXPECT_EQ(sum.SumLeaf(known.function).at("inuse_space"), 5 * known.inuse_space) << known.function;
  }
  EXPECT_THAT(RunTool({"top", of_program[0].path}).out, HasSubstr("threads_exact"));
}

TEST_F(ExporterLife, AThousandCommandsOfAShellLeaveOneFileForEachProgram) {
  constexpr int kCommands = 1000;
  Command command = CommandFor(Launch::kRun, {"/bin/sh"}, With(kEvery, "merge-children", "yes"));
  command.argv.insert(command.argv.end(), {"-c", "i=0; while [ $i -lt " + std::to_string(kCommands) + " ]; do " +
                                                     ProgramPath("endings") + " return >/dev/null; i=$((i+1)); done"});
  const RunResult r = RunAndSettle(command);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  std::map<std::string, int> files, peaks;  // by program; the shell that was started has its own beside
  for (const ProfileName& name : ListProfiles(out())) {
    if (name.kind == "peak") {  // one of the shell that was started, one of all others
      EXPECT_EQ(name.pid == 0, name.program == "endings");
      EXPECT_EQ(++peaks[name.program], 1);
      continue;
    }
    EXPECT_EQ(name.kind, "heap");
    ++files[name.program + (name.pid == 0 ? "" : " itself")];
    if (name.program == "endings") {
      EXPECT_EQ(Decode(name.path).Comment("merged"), "sum of 1000 processes");
    }
  }
  EXPECT_EQ(files.at("endings"), 1);
  EXPECT_LE(files.size(), 3u) << AllSummaries();
}

// A program waits for the answer: on a busy machine an exporter of low priority would keep it waiting.
TEST_F(ExporterLife, ItAnswersBeforeItLowersItsPriority) {
  if (!Execute({.argv = {"strace", "-V"}}).exited(0)) GTEST_SKIP() << "needs strace";
  std::filesystem::create_directories(out());
  Running ended({.argv = {"true"}});
  const std::string parent = std::to_string(ended.pid()), trace = folder() + "/trace";
  ended.Wait();
  const RunResult r = Execute(
      {.argv = {"strace", "-f", "-o", trace, "-e", "trace=setpriority,write", "sh", "-c", "nice -n 3 \"$@\"; exit $?",
                "sh", Tool(), "exporter", "--out", out(), "--tables", tables(), "--parent", parent, "--answer"}});
  if (r.exited(kNoticedStatus)) GTEST_SKIP() << "an ancestor takes orphans";
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const std::string calls = ReadFile(trace);
  // Relative to the program's: an exporter far below the program would look at threads only when they leave a CPU.
  const int own = std::min(getpriority(PRIO_PROCESS, 0) + 3 + 5, 19);
  const size_t answer = calls.find("\"\\0\", 1)"),
               lowered = calls.rfind("setpriority(PRIO_PROCESS, 0, " + std::to_string(own) + ")");
  ASSERT_NE(answer, std::string::npos) << calls;
  ASSERT_NE(lowered, std::string::npos) << calls;
  EXPECT_LT(answer, lowered) << calls;
}

}  // namespace
}  // namespace holdfast::testing
