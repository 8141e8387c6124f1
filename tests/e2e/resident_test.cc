// The resident part of live blocks, by stack: --resident and the kind `resident`, for programs that know it.
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Truth {
  double blocks = 0, bytes = 0, resident = 0;
};

std::map<std::string, Truth> TruthOf(const std::string& output) {
  std::map<std::string, Truth> all;
  std::istringstream lines(output);
  for (std::string word, function; lines >> word;) {
    if (word != "resident") continue;
    Truth of;
    lines >> function >> of.blocks >> of.bytes >> of.resident;
    all[function] = of;
  }
  return all;
}

class Resident : public Profiled {
 protected:
  RunResult Run(const std::string& interval, int seed, std::vector<std::string> arguments,
                Launch launch = Launch::kRun) {
    arguments.insert(arguments.begin(), "known_resident");
    return RunAs(launch, arguments,
                 {{"heap-interval", interval},
                  {"seed", std::to_string(seed)},
                  {"snapshot-every", "0"},
                  {"lock-interval", "0"},
                  {"resident", "yes"}});
  }
  Decoded Only() const {
    const std::vector<Decoded> all = Newest(out(), "resident");
    EXPECT_EQ(all.size(), 1u) << AllSummaries();
    return all.empty() ? Decoded{} : all[0];
  }
};

double Of(const Values& values, const std::string& type) {
  return values.contains(type) ? static_cast<double>(values.at(type)) : 0;
}

TEST_F(Resident, IsExactAtInterval1) {
  for (const char* mode : {"plain", "fork", "threads"}) {
    SCOPED_TRACE(mode);
    std::filesystem::remove_all(out());
    const RunResult r = Run("1", 1, {"32", "3000", mode});
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    std::map<std::string, Truth> truth = TruthOf(r.out);
    const bool forks = truth.erase("in_child") > 0;
    ASSERT_EQ(truth.size(), 6u);
    std::optional<Decoded> found;
    for (Decoded& each : Newest(out(), "resident")) {
      ASSERT_EQ(each.error, "");
      if (each.Names("third_touched")) found = std::move(each);
    }
    ASSERT_TRUE(found.has_value()) << AllSummaries();
    EXPECT_EQ(found->types, (std::vector<std::string>{"inuse_objects/count", "inuse_space/bytes",
                                                      "resident_space/bytes", "swapped_space/bytes"}));
    EXPECT_EQ(found->default_type, "resident_space");
    EXPECT_EQ(found->duration_nanos, 0);
    EXPECT_THAT(found->Comment("swapped_bytes").value_or(""), ::testing::StartsWith("0 ± 0"));
    EXPECT_EQ(found->VarianceOf("resident_space"), 0);
    for (const auto& [function, of] : truth) {
      SCOPED_TRACE(function);
      const Values values = found->SumLeaf(function);
      EXPECT_EQ(Of(values, "inuse_objects"), of.blocks);
      EXPECT_EQ(Of(values, "inuse_space"), of.bytes);
      EXPECT_EQ(Of(values, "resident_space"), of.resident);
    }
    if (!forks) continue;
    // Of its parent's blocks it has none.
    for (const Decoded& each : Newest(out(), "resident")) {
      if (each.Names("third_touched")) continue;
      EXPECT_EQ(Of(each.SumLeaf("all_touched"), "resident_space"), 1 << 20);
    }
  }
}

TEST_F(Resident, IsUnbiasedAtTheDefault) {
  double sum = 0, expected = 0, variance = 0;
  for (int seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::filesystem::remove_all(out());
    const RunResult r = Run("512KiB", seed, {"40", "40000"});
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    const Decoded profile = Only();
    ASSERT_EQ(profile.error, "");
    double of_all = 0;
    for (const auto& [function, of] : TruthOf(r.out)) {
      SCOPED_TRACE(function);
      const double p = 1 - std::exp(-of.bytes / of.blocks / (512 << 10)), each = of.resident / of.blocks;
      const double error = each * std::sqrt(of.blocks * (1 - p) / (p * p) * p);
      // 5 sigma: one in 1.7 million numbers is farther off, and the test compares a hundred.
      EXPECT_NEAR(Of(profile.SumLeaf(function), "resident_space"), of.resident, 5 * error + 1);
      of_all += of.blocks * each * each * (1 - p) / p;
      expected += of.resident;
      sum += Of(profile.SumLeaf(function), "resident_space");
    }
    variance += of_all;
    // The file's own error is estimated, too, from few samples of small blocks.
    EXPECT_NEAR(std::sqrt(profile.VarianceOf("resident_space")), std::sqrt(of_all), 0.4 * std::sqrt(of_all));
  }
  EXPECT_NEAR(sum, expected, 4 * std::sqrt(variance));
}

