// What looks at several profiles: diff, merge, check.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "fmt/format.h"
#include "report/analysis/variance.h"
#include "tests/unit/analysis_fixture.h"

namespace holdfast {
namespace {

using testing::Analysis;
using testing::GoPprof;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ParseCsv;
using testing::ParseGoTree;
using testing::RandomProfile;
using testing::Stack;
using testing::StackProfile;

// Of a profile of what is resident: mappings are exact, an allocator's as sure as all blocks, and blocks have what the file states.
TEST(VarianceTest, MappingsNextToBlocks) {
  Profile p;
  const auto text = [&](std::string_view t) { return p.strings.Intern(t); };
  for (const auto& [type, unit] : {std::pair{"inuse_objects", "count"},
                                   {"inuse_space", "bytes"},
                                   {"resident_space", "bytes"},
                                   {"swapped_space", "bytes"}}) {
    p.sample_types.push_back({text(type), text(unit)});
  }
  p.AddComment("interval: 1024 bytes");
  p.AddComment("total resident_space: 7000 ± 196");
  const auto add = [&](std::vector<int64_t> values, const char* mapping) {
    std::vector<Profile::Label> labels;
    if (mapping != nullptr) labels.push_back({.key = text("mapping"), .text = text(mapping)});
    p.AddSample(std::vector<uint32_t>{}, values, labels);
  };
  add({10, 1000, 500, 0}, nullptr);
  add({10, 1000, 1000, 0}, nullptr);
  add({1, 4096, 4096, 0}, "file");
  add({1, 4096, 1000, 0}, "arena");
  add({1, 4096, 3000, 0}, "arena");
  const std::vector<double> variances = VariancesOf(testing::WithRecords(p));
  ASSERT_EQ(variances.size(), 20u);
  const auto of_resident = [&](size_t sample) { return variances[sample * 4 + 2]; };
  EXPECT_NEAR(of_resident(0) + of_resident(1), 100 * 100, 1e-6);
  EXPECT_NEAR(of_resident(1), 2 * of_resident(0), 1e-6);
  EXPECT_EQ(of_resident(2), 0);
  EXPECT_NEAR(of_resident(3), 2500, 1e-6);
  EXPECT_NEAR(of_resident(4), 7500, 1e-6);
  EXPECT_EQ(variances[2 * 4 + 1], 0);
}

class DiffTest : public Analysis {};

TEST_F(DiffTest, OneFileWithItselfIsEmpty) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    const std::string file = Save("a", RandomProfile(seed));
    for (const char* metric : {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}) {
      const Result diff = Diff({.view = {.files = {file, file}, .metric = metric, .node_count = 0, .format = "csv"}});
      EXPECT_EQ(diff.exit_code, 0) << diff.err;
      EXPECT_EQ(ParseCsv(diff.out).size(), 0u);
    }
  }
}

TEST_F(DiffTest, AgreesWithGoRowByRow) {
  const std::string base = Save("base.pb.gz", RandomProfile(1)), head = Save("head.pb.gz", RandomProfile(2));
  for (const char* metric : {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}) {
    const std::string options =
        std::string("-tree -nodecount=0 -nodefraction=0 -edgefraction=0 -unit=bytes -sample_index=") + metric +
        " -base=" + base;
    const auto go = ParseGoTree(GoPprof(options, head).output).nodes;
    ASSERT_GE(go.size(), 40u);
    const Result diff = Diff({.view = {.files = {base, head}, .metric = metric, .node_count = 0, .format = "csv"}});
    EXPECT_EQ(Deltas(diff.out), go) << metric;
  }
}

TEST_F(DiffTest, SaysWhatKindOfChangeItIs) {
  const std::string base =
      Save("base", StackProfile({Stack{"main;kept", 100}, Stack{"main;gone", 40}, Stack{"main;less", 30}}));
  const std::string head =
      Save("head", StackProfile({Stack{"main;kept", 100}, Stack{"main;new", 70}, Stack{"main;less", 10}}));
  const Result diff = Diff({.view = {.files = {base, head}, .unit = "bytes"}});
  EXPECT_EQ(diff.exit_code, 0) << diff.err;
  EXPECT_THAT(diff.out, HasSubstr("base     170\nhead     180\nchange   +10, +5.88%\n"));
  EXPECT_THAT(diff.out, HasSubstr("    0    70    +70    +70 ±0  added    new  (app)\n"));
  EXPECT_THAT(diff.out, HasSubstr("   40     0    -40    -40 ±0  removed  gone  (app)\n"));
  EXPECT_THAT(diff.out, HasSubstr("   30    10    -20    -20 ±0  shrunk   less  (app)\n"));
  EXPECT_THAT(diff.out, HasSubstr("  170   180      0    +10 ±0  grown    main  (app)\n"));
  EXPECT_THAT(diff.out, ::testing::Not(HasSubstr("kept")));
}

