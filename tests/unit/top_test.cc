#include "report/show/top.h"

#include <gmock/gmock.h>

#include <set>

#include "fmt/format.h"
#include "report/analysis/flat_table.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/variance.h"
#include "report/base/printable.h"
#include "report/show/info_command.h"
#include "sampler/contract/losses.h"
#include "tests/unit/pprof_fixture.h"
#include "tests/unit/view_fixture.h"

namespace holdfast {
namespace {

using testing::Folder;
using testing::GoTop;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RandomProfile;
using testing::Rows;
using testing::SmallProfile;
using testing::WithRecords;

// The rows that RunTop printed as plain numbers.
Rows ParseTop(const std::string& text) {
  static const std::regex row(R"(^ *(-?\d+) +\S+% +(-?\d+) +\S+%  (.*)  \([^()]*\)$)");
  Rows rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, row)) rows[match[3]] = {std::stoll(match[1]), std::stoll(match[2])};
  }
  return rows;
}

struct Result {
  int exit_code;
  std::string out, err;
};
Result Top(TopOptions options) {
  std::ostringstream out, err;
  const int exit_code = RunTop(options, out, err);
  return {exit_code, out.str(), err.str()};
}

std::string Save(const Folder& folder, const std::string& name, const Profile& profile) {
  return folder.Write(name, EncodePprof(profile));
}

// A heap profile of one process with one function that holds `bytes`.
Profile OfProcess(const std::string& process, int64_t time, int64_t bytes, int half_width, const char* kind = "heap") {
  Profile p;
  for (const char* type : {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}) {
    p.sample_types.push_back({p.strings.Intern(type), p.strings.Intern("bytes")});
  }
  p.default_sample_type = p.sample_types[3].type;
  p.functions.push_back({.name = p.strings.Intern("hold")});
  Profile::Location location{.address = 0x1000};
  const Profile::Line line{.function = 0};
  p.SetLines(&location, {&line, 1});
  p.locations.push_back(location);
  const uint32_t frame = 0;
  const std::array<int64_t, 4> values = {1, bytes, 1, bytes};
  p.AddSample({&frame, 1}, values, {});
  p.time_nanos = time;
  p.AddComment(std::string("kind: ") + kind);
  p.AddComment("process: " + process);
  p.AddComment("program: app");
  p.AddComment("pid: " + process);
  p.AddComment("interval: 524288 bytes");
  p.AddComment("total inuse_space: " + std::to_string(bytes) + " ± " + std::to_string(half_width));
  p.AddComment("losses: none");
  return p;
}

// Of one metric of `profile`, by name.
Rows RowsOf(const FilteredStacks& stacks, const FlatTable& flat) {
  Rows rows;
  for (const uint32_t node : flat.Sorted(false)) rows[stacks.nodes()[node].name] = {flat.Self(node), flat.Total(node)};
  return rows;
}

TEST(FlatTable, SelfIsTheLeafAndTotalCountsRecursionOnce) {
  auto p = std::make_shared<Profile>(SmallProfile());
  const std::array<uint32_t, 4> frames = {1, 0, 1, 0};  // (grow in parse) main (grow in parse) main
  const std::array<int64_t, 4> values = {0, 0, 0, 1000};
  p->AddSample(frames, values, {});
  const auto stacks = FilteredStacks::Build(p, {3}, {});
  ASSERT_TRUE(stacks.ok());
  Rows rows = RowsOf(*stacks, FlatTable(*stacks));
  EXPECT_EQ(stacks->Whole(0), 1496);
  EXPECT_EQ(rows["main"], std::pair(int64_t{0}, int64_t{1496}));
  EXPECT_EQ(rows["app::grow(int)"], std::pair(int64_t{1096}, int64_t{1496}));
  EXPECT_EQ(rows["app::parse(std::string const&)"], std::pair(int64_t{0}, int64_t{1496}));
  EXPECT_EQ(rows["x_alloc"], std::pair(int64_t{400}, int64_t{400}));
}

TEST(FlatTable, IsSortedBySelfOrByTotal) {
  const auto stacks = FilteredStacks::Build(std::make_shared<Profile>(SmallProfile()), {3}, {});
  const FlatTable flat(*stacks);
  EXPECT_EQ(stacks->nodes()[flat.Sorted(false)[0]].name, "x_alloc");
  EXPECT_EQ(stacks->nodes()[flat.Sorted(true)[0]].name, "app::grow(int)");  // 496 each with main and parse; self 96
}

