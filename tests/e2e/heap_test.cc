// The heap profile at interval 1 is exact: every block is charged to the function that requested it. The program
// notices nothing.
#include <filesystem>
#include <set>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

const Options kEvery = {{"heap-interval", "1"}};

struct Case {
  std::string program;
  Launch launch;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.program; }

class ExactHeap : public Profiled, public ::testing::WithParamInterface<Case> {};

TEST_P(ExactHeap, CountsEveryBlockAndChangesNothing) {
  const Case& c = GetParam();
  const RunResult bare = Execute(CommandFor(Launch::kBare, {c.program}));
  const RunResult profiled = RunAs(c.launch, {c.program}, kEvery);
  EXPECT_EQ(profiled.status, bare.status) << profiled.Describe();
  EXPECT_EQ(profiled.out, bare.out);
  if (c.launch == Launch::kPreload) {
    EXPECT_EQ(profiled.err, bare.err);
  }
  ExpectKnownHeap(profiled.out);
  ExpectAllWhole();
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const char* program :
       {"threads_exact", "realloc_cases", "allocators", "edge_sizes", "cross_thread_free", "operators_new",
        "fork_profiles", "vfork_in_child", "exec_itself", "short_threads", "early_and_late", "mixed_sizes"}) {
    cases.push_back({program, Launch::kPreload});
    cases.push_back({program, Launch::kRun});
  }
  cases.push_back({"exec_itself", Launch::kExec});
  cases.push_back({"fork_profiles", Launch::kExec});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Programs, ExactHeap, ::testing::ValuesIn(AllCases()), [](const auto& info) {
  return info.param.program + "_" + LaunchName(::testing::TestParamInfo<Launch>(info.param.launch, 0));
});

class Heap : public Profiled {};

TEST_F(Heap, TotalsInTheCommentsEqualTheSumOfTheSamples) {
  RunAs(Launch::kPreload, {"threads_exact"}, kEvery);
  const std::vector<Decoded> profiles = NewestHeap();
  ASSERT_EQ(profiles.size(), 1u);
  const Decoded& heap = profiles[0];
  const Values total = heap.Total();
  EXPECT_EQ(heap.CommentNumber("alloc_calls"), total.at("alloc_objects")) << heap.Summary();
  EXPECT_EQ(heap.CommentNumber("alloc_bytes"), total.at("alloc_space"));
  EXPECT_EQ(heap.CommentNumber("free_calls"), total.at("alloc_objects") - total.at("inuse_objects"));
  EXPECT_EQ(heap.CommentNumber("free_bytes"), total.at("alloc_space") - total.at("inuse_space"));
  EXPECT_EQ(heap.Comment("losses"), "none");
  EXPECT_EQ(heap.period, 1);
  EXPECT_EQ(heap.period_type, "space/bytes");
}

TEST_F(Heap, AForkedChildsBytesAreItsOwn) {
  const RunResult r = RunAs(Launch::kPreload, {"forked_bytes"}, {});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  int64_t bytes = 0;
  for (const Decoded& heap : NewestHeap()) {
    if (heap.Comment("forked from pid")) bytes += heap.CommentNumber("alloc_bytes");
  }
  EXPECT_EQ("bytes " + std::to_string(bytes) + "\n", r.out);
}

TEST_F(Heap, TheTopFrameIsNeverOursAndTheProgramIsTheFirstMapping) {
  RunAs(Launch::kPreload, {"operators_new"}, kEvery);
  for (const Decoded& heap : NewestHeap()) {
    for (const DecodedSample& sample : heap.samples) {
      ASSERT_FALSE(sample.frames.empty());
      EXPECT_EQ(sample.frames[0].mapping.find("libholdfast"), std::string::npos) << sample.frames[0].functions[0];
    }
    ASSERT_FALSE(heap.mappings.empty());
    EXPECT_EQ(heap.mappings[0], ProgramPath("operators_new"));
  }
}

TEST_F(Heap, StacksReachMainThroughTheThreadsFunction) {
  RunAs(Launch::kPreload, {"threads_exact"}, kEvery);
  ASSERT_EQ(NewestHeap().size(), 1u);
  const Decoded heap = NewestHeap()[0];
  int found = 0;
  for (const DecodedSample& sample : heap.samples) {
    if (!sample.LeafIs("allocate_and_keep")) continue;
    ++found;
    ASSERT_GE(sample.frames.size(), 2u);
    EXPECT_EQ(sample.frames[1].functions.back(), "Work");
    EXPECT_TRUE(sample.numbers.count("bytes"));
  }
  EXPECT_GT(found, 0);
}