TEST_F(DiffTest, ChangesWithinTheSamplingErrorAreMarked) {
  const auto sampled = [&](const char* name, int64_t objects) {
    Profile p = StackProfile({Stack{"main;hold", objects * 4096, objects}});
    p.AddComment("interval: 524288 bytes");
    return Save(name, p);
  };
  // 4 KiB objects under 512 KiB: 128 objects for each sample, ± 1.96·√(1000·127.5) = 700 objects.
  const std::string base = sampled("base", 1000);
  const Result small = Diff({.view = {.files = {base, sampled("head", 1300)}, .format = "csv"}});
  EXPECT_EQ(ParseCsv(small.out).at(0).at("within_error"), "yes") << small.out;
  const Result large = Diff({.view = {.files = {base, sampled("far", 9000)}, .format = "csv"}});
  EXPECT_EQ(ParseCsv(large.out).at(0).at("within_error"), "no");
  const Result only =
      Diff({.view = {.files = {base, sampled("head", 1300)}, .format = "csv"}, .only_significant = true});
  EXPECT_EQ(ParseCsv(only.out).size(), 0u);
}

TEST_F(DiffTest, SnapshotsOfOneProcessAreSurerThanTwoProcesses) {
  // 1,000 objects are in both snapshots; only what was added is uncertain where they are of one process.
  const auto sampled = [&](const char* name, const char* process, int64_t objects) {
    Profile p =
        Snapshot(process, objects, {Stack{"main;hold", 409600, 100}, Stack{"main;grow", objects * 4096, objects}});
    p.AddComment("interval: 524288 bytes");
    return Save(name, p);
  };
  const auto error_of = [&](const std::string& base, const std::string& head) {
    const auto rows = ParseCsv(Diff({.view = {.files = {base, head}, .format = "csv"}}).out);
    for (const auto& row : rows) {
      if (row.at("function") == "main") return std::stod(row.at("total_error"));
    }
    ADD_FAILURE() << "no row of main";
    return 0.0;
  };
  const std::string base = sampled("base", "one", 1000), head = sampled("head", "one", 1200),
                    other = sampled("other", "two", 1200);
  // 4 KiB under 512 KiB: σ² = n · 4096² · (1−p)/p, p = 1 − e^(−1/128); n is 200 or 2·100 + 1000 + 1200.
  const double each = 4096.0 * 4096 * std::exp(-1.0 / 128) / (1 - std::exp(-1.0 / 128));
  EXPECT_NEAR(error_of(base, head), 1.96 * std::sqrt(200 * each), 2);
  EXPECT_NEAR(error_of(base, other), 1.96 * std::sqrt(2400 * each), 2);
}

TEST_F(DiffTest, BlocksThatWereReplacedAreNotTheSameSample) {
  // One block more than before; 200 of the 1,000 or all were replaced between the snapshots.
  const auto sampled = [&](const char* name, int64_t objects, int64_t allocated) {
    Profile p = Snapshot("one", objects, {Stack{"main;pool", objects * 4096, objects, allocated * 4096, allocated}});
    p.AddComment("interval: 524288 bytes");
    return Save(name, p);
  };
  const std::string base = sampled("base", 1000, 1000);
  const double each = 4096.0 * 4096 * std::exp(-1.0 / 128) / (1 - std::exp(-1.0 / 128));
  for (const int64_t replaced : {200, 1000, 5000}) {
    const std::string head = sampled("head", 1001, 1001 + replaced);
    const auto rows = ParseCsv(Diff({.view = {.files = {base, head}, .format = "csv"}}).out);
    ASSERT_FALSE(rows.empty());
    const auto blocks = static_cast<double>(std::min<int64_t>(replaced + 1, 1001) + std::min<int64_t>(replaced, 1000));
    EXPECT_NEAR(std::stod(rows[0].at("total_error")), 1.96 * std::sqrt(blocks * each), 2);
  }
}

TEST_F(DiffTest, ABaseOfZeroIsNothingToScaleTo) {
  const std::string base = Save("base", StackProfile({Stack{"main;gone", 0, 0, 100, 1}})),
                    head = Save("head", StackProfile({Stack{"main;new", 5000}}));
  const Result diff = Diff({.view = {.files = {base, head}}, .compare = {.normalize = true}});
  EXPECT_NE(diff.exit_code, 0) << diff.out;
  EXPECT_THAT(diff.err, HasSubstr("the base's total is 0"));
}

TEST_F(DiffTest, ComparesTwoValuesOfALabel) {
  const std::string file = Save("random", RandomProfile(5));
  const auto half = [&](const char* label) {
    const Result top = testing::Catch([&](auto& out, auto& err) {
      return RunTop({.files = {file}, .node_count = 0, .stacks = {.tag_focus = label}, .format = "csv"}, out, err);
    });
    return testing::ParseOurTop(top.out).nodes;
  };
  const auto base = half("bytes=:127B"), head = half("bytes=128B:");
  ASSERT_GE(base.size(), 5u);
  std::map<std::string, std::pair<int64_t, int64_t>> expected;
  for (const auto& [name, values] : base) expected[name] = {-values.first, -values.second};
  for (const auto& [name, values] : head) {
    expected[name].first += values.first;
    expected[name].second += values.second;
  }
  std::erase_if(expected, [](const auto& row) { return row.second == std::pair(int64_t{0}, int64_t{0}); });
  const Result diff = Diff({.view = {.files = {file}, .node_count = 0, .format = "csv"},
                            .compare = {.base_label = "bytes=:127B", .head_label = "bytes=128B:"}});
  EXPECT_EQ(Deltas(diff.out), expected) << diff.err;
  EXPECT_EQ(Diff({.view = {.files = {file}}, .compare = {.base_label = "bytes=1B"}}).exit_code, 2);
}

