// Each option of `run` and each variable has an effect that is visible from outside.
#include <signal.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <set>

#include "sampler/contract/layout.h"
#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class OptionsIn : public Profiled, public ::testing::WithParamInterface<Launch> {
 protected:
  Decoded OnlyHeap() const {
    const std::vector<Decoded> heaps = NewestHeap();
    EXPECT_EQ(heaps.size(), 1u) << AllSummaries();
    return heaps.empty() ? Decoded() : heaps[0];
  }
};
INSTANTIATE_TEST_SUITE_P(BothWays, OptionsIn, ::testing::Values(Launch::kPreload, Launch::kRun), LaunchName);

TEST_P(OptionsIn, OutIsMadeWhenMissingWithItsParents) {
  const std::string deep = out() + "/a/b c";
  RunAs(GetParam(), {"endings", "return"}, {{"heap-interval", "1"}, {"out", deep}});
  EXPECT_EQ(ListProfiles(deep).size(), 1u);
}

TEST_P(OptionsIn, ARelativeOutIsMeantFromWhereTheProgramWasStarted) {
  Command command = CommandFor(GetParam(), {"endings", "chdir"}, {{"heap-interval", "1"}, {"out", "here"}});
  command.cwd = folder();
  RunAndSettle(command);
  EXPECT_EQ(ListProfiles(folder() + "/here").size(), 1u);
}

TEST_P(OptionsIn, WithoutOutTheFilesAreWhereTheTableSays) {
  Command command = CommandFor(GetParam(), {"endings", "return"}, {{"heap-interval", "1"}});
  command.env.erase("HOLDFAST_OUT");
  for (auto at = command.argv.begin(); at != command.argv.end(); ++at) {
    if (*at == "--out") {
      command.argv.erase(at, at + 2);
      break;
    }
  }
  command.cwd = folder();
  RunAndSettle(command);
  if (GetParam() == Launch::kPreload) {
    EXPECT_EQ(ListProfiles(folder()).size(), 1u);
    return;
  }
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    const std::string name = entry.path().filename();
    if (name.rfind("holdfast.endings.", 0) != 0) continue;
    const std::vector<ProfileName> profiles = ListProfiles(entry.path());
    ASSERT_EQ(profiles.size(), 1u);
    EXPECT_EQ(name, "holdfast.endings." + std::to_string(profiles[0].pid));
    ++found;
  }
  EXPECT_EQ(found, 1);
}

TEST_P(OptionsIn, HeapIntervalIsTheMeanAndZeroIsOff) {
  RunAs(GetParam(), {"mixed_sizes"}, {{"heap-interval", "100KB"}});
  EXPECT_EQ(OnlyHeap().period, 100000);
  const std::string off = out() + "/off";
  RunAs(GetParam(), {"mixed_sizes"}, {{"heap-interval", "0"}, {"out", off}});
  EXPECT_TRUE(ListProfiles(off).empty());
}

TEST_P(OptionsIn, LockIntervalZeroIsOff) {
  RunAs(GetParam(), {"hot_mutex"}, {{"lock-interval", "0"}});
  EXPECT_TRUE(NewestBlock().empty());
  RunAs(GetParam(), {"hot_mutex"}, {{"lock-interval", "1ms"}});
  ASSERT_EQ(NewestBlock().size(), 1u);
  EXPECT_EQ(NewestBlock()[0].period, 1);
  EXPECT_EQ(NewestBlock()[0].period_type, "contentions/count");
  EXPECT_NE(NewestBlock()[0].Comment("interval").value_or("").find("1000000"), std::string::npos)
      << NewestBlock()[0].Summary();
}

