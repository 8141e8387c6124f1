// Mappings: every byte that a program maps and unmaps, by caller and by kind.
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

// "map FUNCTION KIND alloc_objects alloc_space inuse_objects inuse_space"; of a function the last.
struct KnownMaps {
  std::string kind;
  int64_t alloc_objects, alloc_space, inuse_objects, inuse_space;
};
std::map<std::string, KnownMaps> KnownMapsIn(const std::string& output) {
  std::map<std::string, KnownMaps> known;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word, function;
    KnownMaps of;
    if (words >> word >> function >> of.kind >> of.alloc_objects >> of.alloc_space >> of.inuse_objects >>
            of.inuse_space &&
        word == "map")
      known[function] = of;
  }
  return known;
}

class Maps : public Profiled {
 protected:
  RunResult RunMappings(Launch launch, std::vector<std::string> arguments, Options options = {}) {
    options.insert({{"snapshot-every", "0"}, {"lock-interval", "0"}});
    arguments.insert(arguments.begin(), "mappings");
    return RunAs(launch, std::move(arguments), options);
  }
  std::vector<Decoded> NewestMaps() const { return Newest(out(), "map"); }

  static void ExpectIs(const Decoded& profile, const std::string& function, const KnownMaps& known) {
    const Values got = profile.SumLeafWhere(function, "mapping", known.kind);
    const auto value = [&got](const char* type) { return got.contains(type) ? got.at(type) : 0; };
    EXPECT_EQ(value("alloc_objects"), known.alloc_objects) << function;
    EXPECT_EQ(value("alloc_space"), known.alloc_space) << function;
    EXPECT_EQ(value("inuse_objects"), known.inuse_objects) << function;
    EXPECT_EQ(value("inuse_space"), known.inuse_space) << function;
    EXPECT_EQ(profile.SumLeaf(function), got) << function << " is of one kind";
  }
};

TEST_F(Maps, EveryWayToMapAndUnmapIsExact) {
  const RunResult bare = RunMappings(Launch::kBare, {"kinds"});
  ASSERT_TRUE(bare.exited(0)) << bare.Describe();
  for (const Launch launch : {Launch::kPreload, Launch::kRun}) {
    const RunResult run = RunMappings(launch, {"kinds"});
    ASSERT_TRUE(run.exited(0)) << run.Describe();
    EXPECT_EQ(run.out.find("failed"), std::string::npos);
    EXPECT_NE(run.out.find(bare.out), std::string::npos) << run.out;
    const std::vector<Decoded> maps = NewestMaps();
    ASSERT_EQ(maps.size(), 1u) << AllSummaries();
    EXPECT_EQ(maps[0].Comment("losses"), "none");
    const auto known = KnownMapsIn(run.out);
    EXPECT_GE(known.size(), 32u);
    for (const auto& [function, of] : known) ExpectIs(maps[0], function, of);
    ExpectAllWhole();
    std::filesystem::remove_all(out());
  }
}

// Thousands of changes at once, most of what one thread maps unmapped by another.
TEST_F(Maps, OfManyThreadsNothingIsLost) {
  const RunResult run = RunMappings(Launch::kPreload, {"threads"});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> maps = NewestMaps();
  ASSERT_EQ(maps.size(), 1u) << AllSummaries();
  EXPECT_EQ(maps[0].Comment("losses"), "none");
  const auto known = KnownMapsIn(run.out);
  ASSERT_EQ(known.size(), 1u) << run.out;
  ExpectIs(maps[0], known.begin()->first, known.begin()->second);
}

// The handler's own are there to the byte, with their stack or, where it interrupted a sample of the thread, without.
TEST_F(Maps, OfSignalHandlersNothingIsLost) {
  const RunResult run = RunMappings(Launch::kPreload, {"handler"});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  int64_t handled = 0, kept = 0;
  const size_t at = run.out.find("handled ");
  ASSERT_NE(at, std::string::npos) << run.out;
  std::istringstream(run.out.substr(at + 8)) >> handled >> kept;
  const std::vector<Decoded> maps = NewestMaps();
  ASSERT_EQ(maps.size(), 1u) << AllSummaries();
  const auto known = KnownMapsIn(run.out);
  ASSERT_TRUE(known.contains("map_outside")) << run.out;
  ExpectIs(maps[0], "map_outside", known.at("map_outside"));
  Values of_handler = maps[0].SumLeaf("map_in_handler");
  for (const auto& [type, value] : maps[0].SumLeaf("[no stack]")) of_handler[type] += value;
  EXPECT_EQ(of_handler["alloc_objects"], handled);
  EXPECT_EQ(of_handler["alloc_space"], handled * 12 * 1024);
  EXPECT_EQ(of_handler["inuse_objects"], kept);
  EXPECT_EQ(of_handler["inuse_space"], kept * 8 * 1024);
}