TEST(Top, AgreesWithGoRowByRow) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    Folder folder;
    const std::string file = Save(folder, "random.pb.gz", RandomProfile(seed));
    for (const char* metric : {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}) {
      TopOptions options = {.files = {file}, .metric = metric, .unit = "raw", .node_count = 0};
      options.full_names = true;  // as Go has them
      const Result ours = Top(options);
      ASSERT_EQ(ours.exit_code, 0) << ours.err;
      const Rows go = GoTop(file, metric, "bytes");
      EXPECT_GE(go.size(), 50u);
      EXPECT_TRUE(go.contains("[lib3.so]"));
      EXPECT_EQ(ParseTop(ours.out), go) << metric;
    }
  }
}

TEST(Top, HeaderSaysWhatIsShown) {
  Folder folder;
  Profile p = OfProcess("4242", 1, 3 << 20, 1 << 19);
  p.AddComment("lost stack-table-full: 312");
  const Result top = Top({.files = {Save(folder, "a", p)}});
  EXPECT_EQ(top.out,
            "program  app (pid 4242)\n"
            "metric   inuse_space (heap)\n"
            "total    3MiB ± 512KiB (95 %)\n"
            "sampled  1 in 512KiB\n"
            "lost     312 samples in [overflow]: the stack table was full (raise --max-memory)\n"
            "showing  1 of 1 functions\n"
            " self  self% total total%  function  (object)\n"
            " 3MiB   100%  3MiB   100%  hold  (-)\n");
}

TEST(Top, ShowsTheNumberOfFunctionsThatWasAskedFor) {
  Folder folder;
  const std::string file = Save(folder, "random.pb.gz", RandomProfile(1));
  EXPECT_THAT(Top({.files = {file}}).out, HasSubstr("showing  30 of "));
  EXPECT_THAT(Top({.files = {file}, .node_count = 2}).out, HasSubstr("showing  2 of "));
}

TEST(Top, AnInsignificantEstimateIsNotCalledInUse) {
  Folder folder;
  const auto metric_of = [&](int64_t in_use, int half_width) {
    Profile p = OfProcess("1", 10, in_use, half_width);
    const uint32_t frame = 0;
    p.AddSample({&frame, 1}, std::array<int64_t, 4>{1, 1'000'000, 0, 0}, {});
    return Top({.files = {Save(folder, fmt::format("{}-{}", in_use, half_width), p)}, .unit = "bytes"}).out;
  };
  EXPECT_THAT(metric_of(3000, 30), HasSubstr("metric   inuse_space"));
  EXPECT_THAT(metric_of(3000, 4000), HasSubstr("metric   alloc_space"));
  EXPECT_THAT(metric_of(3001, 4000),
              HasSubstr("note     hardly anything is (3001) in use any more, so this shows all"));
  EXPECT_THAT(metric_of(20'000, 30'000), HasSubstr("metric   inuse_space"));
}

TEST(Top, DifferentProcessesAddUp) {
  Folder folder;
  const Result top =
      Top({.files = {Save(folder, "a", OfProcess("1", 10, 3000, 30)), Save(folder, "b", OfProcess("2", 10, 4000, 40))},
           .unit = "bytes"});
  EXPECT_THAT(top.out, HasSubstr("total    7000 ± 50 (95 %)"));  // √(30² + 40²)
  EXPECT_THAT(top.out, HasSubstr("program  app (pid 2), app (pid 1)\n"));
  EXPECT_EQ(top.err, "");
}

TEST(Top, OnlyTheNewestSnapshotOfAProcessCounts) {
  Folder folder;
  const std::string older = Save(folder, "app.1.0001.heap.pb.gz", OfProcess("1", 10, 3000, 30));
  const std::string newer = Save(folder, "app.1.0002.heap.pb.gz", OfProcess("1", 20, 5000, 50));
  for (const auto& files : {std::vector{older, newer}, std::vector{newer, older}}) {
    const Result top = Top({.files = files, .unit = "bytes"});
    EXPECT_EQ(top.exit_code, 0);
    EXPECT_THAT(top.out, HasSubstr("total    5000 ± 50 (95 %)"));
    EXPECT_EQ(top.err, "holdfast: " + older + ": skipped, because " + newer +
                           " is a later snapshot of the same process and includes it.\n");
  }
  EXPECT_EQ(Top({.files = {folder.path()}, .unit = "bytes"}).err, "") << "who gives a folder expects it";
}

TEST(Top, DifferencesOfOneProcessAddUp) {
  Folder folder;
  Profile a = OfProcess("1", 10, 3000, 30), b = OfProcess("1", 20, 5000, 40);
  a.duration_nanos = b.duration_nanos = 1;
  EXPECT_THAT(Top({.files = {Save(folder, "a", a), Save(folder, "b", b)}, .unit = "bytes"}).out,
              HasSubstr("total    8000 ± 50 (95 %)"));
}

