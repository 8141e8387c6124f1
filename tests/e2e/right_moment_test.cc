// Snapshots when a condition is met, and the commands that run for them.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> Lines(const std::string& file) {
  std::vector<std::string> lines;
  std::istringstream text(std::filesystem::exists(file) ? ReadFile(file) : "");
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

class Triggers : public Profiled, public ::testing::WithParamInterface<Launch> {
 protected:
  static Options When(const std::string& text, Options more = {}) {
    more.insert({{"snapshot-when", text}, {"snapshot-every", "0"}, {"heap-interval", "16KiB"}});
    return more;
  }
  // What the comments `snapshot-when` of the process's files say, the oldest first; a file of none is left out. pid 0: of all.
  std::vector<std::vector<std::string>> Reasons(const std::string& kind = "heap", int64_t pid = 0) const {
    std::map<int64_t, std::vector<std::string>> by_seq;
    for (const ProfileName& name : ListProfiles(out())) {
      if (name.kind != kind || (pid != 0 && name.pid != pid)) continue;
      constexpr std::string_view kKey = "snapshot-when: ";
      for (const std::string& comment : Decode(name.path).comments) {
        if (comment.starts_with(kKey)) by_seq[name.seq].push_back(comment.substr(kKey.size()));
      }
    }
    std::vector<std::vector<std::string>> all;
    for (auto& [seq, reasons] : by_seq) all.push_back(std::move(reasons));
    return all;
  }
  static void Do(Running* program, const std::string& line) {
    program->Write(line + "\n");
    ASSERT_TRUE(program->WaitForOutput("done " + line)) << program->Wait().Describe();
  }
};
INSTANTIATE_TEST_SUITE_P(BothWays, Triggers, ::testing::Values(Launch::kPreload, Launch::kRun), LaunchName);

TEST_P(Triggers, InUseOnceUntilItWasLess) {
  Running program(CommandFor(GetParam(), {"moments"}, When("inuse>50MiB")));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  Do(&program, "hold 40");
  Do(&program, "hold 20");
  ASSERT_TRUE(Eventually([&] { return Reasons().size() == 1; })) << AllSummaries();
  ASSERT_THAT(Reasons()[0], ElementsAre(StartsWith("inuse>50MiB at ")));
  const int64_t held = NewestHeap().at(0).SumAny("hold_more").at("inuse_space");
  EXPECT_NEAR(static_cast<double>(held), 60 << 20, 12 << 20) << "it may see the last ones come";
  EXPECT_GT(held, 48 << 20);
  Do(&program, "hold 20");  // still more: nothing new
  Do(&program, "free");
  // Until the exporter has looked between the two.
  for (int tries = 0; tries < 20 && Reasons().size() < 2; ++tries) {
    Do(&program, "free");
    Eventually([] { return false; }, 0.5);
    Do(&program, "hold 70");
    Eventually([&] { return Reasons().size() == 2; }, 10);
  }
  EXPECT_EQ(Reasons().size(), 2u);
  const RunResult r = program.Wait();
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  ASSERT_TRUE(Settled());
  EXPECT_EQ(Reasons().size(), 2u) << "the last profile was not asked for by a condition";
  ExpectAllWhole();
  for (const ProfileName& name : ListProfiles(out())) {
    if (name.kind != "heap" || name.seq != 1) continue;
    EXPECT_THAT(RunTool({"info", name.path}).out, HasSubstr("snapshot-when: inuse>50MiB at "));
  }
}

TEST_P(Triggers, EachSampledOneByOneCountsToo) {
  Running program(CommandFor(GetParam(), {"moments"}, When("inuse>50MiB", {{"heap-interval", "1"}, {"peak", "no"}})));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  Do(&program, "hold 60");
  ASSERT_TRUE(Eventually([&] { return Reasons().size() == 1; })) << AllSummaries();
  program.Wait();
  ASSERT_TRUE(Settled());
  EXPECT_TRUE(Newest(out(), "peak").empty()) << "nobody asked for that";
}

TEST_P(Triggers, TwoAtOnceAreOneFile) {
  Running program(CommandFor(GetParam(), {"moments"}, When("inuse>30MiB, growth>20MiB/min")));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  Do(&program, "hold 5");
  Do(&program, "hold 60");
  ASSERT_TRUE(Eventually([&] { return !Reasons().empty(); })) << AllSummaries();
  program.Wait();
  ASSERT_TRUE(Settled());
  // Where the exporter looked between the two, the second waited for its turn, and was there when the program ended or is one more.
  std::string all;
  for (const auto& reasons : Reasons()) {
    for (const std::string& reason : reasons) all += reason + "\n";
  }
  EXPECT_THAT(all, HasSubstr("growth>20MiB/min at "));
}

