// The state at the peak of memory in use: its height, its time and its stacks, recorded from outside.
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kMiB = 1 << 20;
// A machine under test is busy: a peak that lasts 100 ms is promised to be seen by an exporter that may run.
constexpr const char* kLong = "400";

class Peak : public Profiled {
 protected:
  struct Case {
    std::string interval, block;
  };
  static std::vector<Case> Cases() { return {{"1", "65536"}, {"1", "1024"}, {"64KiB", "8192"}, {"512KiB", "65536"}}; }

  RunResult RunPeaks(Launch launch, const Case& of, const char* burst = "0", Options more = {},
                     std::vector<std::string> times = {kLong, "0"}) {
    more.insert({{"heap-interval", of.interval}, {"seed", "7"}, {"snapshot-every", "0"}, {"lock-interval", "0"}});
    Command command = CommandFor(launch, {"two_peaks", times[0], of.block, burst, times[1]}, more);
    command.input = "\n";
    return RunAndSettle(command);
  }
  Decoded OnlyPeak() const {
    const std::vector<Decoded> all = Newest(out(), "peak");
    EXPECT_EQ(all.size(), 1u) << AllSummaries();
    return all.empty() ? Decoded{} : all[0];
  }
  // "peak: 123 bytes at 2026-01-02T03:04:05.678Z": nanoseconds of the wall clock.
  static double TimeOf(const Decoded& profile, const std::string& key) {
    const std::string text = profile.Comment(key).value_or("");
    std::smatch found;
    if (!std::regex_search(text, found, std::regex(" at (.*)T(.*)\\.([0-9]{3})Z$"))) return -1;
    tm time{};
    const std::string date = found[1].str() + " " + found[2].str();
    strptime(date.c_str(), "%Y-%m-%d %H:%M:%S", &time);
    return static_cast<double>(timegm(&time)) * 1e9 + std::stod(found[3]) * 1e6;
  }
  static std::vector<double> SaidTimes(const std::string& output) {
    std::vector<double> times;
    std::istringstream lines(output);
    for (std::string word; lines >> word;) {
      if (word != "at") continue;
      lines >> word;
      times.push_back(std::stod(word));
    }
    return times;
  }
  // As the program says, by function and together.
  static void ExpectSecondPeak(const Decoded& profile, const std::string& output, double relative) {
    double together = 0;
    std::istringstream lines(output);
    std::set<std::string> seen;  // two programs may have said the same
    for (std::string word; lines >> word;) {
      if (word != "peak") continue;
      std::string function;
      double objects, bytes;
      lines >> function >> objects >> bytes;
      if (!seen.insert(function).second) continue;
      const Values got = profile.SumAny(function);
      if (!got.contains("peak_space")) {
        ADD_FAILURE() << function << " is not in it: " << profile.Summary();
        continue;
      }
      EXPECT_NEAR(static_cast<double>(got.at("peak_space")), bytes, relative * bytes) << function;
      EXPECT_NEAR(static_cast<double>(got.at("peak_objects")), objects, relative * objects) << function;
      together += bytes;
    }
    EXPECT_GT(together, 0) << output;
    const double error = std::sqrt(profile.VarianceOf("peak_space"));
    EXPECT_NEAR(static_cast<double>(profile.Total().at("peak_space")), together, 4 * error + 0.02 * together);
    EXPECT_NEAR(static_cast<double>(profile.CommentNumber("peak")), together, 4 * error + 0.02 * together);
    for (const char* other : {"hold_first", "hold_burst", "hold_last", "hold_last_much"})
      EXPECT_FALSE(profile.Names(other)) << other;
  }
};

// 4 standard errors; of 20 MiB and more in 512 KiB samples one is at most a sixth.
double Relative(const std::string& interval) {
  return interval == "1"       ? 0.02
         : interval == "64KiB" ? 4 * std::sqrt(0.0625 / 10) + 0.02
                               : 4 * std::sqrt(0.5 / 10) + 0.02;
}

