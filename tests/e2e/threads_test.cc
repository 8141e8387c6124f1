// Threads by the stack that creates them: created and alive, however they end.
#include <signal.h>

#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;

class Threads : public Profiled, public ::testing::WithParamInterface<Launch> {
 protected:
  struct Known {
    std::string function;
    int64_t created, alive;
  };
  static std::vector<Known> KnownIn(const std::string& output) {
    std::vector<Known> all;
    std::istringstream lines(output);
    for (std::string word; lines >> word;) {
      Known known;
      if (word == "threads" && lines >> known.function >> known.created >> known.alive) all.push_back(known);
    }
    return all;
  }
  // Of the process that said so: a forked child has none of them.
  void ExpectKnown(const std::string& output) const {
    const std::vector<Decoded> files = Newest(out(), "threads");
    ASSERT_EQ(files.size(), 1u) << AllSummaries();
    const Decoded& profile = files[0];
    const std::vector<Known> all = KnownIn(output);
    ASSERT_FALSE(all.empty());
    int64_t created = 0, alive = 0;
    for (const Known& known : all) {
      const Values sums = profile.SumLeaf(known.function);
      EXPECT_EQ(sums.at("created"), known.created) << known.function << "\n" << profile.Summary();
      EXPECT_EQ(sums.at("alive"), known.alive) << known.function << "\n" << profile.Summary();
      created += known.created;
      alive += known.alive;
    }
    EXPECT_EQ(profile.Total().at("created"), created);
    EXPECT_EQ(profile.Total().at("alive"), alive);
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, Threads, ::testing::Values(Launch::kPreload, Launch::kRun), LaunchName);

TEST_P(Threads, AreCountedWhereTheyAreCreatedAndAliveUntilTheyEnd) {
  const RunResult result = RunAs(GetParam(), {"known_threads"});
  ASSERT_TRUE(result.exited(0)) << result.err;
  ExpectKnown(result.out);
  ExpectAllWhole();
}

// No wrapper sees a thread that is cancelled or ends by a system call, so the exporter looks for ended threads while the process runs.
TEST_F(Threads, CancelledThreadsDisappearFromSnapshots) {
  Running running(CommandFor(Launch::kExec, {"known_threads", "cdl", "wait"}, {{"snapshot-every", "200ms"}}));
  ASSERT_TRUE(running.WaitForOutput("threads leaks 7 7"));
  const auto alive = [this] {
    const std::vector<Decoded> files = Newest(out(), "threads");
    return files.size() == 1 && files[0].Total().contains("alive") ? files[0].Total().at("alive") : -1;
  };
  EXPECT_TRUE(Eventually([&] { return alive() == 7; })) << alive();
  running.Signal(SIGKILL);
  running.HoldInput();
  running.Wait();
  ASSERT_TRUE(Settled());
  EXPECT_EQ(alive(), 7) << "what was known to be gone stays so after the process's end";
}

TEST_F(Threads, ThatPileUpAreLeaks) {
  Running running(CommandFor(Launch::kRun, {"known_threads", "grow"}, {{"snapshot-every", "200ms"}, {"keep", "0"}}));
  StepThroughSnapshots(&running, 8);
  const RunResult leaks = RunTool({"leaks", out()});
  EXPECT_TRUE(leaks.exited(1)) << leaks.out << leaks.err;
  EXPECT_THAT(leaks.out, HasSubstr("threads  24 of known_threads"));
  EXPECT_THAT(leaks.out, HasSubstr("24 threads"));
  EXPECT_THAT(leaks.out, HasSubstr("leaks ← main"));
  const RunResult top = RunTool({"top", "--kind", "threads", out()});
  EXPECT_THAT(top.out, HasSubstr("metric   alive (threads)")) << top.err;
}

TEST_F(Threads, AreCountedInAForeignOperatorNew) {
  const RunResult result = RunAs(Launch::kPreload, {"events_in_operator"});
  ASSERT_TRUE(result.exited(0)) << result.err;
  ExpectKnown(result.out);
}

TEST_F(Threads, AreNotCountedWhereThatIsNotAskedFor) {
  const RunResult result = RunAs(Launch::kRun, {"known_threads"}, {{"profiles", "heap,block"}});
  ASSERT_TRUE(result.exited(0)) << result.err;
  EXPECT_TRUE(Newest(out(), "threads").empty());
}

}  // namespace
}  // namespace holdfast::testing
