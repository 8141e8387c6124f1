// The verdicts of `holdfast leaks` on real programs that grow, or do not.
#include <signal.h>
#include <unistd.h>

#include <memory>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class GrowingPrograms : public Profiled {
 protected:
  // A shape of tests/support/leak_shapes.h, exactly, with 13 snapshots that the program asks for.
  RunResult Shape(const std::string& name) {
    const RunResult run = RunAs(Launch::kRun, {"leak_shapes", name, "1", "400000", "1000", "13", "0.6"},
                                {{"heap-interval", "1"}, {"snapshot-every", "0"}});
    EXPECT_TRUE(run.exited(0)) << run.Describe();
    return RunTool({"leaks", out()});
  }

  // Warms up over 12 snapshots; waits then.
  std::unique_ptr<Running> WarmServer() {
    auto server = std::make_unique<Running>(
        CommandFor(Launch::kPreload, {"waits_for_input"}, {{"heap-interval", "1"}, {"snapshot-every", "20ms"}}));
    EXPECT_TRUE(server->WaitForOutput("ready"));
    for (size_t line = 1; line <= 12; ++line) {
      server->Write("line\n");
      EXPECT_TRUE(server->WaitForOutput("done " + std::to_string(line) + "\n"));
      EXPECT_TRUE(Eventually([&] { return ListProfiles(out()).size() >= line; }));
    }
    return server;
  }
  static std::string LeaksOf(const std::string& what) { return RunTool({"leaks", what}).out; }

  RunResult OneRun(const std::string& what) {
    const RunResult run = RunAs(Launch::kRun, {"remembers_in_bursts", what, "1"},
                                {{"heap-interval", "1"}, {"snapshot-every", "0"}, {"lifetimes", "yes"}});
    EXPECT_TRUE(run.exited(0)) << run.Describe();
    RunResult leaks = RunTool({"leaks", out()});
    EXPECT_THAT(leaks.out, ContainsRegex("1 snapshot and [0-9]+ earlier moments, over ")) << leaks.Describe();
    return leaks;
  }
};

TEST_F(GrowingPrograms, ASteadyLeakGrowsByTheRightFunction) {
  const RunResult leaks = Shape("linear-beside-traffic");
  EXPECT_TRUE(leaks.exited(1)) << leaks.Describe();
  EXPECT_THAT(leaks.out, HasSubstr("by leak_here"));
}

TEST_F(GrowingPrograms, AProgramThatHoldsTheSameRaisesNoAlarm) {
  const RunResult leaks = Shape("constant");
  EXPECT_TRUE(leaks.exited(0) || leaks.exited(4)) << leaks.Describe();
  EXPECT_THAT(leaks.out, HasSubstr("no stack grows"));
}

// One exact run with one snapshot, at its end: the births of live blocks are the course.
TEST_F(GrowingPrograms, OneExactRunIsEnoughToSeeALeak) {
  const RunResult leaks = OneRun("leak");
  EXPECT_TRUE(leaks.exited(1)) << leaks.Describe();
  EXPECT_THAT(leaks.out, HasSubstr("by remember_request"));
}

TEST_F(GrowingPrograms, OneExactRunOfAHealthyProgramRaisesNoAlarm) {
  const RunResult leaks = OneRun("ring");
  EXPECT_TRUE(leaks.exited(0) || leaks.exited(4)) << leaks.Describe();
  EXPECT_THAT(leaks.out, HasSubstr("no stack grows"));
  EXPECT_EQ(leaks.out.find("more snapshots"), std::string::npos) << "it has ended\n" << leaks.out;
}