TEST_F(Peak, IsWhatWasInUseWhenMostWas) {
  for (const Case& of : Cases()) {
    SCOPED_TRACE(of.interval + " " + of.block);
    std::filesystem::remove_all(out());
    const RunResult result = RunPeaks(Launch::kRun, of);
    ASSERT_TRUE(result.exited(0)) << result.Describe();
    const Decoded profile = OnlyPeak();
    EXPECT_EQ(profile.error, "");
    EXPECT_EQ(profile.types, (std::vector<std::string>{"peak_objects/count", "peak_space/bytes"}));
    EXPECT_EQ(profile.default_type, "peak_space");
    ExpectSecondPeak(profile, result.out, Relative(of.interval));
    EXPECT_TRUE(profile.Names("leave_for_malloc"))
        << "what left by a tail call, as in a heap profile: " << profile.Summary();
    // From a sample's distance before it was all there.
    const std::vector<double> times = SaidTimes(result.out);
    ASSERT_EQ(times.size(), 2u) << result.out;
    for (const char* key : {"peak", "peak stacks"}) {
      EXPECT_GE(TimeOf(profile, key), times[0] - 2e6) << key;
      EXPECT_LE(TimeOf(profile, key), times[1] + 2e6) << key;
    }
    EXPECT_EQ(Newest(out(), "heap").at(0).Comment("peak"), profile.Comment("peak"));
  }
}

TEST_F(Peak, AShortPeakHasItsHeightAndNamesTheMomentOfItsStacks) {
  const RunResult result = RunPeaks(Launch::kPreload, {"64KiB", "65536"}, "1");
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  const Decoded profile = OnlyPeak();
  const std::vector<double> times = SaidTimes(result.out);
  ASSERT_EQ(times.size(), 4u);
  EXPECT_NEAR(static_cast<double>(profile.CommentNumber("peak")), 110 * kMiB, 0.1 * 110 * kMiB);
  EXPECT_GE(TimeOf(profile, "peak"), times[0] - 2e6);
  EXPECT_LE(TimeOf(profile, "peak"), times[1] + 2e6);
  const RunResult top = RunTool({"top", "--peak", out()});
  ASSERT_TRUE(top.exited(0)) << top.Describe();
  if (profile.CommentNumber("peak stacks") < 0.98 * static_cast<double>(profile.CommentNumber("peak"))) {
    EXPECT_THAT(top.out, HasSubstr(", too short to be seen; these stacks: "));
  }
}

// Nobody looks so soon: where every allocation is recorded the program counts the height itself.
TEST_F(Peak, TheHeightIsExactHoweverShortThePeakIs) {
  const std::vector<std::vector<std::string>> cases = {
      {"one", "300", "256"},          {"burst", "20000", "1024"},     {"burst", "20", "1000000"},
      {"saw", "3000", "100"},         {"grown", "2000", "1000"},      {"burst", "3", "0"},
      {"burst", "4000", "24"},        {"burst", "9", "20000"},        {"handed", "4000", "100"},
      {"burst", "4000", "1000", "4"}, {"burst", "300", "1000", "40"}, {"burst", "100", "1000", "300"},
      {"after", "20000", "1000"},     {"turns", "20000", "1000"},     {"passed", "20000", "1000"}};
  for (const std::vector<std::string>& of : cases) {
    std::vector<std::string> command = {"short_peak"};
    command.insert(command.end(), of.begin(), of.end());
    SCOPED_TRACE(of[0] + " " + of[1] + " " + of[2]);
    std::filesystem::remove_all(out());
    const RunResult result = RunAs(Launch::kPreload, command, {{"heap-interval", "1"}, {"lock-interval", "0"}});
    ASSERT_TRUE(result.exited(0)) << result.Describe();
    ASSERT_EQ(result.out.rfind("peak ", 0), 0u) << result.out;
    const long long peak = std::stoll(result.out.substr(5));
    const Decoded heap = NewestHeap().at(0);
    const int64_t height = heap.CommentNumber("peak");
    const std::set<std::string> of_one_thread = {"one", "burst", "saw", "grown"};
    if (of.size() == 3 && of_one_thread.contains(of[0])) {
      EXPECT_EQ(height, peak);
      EXPECT_EQ(heap.Comment("peak error"), "none");
    } else {
      // libc has some hundred bytes for each thread.
      const long long of_threads = 1000 * (of.size() > 3 ? std::stoll(of[3]) : 2);
      EXPECT_LE(height, peak + of_threads);
      // However busy the machine is, what may be missing is said.
      const int64_t missing = std::max<int64_t>(0, heap.CommentNumber("peak error"));
      EXPECT_GE(height + missing, peak);
      EXPECT_LE(static_cast<double>(missing), 0.02 * static_cast<double>(peak));
    }
    for (const Decoded& profile : Newest(out(), "peak")) {
      EXPECT_LE(profile.Total().at("peak_space"), height) << "no state holds more than ever was in use";
      EXPECT_EQ(profile.CommentNumber("peak"), height);
    }
    // Of the height, whatever stacks were seen.
    EXPECT_TRUE(RunTool({"check", "--max", "peak_space=" + std::to_string(height), out()}).exited(0));
    const RunResult check = RunTool({"check", "--max", "peak_space=" + std::to_string(height - 1), out()});
    EXPECT_TRUE(check.exited(1)) << check.Describe();
    EXPECT_THAT(check.out, HasSubstr("FAIL  peak_space: "));
  }
}