TEST_P(OptionsIn, TablesAreInTheGivenFolderAndPrivate) {
  Running running(CommandFor(GetParam(), {"waits_for_input"}, {{"heap-interval", "1"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 1"));
  ASSERT_EQ(Tables().size(), 1u);
  const auto mode = std::filesystem::status(tables() + "/" + Tables()[0]).permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  running.Wait();
  EXPECT_TRUE(Settled());
}

TEST_P(OptionsIn, ProfilesChoosesTheKinds) {
  const auto run = [&](const std::string& kinds, const std::string& to) {
    RunAs(GetParam(), {"hot_mutex"},
          {{"heap-interval", "1"}, {"lock-interval", "1ns"}, {"profiles", kinds}, {"out", to}});
  };
  run("heap", out() + "/heap");
  EXPECT_EQ(Newest(out() + "/heap", "heap").size(), 1u);
  EXPECT_TRUE(Newest(out() + "/heap", "block").empty());
  run("block", out() + "/block");
  EXPECT_TRUE(Newest(out() + "/block", "heap").empty());
  EXPECT_EQ(Newest(out() + "/block", "block").size(), 1u);
}

TEST_P(OptionsIn, ChildrenNoLeavesForkedChildrenOut) {
  RunAs(GetParam(), {"fork_profiles"}, {{"heap-interval", "1"}, {"children", "no"}});
  const Decoded heap = OnlyHeap();
  EXPECT_EQ(heap.SumLeaf("parent_before").at("alloc_objects"), 100);
  EXPECT_EQ(heap.SumLeaf("parent_before").at("inuse_objects"), 50);
}

TEST_F(OptionsIn, ChildrenNoWithRunLeavesExecutedChildrenOut) {
  RunAs(Launch::kRun, {"starts_children"}, {{"heap-interval", "1"}, {"children", "no"}});
  EXPECT_EQ(OnlyHeap().SumLeaf("parent_allocates").at("alloc_objects"), 15);
}

TEST_P(OptionsIn, MaxMemoryBoundsTheTableAndTheLossIsCounted) {
  Options options{{"heap-interval", "1"}, {"max-memory", "1MiB"}};
  if (GetParam() == Launch::kPreload) options["replay"] = "0";  // the environment alone has it
  Running running(CommandFor(GetParam(), {"waits_for_input"}, options));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  constexpr int kLines =
      1000;  // 100,000 blocks, 10,000 stay: 240 KiB of live samples fit not in what is left of 1 MiB…
  for (int i = 0; i < kLines * 8; ++i) running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done " + std::to_string(kLines * 8), 60));
  ASSERT_EQ(Tables().size(), 1u);
  EXPECT_LE(std::filesystem::file_size(tables() + "/" + Tables()[0]), 1u << 20);
  EXPECT_TRUE(running.Wait().exited(0));
  ASSERT_TRUE(Settled());
  const Decoded heap = OnlyHeap();
  EXPECT_GT(heap.CommentNumber("lost live-table-full") + heap.CommentNumber("lost growth-failed"), 0) << heap.Summary();
  EXPECT_EQ(heap.SumLeaf("for_each_line").at("alloc_objects"), kLines * 8 * 100);
  const Values total = heap.Total();
  EXPECT_EQ(heap.CommentNumber("free_calls"), total.at("alloc_objects") - total.at("inuse_objects"));
  EXPECT_EQ(heap.CommentNumber("free_bytes"), total.at("alloc_space") - total.at("inuse_space"));
}

TEST_P(OptionsIn, SnapshotEveryWritesWhileTheProgramRuns) {
  Running running(CommandFor(GetParam(), {"waits_for_input"}, {{"heap-interval", "1"}, {"snapshot-every", "200ms"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 1"));
  EXPECT_TRUE(Eventually(
      [&] { return !NewestHeap().empty() && NewestHeap()[0].SumLeaf("for_each_line").at("alloc_objects") == 100; }));
  running.Wait();
}

TEST_P(OptionsIn, SnapshotEveryZeroWritesOnlyAtTheEnd) {
  RunAs(GetParam(), {"hot_mutex"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  EXPECT_EQ(ListProfiles(out()).size(), 5u);  // heap, block, mutex, threads and map, one of each
}

TEST_P(OptionsIn, KeepLeavesTheNewest) {
  Running running(
      CommandFor(GetParam(), {"waits_for_input"}, {{"heap-interval", "1"}, {"snapshot-every", "50ms"}, {"keep", "3"}}));
  ASSERT_NO_FATAL_FAILURE(StepThroughSnapshots(&running, 8));
  const std::vector<ProfileName> names = ListProfiles(out());
  EXPECT_EQ(names.size(), 3u);
  EXPECT_GE(names.back().seq, 8);
  EXPECT_EQ(OnlyHeap().SumLeaf("for_each_line").at("alloc_objects"), 800);
}

TEST_P(OptionsIn, MaxDiskBoundsTheFolderAndKeepsTheNewest) {
  Running running(
      CommandFor(GetParam(), {"waits_for_input"},
                 {{"heap-interval", "1"}, {"snapshot-every", "50ms"}, {"keep", "0"}, {"max-disk", "8KiB"}}));
  ASSERT_NO_FATAL_FAILURE(StepThroughSnapshots(&running, 20));
  uintmax_t bytes = 0;
  for (const ProfileName& name : ListProfiles(out())) bytes += std::filesystem::file_size(name.path);
  EXPECT_LE(bytes, 8u << 10);
  EXPECT_EQ(OnlyHeap().SumLeaf("for_each_line").at("alloc_objects"), 2000);
}

TEST_P(OptionsIn, SignalAsksForASnapshotAndIsNotSeenByTheProgram) {
  for (const char* name : {"USR2", "SIGPROF"}) {
    const std::string folder = out() + "/" + name;
    Running running(CommandFor(Launch::kPreload, {"waits_for_input"},
                               {{"heap-interval", "1"}, {"snapshot-every", "0"}, {"signal", name}, {"out", folder}}));
    ASSERT_TRUE(running.WaitForOutput("ready"));
    running.Write("line\n");
    ASSERT_TRUE(running.WaitForOutput("done 1"));
    EXPECT_TRUE(ListProfiles(folder).empty());
    running.Signal(std::string(name) == "USR2" ? SIGUSR2 : SIGPROF);
    EXPECT_TRUE(Eventually([&] { return ListProfiles(folder).size() == 1; })) << name;
    running.Write("line\n");
    EXPECT_TRUE(running.WaitForOutput("done 2"));
    EXPECT_TRUE(running.Wait().exited(0));
  }
}

TEST_F(OptionsIn, ASignalThatNobodyAskedForKillsAsBefore) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, {{"heap-interval", "1"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  running.HoldInput();
  running.Signal(SIGUSR2);
  EXPECT_TRUE(running.Wait().killed_by(SIGUSR2));
}

TEST_F(OptionsIn, EnableZeroPassesEverythingThrough) {
  Command command = CommandFor(Launch::kPreload, {"threads_exact"}, {{"heap-interval", "1"}});
  command.env["HOLDFAST_ENABLE"] = "0";
  const RunResult r = RunAndSettle(command);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_TRUE(ListProfiles(out()).empty());
}

TEST_F(OptionsIn, ExporterNoLeavesTheTablesForCollect) {
  Command command = CommandFor(Launch::kPreload, {"endings", "_exit"}, {{"heap-interval", "1"}});
  command.env["HOLDFAST_EXPORTER"] = "no";
  const auto begin = std::chrono::steady_clock::now();
  const RunResult r = Execute(command);
  // Nobody will write, so nobody is waited for, which would take 2 s.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_TRUE(r.exited(7)) << r.Describe();
  ASSERT_EQ(Tables().size(), 1u);
  // The end is noted all the same, so that the file's time is known to be that of the end.
  uint32_t asked = 0;
  const std::string table = ReadFile(tables() + "/" + Tables()[0]);
  ASSERT_GE(table.size(), sizeof(TableHeader));
  memcpy(&asked, table.data() + offsetof(TableHeader, exit_request), sizeof asked);
  EXPECT_EQ(asked, 1u);
  EXPECT_TRUE(ListProfiles(out()).empty());
  const RunResult collected = RunTool({"collect", out(), "--tables", tables()});
  EXPECT_TRUE(collected.exited(0)) << collected.Describe();
  ExpectKnownHeap(r.out);
  EXPECT_TRUE(Tables().empty());
}

TEST_F(OptionsIn, ExporterIsFoundWhereTheVariableSays) {
  const std::string elsewhere = folder() + "/other name";
  std::filesystem::create_symlink(Tool(), elsewhere);
  Command command = CommandFor(Launch::kPreload, {"endings", "return"}, {{"heap-interval", "1"}});
  command.env["HOLDFAST_EXPORTER"] = elsewhere;
  RunAndSettle(command);
  EXPECT_EQ(ListProfiles(out()).size(), 1u);
  command = CommandFor(Launch::kPreload, {"endings", "return"}, {{"heap-interval", "1"}, {"out", out() + "/2"}});
  command.env["HOLDFAST_EXPORTER"] = "/nonexistent/holdfast";
  const RunResult r = Execute(command);
  EXPECT_TRUE(r.exited(5)) << r.Describe();
  EXPECT_EQ(r.err, "");
  for (const std::string& table : Tables()) std::filesystem::remove(tables() + "/" + table);
}

// LD_PRELOAD=build/…/libholdfast.so: the program and its exporter start elsewhere, when the folder may be another.
TEST_F(OptionsIn, TheLibraryAndTheExporterMayBeNamedRelatively) {
  const std::filesystem::path prefix = std::filesystem::path(Tool()).parent_path().parent_path();
  for (const bool exporter_named : {false, true}) {
    const std::string to = out() + (exporter_named ? "/named" : "/found");
    Command command = CommandFor(Launch::kPreload, {"endings", "return"}, {{"heap-interval", "1"}, {"out", to}});
    command.cwd = prefix;
    command.env["LD_PRELOAD"] = "lib/holdfast/libholdfast.so";
    if (exporter_named) command.env["HOLDFAST_EXPORTER"] = "bin/holdfast";
    RunAndSettle(command);
    EXPECT_EQ(ListProfiles(to).size(), 1u) << to;
  }
}

TEST_F(OptionsIn, QuietPrintsNothingAndVerbosePrintsMore) {
  const auto words = [&](const std::string& flag) {
    Command command = CommandFor(Launch::kRun, {"endings", "return"}, {{"heap-interval", "1"}});
    if (!flag.empty()) command.argv.insert(command.argv.begin() + 2, flag);
    return RunAndSettle(command).err;
  };
  EXPECT_EQ(words("-q"), "");
  const std::string usual = words("");
  EXPECT_NE(usual, "");
  EXPECT_GT(words("-v").size(), usual.size());
  Command command = CommandFor(Launch::kPreload, {"endings", "return"}, {{"heap-interval", "1"}});
  EXPECT_EQ(RunAndSettle(command).err, "");
  command.env["HOLDFAST_VERBOSE"] = "1";
  EXPECT_NE(RunAndSettle(command).err, "");
}

TEST_F(OptionsIn, SizesAndTimesTakeTheirUnits) {
  struct {
    const char* text;
    int64_t bytes;
  } sizes[] = {{"7000", 7000}, {"7000B", 7000}, {"8KiB", 8192}, {"1MiB", 1 << 20}, {"8KB", 8000}, {"1MB", 1000000}};
  for (const auto& size : sizes) {
    for (const Launch launch : {Launch::kPreload, Launch::kRun}) {
      const std::string folder = out() + "/" + size.text + LaunchName(::testing::TestParamInfo<Launch>(launch, 0));
      RunAs(launch, {"mixed_sizes"}, {{"heap-interval", size.text}, {"out", folder}});
      const std::vector<Decoded> heaps = Newest(folder, "heap");
      ASSERT_EQ(heaps.size(), 1u) << size.text;
      EXPECT_EQ(heaps[0].period, size.bytes) << size.text;
    }
  }
}

struct BadValue {
  const char* option;
  const char* value;
};
std::ostream& operator<<(std::ostream& out, const BadValue& bad) { return out << bad.option << " " << bad.value; }

class BadValues : public Profiled, public ::testing::WithParamInterface<BadValue> {};

TEST_P(BadValues, AreAnErrorOfRunThatNamesTheOption) {
  const BadValue& bad = GetParam();
  const RunResult r =
      RunTool({"run", std::string("--") + bad.option, bad.value, "-o", out(), "--", ProgramPath("nothing")});
  EXPECT_TRUE(r.exited(125)) << r.Describe();
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_EQ(r.err.rfind("holdfast: ", 0), 0u) << r.err;
  EXPECT_NE(r.err.find(std::string("--") + bad.option), std::string::npos) << r.err;
}

TEST_P(BadValues, AreOneLineOfTheLibraryAndTheDefault) {
  const BadValue& bad = GetParam();
  const RunResult bare = Execute(CommandFor(Launch::kBare, {"endings", "return"}));
  Command command = CommandFor(Launch::kPreload, {"endings", "return"}, {{bad.option, bad.value}});
  const RunResult r = RunAndSettle(command);
  EXPECT_EQ(r.status, bare.status) << r.Describe();
  EXPECT_EQ(r.out, bare.out);
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  std::string variable = "HOLDFAST_";
  for (const char* at = bad.option; *at; ++at) variable += *at == '-' ? '_' : static_cast<char>(toupper(*at));
  EXPECT_NE(r.err.find(variable), std::string::npos) << r.err;
}

INSTANTIATE_TEST_SUITE_P(Table, BadValues,
                         ::testing::Values(BadValue{"heap-interval", "lots"}, BadValue{"heap-interval", "-1"},
                                           BadValue{"heap-interval", "5 parsecs"}, BadValue{"lock-interval", "10"},
                                           BadValue{"lock-interval", "1KiB"}, BadValue{"snapshot-every", "often"},
                                           BadValue{"keep", "some"}, BadValue{"max-disk", "1s"},
                                           BadValue{"max-memory", "0"}, BadValue{"profiles", "heap,cpu"},
                                           BadValue{"signal", "SIGNONE"}, BadValue{"signal", "KILL"},
                                           BadValue{"children", "maybe"}, BadValue{"seed", "x"}),
                         [](const auto& info) {
                           std::string name = std::string(info.param.option) + "_" + info.param.value;
                           for (char& c : name) {
                             if (!isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace holdfast::testing