TEST_F(Resident, IsThereOnlyWhereItWasAskedFor) {
  const RunResult r = RunAs(Launch::kPreload, {"known_resident", "4", "100"}, {{"heap-interval", "1"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_FALSE(NewestHeap()[0].Comment("resident left out").has_value());
  EXPECT_TRUE(Newest(out(), "resident").empty()) << AllSummaries();
  const RunResult top = RunTool({"top", "--metric", "resident_space", out()});
  EXPECT_TRUE(top.exited(3)) << top.Describe();
  EXPECT_THAT(top.err, HasSubstr("--resident yes"));
  const RunResult wrong = RunTool({"run", "--resident", "perhaps", "--", "true"});
  EXPECT_TRUE(wrong.exited(125));
  EXPECT_THAT(wrong.err, HasSubstr("yes or no"));
  EXPECT_THAT(wrong.err, Not(HasSubstr("Did you mean")));
}

TEST_F(Resident, CanBeSwitchedOnWhileItRuns) {
  Running program(CommandFor(Launch::kPreload, {"known_resident", "8", "500", "wait"},
                             {{"heap-interval", "1"}, {"snapshot-every", "0"}}));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  const std::string pid = std::to_string(program.pid());
  EXPECT_TRUE(RunTool({"set", "--tables", tables(), pid, "resident=perhaps"}).exited(2));
  const RunResult set = RunTool({"set", "--tables", tables(), pid, "resident=on"});
  ASSERT_TRUE(set.exited(0)) << set.Describe();
  const RunResult dump = RunTool({"dump", "--tables", tables(), pid});
  ASSERT_TRUE(dump.exited(0)) << dump.Describe();
  EXPECT_EQ(Of(Only().SumLeaf("all_touched"), "resident_space"), 8 << 20);
  program.Signal(SIGKILL);
  program.Wait();
  EXPECT_TRUE(Settled());
}

// Nobody can look at a process that is gone: no file, and the heap profile says why.
TEST_F(Resident, IsOmittedAndReportedIfUnreadable) {
  const RunResult r = Run("1", 1, {"8", "500", "vanish"}, Launch::kPreload);
  ASSERT_EQ(NewestHeap().size(), 1u) << r.Describe() << AllSummaries();
  if (Newest(out(), "resident").empty()) {
    EXPECT_THAT(NewestHeap()[0].Comment("resident left out").value_or(""), Not(::testing::IsEmpty()));
  } else {  // a snapshot was made while it lived
    EXPECT_LE(Of(Only().Total(), "resident_space"), Of(Only().Total(), "inuse_space"));
  }
}

TEST_F(Resident, IsInEveryView) {
  const RunResult r = Run("16KiB", 1, {"16", "3000"});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const std::string heap = NewestHeap().at(0).path, resident = Only().path;
  for (const std::vector<std::string>& view :
       std::vector<std::vector<std::string>>{{"top", "--metric", "resident_space", "--error", out()},
                                             {"top", "--metric", "resident_space", heap},
                                             {"top", "--kind", "resident", out()},
                                             {"top", resident},
                                             {"tree", "--kind", "resident", out()},
                                             {"peek", "--kind", "resident", "third_touched", out()},
                                             {"callers", "--kind", "resident", out()},
                                             {"diff", resident, resident},
                                             {"info", resident},
                                             {"export", "--to", "folded", resident},
                                             {"merge", "-o", folder() + "/merged.pb.gz", resident, resident},
                                             {"html", "-o", folder() + "/page.html", out()}}) {
    const RunResult answer = RunTool(view);
    EXPECT_TRUE(answer.exited(0)) << answer.Describe();
    if (view[0] == "top") {
      EXPECT_THAT(answer.out, HasSubstr("resident_space (resident)")) << answer.Describe();
      EXPECT_THAT(answer.out, HasSubstr("third_touched"));
    }
  }
  // Folders are taken for their heap profiles, as before.
  EXPECT_THAT(RunTool({"top", out()}).out, HasSubstr("inuse_space (heap)"));
  EXPECT_THAT(RunTool({"top", "--metric", "inuse_space", out()}).out, HasSubstr("inuse_space (heap)"));
  const RunResult go = RunGoPprof({"-top", "-sample_index=resident_space", resident});
  if (go.exited(0)) {
    EXPECT_THAT(go.out, HasSubstr("all_touched"));
  }
}

}  // namespace
}  // namespace holdfast::testing