TEST_F(DiffTest, SetsFoldersAndShares) {
  const std::string a = Save("app.1.0001.heap.pb.gz", Snapshot("one", 1, {Stack{"main;f", 100}}));
  const std::string b = Save("app.1.0002.heap.pb.gz", Snapshot("one", 2, {Stack{"main;f", 300}}));
  const std::string c = Save("app.2.0001.heap.pb.gz", Snapshot("two", 2, {Stack{"main;f", 50}}));
  const Result folder = Diff({.view = {.files = {folder_.path()}, .format = "csv"}});
  EXPECT_EQ(Deltas(folder.out)["f"], std::pair(int64_t{200}, int64_t{200})) << folder.err;
  const Result sets = Diff({.view = {.files = {b, c}, .format = "csv"}, .compare = {.base = {a}}});
  EXPECT_EQ(Deltas(sets.out)["f"], std::pair(int64_t{250}, int64_t{250})) << sets.err;
  const Result shares = Diff({.view = {.files = {a, b}, .format = "csv"}, .compare = {.normalize = true}});
  EXPECT_EQ(ParseCsv(shares.out).size(), 0u) << "all of it in both";
  EXPECT_EQ(Diff({.view = {.files = {a, b, c}}}).exit_code, 2);
}

// A worker ended a minute before the server: what it held is in use no more.
TEST_F(DiffTest, ProcessesThatEndedBeforeTheOthersAreLeftOut) {
  constexpr int64_t kSecond = 1'000'000'000;
  const testing::Folder newer;
  const auto save = [&](const testing::Folder& folder, const std::string& process, int64_t at, int64_t bytes) {
    folder.Write("app." + process + "." + std::to_string(at) + ".heap.pb.gz",
                 EncodePprof(Snapshot(process, at * kSecond, {Stack{"main;f", bytes, 1, 1000, 1}})));
  };
  save(folder_, "1", 10, 100);
  save(folder_, "1", 90, 300);
  save(folder_, "2", 5, 7);
  save(folder_, "2", 30, 9000);
  save(newer, "1", 100, 500);
  save(newer, "2", 30, 9000);
  const Result times = Diff({.view = {.files = {folder_.path()}, .format = "csv"}});
  EXPECT_EQ(Deltas(times.out)["f"], std::pair(int64_t{200}, int64_t{200})) << times.err;
  const Result all = Diff({.view = {.files = {folder_.path()}, .ended = true, .format = "csv"}});
  EXPECT_EQ(Deltas(all.out)["f"], std::pair(int64_t{9193}, int64_t{9193})) << all.err;
  const Result folders = Diff({.view = {.files = {folder_.path(), newer.path()}, .unit = "bytes"}});
  EXPECT_THAT(folders.out, HasSubstr("base     300\nhead     500\n"));
  EXPECT_THAT(folders.out,
              HasSubstr("ended    base: 1 more process exited earlier with 9000 in use, not included in the total"));
  const Result allocated =
      Diff({.view = {.files = {folder_.path(), newer.path()}, .metric = "alloc_space", .unit = "bytes"}});
  EXPECT_THAT(allocated.out, HasSubstr("base     2000\nhead     2000\n")) << "what was allocated adds up";
}

// The same program, built again.
Profile OtherBuild(const std::vector<Stack>& stacks) {
  Profile profile = StackProfile(stacks);
  for (Profile::Mapping& mapping : profile.mappings) mapping.build_id = profile.strings.Intern("0ther");
  return profile;
}

TEST_F(DiffTest, AFunctionOfTwoBuildsIsOne) {
  const std::string base = Save(
      "base", StackProfile({Stack{"main;parse", 100}, Stack{"main;main::{lambda(int)#1}::operator()(int) const", 200},
                            Stack{"main;app::f(int) [clone .isra.0]", 300}, Stack{"main;app::g(int)", 400},
                            Stack{"main;app::Load(int)", 500}, Stack{"main;app::run::{closure#0}", 600},
                            Stack{"main;gone", 50}}));
  const std::string head = Save("head", OtherBuild({Stack{"main;parse.constprop.0;parse.part.0", 101},
                                                    Stack{"main;main::{lambda(int)#2}::operator()(int) const", 202},
                                                    Stack{"main;app::f(int)", 303}, Stack{"main;app::g", 404},
                                                    Stack{"main;app::Load(int, bool)", 505},
                                                    Stack{"main;app::run::{closure#3}", 606}, Stack{"main;come", 60}}));
  const auto rows = ParseCsv(Diff({.view = {.files = {base, head}, .node_count = 0, .format = "csv"}}).out);
  std::map<std::string, std::string> changes;
  for (const auto& row : rows) changes[row.at("function")] = row.at("change") + " " + row.at("total_delta");
  const std::map<std::string, std::string> expected = {{"parse", "grown 1"},
                                                       {"main::{lambda}::operator()(int) const", "grown 2"},
                                                       {"app::f(int)", "grown 3"},
                                                       {"app::g", "grown 4"},
                                                       {"app::Load(int, bool)", "grown 5"},
                                                       {"app::run::{closure}", "grown 6"},
                                                       {"gone", "removed -50"},
                                                       {"come", "added 60"},
                                                       {"main", "grown 31"}};
  EXPECT_EQ(changes, expected);
}