// What was under way is lost at worst; what comes later is not.
TEST_F(Maps, HandlersThatJumpOrForkLeaveNothingLocked) {
  const RunResult run = RunMappings(Launch::kPreload, {"jumps"}, {{"children", "no"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> maps = NewestMaps();
  ASSERT_EQ(maps.size(), 1u) << AllSummaries();
  const auto known = KnownMapsIn(run.out);
  ASSERT_TRUE(known.contains("map_whole")) << run.out;
  ExpectIs(maps[0], "map_whole", known.at("map_whole"));
}

// A child begins with an empty profile, as of its heap: what it inherits and unmaps is its parent's.
TEST_F(Maps, AChildHasItsOwn) {
  const RunResult run = RunMappings(Launch::kPreload, {"fork"});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const auto known = KnownMapsIn(run.out);
  ASSERT_EQ(known.size(), 2u) << run.out;
  const std::vector<Decoded> maps = NewestMaps();
  ASSERT_EQ(maps.size(), 2u) << AllSummaries();
  for (const Decoded& profile : maps) {
    const char* own = profile.Names("map_in_child") ? "map_in_child" : "map_in_parent";
    const char* other = profile.Names("map_in_child") ? "map_in_parent" : "map_in_child";
    ExpectIs(profile, own, known.at(own));
    EXPECT_FALSE(profile.Names(other)) << profile.Summary();
  }
}

TEST_F(Maps, ThreadStacksBelongToTheCreator) {
  for (const char* profiles : {"map", "map,threads"}) {
    const RunResult run = RunMappings(Launch::kPreload, {"stacks"}, {{"profiles", profiles}});
    ASSERT_TRUE(run.exited(0)) << run.Describe();
    const auto known = KnownMapsIn(run.out);
    EXPECT_EQ(known.size(), 3u) << run.out;
    const std::vector<Decoded> maps = NewestMaps();
    ASSERT_EQ(maps.size(), 1u) << AllSummaries();
    for (const auto& [function, of] : known) ExpectIs(maps[0], function, of);
    EXPECT_FALSE(maps[0].Names("create_on_own")) << maps[0].Summary();
    ExpectAllWhole();
    std::filesystem::remove_all(out());
  }
}

// By the exporter, from outside.
TEST_F(Maps, GlibcsOwnAreBesideTheProgramsOwn) {
  Command command = CommandFor(Launch::kPreload, {"mappings", "arenas"}, {{"snapshot-every", "0"}});
  command.env["MALLOC_ARENA_MAX"] = "2";
  const RunResult run = RunAndSettle(command);
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> maps = NewestMaps();
  ASSERT_EQ(maps.size(), 1u) << AllSummaries();
  ExpectIs(maps[0], "map_whole", KnownMapsIn(run.out).at("map_whole"));
  const Values arenas = maps[0].SumLeafWhere("[glibc arenas]", "mapping", "arena");
  ASSERT_TRUE(arenas.contains("inuse_space")) << maps[0].Summary();
  EXPECT_EQ(arenas.at("inuse_objects"), 1);
  EXPECT_GE(arenas.at("inuse_space"), 100 << 10);
  EXPECT_LT(arenas.at("inuse_space"), 2 << 20);
  EXPECT_GE(maps[0].SumLeafWhere("[glibc heap]", "mapping", "brk").at("inuse_space"), 100 << 10);
}

// An allocator's own mappings are distinguished from the program's.
TEST_F(Maps, AnAllocatorsMappingsAreArenas) {
  const char* allocator = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
  if (!std::filesystem::exists(allocator)) GTEST_SKIP() << "no jemalloc here";
  Command command = CommandFor(Launch::kPreload, {"mappings", "threads"}, {{"snapshot-every", "0"}});
  command.env["LD_PRELOAD"] += std::string(":") + allocator;
  const RunResult run = RunAndSettle(command);
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> maps = NewestMaps();
  ASSERT_EQ(maps.size(), 1u) << AllSummaries();
  const auto known = KnownMapsIn(run.out);
  ASSERT_EQ(known.size(), 1u) << run.out;
  ExpectIs(maps[0], known.begin()->first, known.begin()->second);
  int64_t arenas = 0;
  for (const DecodedSample& sample : maps[0].samples) {
    if (sample.labels.contains("mapping") && sample.labels.at("mapping") == "arena")
      arenas += sample.values.at("inuse_space");
  }
  EXPECT_GT(arenas, 1 << 20) << maps[0].Summary();
}

TEST_F(Maps, AreNotRecordedUnlessWanted) {
  const RunResult run = RunMappings(Launch::kPreload, {"kinds"}, {{"profiles", "heap"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  EXPECT_TRUE(NewestMaps().empty()) << AllSummaries();
}

}  // namespace
}  // namespace holdfast::testing
