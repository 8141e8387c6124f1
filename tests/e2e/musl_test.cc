// Programs of the C library musl: the library is made for glibc's, and the same file serves both.
#include <sys/stat.h>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kLinker[] = "/lib/ld-musl-x86_64.so.1";
const Options kAll = {{"heap-interval", "1"}, {"lock-interval", "1ns"}};

class Musl : public Profiled, public ::testing::WithParamInterface<Launch> {
 protected:
  void ExpectAsBare(const std::vector<std::string>& argv) {
    const RunResult bare = RunAs(Launch::kBare, argv);
    const RunResult r = RunAs(GetParam(), argv, kAll);
    EXPECT_EQ(r.status, bare.status) << r.Describe();
    EXPECT_EQ(r.out, bare.out);
    ExpectKnownHeap(r.out);
  }
};

TEST_P(Musl, BlocksAreExactAndNothingElseChanges) {
  ExpectAsBare({"musl_program"});
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_FALSE(heap.empty());
  for (const DecodedSample& sample : heap[0].samples) EXPECT_FALSE(sample.Has("[truncated]")) << heap[0].Summary();
}

// musl's calloc and aligned functions call malloc and aligned_alloc by name.
TEST_P(Musl, EachAllocationCountsOnce) {
  ExpectAsBare({"musl_allocators"});
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u);
  for (const char* inside : {"calloc", "posix_memalign", "memalign", "aligned_alloc", "valloc"})
    EXPECT_EQ(heap[0].SumLeaf(inside).at("alloc_objects"), 0) << inside << "\n" << heap[0].Summary();
}

TEST_P(Musl, AMutexShowsEachWaitAndItsHolder) {
  const RunResult r = RunAs(GetParam(), {"musl_hot_mutex"}, kAll);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const KnownWait known = KnownWaits(r.out).at(0);
  ASSERT_EQ(NewestBlock().size(), 1u) << AllSummaries();
  const Values waited = NewestBlock()[0].SumLeafWhere("victim_waits", "wait", "mutex");
  EXPECT_EQ(waited.at("contentions"), known.contentions) << AllSummaries();
  EXPECT_LE(waited.at("delay"), known.delay_ns);
  EXPECT_GE(waited.at("delay"), known.least_ns);
  EXPECT_GE(NewestMutex().at(0).SumLeafWhere("culprit_holds", "lock", "mutex").at("delay"), known.least_ns);
}
INSTANTIATE_TEST_SUITE_P(Ways, Musl, ::testing::Values(Launch::kExec, Launch::kPreload), LaunchName);

class MuslRuns : public Profiled {
 protected:
  // A program with a dynamic linker of its own, a copy of musl that lacks what 1.2.2 has added.
  std::string ProgramOfOldMusl() {
    const std::string linker = folder() + "/ld-musl-x86_64.so.1", program = folder() + "/of_old_musl";
    std::string bytes = ReadFile(kLinker);
    const std::string name("\0_Fork\0", 7);
    const size_t at = bytes.find(name);
    EXPECT_NE(at, std::string::npos);
    bytes.replace(at, name.size(), std::string("\0_fork\0", 7));
    WriteFile(linker, bytes);
    chmod(linker.c_str(), 0755);
    WriteFile(folder() + "/nothing.c", "int main(void) { return 5; }\n");
    EXPECT_TRUE(
        Execute({.argv = {"musl-gcc", "-o", program, folder() + "/nothing.c", "-Wl,--dynamic-linker=" + linker}})
            .exited(0));
    return program;
  }
};

// A script's LD_PRELOAD reaches whatever it starts.
TEST_F(MuslRuns, AChildOfAScriptIsProfiled) {
  const RunResult r =
      RunAs(Launch::kExec, {"/bin/sh", "-c", "\"$0\"; exit $?", ProgramPath("musl_program")}, {{"heap-interval", "1"}});
  EXPECT_TRUE(r.exited(5)) << r.Describe();
  ExpectKnownHeap(r.out);
}

// The kernel's data then describe the linker, not the program.
TEST_F(MuslRuns, AnArgumentOfTheLinkerIsProfiled) {
  const RunResult r = RunAs(Launch::kPreload, {kLinker, ProgramPath("musl_program")}, kAll);
  EXPECT_TRUE(r.exited(5)) << r.Describe();
  ExpectKnownHeap(r.out);
}

TEST_F(MuslRuns, AnOldMuslIsLeftAlone) {
  const std::string program = ProgramOfOldMusl();
  const RunResult r = RunAs(Launch::kRun, {program});
  EXPECT_TRUE(r.exited(5)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("uses a musl before 1.2.2"));
  EXPECT_TRUE(Newest(out(), "heap").empty());
  const RunResult doctor = RunTool({"doctor", "--", program});
  EXPECT_TRUE(doctor.exited(1)) << doctor.Describe();
  EXPECT_THAT(doctor.out, HasSubstr("uses a musl before 1.2.2"));
}

// Threads make the map profile, which also has the memory of brk.
TEST_F(MuslRuns, ItsHeapHasItsName) {
  const RunResult r = RunAs(Launch::kExec, {"musl_program"}, kAll);
  ASSERT_TRUE(r.exited(5)) << r.Describe();
  const std::vector<Decoded> maps = Newest(out(), "map");
  ASSERT_EQ(maps.size(), 1u) << AllSummaries();
  EXPECT_GT(maps[0].SumLeafWhere("[musl heap]", "mapping", "brk").at("alloc_space"), 0) << maps[0].Summary();
  EXPECT_FALSE(maps[0].Names("[glibc heap]")) << maps[0].Summary();
}

// attach needs glibc.
TEST_F(MuslRuns, DoctorDoesNotProposeAttach) {
  for (const bool is_musl : {true, false}) {
    Running running(CommandFor(Launch::kBare, {is_musl ? "musl_waits_for_input" : "waits_for_input"}));
    ASSERT_TRUE(running.WaitForOutput("ready"));
    const RunResult r = RunTool({"doctor", std::to_string(running.pid())});
    EXPECT_THAT(r.out, HasSubstr("was started without the library. Start it with holdfast run"));
    EXPECT_EQ(r.out.find("holdfast attach") == std::string::npos, is_musl) << r.Describe();
  }
}

TEST_F(MuslRuns, DoctorNamesItsAllocator) {
  const RunResult r = RunTool({"doctor", "--", ProgramPath("musl_program")});
  EXPECT_THAT(r.out, HasSubstr("malloc and free are those of musl"));
  EXPECT_THAT(r.out, HasSubstr("waits that are seen: "));
  EXPECT_THAT(r.out, Not(HasSubstr("ld-musl-x86_64.so.1, ld-musl-x86_64.so.1")));
}

}  // namespace
}  // namespace holdfast::testing