TEST_F(DiffTest, NoNameIsShownAsAddedAndAsRemoved) {
  const std::string list(60, 'T');
  const auto name = [&](const char* last) { return "main;app::f<" + list + ">(" + list + ", " + last + ")"; };
  const std::string base = Save("base", StackProfile({Stack{name("int"), 100}, Stack{name("long"), 100}}));
  const std::string head = Save("head", OtherBuild({Stack{name("char"), 100}, Stack{name("short"), 100}}));
  const Result diff = Diff({.view = {.files = {base, head}, .node_count = 0}});
  for (const char* last : {"int", "long", "char", "short"}) EXPECT_THAT(diff.out, HasSubstr(std::string(", ") + last));
}

TEST_F(DiffTest, OverloadsAndLambdasOfOneBuildStayApart) {
  const std::string base = Save("base", StackProfile({Stack{"main;app::f(int)", 100}, Stack{"main;{lambda()#1}", 10}}));
  const std::string head =
      Save("head", StackProfile({Stack{"main;app::f(long)", 100}, Stack{"main;{lambda()#2}", 10}}));
  const Result diff = Diff({.view = {.files = {base, head}, .unit = "bytes", .node_count = 0, .format = "csv"}});
  EXPECT_EQ(ParseCsv(diff.out).size(), 4u) << diff.out;
}

class MergeTest : public Analysis {
 protected:
  Profile Merged(MergeOptions options) {
    options.output = folder_.File("merged.pb.gz");
    const Result merge = Merge(options);
    EXPECT_EQ(merge.exit_code, 0) << merge.err;
    err_ = merge.err;
    auto read = ReadPprofFile(options.output);
    EXPECT_TRUE(read.ok()) << read.status();
    return *std::move(read);
  }
  std::string err_;
};

TEST_F(MergeTest, SumsProcessesAndNeverSnapshotsOfOne) {
  const std::string a = Save("app.1.0001.heap.pb.gz", Snapshot("one", 1, {Stack{"main;f", 100}}));
  const std::string b = Save("app.1.0002.heap.pb.gz", Snapshot("one", 2, {Stack{"main;f", 300}}));
  const std::string c = Save("app.2.0001.heap.pb.gz", Snapshot("two", 2, {Stack{"main;f", 50}, Stack{"main;g", 7}}));
  const Profile merged = Merged({.view = {.files = {a, b, c}}});
  EXPECT_EQ(merged.Total(3), 357);
  EXPECT_THAT(err_, HasSubstr("0001.heap.pb.gz: skipped, because "));
  EXPECT_EQ(merged.CommentValue("merged"), "sum of 2 files");
  EXPECT_EQ(merged.CommentValue("process"), "");
  EXPECT_EQ(merged.CommentValue("total inuse_space"), "357 ± 0");
  EXPECT_EQ(merged.duration_nanos, 0);
  EXPECT_EQ(GoPprof("-top", folder_.File("merged.pb.gz")).status, 0);
}

TEST_F(MergeTest, CountersAreSubtractedAndTheNewestInUseIsKept) {
  Save("app.1.0001.heap.pb.gz", Snapshot("one", 1000, {Stack{"main;f", 100, 1}}));
  Save("app.1.0002.heap.pb.gz", Snapshot("one", 5000, {Stack{"main;f", 300, 3}, Stack{"main;g", 9}}));
  const Profile merged = Merged({.view = {.files = {folder_.path()}}, .mode = MergeMode::kDifference});
  EXPECT_EQ(merged.Total(1), 209);
  EXPECT_EQ(merged.Total(3), 309);
  EXPECT_EQ(merged.duration_nanos, 4000);
  EXPECT_EQ(merged.CommentValue("process"), "one");
}

// Of each metric the sum has what `top` shows for the folder.
TEST_F(MergeTest, ProcessesThatEndedEarlierCountOnlyForCumulativeMetrics) {
  constexpr int64_t kMinute = 60'000'000'000;
  Save("app.1.0001.heap.pb.gz", Snapshot("one", 9 * kMinute, {Stack{"main;f", 300, 3, 1000, 10}}));
  Save("app.2.0001.heap.pb.gz", Snapshot("two", kMinute, {Stack{"main;f", 50, 5, 2000, 20}, Stack{"main;g", 7, 1}}));
  const Profile merged = Merged({.view = {.files = {folder_.path()}}});
  EXPECT_EQ(merged.Total(3), 300);
  EXPECT_EQ(merged.Total(2), 3);
  EXPECT_EQ(merged.Total(1), 3007);
  EXPECT_EQ(merged.CommentValue("merged"), "sum of 2 files");
  EXPECT_EQ(merged.CommentValue("total inuse_space"), "300 ± 0");
  EXPECT_THAT(
      err_, HasSubstr("1 of 2 processes ended before the others: what it held at its end is not in the sum (--ended"));
  std::filesystem::remove(folder_.File("merged.pb.gz"));
  EXPECT_EQ(Merged({.view = {.files = {folder_.path()}, .ended = true}}).Total(3), 357);
  EXPECT_EQ(err_, "");
}

