// `holdfast memory`: every resident byte of a running program belongs to exactly one line, the right one.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;

constexpr double kMiB = 1 << 20;

class Memory : public Profiled {
 protected:
  RunResult Ask(const Running& program, std::vector<std::string> options = {}) {
    std::vector<std::string> arguments = {"memory", "--tables", tables(), std::to_string(program.pid())};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return RunTool(arguments);
  }
  // A number of the answer with --json, or of an object in it.
  static double Number(const std::string& json, const std::string& key, const std::string& part = "") {
    const std::regex field("\"" + key + "\":" + (part.empty() ? "" : "\\{[^}]*\"" + part + "\":") + "(-?[0-9]+)");
    std::smatch found;
    EXPECT_TRUE(std::regex_search(json, found, field)) << key << " in " << json;
    return found.empty() ? -1 : std::stod(found[1]);
  }
  static double StatusOf(pid_t pid, const std::string& field) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with(field + ":")) return std::stod(line.substr(field.size() + 1)) * 1024;
    }
    return -1;
  }
  static double ResidentOf(pid_t pid) { return StatusOf(pid, "VmRSS"); }
  void KillAndSettle(Running* running) {
    running->Signal(SIGKILL);
    running->Wait();
    EXPECT_TRUE(Settled());
  }
};

TEST_F(Memory, EveryKindIsInItsLineAndTheLinesAddUp) {
  for (const std::string interval : {"1", "64KiB", "512KiB", "joined"}) {
    SCOPED_TRACE(interval);
    const bool joined = interval == "joined";
    Running program(CommandFor(
        Launch::kPreload,
        joined ? std::vector<std::string>{"memory_kinds", "joined"} : std::vector<std::string>{"memory_kinds"},
        {{"heap-interval", joined ? "1" : interval}, {"seed", "1"}, {"snapshot-every", "0"}}));
    ASSERT_TRUE(program.WaitForOutput("ready"));
    const RunResult answer = Ask(program, {"--json"});
    ASSERT_TRUE(answer.exited(0)) << answer.Describe();
    const std::string& json = answer.out;
    const double live_error = Number(json, "live_resident", "error"), resident = Number(json, "resident");
    if (interval == "1") {
      EXPECT_EQ(live_error, 0);
    }
    // 20 MiB of the blocks; of what is never touched a page at most, and what the program's start has allocated.
    EXPECT_NEAR(Number(json, "live_resident", "value"), 20 * kMiB, 2 * live_error + 0.2 * kMiB);
    EXPECT_NEAR(Number(json, "in_use", "value"), 44 * kMiB, 2 * Number(json, "in_use", "error") + 0.2 * kMiB);
    EXPECT_NEAR(Number(json, "rounding", "value"), 0.32 * kMiB, 2 * Number(json, "rounding", "error") + 0.05 * kMiB);
    // The freed half, and the head of each block.
    EXPECT_NEAR(Number(json, "beyond_live", "value"), 20.6 * kMiB, 2 * live_error + 0.5 * kMiB);
    // The kernel joins it with the mapping of the large block, or does not.
    EXPECT_EQ(Number(json, "mapped"), 16 * kMiB);
    EXPECT_LE(Number(json, "rest", "value"), 0.05 * resident);
    EXPECT_NEAR(Number(json, "stacks"), 1 * kMiB, 0.3 * kMiB);
    EXPECT_GT(Number(json, "own"), 0);
    EXPECT_THAT(json, HasSubstr("\"allocator\":\"glibc\""));
    EXPECT_THAT(json, HasSubstr("\"file\":\"memory_kinds\""));
    EXPECT_GT(Number(json, "files"), 8 * kMiB);
    double sum = Number(json, "rest", "value");
    for (const char* part : {"allocator_resident", "files", "shared", "stacks", "own", "mapped"})
      sum += Number(json, part);
    EXPECT_EQ(sum, resident);
    EXPECT_NEAR(resident, ResidentOf(program.pid()), 0.02 * resident);
    KillAndSettle(&program);
  }
}

TEST_F(Memory, IsOneScreen) {
  Running program(CommandFor(Launch::kPreload, {"memory_kinds"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}}));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  const RunResult answer = Ask(program);
  ASSERT_TRUE(answer.exited(0)) << answer.Describe();
  EXPECT_THAT(answer.out, ::testing::ContainsRegex("^memory_kinds \\(pid [0-9]+\\): [0-9.]+MiB resident\n"));
  EXPECT_THAT(answer.out, ::testing::ContainsRegex("\n +20\\.[0-9]+MiB +[0-9.]+% +live blocks"));
  EXPECT_THAT(answer.out, ::testing::ContainsRegex("allocator beyond +glibc: "));
  EXPECT_THAT(answer.out, ::testing::ContainsRegex(
                              "in use by the heap profile: 44[.0-9]*MiB; 2[34][.0-9]*MiB of it never touched\n"));
  KillAndSettle(&program);
}