TEST(Top, DifferentKindsAreAnErrorThatSaysSo) {
  Folder folder;
  const std::string heap = Save(folder, "heap", OfProcess("1", 10, 3000, 30));
  const std::string other = Save(folder, "lifetimes", OfProcess("2", 10, 3000, 30, "lifetimes"));
  const Result top = Top({.files = {heap, other}});
  EXPECT_EQ(top.exit_code, 2);
  EXPECT_EQ(top.err, "holdfast: " + other + ": its kind (lifetimes) differs from that of " + heap +
                         " (heap). Give files of one kind.\n");
  EXPECT_EQ(top.out, "");
}

TEST(Top, AnUnknownMetricIsAnErrorThatListsTheKnown) {
  Folder folder;
  const std::string file = Save(folder, "a", SmallProfile());
  const Result top = Top({.files = {file}, .metric = "inuse"});
  EXPECT_EQ(top.exit_code, 2);
  EXPECT_EQ(top.err,
            "holdfast: " + file +
                ": no metric \"inuse\". The profile has: alloc_objects, alloc_space, inuse_objects, inuse_space.\n");
}

TEST(Top, ABadUnitAndAMissingFileAreErrors) {
  Folder folder;
  EXPECT_EQ(Top({.files = {"x"}, .unit = "parsecs"}).exit_code, 2);
  EXPECT_EQ(Top({.files = {"x"}, .unit = "parsecs"}).err,
            "holdfast: --unit parsecs: not a unit. Use auto, bytes, KiB, MiB, GiB, ns, us, ms or s.\n");
  const std::string file = Save(folder, "a", SmallProfile());
  EXPECT_EQ(Top({.files = {file}, .unit = "ns"}).err,
            "holdfast: --unit ns: inuse_space is in bytes. Use auto, bytes, KiB, MiB or GiB.\n");
  EXPECT_EQ(Top({.files = {file}, .metric = "alloc_objects", .unit = "KiB"}).err,
            "holdfast: --unit KiB: alloc_objects is a number of things. Leave --unit out.\n");
  EXPECT_EQ(Top({.files = {file}, .unit = "ns"}).exit_code, 2);
  EXPECT_EQ(Top({.files = {file}, .metric = "alloc_objects", .unit = "count"}).exit_code, 0);
  const Result missing = Top({.files = {"/no/such"}});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_EQ(missing.err,
            "holdfast: /no/such: cannot be read (No such file or directory). Check the path and its permissions.\n");
}

TEST(Top, NamesCannotDriveTheTerminal) {
  Folder folder;
  Profile p = SmallProfile();
  p.functions[0].name = p.strings.Intern("ma\x1b]0;in\x07\xc2\x9b");
  const Result top = Top({.files = {Save(folder, "a", p)}});
  EXPECT_THAT(top.out, HasSubstr("ma?]0;in??"));
  EXPECT_THAT(top.out, Not(HasSubstr("\x1b")));
}

TEST(Metric, AnEntryIsFoundByNameByNumberAndByDefault) {
  const Profile p = SmallProfile();
  EXPECT_EQ(*FindMetric(p, ""), 3u);
  EXPECT_EQ(*FindMetric(p, "alloc_space"), 1u);
  EXPECT_EQ(*FindMetric(p, "0"), 0u);
  EXPECT_FALSE(FindMetric(p, "4").ok());
  Profile without = SmallProfile();
  without.default_sample_type = 0;
  EXPECT_EQ(DefaultMetric(without), 3u);  // the last, as pprof does
}

TEST(Metric, MissingFactsAreNotInvented) {
  Profile p = SmallProfile();
  EXPECT_EQ(*HalfWidth(WithRecords(p), 3), 12);
  EXPECT_FALSE(HalfWidth(WithRecords(p), 0).has_value());
  p.mutable_records()->total = {{.type = "inuse_space", .value = 5, .half_width = -8}};
  EXPECT_FALSE(HalfWidth(p, 3).has_value()) << "a file may contain any number";
  EXPECT_EQ(SamplingOf(WithRecords(p)), "1 in 512KiB");
  p.period = 0;
  EXPECT_EQ(SamplingOf(WithRecords(p)), "");
  p.period = 1;
  EXPECT_EQ(SamplingOf(WithRecords(p)), "all");
}