// Of one that is exact and one that is not the sum is neither.
TEST_F(MergeTest, SaysEachIntervalOfItsFiles) {
  const auto with = [this](const char* name, const char* process, const std::vector<std::string>& comments,
                           int64_t period) {
    Profile p = Snapshot(process, 1, {Stack{"main;f", 4096, 1}});
    p.period = period;
    for (const std::string& comment : comments) p.AddComment(comment);
    return Save(name, p);
  };
  const std::string every = with("a", "one", {"interval: 1 bytes"}, 1),
                    rare = with("b", "two", {"interval: 524288 bytes"}, 524288),
                    changed = with("c", "three",
                                   {"interval: 65536 bytes", "interval since 2026-01-01T00:00:00Z: 524288 bytes",
                                    "interval since 2026-01-01T00:00:01Z: 65536 bytes"},
                                   65536);
  const auto sampled = [this](const Profile& profile) {
    const std::string file = Save("merged again", profile);
    const Result top = testing::Catch([&](auto& out, auto& err) { return RunTop({.files = {file}}, out, err); });
    const size_t at = std::min(top.out.size(), top.out.find("sampled  "));
    return top.out.substr(at, top.out.find('\n', at) - at);
  };
  const Profile merged = Merged({.view = {.files = {every, rare}}});
  EXPECT_EQ(sampled(merged), "sampled  all, 1 in 512KiB");
  EXPECT_THAT(err_, HasSubstr("different sampling intervals"));
  EXPECT_EQ(merged.CommentValue("interval"), "524288 bytes") << "most of the error comes from there";
  EXPECT_EQ(merged.period, 524288);
  const auto variances = VariancesOf(merged);
  ASSERT_EQ(variances.size(), 4u);
  EXPECT_GT(variances[3], 0) << "not exact, as its first file is";
  EXPECT_EQ(sampled(Merged({.view = {.files = {rare, every, changed}}})), "sampled  all, 1 in 64KiB, 1 in 512KiB");
  const std::string other = with("d", "four", {"interval: 524288 bytes"}, 524288);
  EXPECT_EQ(sampled(Merged({.view = {.files = {rare, other}}})), "sampled  1 in 512KiB");
  EXPECT_EQ(err_, "");
  // Which ages are known is said of the sum where it holds for all of it.
  const std::string drawn =
      "ages known: of one block in 384 of up to 16384 bytes, chosen at random; of each larger one";
  const std::string some = with("e", "five", {"interval: 1 bytes", drawn}, 1),
                    more = with("f", "six", {"interval: 1 bytes", drawn}, 1);
  EXPECT_EQ("ages known: " + std::string(Merged({.view = {.files = {some, more}}}).CommentValue("ages known")), drawn);
  EXPECT_EQ(Merged({.view = {.files = {some, rare}}}).CommentValue("ages known"), "");
}

TEST_F(MergeTest, AnAverageOfSmallStacksKeepsItsSum) {
  for (int i = 1; i <= 10; ++i) {
    Save(fmt::format("app.{}.0001.heap.pb.gz", i),
         Snapshot(fmt::format("p{}", i), i, {Stack{fmt::format("main;f{}", i), 4, 4}}));
  }
  EXPECT_EQ(Merged({.view = {.files = {folder_.path()}, .ended = true}, .mode = MergeMode::kAverage}).Total(3), 4);
}

TEST_F(MergeTest, AverageAndWeightFilter) {
  Save("app.1.0001.heap.pb.gz", Snapshot("one", 1, {Stack{"main;f", 100}}));
  Save("app.1.0002.heap.pb.gz", Snapshot("one", 2, {Stack{"main;f", 300}}));
  Save("app.1.0003.heap.pb.gz", Snapshot("one", 3, {Stack{"main;f", 8000}}));
  EXPECT_EQ(Merged({.view = {.files = {folder_.path()}}, .mode = MergeMode::kAverage}).Total(3), 2800);
  EXPECT_EQ(Merged({.view = {.files = {folder_.File("app.1.0001.heap.pb.gz"), folder_.File("app.1.0002.heap.pb.gz"),
                                       folder_.File("app.1.0003.heap.pb.gz")}},
                    .mode = MergeMode::kAverage,
                    .min_total = "200",
                    .max_total = "1KiB"})
                .Total(3),
            300);
  EXPECT_EQ(Merge({.view = {.files = {folder_.File("app.1.0001.heap.pb.gz")}}, .min_total = "1GiB"}).exit_code, 3);
}

// A shell's many are no reason to leave out the program that was meant.
TEST_F(Analysis, PeaksAreThoseOfTheLargestProcesses) {
  std::vector<std::string> files;
  for (int i = 0; i < 6; ++i) {
    Profile p = Snapshot("process " + std::to_string(i), 1, {Stack{"main;f", 1000 * (i + 1)}});
    p.comments[0] = p.strings.Intern("kind: peak");
    p.comments[1] = p.strings.Intern("program: app" + std::to_string(i));
    p.AddComment("peak: " + std::to_string(1000 * (i + 1)) + " bytes at 2026-01-01T00:00:00.000Z");
    files.push_back(Save("app." + std::to_string(i + 1) + ".0001.peak.pb.gz", p));
  }
  const Result top = testing::Catch([&](auto& out, auto& err) { return RunTop({.files = files}, out, err); });
  EXPECT_EQ(top.exit_code, 0) << top.err;
  EXPECT_THAT(top.out,
              ::testing::ContainsRegex("\npeak     app5: 5.86KiB at 2026-01-01T00:00:00.000Z[^\n]*\npeak     app4: "));
  EXPECT_THAT(top.out, ::testing::Not(HasSubstr("peak     app1: ")));
}