TEST_F(Memory, FilesHoldItWhenTheProcessIsGone) {
  Running program(CommandFor(Launch::kRun, {"moments"}, {{"heap-interval", "16KiB"}, {"snapshot-every", "1s"}}));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  const auto accounts = [this] {
    std::set<std::string> all;
    for (const ProfileName& name : ListProfiles(out())) {
      if (name.kind == "heap" && Decode(name.path).Comment("memory").has_value()) all.insert(name.path);
    }
    return all;
  };
  int held = 0;
  const auto hold = [&](int mebibytes) {
    held += mebibytes;
    program.Write("hold " + std::to_string(mebibytes) + "\n");
    return program.WaitForOutput("done hold " + std::to_string(mebibytes));
  };
  ASSERT_TRUE(Eventually([&] {
    EXPECT_TRUE(hold(1));
    return Eventually([&] { return !accounts().empty(); }, 1);
  }));
  const size_t before = accounts().size();
  ASSERT_TRUE(hold(60));
  ASSERT_TRUE(Eventually([&] { return accounts().size() > before; })) << AllSummaries();
  const RunResult r = program.Wait();
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const RunResult answer = RunTool({"memory", "--json", out()});
  ASSERT_TRUE(answer.exited(0)) << answer.Describe();
  EXPECT_NEAR(Number(answer.out, "live_resident", "value"), held * kMiB,
              2 * Number(answer.out, "live_resident", "error") + kMiB);
  EXPECT_GT(Number(answer.out, "files"), 0);
  const RunResult screen = RunTool({"memory", *accounts().begin(), *accounts().rbegin()});
  EXPECT_THAT(screen.out, ::testing::ContainsRegex("^moments \\(pid [0-9]+\\).* since the first snapshot"));
  EXPECT_THAT(screen.out, ::testing::ContainsRegex("\\+[56][0-9][.0-9]*MiB  live blocks"));
  // As it was before the 60 MiB came.
  const auto seconds = static_cast<time_t>(Decode(*accounts().begin()).time_nanos / 1'000'000'000);
  const auto now_live = Number(answer.out, "live_resident", "value");
  char text[64];
  tm parts;
  gmtime_r(&seconds, &parts);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  char of_file[80];
  snprintf(of_file, sizeof of_file, "%s.%03dZ", text,
           static_cast<int>(Decode(*accounts().begin()).time_nanos / 1'000'000 % 1000));
  const RunResult then = RunTool({"memory", "--json", "--at", of_file, out()});
  ASSERT_TRUE(then.exited(0)) << then.Describe();
  EXPECT_LT(Number(then.out, "live_resident", "value"), now_live - 50 * kMiB);
  EXPECT_THAT(RunTool({"memory", "--at", of_file, out()}).out, HasSubstr(std::string(", at ") + of_file));
  EXPECT_TRUE(RunTool({"memory", "--at", "0s", out()}).exited(0));
  const RunResult too_early = RunTool({"memory", "--at", "2001-01-01T00:00:00Z", out()});
  EXPECT_TRUE(too_early.exited(3)) << too_early.Describe();
  EXPECT_THAT(too_early.err, HasSubstr("no snapshot is as old"));
  EXPECT_TRUE(RunTool({"memory", "--at", "noon", out()}).exited(2));
  EXPECT_TRUE(RunTool({"memory", "--at", "1m", "4242"}).exited(2));
}

// The program's own malloc says how much is free, and malloc_trim how much of that goes back.
TEST_F(Memory, FreeMemoryOfGlibcIsWhatTrimmingReturns) {
  struct Case {
    std::vector<std::string> arguments;
    double pages, pieces;  // MiB
  };
  const std::vector<Case> cases = {{{"pieces"}, 0, 19}, {{"pages"}, 35.2, 2.5}, {{"arenas", "6"}, 6 * 35.2, 6 * 2.5}};
  for (const Case& of : cases) {
    SCOPED_TRACE(of.arguments[0]);
    std::vector<std::string> command = {"holds_free_memory"};
    command.insert(command.end(), of.arguments.begin(), of.arguments.end());
    Running program(CommandFor(Launch::kPreload, command, {{"heap-interval", "512KiB"}, {"snapshot-every", "0"}}));
    ASSERT_TRUE(program.WaitForOutput("ready"));
    const RunResult answer = Ask(program, {"--json"}), screen = Ask(program);
    ASSERT_TRUE(answer.exited(0)) << answer.Describe();
    const auto free = [&](const std::string& part) { return Number(answer.out, "glibc_free", part); };
    EXPECT_EQ(free("unread"), 0);
    EXPECT_NEAR(free("pages"), of.pages * kMiB, 0.03 * of.pages * kMiB + 0.3 * kMiB);
    EXPECT_NEAR(free("pieces"), of.pieces * kMiB, 0.2 * of.pieces * kMiB + 0.3 * kMiB);
    EXPECT_THAT(screen.out, HasSubstr("of it glibc has "));
    if (of.arguments[0] == "pieces") {
      EXPECT_THAT(screen.out, ::testing::ContainsRegex("in [12][0-9]{4} pieces that share"));
    } else {
      EXPECT_THAT(screen.out, HasSubstr("whole pages between blocks: malloc_trim(0) returns them"));
    }
    EXPECT_EQ(free("arenas"), of.arguments.size() > 1 ? 6 : 0);
    if (of.arguments.size() > 1) {
      EXPECT_THAT(screen.out, HasSubstr("in 6 secondary arenas. MALLOC_ARENA_MAX=2"));
      EXPECT_NEAR(free("in_arenas"), (of.pages + of.pieces) * kMiB + free("tops"), 0.05 * of.pages * kMiB);
    }
    program.Write("\n");
    const RunResult r = program.Wait();
    ASSERT_NE(r.out.find("trimmed "), std::string::npos) << r.Describe();
    const double said = std::stod(r.out.substr(r.out.find("mallinfo ") + 9));
    EXPECT_NEAR(free("pages") + free("pieces") + free("main_top") + free("tops"), said, 0.03 * said + kMiB);
    const double trimmed = std::stod(r.out.substr(r.out.find("trimmed ") + 8));
    EXPECT_NEAR(trimmed, free("pages") + free("main_top"), 0.03 * trimmed + 0.3 * kMiB) << answer.out;
  }
}

// With these seeds the samples estimate more live blocks than there are.
TEST_F(Memory, FreeMemoryFitsItsLineForAnySamples) {
  for (const char* seed : {"5", "6"}) {
    Running program(CommandFor(Launch::kPreload, {"holds_free_memory", "pieces"},
                               {{"heap-interval", "512KiB"}, {"seed", seed}, {"snapshot-every", "0"}}));
    ASSERT_TRUE(program.WaitForOutput("ready"));
    const std::string json = Ask(program, {"--json"}).out;
    double free = 0;
    for (const char* part : {"pages", "main_top", "tops", "pieces"}) free += Number(json, "glibc_free", part);
    const double beyond = Number(json, "beyond_live", "value"), live = Number(json, "live_resident", "value");
    EXPECT_LE(free, beyond - Number(json, "rounding", "value"));
    EXPECT_NEAR(live, 19.4 * kMiB, 0.5 * kMiB) << "known, not estimated";
    EXPECT_NEAR(live + beyond, Number(json, "allocator_resident"), 1);
    KillAndSettle(&program);
  }
}

// A script that starts python, a build: what is short has no account, and is one line rather than one each.
TEST_F(Memory, AFolderWithManyShortProcessesShowsTheLongOne) {
  const std::string shorts = ProgramPath("endings") + " return >/dev/null; ";
  const RunResult ran = RunAs(
      Launch::kRun,
      {"/bin/sh", "-c", shorts + shorts + shorts + shorts + ProgramPath("two_peaks") + " 600 65536 0 </dev/null; true"},
      {{"heap-interval", "1"}, {"snapshot-every", "500ms"}});
  ASSERT_TRUE(ran.exited(0)) << ran.Describe();
  RunResult memory = RunTool({"memory", out()});
  EXPECT_TRUE(memory.exited(0)) << memory.Describe();
  EXPECT_TRUE(memory.out.starts_with("sh (pid ") || memory.out.starts_with("two_peaks (pid ")) << memory.out;
  EXPECT_THAT(memory.out, HasSubstr("two_peaks (pid "));
  EXPECT_THAT(memory.err, ::testing::MatchesRegex("holdfast: skipped [45] processes: [^\n]*\n"));
  // Nothing has one: why is said of some.
  for (const auto& file : std::filesystem::directory_iterator(out())) {
    if (file.path().filename().string().starts_with("two_peaks") || file.path().filename().string().starts_with("sh."))
      std::filesystem::remove(file);
  }
  memory = RunTool({"memory", out()});
  EXPECT_TRUE(memory.exited(3)) << memory.Describe();
  EXPECT_EQ(memory.out, "");
  EXPECT_THAT(memory.err, HasSubstr("ran for less than a second"));
  EXPECT_THAT(memory.err, ::testing::EndsWith("holdfast: 1 more process in this folder has none either.\n"));
}

// A look at what was never written would make pages of zeros there, and their page tables: 64 MiB for each TiB.
TEST_F(Memory, AReservationIsNotTouched) {
  Running program(CommandFor(Launch::kPreload, {"memory_corners", "reserves"},
                             {{"heap-interval", "1"}, {"snapshot-every", "1500ms"}, {"resident", "yes"}}));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  const double tables_before = StatusOf(program.pid(), "VmPTE");
  const RunResult answer = Ask(program, {"--json"});
  ASSERT_TRUE(answer.exited(0)) << answer.Describe();
  // By mmap and by sbrk.
  EXPECT_EQ(Number(answer.out, "mapped"), 8 * kMiB + 4096) << answer.out;
  EXPECT_LT(Number(answer.out, "allocator_resident"), kMiB);
  EXPECT_TRUE(Eventually([&] { return !NewestHeap().empty() && NewestHeap()[0].Comment("memory").has_value(); }))
      << AllSummaries();
  EXPECT_LT(StatusOf(program.pid(), "VmPTE") - tables_before, 256 * 1024);
  KillAndSettle(&program);
}

// The estimate of the blocks may be more than there is of the allocator.
TEST_F(Memory, LinesAddUpWhereBlocksWereGivenBack) {
  for (int seed = 1; seed <= 6; ++seed) {
    Running program(CommandFor(Launch::kPreload, {"memory_corners", "gives_back"},
                               {{"seed", std::to_string(seed)}, {"snapshot-every", "0"}}));
    ASSERT_TRUE(program.WaitForOutput("ready"));
    const std::string json = Ask(program, {"--json"}).out;
    const double live = Number(json, "live_resident", "value"), allocator = Number(json, "allocator_resident");
    EXPECT_LE(live, allocator);
    EXPECT_NEAR(live + Number(json, "beyond_live", "value"), allocator, 1);
    KillAndSettle(&program);
  }
}

// Under the process's own id /proc then says nothing of its memory.
TEST_F(Memory, IsReadAfterTheMainThreadExited) {
  Running program(CommandFor(Launch::kPreload, {"memory_corners", "leaves_main"},
                             {{"heap-interval", "1"}, {"snapshot-every", "1500ms"}}));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  const RunResult answer = Ask(program, {"--json"});
  ASSERT_TRUE(answer.exited(0)) << answer.Describe();
  EXPECT_NEAR(Number(answer.out, "live_resident", "value"), 20 * kMiB, 0.2 * kMiB);
  EXPECT_TRUE(Eventually([&] { return !NewestHeap().empty() && NewestHeap()[0].Comment("memory").has_value(); }))
      << AllSummaries();
  KillAndSettle(&program);
}

TEST_F(Memory, AForkedChildNamesItsParentsMemory) {
  Running program(CommandFor(Launch::kPreload, {"memory_corners", "forks"},
                             {{"heap-interval", "1"}, {"snapshot-every", "1500ms"}}));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  std::string child;
  const std::string pid = std::to_string(program.pid());
  ASSERT_TRUE(std::ifstream("/proc/" + pid + "/task/" + pid + "/children") >> child);
  const std::string tells = "  forked from process " + pid + ": memory inherited from that";
  const RunResult answer = RunTool({"memory", "--tables", tables(), child});
  EXPECT_THAT(answer.out, HasSubstr(tells));
  EXPECT_EQ(Ask(program).out.find("forked from"), std::string::npos);
  EXPECT_TRUE(Eventually([&] { return RunTool({"memory", out()}).out.find(tells) != std::string::npos; }));
  program.Write("\n");
  EXPECT_TRUE(program.Wait().exited(0));
}

TEST_F(Memory, SaysWhatIsWrong) {
  const RunResult nobody = RunTool({"memory", "--tables", tables(), "1"});
  EXPECT_TRUE(nobody.exited(3)) << nobody.Describe();
  EXPECT_THAT(nobody.err, HasSubstr("process 1"));
  const RunResult no_number = RunTool({"memory", "server"});
  EXPECT_TRUE(no_number.exited(2)) << no_number.Describe();
  EXPECT_TRUE(RunTool({"memory"}).exited(2));
}

}  // namespace
}  // namespace holdfast::testing