// No stack of it was seen: its last heap profile is not its peak.
TEST_F(Peak, AShortProcessReportsHowMuchItsHeapProfileShows) {
  const auto run = [this](std::vector<std::string> command) {
    std::filesystem::remove_all(out());
    EXPECT_TRUE(RunAs(Launch::kPreload, std::move(command), {{"heap-interval", "1"}, {"peak", "no"}}).exited(0));
  };
  run({"short_peak", "burst", "2000", "1016"});
  for (const std::string& argument : {out(), NewestHeap().at(0).path}) {
    const RunResult top = RunTool({"top", "--peak", argument});
    EXPECT_TRUE(top.exited(3)) << top.Describe();
    EXPECT_THAT(top.err, HasSubstr("Its peak was 1.95MiB at "));
    EXPECT_THAT(top.err, HasSubstr("but the stacks were not recorded"));
    EXPECT_THAT(top.err, Not(HasSubstr("Leave out --peak")));
  }
}

// Within a second, and with nearly as much in use at its end: the heap profile has as many bytes, and other stacks.
TEST_F(Peak, AShortProcessThatEndsWithOtherBlocksHasOne) {
  for (const Case& of : {Case{"1", "65536"}, Case{"1", "1024"}}) {  // of an estimate the end might be higher
    SCOPED_TRACE(of.block);
    std::filesystem::remove_all(out());
    const RunResult result = RunPeaks(Launch::kRun, of, "0", {}, {"200", "1"});
    ASSERT_TRUE(result.exited(0)) << result.Describe();
    ExpectSecondPeak(OnlyPeak(), result.out, Relative(of.interval));
  }
}

TEST_F(Peak, IsThereAfterSigkill) {
  for (const char* interval : {"1", "512KiB"}) {
    SCOPED_TRACE(interval);
    std::filesystem::remove_all(out());
    Running program(CommandFor(Launch::kPreload, {"two_peaks", kLong, "65536", "0"},
                               {{"heap-interval", interval}, {"seed", "7"}, {"snapshot-every", "0"}}));
    ASSERT_TRUE(program.WaitForOutput("ready"));
    program.Signal(SIGKILL);
    const RunResult result = program.Wait();
    ASSERT_TRUE(Settled());
    ExpectSecondPeak(OnlyPeak(), result.out, Relative(interval));
  }
}

TEST_F(Peak, ThereIsOneFileAndItIsTheHighest) {
  const RunResult result = RunPeaks(Launch::kRun, {"1", "65536"}, "0", {{"snapshot-every", "100ms"}});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  const std::vector<ProfileName> files = ListProfiles(out());
  EXPECT_EQ(std::count_if(files.begin(), files.end(), [](const auto& file) { return file.kind == "peak"; }), 1);
  ExpectSecondPeak(OnlyPeak(), result.out, 0.02);
}

TEST_F(Peak, NoMeansNone) {
  const RunResult result = RunPeaks(Launch::kRun, {"1", "65536"}, "0", {{"peak", "no"}});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  EXPECT_TRUE(Newest(out(), "peak").empty());
  ASSERT_EQ(NewestHeap().size(), 1u);
  const RunResult top = RunTool({"top", "--peak", NewestHeap()[0].path});
  EXPECT_TRUE(top.exited(3)) << top.Describe();
  EXPECT_THAT(top.err, HasSubstr("no peak profile of this process next to it"));
}