// A process that is too short for a peak profile has a peak all the same.
TEST_F(Analysis, APeakWithoutAProfileIsNamed) {
  for (const char* name : {"one", "two"}) {
    Profile p = Snapshot(name, 1, {Stack{"main;f", 1000}});
    p.comments[1] = p.strings.Intern(std::string("program: ") + name);
    p.AddComment("peak: 7340032 bytes at 2026-01-01T00:00:00.000Z");
    Save(std::string(name) + ".1.0001.heap.pb.gz", p);
    if (name == std::string("two")) continue;
    p.comments[0] = p.strings.Intern("kind: peak");
    Save(std::string(name) + ".1.0001.peak.pb.gz", p);
  }
  const Result top =
      testing::Catch([&](auto& out, auto& err) { return RunTop({.files = {folder_.path()}, .peak = true}, out, err); });
  EXPECT_EQ(top.exit_code, 0) << top.err;
  EXPECT_THAT(top.err, HasSubstr("1 process without a peak profile is skipped (too short, or --peak no): two"));
  EXPECT_THAT(top.err, HasSubstr("had 7MiB"));
  EXPECT_THAT(top.err, Not(HasSubstr("one")));
}

class CheckTest : public Analysis {};

TEST_F(CheckTest, BudgetsAreKeptOrNot) {
  const std::string file =
      Save("a", StackProfile({Stack{"main;ParseJson", 2000}, Stack{"main;ParseJson;grow", 500}, Stack{"main", 10}}));
  const Result kept =
      Check({.view = {.files = {file}}, .max = {"inuse_space:ParseJson=2500", "inuse_space=1MB"}, .base = {}});
  EXPECT_EQ(kept.exit_code, 0) << kept.err;
  EXPECT_EQ(kept.out,
            "ok    inuse_space:ParseJson: 2500B ± 0, at most 2500B\nok    inuse_space: 2.51KB ± 0, at most 1MB\n");
  const Result broken = Check({.view = {.files = {file}}, .max = {"inuse_space:ParseJson=2KB"}, .base = {}});
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_EQ(broken.out, "FAIL  inuse_space:ParseJson: 2.50KB ± 0, at most 2KB\n");
  // In the units of the limit, whichever they are, unless others are asked for.
  const auto total = [&](const char* limit, const char* unit) {
    return Check({.view = {.files = {file}, .unit = unit}, .max = {std::string("inuse_space=") + limit}, .base = {}})
        .out;
  };
  EXPECT_EQ(total("2KiB", "auto"), "FAIL  inuse_space: 2.45KiB ± 0, at most 2KiB\n");
  EXPECT_EQ(total("2kb", "auto"), "FAIL  inuse_space: 2.51KB ± 0, at most 2KB\n");
  EXPECT_EQ(total("2000B", "auto"), "FAIL  inuse_space: 2510B ± 0, at most 2000B\n");
  EXPECT_EQ(total("0.1MB", "KiB"), "ok    inuse_space: 2.45KiB ± 0KiB, at most 97.66KiB\n");
  EXPECT_EQ(total("2.509KB", "auto"), "FAIL  inuse_space: 2.51KB (1B over) ± 0, at most 2.51KB\n");
  const Result markdown =
      Check({.view = {.files = {file}, .format = "markdown"}, .max = {"inuse_space:ParseJson=2KB"}, .base = {}});
  EXPECT_EQ(markdown.out,
            "### holdfast: 1 of 1 not kept\n\n| budget | value | at most | |\n|---|---|---|---|\n"
            "| inuse\\_space:ParseJson | 2.50KB ± 0 | 2KB | **FAIL** |\n");
  const Result junit =
      Check({.view = {.files = {file}, .format = "junit"}, .max_optional = {"inuse_space:Parse<Json>?=1"}});
  EXPECT_THAT(junit.out, HasSubstr("tests=\"1\" failures=\"0\""));
  EXPECT_THAT(junit.out, HasSubstr("name=\"inuse_space:Parse&lt;Json&gt;?\"/>"));
}

// Both kinds have the metric: a program without a heap profile is not judged by what it has mapped.
TEST_F(CheckTest, ABudgetOfTheHeapIsNotJudgedByMappings) {
  const auto profile = [](const char* kind, const char* process, const char* profiled, int64_t bytes) {
    Profile p = StackProfile({Stack{"main;f", bytes}});
    std::erase(p.comments, p.strings.Intern("kind: heap"));
    for (const std::string& comment :
         {std::string("kind: ") + kind, std::string("process: ") + process, std::string("profiled: ") + profiled})
      p.AddComment(comment);
    return p;
  };
  const auto check = [&] {
    return Check({.view = {.files = {folder_.path()}}, .max = {"inuse_space=1KB"}, .base = {}});
  };
  Save("a.1.0001.map.pb.gz", profile("map", "h/1/1/1/a", "mutex block map", 500));
  EXPECT_EQ(check().exit_code, 2) << check().out;
  EXPECT_THAT(check().err, HasSubstr("no heap profile"));
  Save("a.1.0001.map.pb.gz", profile("map", "h/1/1/1/a", "heap mutex block map", 500));
  EXPECT_EQ(check().out, "ok    inuse_space: 0, at most 1KB\n");
  Save("b.2.0001.heap.pb.gz", profile("heap", "h/1/2/2/b", "heap mutex block map", 2000));
  EXPECT_EQ(check().out, "FAIL  inuse_space: 2KB ± 0, at most 1KB\n");
  const Result top = testing::Catch(
      [&](auto& out, auto& err) { return RunTop({.files = {folder_.path()}, .metric = "inuse_space"}, out, err); });
  EXPECT_THAT(top.out, HasSubstr("inuse_space (heap)"));
}