TEST_F(Heap, BlocksThatLibrariesTakeBelongToTheirCallers) {
  const RunResult r = RunAs(Launch::kPreload, {"uses_libraries"}, kEvery);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  ASSERT_EQ(NewestHeap().size(), 1u);
  const Decoded heap = NewestHeap()[0];
  EXPECT_EQ(heap.SumAny("through_strdup").at("inuse_space"), 310) << heap.Summary();
  for (const DecodedSample& sample : heap.samples) {
    if (!sample.Has("through_strdup")) continue;
    EXPECT_THAT(sample.frames[0].functions[0], ::testing::AnyOf("strdup", "__strdup"));
  }
  const Values stdio = heap.SumAny("through_stdio");
  EXPECT_GE(stdio.at("alloc_objects"), 3);  // the stream, its buffer, the line
  EXPECT_EQ(stdio.at("inuse_objects"), 0);
  const Values containers = heap.SumAny("through_containers");
  EXPECT_EQ(containers.at("inuse_objects"), 201);  // the map, 100 nodes, 100 strings
  EXPECT_GE(containers.at("inuse_space"), 100 * 1001);
}

TEST_F(Heap, AProgramWithAStaticRuntimeIsSeenThroughItsOwnOperatorNew) {
  const RunResult bare = Execute(CommandFor(Launch::kBare, {"static_runtime"}));
  const RunResult r = RunAs(Launch::kPreload, {"static_runtime"}, kEvery);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(r.out, bare.out);
  ASSERT_EQ(NewestHeap().size(), 1u);
  const Values sum = NewestHeap()[0].SumAny("static_runtime_allocates");
  EXPECT_EQ(sum, (Values{{"alloc_objects", 10}, {"alloc_space", 451}, {"inuse_objects", 5}, {"inuse_space", 201}}));
}

class Plugins : public Heap, public ::testing::WithParamInterface<std::string> {};

// Loads, calls and unloads two plugins in turn, twice. Each function's samples are its own, also when another function
// lay at the same addresses before.
TEST_P(Plugins, KeepTheirNamesAfterTheyAreUnloaded) {
  const std::string first = ProgramPath("first_" + GetParam() + ".so"),
                    second = ProgramPath("second_" + GetParam() + ".so");
  const std::vector<std::string> argv = {"loads_plugins", first, second, first, second};
  const RunResult bare = Execute(CommandFor(Launch::kBare, argv));
  const RunResult r = RunAs(Launch::kPreload, argv, kEvery);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(r.out, bare.out);
  if (GetParam() == "unloaded_plugin") {
    EXPECT_NE(r.err.find("same address: yes"), std::string::npos) << "no two plugins lay at one address: " << r.err;
  }
  ExpectKnownHeap(r.out);
  ASSERT_EQ(NewestHeap().size(), 1u);
  const Decoded heap = NewestHeap()[0];
  const std::string suffix = GetParam() == "plugin" ? "_plugin_allocates" : "_unloaded_allocates";
  for (const char* which : {"first", "second"}) {
    const Values sum = heap.SumLeaf(which + suffix);
    EXPECT_EQ(sum, (Values{{"alloc_objects", 40}, {"alloc_space", 4000}, {"inuse_objects", 20}, {"inuse_space", 2000}}))
        << which << "\n"
        << heap.Summary();
  }
}
INSTANTIATE_TEST_SUITE_P(Kinds, Plugins, ::testing::Values("plugin", "unloaded_plugin"),
                         [](const auto& info) { return info.param; });

TEST_F(Heap, APluginsOwnOperatorNewGetsItsOwnBlocksBack) {
  // The plugin that brings libstdc++ in comes first: what libstdc++ itself calls is looked up from there, for good.
  const std::vector<std::string> argv = {"loads_plugins", ProgramPath("first_plugin.so"),
                                         ProgramPath("own_new_plugin.so"), ProgramPath("own_new_plugin.so")};
  const RunResult bare = Execute(CommandFor(Launch::kBare, argv));
  for (const Launch launch : {Launch::kPreload, Launch::kRun}) {
    const RunResult r = RunAs(launch, argv, kEvery);
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    EXPECT_EQ(r.out, bare.out);
  }
  int64_t blocks = 0;
  for (const Decoded& heap : NewestHeap()) blocks += heap.SumAny("own_new_plugin_allocates").at("alloc_objects");
  EXPECT_EQ(blocks, 2 * 2 * 20) << AllSummaries();  // two runs, each loads it twice; one call is counted once
}