// What is forked, and what is executed in the place of another program.
TEST_F(Peak, EachProcessHasItsOwn) {
  const std::string program = ProgramPath("two_peaks") + " " + kLong + " 65536 0 </dev/null";
  const RunResult result = RunAs(Launch::kRun, {"/bin/sh", "-c", program + "; exec " + program},
                                 {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  std::vector<std::string> heaps;
  for (const ProfileName& name : ListProfiles(out())) {
    if (name.program == "two_peaks" && name.kind == "heap") heaps.push_back(name.path);
    if (name.program == "two_peaks" && name.kind == "peak") ExpectSecondPeak(Decode(name.path), result.out, 0.02);
  }
  // Named by a heap profile: of that process alone.
  ASSERT_EQ(heaps.size(), 2u) << result.Describe();
  const RunResult top = RunTool({"top", "--peak", "--unit", "MiB", heaps[0]});
  ASSERT_TRUE(top.exited(0)) << top.Describe();
  EXPECT_THAT(top.out, ::testing::ContainsRegex("total +70[.0-9]*MiB"));
  EXPECT_THAT(top.out, ::testing::ContainsRegex("60[.0-9]*MiB.*hold_second"));
  EXPECT_THAT(top.out, ::testing::ContainsRegex("peak +70[.0-9]*MiB at 2"));
}

// Peaks at different times are not added up. Two of three processes end before the first look, so the third one's peak counts.
TEST_F(Peak, ProcessesThatShareAFileHaveTheHighestOfOne) {
  const std::string program = ProgramPath("two_peaks");
  const auto one = [&](const char* ms) { return program + " " + ms + " 65536 0 </dev/null; "; };
  const RunResult result =
      RunAs(Launch::kRun, {"/bin/sh", "-c", one("1") + one(kLong) + one("1") + "true"},
            {{"heap-interval", "1"}, {"lock-interval", "0"}, {"snapshot-every", "600s"}, {"merge-children", "yes"}});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  std::map<std::string, std::vector<std::string>> files;  // by kind
  for (const ProfileName& name : ListProfiles(out())) {
    if (name.program == "two_peaks") files[name.kind].push_back(name.path);
  }
  ASSERT_EQ(files["peak"].size(), 1u) << AllSummaries();
  ASSERT_EQ(files["heap"].size(), 1u) << AllSummaries();
  const Decoded profile = Decode(files["peak"][0]);
  EXPECT_EQ(profile.error, "");
  ExpectSecondPeak(profile, result.out, 0.02);
  EXPECT_EQ(profile.Comment("merged"), "the highest of 3 processes");
  // All three reach the same height, so any of them may be the highest.
  EXPECT_THAT(profile.Comment("command").value_or(""),
              ::testing::AnyOf(program + " " + kLong + " 65536 0", program + " 1 65536 0"));
  EXPECT_THAT(profile.Comment("total peak_space").value_or(""), ::testing::EndsWith(" ± 0"));
  const RunResult top = RunTool({"top", "--peak", "--unit", "MiB", files["heap"][0]});
  ASSERT_TRUE(top.exited(0)) << top.Describe();
  EXPECT_THAT(top.out, ::testing::ContainsRegex("peak +70[.0-9]*MiB at 2.*\\(the highest of 3 processes\\)"));
  // Another exporter goes on from there.
  ASSERT_TRUE(
      RunAs(Launch::kRun, {"/bin/sh", "-c", one("1") + "true"},
            {{"heap-interval", "1"}, {"lock-interval", "0"}, {"snapshot-every", "600s"}, {"merge-children", "yes"}})
          .exited(0));
  int later = 0;
  for (const ProfileName& name : ListProfiles(out())) {
    if (name.program != "two_peaks" || name.kind != "peak") continue;
    ++later;
    EXPECT_EQ(Decode(name.path).Comment("merged"), "the highest of 4 processes");
    ExpectSecondPeak(Decode(name.path), result.out, 0.02);
  }
  EXPECT_EQ(later, 1) << AllSummaries();
}

}  // namespace
}  // namespace holdfast::testing