// What a pipeline gets: tests/golden/check.* are the files, which the XML parser of another language reads.
TEST_F(CheckTest, APipelineGetsACommentAndJunit) {
  const std::string file = Save("a", StackProfile({Stack{"main;Parse<Json>", 2000}, Stack{"main;\"a\" & b", 500}}));
  const std::string budgets = ::testing::TempDir() + "/check.budgets", junit = ::testing::TempDir() + "/check.xml";
  std::ofstream(budgets) << "# memory\n\n  inuse_space:Parse<Json>=1KB  # by the parser\r\n"
                            "inuse_space:\"a\" & b=10KB\noptional inuse_space:{lambda()#1}=1KB\ninuse_space:gone=1KB\n";
  const Result result = Check({.view = {.files = {file}, .format = "markdown"}, .budgets = {budgets}, .junit = junit});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const std::string golden = std::string(HOLDFAST_TESTS) + "/golden/check";
  const auto whole = [](const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  EXPECT_EQ(result.out, whole(golden + ".md"));
  EXPECT_EQ(whole(junit), whole(golden + ".xml"));
  constexpr char kReads[] =
      "import sys, xml.etree.ElementTree as e; r = e.parse(sys.argv[1]).getroot(); s = r.find('testsuite');"
      "assert r.tag == 'testsuites' and s.get('tests') == '4' and s.get('failures') == '2';"
      "assert [c.get('name') for c in s][:2] == ['inuse_space:Parse<Json>', 'inuse_space:\"a\" & b'];"
      "assert len(s.findall('testcase/failure')) == 2";
  EXPECT_EQ(system(("python3 -c \"" + std::regex_replace(std::string(kReads), std::regex("\""), "\\\"") + "\" " + junit)
                       .c_str()),
            0);
}

TEST_F(CheckTest, AnInvalidFileOfBudgetsIsNamed) {
  const std::string file = Save("a", StackProfile({Stack{"main", 2000}}));
  const std::string path = ::testing::TempDir() + "/wrong.budgets";
  std::ofstream(path) << "inuse_space=1MB\ninuse_space 1MB\n";
  const Result wrong = Check({.view = {.files = {file}}, .budgets = {path}});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("line 2: not a budget: inuse_space 1MB"));
  std::ofstream(path) << "# none\n";
  EXPECT_THAT(Check({.view = {.files = {file}}, .budgets = {path}}).err, HasSubstr("contains no budget"));
  EXPECT_THAT(Check({.view = {.files = {file}}, .budgets = {path + ".gone"}}).err, HasSubstr("cannot be read"));
}

// A comment takes 64 KiB: of many budgets, or of long names, the summary says less.
TEST_F(CheckTest, TheSummaryFitsIntoAComment) {
  const std::string name(300, 'T');
  const std::string file = Save("a", StackProfile({Stack{"main;" + name, 2000}}));
  std::vector<std::string> budgets(60, "inuse_space:" + name + "=1MB");
  budgets.push_back("inuse_space=1");
  const Result result = Check({.view = {.files = {file}, .format = "markdown"}, .max = budgets});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_LT(result.out.size(), 6000u);
  EXPECT_THAT(
      result.out,
      HasSubstr(
          "### holdfast: 1 of 61 not kept\n\n| budget | value | at most | |\n|---|---|---|---|\n| inuse\\_space |"));
  EXPECT_THAT(result.out, HasSubstr("\nand 41 more\n"));
}

// Also of a metric that is not the one which is shown when none is asked for.
TEST_F(CheckTest, EveryMetricHasItsError) {
  Profile sampled = StackProfile({Stack{"main;ParseJson", 9000, 3}, Stack{"main", 700, 2}});
  sampled.AddComment("interval: 4096 bytes");
  const std::string file = Save("a", sampled);
  for (const char* metric : {"alloc_space", "inuse_space", "alloc_objects"}) {
    const Result result = Check({.view = {.files = {file}}, .max = {std::string(metric) + "=1000000"}, .base = {}});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(" ± ")) << metric;
    EXPECT_THAT(result.out, Not(HasSubstr(" ± 0"))) << metric;
  }
}

