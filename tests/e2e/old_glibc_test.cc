// Programs with a glibc that lacks functions of newer versions. scripts/systems runs others on real older systems.
#include "tests/support/old_glibc.h"

namespace holdfast::testing {
namespace {

class OldGlibc : public Profiled {
 protected:
  RunResult Run(const std::string& program) {
    Command command = CommandFor(Launch::kPreload, {program}, {{"heap-interval", "1"}, {"lock-interval", "1ns"}});
    command.env["LD_LIBRARY_PATH"] = FolderOfOldGlibc(folder());
    return RunAndSettle(command);
  }
};

TEST_F(OldGlibc, BlocksAreExactAndStacksAreWhole) {
  const RunResult r = Run("allocators");
  EXPECT_EQ(r.out, RunAs(Launch::kBare, {"allocators"}).out);
  ExpectKnownHeap(r.out);
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u);
  for (const DecodedSample& sample : heap[0].samples) EXPECT_FALSE(sample.Has("[truncated]")) << heap[0].Summary();
}

TEST_F(OldGlibc, AMutexShowsEachWaitAndItsHolder) {
  const RunResult r = Run("hot_mutex");
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const KnownWait known = KnownWaits(r.out).at(0);
  const Values waited = NewestBlock().at(0).SumLeafWhere("victim_waits", "wait", "mutex");
  EXPECT_EQ(waited.at("contentions"), known.contentions) << AllSummaries();
  EXPECT_LE(waited.at("delay"), known.delay_ns);
  EXPECT_GE(waited.at("delay"), known.least_ns);
  EXPECT_GE(NewestMutex().at(0).SumLeafWhere("culprit_holds", "lock", "mutex").at("delay"), known.least_ns);
}

TEST_F(OldGlibc, ChildrenAreProfiled) {
  const RunResult r = Run("fork_profiles");
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  ExpectKnownHeap(r.out);
}

// That function misaligns the stack there. A program that never calls it must not get into it.
TEST_F(OldGlibc, AJoinCallsNoTimedjoin) {
  Command command = CommandFor(Launch::kPreload, {"refused_waits"}, {{"lock-interval", "1ns"}});
  command.env["LD_PRELOAD"] += ":" + ProgramPath("crashing_timedjoin.so");
  const RunResult r = RunAndSettle(command);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
}

}  // namespace
}  // namespace holdfast::testing