TEST_P(Triggers, ResidentMemory) {
  Running program(CommandFor(GetParam(), {"moments"}, When("rss>60MiB")));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  Do(&program, "hold 80");
  ASSERT_TRUE(Eventually([&] { return Reasons().size() == 1; })) << AllSummaries();
  EXPECT_THAT(Reasons()[0], ElementsAre(StartsWith("rss>60MiB at ")));
  program.Wait();
}

// A wait that goes on counts, an idle one does not.
TEST_P(Triggers, WaitsForLocks) {
  Running program(CommandFor(GetParam(), {"moments"}, When("delay>1s/min")));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  Do(&program, "idle 3000");
  Do(&program, "stick");
  ASSERT_TRUE(Eventually([&] { return Reasons("block").size() == 1; })) << AllSummaries();
  // Seen within a second or two of its own; with the idle wait it would have been there at once, with more.
  EXPECT_THAT(Reasons("block")[0], ElementsAre(StartsWith("delay>1s/min at ")));
  const Values sticks = NewestBlock().at(0).SumAny("wait_for_main");
  ASSERT_TRUE(sticks.contains("delay")) << NewestBlock().at(0).Summary();
  EXPECT_GE(sticks.at("delay"), 1'000'000'000);
  program.Wait();
}

// As short a time as a condition may have.
TEST_P(Triggers, WaitsForLocksWithinASecond) {
  Running program(CommandFor(GetParam(), {"moments"}, When("delay>700ms/s")));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  Do(&program, "stick");
  ASSERT_TRUE(Eventually([&] { return Reasons("block").size() == 1; })) << AllSummaries();
  EXPECT_THAT(Reasons("block")[0], ElementsAre(StartsWith("delay>700ms/s at ")));
  program.Wait();
}

// All at once, before anybody could look.
TEST_P(Triggers, GrowthSinceTheBeginningOfTheProgram) {
  const RunResult r =
      RunAs(GetParam(), {"two_peaks", "400", "65536", "0"}, When("growth>35MiB/min", {{"snapshot-every", "0"}}));
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  ASSERT_FALSE(Reasons().empty()) << AllSummaries();
  // 40 MiB; without the beginning it would take the second peak's 70.
  const std::string reason = Reasons()[0].at(0);
  EXPECT_THAT(reason, StartsWith("growth>35MiB/min at "));
  EXPECT_LT(std::stod(reason.substr(reason.find(" at ") + 4)), 55) << reason;
}

TEST_P(Triggers, AForkedChildHasItsOwn) {
  Running program(CommandFor(GetParam(), {"moments"}, When("inuse>30MiB")));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  Do(&program, "hold 1");
  program.Write("fork 40\n");
  ASSERT_TRUE(program.WaitForOutput("child "));
  ASSERT_TRUE(Eventually([&] { return Reasons().size() == 1; })) << AllSummaries();
  EXPECT_TRUE(Reasons("heap", program.pid()).empty());
  program.Wait();
}

TEST_P(Triggers, AnInvalidConditionIsNamed) {
  const RunResult r = Execute(CommandFor(GetParam(), {"nothing"}, {{"snapshot-when", "inuse>5 parsecs"}}));
  EXPECT_THAT(r.err, HasSubstr("inuse>2GiB, rss>80%limit, growth>100MiB/min, delay>10s/min"));
  EXPECT_TRUE(r.exited(GetParam() == Launch::kRun ? 125 : 0)) << r.Describe();
}

TEST_P(Triggers, ACommandGetsEachFile) {
  const std::string list = folder() + "/list", script = folder() + "/note it";
  WriteFile(script, "#!/bin/sh\nread line || echo no input >>'" + list +
                        "'\ntest \"$(ps -o sid= -p $$ | tr -d ' ')\" -gt 1\n"
                        "test -f \"$2\" && echo \"$1 $2\" >>'" +
                        list + "'\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const RunResult r =
      RunAs(GetParam(), {"moments"},
            {{"snapshot-every", "0"}, {"heap-interval", "1"}, {"on-snapshot", "'" + script + "' first"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const std::vector<ProfileName> files = ListProfiles(out());
  ASSERT_FALSE(files.empty());
  ASSERT_TRUE(Eventually([&] { return Lines(list).size() == 2 * files.size(); })) << ReadFile(list);
  for (const ProfileName& file : files) EXPECT_THAT(Lines(list), ::testing::Contains("first " + file.path));
}

TEST_P(Triggers, AFailingCommandIsReportedOnceAndALongOneBlocksNothing) {
  const std::string log = out() + "/.on-snapshot.log", begun = folder() + "/begun", over = folder() + "/over";
  RunAs(GetParam(), {"moments"}, {{"heap-interval", "1"}, {"on-snapshot", "echo oops >&2; false"}});
  ASSERT_TRUE(Eventually([&] { return Exporters().empty(); }));
  RunAs(GetParam(), {"hot_mutex"}, {{"heap-interval", "1"}, {"on-snapshot", "exit 3 #"}});
  const auto says = [&](const std::string& text) {
    return Eventually([&] { return std::filesystem::exists(log) && ReadFile(log).find(text) != std::string::npos; });
  };
  EXPECT_TRUE(says("oops"));
  EXPECT_TRUE(says("--on-snapshot exit 3 #: exit status 3; reported only once")) << ReadFile(log);
  ASSERT_TRUE(Eventually([&] { return Exporters().empty(); }));
  const std::string all = ReadFile(log), once = "exit status 1; reported only once";
  EXPECT_NE(all.find(once), std::string::npos) << all;
  EXPECT_EQ(all.find(once), all.rfind(once)) << all;
  const RunResult r =
      RunAs(GetParam(), {"moments"},
            {{"heap-interval", "1"}, {"on-snapshot", "touch " + begun + "; sleep 10; touch " + over + "; true"}});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_FALSE(std::filesystem::exists(over));
  EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(begun); }));
}

// In whatever group: timeout makes its own.
TEST_P(Triggers, LeftoverProcessesOfACommandEndWithIt) {
  const std::string left = folder() + "/left";
  RunAs(GetParam(), {"moments"},
        {{"heap-interval", "1"}, {"on-snapshot", "timeout 40 sleep 40 & echo $! >>" + left + "; sleep 1; true"}});
  ASSERT_TRUE(Eventually([&] { return Exporters().empty(); }));
  const std::vector<std::string> pids = Lines(left);
  ASSERT_FALSE(pids.empty());
  for (const std::string& pid : pids)
    EXPECT_TRUE(Eventually([&] { return kill(std::stoi(pid), 0) != 0; }, 5)) << "timeout is still there";
}

TEST_P(Triggers, ACommandsOutputIsBoundedAndItsFailureReported) {
  const std::string log = out() + "/.on-snapshot.log";
  RunAs(GetParam(), {"moments"}, {{"heap-interval", "1"}, {"on-snapshot", "yes | head -c 3000000; false"}});
  ASSERT_TRUE(Eventually([&] { return Exporters().empty(); }));
  const std::string all = ReadFile(log);
  EXPECT_GT(all.size(), 32u << 10);
  EXPECT_LE(all.size(), 64u << 10);
  EXPECT_NE(all.find("exit status 1; reported only once"), std::string::npos);
}

// Root's exporter writes the files of programs that root's became: what these say is another user's word.
class SnapshotCommands : public Profiled {};

TEST_F(SnapshotCommands, NoneForAnotherUsersProgram) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  const std::string list = folder() + "/list";
  const RunResult r =
      RunAs(Launch::kRun, {"becomes_another", "worker"}, {{"heap-interval", "1"}, {"on-snapshot", "echo >>" + list}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const std::vector<Decoded> heaps = NewestHeap();
  ASSERT_GT(heaps.size(), 1u) << AllSummaries();
  size_t own = 0;
  for (const Decoded& heap : heaps) own += heap.Names("allocates_as_root") ? 1 : 0;
  ASSERT_LT(own, heaps.size()) << AllSummaries();
  ASSERT_TRUE(Eventually([&] { return Exporters().empty(); }));
  for (const Decoded& heap : heaps) {
    if (heap.Names("allocates_as_root")) continue;
    EXPECT_THAT(Lines(list), ::testing::Not(::testing::Contains(HasSubstr(heap.path))));
  }
}

}  // namespace
}  // namespace holdfast::testing