// At production intervals samples lie at places of their own, are moved there, and are kept for the next ones: none of
// which the program may notice.
TEST_F(Heap, AtEveryIntervalProgramsRunAsBare) {
  const std::vector<std::vector<std::string>> commands = {
      {"contents"},      {"own_malloc"},        {"allocators"},
      {"realloc_cases"}, {"edge_sizes"},        {"operators_new"},
      {"mixed_sizes"},   {"cross_thread_free"}, {"loads_plugins", ProgramPath("array_new_plugin.so")}};
  for (const std::vector<std::string>& argv : commands) {
    const RunResult bare = Execute(CommandFor(Launch::kBare, argv));
    EXPECT_TRUE(bare.exited(0)) << bare.Describe();
    for (const char* interval : {"0", "1", "4KiB", "256KiB", "512KiB"}) {
      const RunResult r = RunAs(Launch::kPreload, argv, {{"heap-interval", interval}, {"seed", "7"}});
      EXPECT_EQ(r.status, bare.status) << argv[0] << " at " << interval << ": " << r.Describe();
      EXPECT_EQ(r.out, bare.out) << argv[0] << " at " << interval;
    }
  }
}

// A program from before glibc 2.34 finds us under the version that it asks for.
TEST_F(Heap, EveryVersionOfAFunctionIsOurs) {
  const RunResult bare = Execute(CommandFor(Launch::kBare, {"old_versions"}));
  const RunResult r = RunAs(Launch::kPreload, {"old_versions"}, kEvery);
  EXPECT_EQ(r.out, bare.out);
  EXPECT_THAT(bare.err, ::testing::HasSubstr("trylock 2.2.5 from libc.so.6\n"));
  std::string expected = bare.err;
  for (size_t at; (at = expected.find("libc.so.6")) != std::string::npos;) expected.replace(at, 9, "libholdfast.so");
  EXPECT_EQ(r.err, expected);
}

// At this interval every block of 12 MiB is sampled, with weight 1.
TEST_F(Heap, LargeSamplesStayWhereTheyAreAndEveryFreeOfThemIsSeen) {
  const Options options = {{"heap-interval", "256KiB"}, {"seed", "1"}};
  const RunResult bare = Execute(CommandFor(Launch::kBare, {"large_samples"}));
  const RunResult r = RunAs(Launch::kPreload, {"large_samples"}, options);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(r.out, bare.out);
  EXPECT_THAT(r.out, ::testing::HasSubstr("most of them untagged"));
  ExpectKnownHeap(r.out);
  // Nothing is known about the blocks of another allocator, so its samples are at tagged places.
  Command command = CommandFor(Launch::kPreload, {"large_samples"}, options);
  command.env["LD_PRELOAD"] = Library() + ":" + ProgramPath("lazy_allocator.so");
  EXPECT_THAT(RunAndSettle(command).out, ::testing::HasSubstr("few of them untagged"));
}

// The shim allocates nothing, and loses no call: an allocator below it counts the program's own.
// With the tag, and without it.
TEST_F(Heap, FreeingNullTakesNoSampleWhereverBlocksLie) {
  for (const char* interval : {"1", "4KiB", "512KiB"}) {
    SCOPED_TRACE(interval);
    std::filesystem::remove_all(out());
    const RunResult r = RunAs(Launch::kPreload, {"null_frees"}, {{"heap-interval", interval}, {"seed", "3"}});
    if (r.exited(77)) GTEST_SKIP() << "the kernel puts no block at a multiple of 4 GiB";
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    ExpectKnownHeap(r.out);
    EXPECT_EQ(NewestHeap().at(0).Comment("losses"), "none");
  }
}