// Small blocks seldom have a known age, so their ages do not show bursts.
TEST_F(GrowingPrograms, OneExactRunIsEnoughToSeeBurstsOfSmallBlocks) {
  const RunResult run = RunAs(Launch::kRun, {"leak_shapes", "bursts-4", "1", "400000", "512", "0", "1"},
                              {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  EXPECT_TRUE(run.exited(0)) << run.Describe();
  const RunResult leaks = RunTool({"leaks", out()});
  EXPECT_TRUE(leaks.exited(1)) << leaks.Describe();
  EXPECT_THAT(leaks.out, HasSubstr("by leak_here"));
}

// What a local object of main held is gone when main returns. It grew, but is no leak.
TEST_F(GrowingPrograms, OneExactRunShowsWhatMainHeldUntilItReturned) {
  const RunResult run =
      RunAs(Launch::kRun, {"remembers_in_bursts", "scope", "1"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  EXPECT_TRUE(run.exited(0)) << run.Describe();
  const RunResult leaks = RunTool({"leaks", out()});
  EXPECT_TRUE(leaks.exited(4)) << leaks.Describe();
  EXPECT_THAT(leaks.out, HasSubstr("grew while it ran ("));
  EXPECT_THAT(leaks.out, HasSubstr("by remember_request, and main freed it before it returned"));
}

// Snapshots that found nothing new are counted in the next file.
TEST_F(GrowingPrograms, ProgramsThatAreIdleBetweenSnapshotsAreJudged) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"},
                             {{"heap-interval", "1"}, {"snapshot-every", "50ms"}, {"lifetimes", "yes"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  int lines = 0;
  const auto was_idle = [&] {
    running.Write("line\n");
    EXPECT_TRUE(running.WaitForOutput("done " + std::to_string(++lines) + "\n"));
    usleep(200'000);
    const std::vector<Decoded> newest = NewestHeap();
    return !newest.empty() && newest[0].Comment("unchanged snapshots").has_value();
  };
  ASSERT_TRUE(Eventually(was_idle));
  running.CloseInput();
  running.Wait();
  ASSERT_TRUE(Settled());
  const RunResult leaks = RunTool({"leaks", out()});
  EXPECT_TRUE(leaks.exited(0) || leaks.exited(1) || leaks.exited(4)) << leaks.Describe();
  EXPECT_THAT(leaks.out, HasSubstr("answer "));
}

// A server that warmed up and waits has no newer files. Its table says that nothing has changed since.
TEST_F(GrowingPrograms, AServerThatWarmedUpAndWaitsIsNotGrowing) {
  const auto server = WarmServer();
  EXPECT_TRUE(Eventually([&] { return LeaksOf(out()).find("answer   level") != std::string::npos; }));
  // Also searches for pointers, which the program has not kept.
  const std::string pid = std::to_string(server->pid());
  EXPECT_TRUE(Eventually([&] { return LeaksOf(pid).find("answer   level") != std::string::npos; }));
  EXPECT_TRUE(Eventually([&] { return RunTool({"check", "--max-growth", "1B/h", out()}).exited(0); }));
  server->CloseInput();
  server->Wait();
}

// Missing files alone are no evidence: the exporter may be unable to write what has changed.
TEST_F(GrowingPrograms, AServerWhoseExporterIsStoppedIsNotLevel) {
  const auto server = WarmServer();
  ASSERT_EQ(Exporters().size(), 1u);
  const pid_t exporter = Exporters()[0];
  kill(exporter, SIGSTOP);
  server->Write("line\n");
  EXPECT_TRUE(server->WaitForOutput("done 13\n"));
  EXPECT_THAT(LeaksOf(out()), HasSubstr("answer   growing"));
  kill(exporter, SIGCONT);
  server->CloseInput();
  server->Wait();
}

TEST_F(GrowingPrograms, AServerWithoutSamplesIsNotLevel) {
  const auto server = WarmServer();
  const RunResult off = RunTool({"set", std::to_string(server->pid()), "heap-interval=0", "--tables", tables()});
  ASSERT_TRUE(off.exited(0)) << off.Describe();
  EXPECT_THAT(LeaksOf(out()), Not(HasSubstr("answer   level")));
  server->CloseInput();
  server->Wait();
}

TEST_F(GrowingPrograms, MappingsThatGrowAreLeaksOfTheFunctionThatMaps) {
  const RunResult run = RunAs(Launch::kRun, {"maps_more", "30"}, {{"snapshot-every", "0"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const RunResult leaks = RunTool({"leaks", out()});
  EXPECT_TRUE(leaks.exited(1)) << leaks.Describe();
  EXPECT_THAT(leaks.out, HasSubstr("by map_more"));
  const RunResult check = RunTool({"check", "--max-growth", "1KiB/h", out()});
  EXPECT_TRUE(check.exited(1)) << check.Describe();
  EXPECT_TRUE(RunTool({"check", "--max-growth", "1000GiB/s", out()}).exited(0));
  EXPECT_TRUE(RunTool({"check", "--max-growth", "fast", out()}).exited(2));
}

// A pool of the program's own is never the answer.
class PoolUsers : public GrowingPrograms, public ::testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(PoolUsers, AreNamedInsteadOfThePool) {
  const auto& [way, name] = GetParam();
  const RunResult run =
      RunAs(Launch::kRun, {"pool_users", way, "12"}, {{"snapshot-every", "0"}, {"heap-interval", "16KiB"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const RunResult leaks = RunTool({"leaks", "--color", "never", out()});
  EXPECT_TRUE(leaks.exited(1)) << leaks.Describe();
  EXPECT_THAT(leaks.out, HasSubstr(std::string("by ") + name));
  const std::string kind = std::string(way) == "arena" ? "heap" : "map";
  EXPECT_THAT(RunTool({"top", "--kind", kind, "--color", "never", out()}).out,
              HasSubstr(std::string("biggest  ") + name));
  // The pool is still there.
  for (const char* view : {"tree", "top"})
    EXPECT_THAT(RunTool({view, "--kind", kind, out()}).out,
                ::testing::AnyOf(HasSubstr("Slab::get"), HasSubstr("fresh"), HasSubstr("Arena::more"),
                                 HasSubstr("pool_piece")));
}

INSTANTIATE_TEST_SUITE_P(Ways, PoolUsers,
                         ::testing::Values(std::pair("slab", "index_document"), std::pair("nameless", "index_document"),
                                           std::pair("arena", "index_document"), std::pair("direct", "index_more")),
                         [](const auto& info) { return std::string(info.param.first); });

// What everything is made by, and the memory contexts of a server, are never the answer.
class HelperUsers : public GrowingPrograms,
                    public ::testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(HelperUsers, AreNamedInsteadOfTheHelper) {
  const auto& [way, name] = GetParam();
  const RunResult run =
      RunAs(Launch::kRun, {"helper_users", way, "8"}, {{"snapshot-every", "0"}, {"heap-interval", "4KiB"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const RunResult leaks = RunTool({"leaks", "--color", "never", out()});
  // On a busy machine the pauses between rounds are as long as the rounds, and the program stops too early.
  EXPECT_TRUE(leaks.exited(1) || leaks.exited(4)) << leaks.Describe();
  EXPECT_THAT(leaks.out, ContainsRegex(std::string("by ") + name + "[;\n]"));
}

INSTANTIATE_TEST_SUITE_P(Ways, HelperUsers,
                         ::testing::Values(std::pair("strings", "set_key"), std::pair("contexts", "save_plan")),
                         [](const auto& info) { return std::string(info.param.first); });

// Mappings stay as they are, the heap nearly so, and malloc keeps more and more that nobody uses.
TEST_F(GrowingPrograms, FragmentationIsAnAnswer) {
  const RunResult run = RunAs(Launch::kRun, {"fragments", "24"}, {{"snapshot-every", "0"}, {"heap-interval", "32KiB"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const RunResult leaks = RunTool({"leaks", "--color", "never", out()});
  EXPECT_TRUE(leaks.exited(1)) << leaks.Describe();
  EXPECT_THAT(leaks.out, ::testing::ContainsRegex(
                             "answer   (growing|grows in steps): free memory that (glibc|the allocator) keeps, "));
  EXPECT_THAT(leaks.out, HasSubstr("fragmentation, or arenas that return nothing"));
}

}  // namespace
}  // namespace holdfast::testing