// `holdfast set` while the program ran.
TEST(Metric, EachIntervalThatWasInForceIsNamed) {
  Profile p = SmallProfile();
  p.AddComment("interval: 1 bytes");
  EXPECT_EQ(SamplingOf(WithRecords(p)), "all");
  p.AddComment("interval since 2026-11-22T10:00:00.000Z: 524288 bytes");
  p.AddComment("interval since 2026-11-22T10:00:01.000Z: 0 bytes");
  p.AddComment("interval since 2026-11-22T10:00:02.000Z: 1 bytes");
  EXPECT_EQ(SamplingOf(WithRecords(p)), "1 in 512KiB, then off, then all");
  // The errors are those of the samples from before, though now every allocation is recorded.
  const std::vector<double> variances = VariancesOf(WithRecords(p));
  ASSERT_EQ(variances.size(), p.samples.size() * p.sample_types.size());
  double of_space_in_use = 0;
  for (size_t i = 3; i < variances.size(); i += 4) of_space_in_use += variances[i];
  EXPECT_NEAR(HalfWidthOf(of_space_in_use), *HalfWidth(WithRecords(p), 3), 0.01);
  for (int i = 0; i < 9; ++i)
    p.AddComment(fmt::format("interval since 2026-11-22T10:00:{:02}.000Z: 65536 bytes", 3 + i));
  EXPECT_EQ(SamplingOf(WithRecords(p)), "1 in 512KiB, then … (11 changes: holdfast info), then 1 in 64KiB");
}

TEST(Info, PrintsAllThatAProfileSays) {
  Folder folder;
  Profile p = SmallProfile();
  p.functions[3].name = p.strings.Intern("libx.so.1!0x10");
  std::ostringstream out, err;
  const std::string file = Save(folder, "small.pb.gz", p);
  EXPECT_EQ(RunInfo({file}, out, err), 0);
  EXPECT_EQ(out.str(), "file        " + file +
                           "\n"
                           "kind        heap\n"
                           "taken       2023-11-14 22:13:20.123 UTC\n"
                           "duration    0 (cumulative: since the process started)\n"
                           "period      524288 bytes of space\n"
                           "metric      alloc_objects in count: 14\n"
                           "metric      alloc_space in bytes: 1096 = 1.07KiB\n"
                           "metric      inuse_objects in count: 8\n"
                           "metric      inuse_space in bytes: 496 ± 12 = 496B ± 12B  (default)\n"
                           "samples     3\n"
                           "locations   3, 0 without a function\n"
                           "functions   3 named, 1 unnamed\n"
                           "mappings    2\n"
                           "  0x400000-0x500000 +0x1000 /usr/bin/app 00112233\n"
                           "  0x7f0000000000-0x7f0000100000 +0x0 /usr/lib/libx.so.1 aabb\n"
                           "comments    2\n"
                           "  kind: heap\n"
                           "  total inuse_space: 496 ± 12\n");
}

TEST(Info, GoesOnAfterAFileThatCannotBeRead) {
  Folder folder;
  std::ostringstream out, err;
  EXPECT_EQ(RunInfo({"/no/such", Save(folder, "small.pb.gz", SmallProfile())}, out, err), 3);
  EXPECT_THAT(out.str(), HasSubstr("kind        heap"));
  EXPECT_THAT(err.str(), HasSubstr("holdfast: /no/such: cannot be read"));
}

// Each loss that a table counts has words, and no other's.
TEST(Losses, EachHasATextOfItsOwn) {
  std::set<std::string> texts;
  for (const char* name : kLossNames) {
    Profile p;
    p.mutable_records()->loss.push_back({name, 7});
    const std::vector<std::string> losses = LossesOf(p);
    ASSERT_EQ(losses.size(), 1u) << name;
    EXPECT_GT(losses[0].size(), 20u) << name << ": " << losses[0];
    EXPECT_TRUE(texts.insert(losses[0]).second) << name;
  }
  Profile p;
  p.mutable_records()->loss.push_back({"mappings-full", 7});
  EXPECT_THAT(LossesOf(p).at(0), ::testing::HasSubstr("7 mappings and unmappings"));
}

// Where every block is recorded, of few of them the age is known: no "all" beside a ±.
TEST(SamplingText, DoesNotSayAllForLifetimesAtInterval1) {
  Profile p;
  p.mutable_process()->kind = "lifetimes";
  record::Sampling& sampling = p.mutable_records()->sampling.emplace();
  sampling.interval.push_back({.mean = 1, .unit = "bytes"});
  EXPECT_EQ(SamplingOf(p), "all");
  sampling.aged_one_in = 384;
  EXPECT_EQ(SamplingOf(p), "all recorded, but only some ages: see ages");
}

}  // namespace
}  // namespace holdfast