// libc allocates through us for a plugin that frees past us. What others allocate is in use as ever.
TEST_F(Heap, BlocksOfAPluginThatFreesElsewhereAreNeverInUse) {
  struct Deep {
    const char *plugin, *how;
    bool is_seen;  // every free is
  };
  for (const Deep& of : {Deep{"lazy", "global", true}, Deep{"lazy", "deep", false}, Deep{"now", "deep", false},
                         Deep{"lazy", "closed", false}, Deep{"own", "global", false}, Deep{"lazy", "apart", true}}) {
    // Samples are found in the same way at every interval.
    for (const char* interval : of.is_seen ? std::vector<const char*>{"1"} : std::vector<const char*>{"1", "8KiB"}) {
      SCOPED_TRACE(std::string(of.plugin) + " " + of.how + " " + interval);
      std::filesystem::remove_all(out());
      const std::string plugin = ProgramPath("deep_plugin_" + std::string(of.plugin) + ".so");
      const RunResult r = RunAs(Launch::kPreload, {"loads_deep", plugin, of.how, "40"},
                                {{"heap-interval", interval}, {"seed", "5"}, {"lock-interval", "0"}});
      ASSERT_TRUE(r.exited(0)) << r.Describe();
      const Decoded heap = NewestHeap().at(0);
      const Values copies = heap.SumAny("copy_and_free");
      if (std::string(of.how) != "apart") {
        EXPECT_GT(copies.at("alloc_space"), 8'000'000);
      }
      const int64_t kept =
          heap.SumAny("host_keeps").contains("inuse_space") ? heap.SumAny("host_keeps").at("inuse_space") : 0;
      // The host's own blocks are in use, although the plugin is in their stacks; of another namespace these are not known.
      const int64_t in_use = copies.contains("inuse_space") ? copies.at("inuse_space") : 0;
      if (std::string(of.how) != "apart") {
        EXPECT_GE(in_use, kept);
      }
      // The dynamic linker keeps some bytes below the plugin's own free, which looks for libc's.
      EXPECT_LE(in_use, kept + 1000);
      if (std::string(interval) == "1") ExpectKnownHeap(r.out);
      EXPECT_EQ(heap.Comment("frees not seen").has_value(), !of.is_seen);
      const RunResult top = RunTool({"top", out()});
      EXPECT_EQ(top.out.find("which calls another free") != std::string::npos, !of.is_seen) << top.out;
    }
  }
}

TEST_F(Heap, AnAllocatorBelowSeesTheProgramsOwnCalls) {
  const std::string below = ProgramPath("counting_allocator.so");
  for (const char* program : {"threads_exact", "realloc_cases", "cross_thread_free", "short_threads"}) {
    Command bare = CommandFor(Launch::kBare, {program});
    bare.env["LD_PRELOAD"] = below;
    const std::string expected = Execute(bare).err;
    ASSERT_THAT(expected, ::testing::HasSubstr("below: malloc "));
    for (const char* interval : {"0", "1"}) {
      Command command = CommandFor(Launch::kPreload, {program}, {{"heap-interval", interval}});
      command.env["LD_PRELOAD"] = Library() + ":" + below;
      EXPECT_EQ(RunAndSettle(command).err, expected) << program << " at " << interval;
    }
  }
}

TEST_F(Heap, ChildrenStartedInEveryWayHaveProfilesOfTheirOwn) {
  const RunResult bare = Execute(CommandFor(Launch::kBare, {"starts_children"}));
  const RunResult r = RunAs(Launch::kPreload, {"starts_children"}, kEvery);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(r.out, bare.out);
  EXPECT_EQ(r.err, bare.err);
  ExpectKnownHeap(r.out);
  int children = 0;
  for (const Decoded& heap : NewestHeap()) {
    const Values child = heap.SumLeaf("child_allocates");
    if (child.at("alloc_objects") == 0) continue;
    ++children;
    EXPECT_EQ(child.at("alloc_objects"), 10);
    EXPECT_EQ(child.at("inuse_space"), 500);
    EXPECT_FALSE(heap.Names("parent_allocates"));
  }
  EXPECT_EQ(children, 4) << AllSummaries();
}

TEST_F(Heap, ThreeImagesOfOnePidLeaveThreeProcesses) {
  const RunResult r = RunAs(Launch::kRun, {"exec_itself"}, kEvery);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  std::set<std::string> processes;
  std::set<int> pids;
  for (const ProfileName& name : ListProfiles(out())) {
    pids.insert(name.pid);
    processes.insert(Decode(name.path).Comment("process").value_or(""));
  }
  EXPECT_EQ(pids.size(), 1u);
  EXPECT_EQ(processes.size(), 3u) << ::testing::PrintToString(processes);
}

}  // namespace
}  // namespace holdfast::testing