TEST_F(CheckTest, GrowthAgainstABase) {
  const std::string base = Save("base", StackProfile({Stack{"main;f", 1000}, Stack{"main;g", 1000}}));
  const std::string same = Save("same", StackProfile({Stack{"main;f", 1040}, Stack{"main;g", 1000}}));
  const std::string more = Save("more", StackProfile({Stack{"main;f", 1200}, Stack{"main;g", 1000}}));
  EXPECT_EQ(Check({.view = {.files = {same}}, .max = {}, .base = {base}, .fail_above = "5%"}).exit_code, 0);
  const Result failed =
      Check({.view = {.files = {more}, .unit = "bytes"}, .max = {}, .base = {base}, .fail_above = "5%"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_EQ(failed.out,
            "FAIL  inuse_space total: 2200, at most 2000 + 5%\nFAIL  inuse_space f: 1200, at most 1000 + 5%\n"
            "FAIL  inuse_space main: 2200, at most 2000 + 5%\n");
}

// A program that has freed everything is shown by what it allocated; a comparison with one that has not is by what is in use.
TEST_F(CheckTest, BothSidesAreComparedByOneMetric) {
  const std::string freed = Save("freed", StackProfile({Stack{"main;f", 0, 0, 9000, 9}}));
  const std::string kept = Save("kept", StackProfile({Stack{"main;f", 1000, 1, 9000, 9}}));
  const std::string more = Save("more", StackProfile({Stack{"main;f", 0, 0, 18000, 18}}));
  const auto check = [&](const std::string& base, const std::string& head) {
    return Check({.view = {.files = {head}, .unit = "bytes"}, .max = {}, .base = {base}, .fail_above = "5%"});
  };
  EXPECT_THAT(check(freed, kept).out, HasSubstr("FAIL  inuse_space total: 1000, at most 0 + 5%\n"));
  EXPECT_EQ(check(kept, freed).out, "ok    inuse_space total: 0, at most 1000 + 5%\n");
  EXPECT_THAT(check(freed, more).out, HasSubstr("FAIL  alloc_space total: 18000, at most 9000 + 5%\n"));
}

TEST_F(CheckTest, FunctionsOfTwoBuildsAreCompared) {
  const std::string base = Save("base", StackProfile({Stack{"main;parse", 1000}}));
  const std::string head = Save("head", OtherBuild({Stack{"main;parse.constprop.0.isra.0", 1000}}));
  const Result result = Check({.view = {.files = {head}}, .max = {}, .base = {base}, .fail_above = "5%"});
  EXPECT_EQ(result.exit_code, 0) << result.out;
}

TEST_F(CheckTest, ABudgetOfNoFunctionFailsUnlessItIsOptional) {
  const std::string file = Save("a", StackProfile({Stack{"main;ParseJson", 10}}));
  const std::vector<std::string> renamed = {"inuse_space:ParseJsen=1MB"};
  const Result failed = Check({.view = {.files = {file}}, .max = renamed});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_EQ(
      failed.out,
      "FAIL  inuse_space:ParseJsen: no function in the profile matches (allowed with --max-optional; holdfast top "
      "lists the names)\n");
  EXPECT_THAT(Check({.view = {.files = {file}, .format = "markdown"}, .max = renamed}).out,
              HasSubstr("| **FAIL: no function in the profile matches"));
  const Result junit = Check({.view = {.files = {file}, .format = "junit"}, .max = renamed});
  EXPECT_THAT(junit.out, HasSubstr("failures=\"1\""));
  EXPECT_THAT(junit.out, HasSubstr("<failure message=\"inuse_space:ParseJsen: no function in the profile matches"));
  const Result optional = Check({.view = {.files = {file}}, .max_optional = renamed});
  EXPECT_EQ(optional.exit_code, 0);
  EXPECT_EQ(optional.out, "ok    inuse_space:ParseJsen: 0 ± 0, at most 1MB\n");
  // An optional one counts where a function matches.
  EXPECT_EQ(Check({.view = {.files = {file}}, .max_optional = {"inuse_space:ParseJson=1"}}).exit_code, 1);
  EXPECT_EQ(Check({.view = {.files = {file}}, .max = {"inuse_space:ParseJson=1MB"}}).exit_code, 0);
}

TEST_F(CheckTest, FiltersThatLeaveNoStackFailUnlessTheBudgetIsOptional) {
  const std::string file = Save("a", StackProfile({Stack{"main;ParseJson", 10}}));
  ViewOptions view{.files = {file}};
  view.stacks.focus = "ParseJsen";
  const Result failed = Check({.view = view, .max = {"inuse_space=1MB"}});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.out, HasSubstr("FAIL  inuse_space: the filters leave no stack"));
  EXPECT_EQ(Check({.view = view, .max_optional = {"inuse_space=1MB"}}).exit_code, 0);
  view.stacks.focus = "ParseJson";
  EXPECT_EQ(Check({.view = view, .max = {"inuse_space=1MB"}}).exit_code, 0);
}

TEST_F(CheckTest, WrongUsageSaysWhatIsRight) {
  const std::string file = Save("a", StackProfile({Stack{"main", 10}}));
  EXPECT_EQ(Check({.view = {.files = {file}}, .max = {}, .base = {}}).exit_code, 2);
  EXPECT_EQ(
      Check({.view = {.files = {file}}, .max = {"inuse_space"}, .base = {}}).err,
      "holdfast: --max inuse_space: not a budget. Write METRIC:FUNCTION=LIMIT, such as inuse_space:ParseJson=10MB, or "
      "METRIC=LIMIT.\n");
  EXPECT_EQ(Check({.view = {.files = {file}}, .max = {"inuse_space=ten"}, .base = {}}).exit_code, 2);
  EXPECT_EQ(Check({.view = {.files = {file}}, .max = {"nothing=1MB"}, .base = {}}).exit_code, 2);
  EXPECT_EQ(Check({.view = {.files = {file}}, .max = {}, .base = {}, .fail_above = "5%"}).exit_code, 2);
  EXPECT_EQ(Check({.view = {.files = {file}}, .max = {}, .base = {file}, .fail_above = "five"}).exit_code, 2);
}

}  // namespace
}  // namespace holdfast
