// What looks at several profiles: diff, merge, leaks, check.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <random>

#include "report/check.h"
#include "report/diff.h"
#include "report/growth.h"
#include "report/leaks.h"
#include "report/merge.h"
#include "report/suppressions.h"
#include "report/top.h"
#include "tests/unit/pprof_fixture.h"
#include "tests/unit/view_fixture.h"

namespace holdfast {
namespace {

using testing::Folder;
using testing::GoPprof;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::NumberIn;
using testing::ParseCsv;
using testing::ParseGoTree;
using testing::RandomProfile;
using testing::Stack;
using testing::StackProfile;

class Analysis : public ::testing::Test {
 protected:
  struct Result {
    int exit_code;
    std::string out, err;
  };
  template <typename Run>
  static Result Catch(Run run) {
    std::ostringstream out, err;
    const int exit_code = run(out, err);
    return {exit_code, out.str(), err.str()};
  }
  static Result Diff(const DiffOptions& options) {
    return Catch([&](auto& out, auto& err) { return RunDiff(options, out, err); });
  }
  static Result Merge(const MergeOptions& options) {
    return Catch([&](auto& out, auto& err) { return RunMerge(options, out, err); });
  }
  static Result Check(CheckOptions options) {
    if (options.view.format == "table") options.view.format = "text";
    return Catch([&](auto& out, auto& err) { return RunCheck(options, out, err); });
  }
  static Result Leaks(const LeaksOptions& options) {
    return Catch([&](auto& out, auto& err) { return RunLeaks(options, out, err); });
  }
  std::string Save(const std::string& name, const Profile& profile) {
    return folder_.Write(name, EncodePprof(profile));
  }

  // A snapshot of a process, every byte sampled.
  static Profile Snapshot(const std::string& process, int64_t time, const std::vector<Stack>& stacks) {
    Profile p = StackProfile(stacks);
    if (!process.empty()) p.AddComment("process: " + process);
    p.time_nanos = time;
    return p;
  }
  // Self and total of each changed function.
  static std::map<std::string, std::pair<int64_t, int64_t>> Deltas(const std::string& csv) {
    std::map<std::string, std::pair<int64_t, int64_t>> rows;
    for (const auto& row : ParseCsv(csv)) {
      rows[row.at("function")] = {NumberIn(row, "self_delta"), NumberIn(row, "total_delta")};
    }
    return rows;
  }

  Folder folder_;
};

class DiffTest : public Analysis {};

TEST_F(DiffTest, OfAFileWithItselfIsEmpty) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    const std::string file = Save("a", RandomProfile(seed));
    for (const char* metric : {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}) {
      const Result diff =
          Diff({.view = {.files = {file, file}, .metric = metric, .node_count = 0, .format = "csv"}});
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
    const Result diff =
        Diff({.view = {.files = {base, head}, .metric = metric, .node_count = 0, .format = "csv"}});
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
    Profile p = Snapshot(process, objects, {Stack{"main;hold", 409600, 100}, Stack{"main;grow", objects * 4096, objects}});
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

TEST_F(DiffTest, OfTwoValuesOfALabel) {
  const std::string file = Save("random", RandomProfile(5));
  const auto half = [&](const char* label) {
    const Result top = Catch([&](auto& out, auto& err) {
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
  EXPECT_THAT(err_, HasSubstr("0001.heap.pb.gz: left out, a snapshot of the same process"));
  EXPECT_EQ(merged.CommentValue("merged"), "sum of 2 files");
  EXPECT_EQ(merged.CommentValue("process"), "");
  EXPECT_EQ(merged.CommentValue("total inuse_space"), "357 ± 0");
  EXPECT_EQ(merged.duration_nanos, 0);
  EXPECT_EQ(GoPprof("-top", folder_.File("merged.pb.gz")).status, 0);
}

TEST_F(MergeTest, DifferenceOfWhatOnlyGrowsAndTheNewestOfWhatIsInUse) {
  Save("app.1.0001.heap.pb.gz", Snapshot("one", 1000, {Stack{"main;f", 100, 1}}));
  Save("app.1.0002.heap.pb.gz", Snapshot("one", 5000, {Stack{"main;f", 300, 3}, Stack{"main;g", 9}}));
  const Profile merged = Merged({.view = {.files = {folder_.path()}}, .mode = MergeMode::kDifference});
  EXPECT_EQ(merged.Total(1), 209);
  EXPECT_EQ(merged.Total(3), 309);
  EXPECT_EQ(merged.duration_nanos, 4000);
  EXPECT_EQ(merged.CommentValue("process"), "one");
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

class CheckTest : public Analysis {};

TEST_F(CheckTest, BudgetsAreKeptOrNot) {
  const std::string file =
      Save("a", StackProfile({Stack{"main;ParseJson", 2000}, Stack{"main;ParseJson;grow", 500}, Stack{"main", 10}}));
  const Result kept =
      Check({.view = {.files = {file}}, .max = {"inuse_space:ParseJson=2500", "inuse_space=1MB"}, .base = {}});
  EXPECT_EQ(kept.exit_code, 0) << kept.err;
  EXPECT_EQ(
      kept.out,
      "ok    inuse_space:ParseJson: 2.44KiB ± 0, at most 2.44KiB\nok    inuse_space: 2.45KiB ± 0, at most 976.56KiB\n");
  const Result broken = Check({.view = {.files = {file}}, .max = {"inuse_space:ParseJson=2KB"}, .base = {}});
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_EQ(broken.out, "FAIL  inuse_space:ParseJson: 2.44KiB ± 0, at most 1.95KiB\n");
  const Result markdown =
      Check({.view = {.files = {file}, .format = "markdown"}, .max = {"inuse_space:ParseJson=2KB"}, .base = {}});
  EXPECT_EQ(markdown.out,
            "| budget | value | at most | |\n|---|---|---|---|\n| inuse\\_space:ParseJson | 2.44KiB ± 0 | 1.95KiB | "
            "**FAIL** |\n");
  const Result junit =
      Check({.view = {.files = {file}, .format = "junit"}, .max = {"inuse_space:Parse<Json>?=1"}, .base = {}});
  EXPECT_THAT(junit.out, HasSubstr("tests=\"1\" failures=\"0\""));
  EXPECT_THAT(junit.out, HasSubstr("name=\"inuse_space:Parse&lt;Json&gt;?\"/>"));
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

TEST_F(CheckTest, ABudgetOfNoFunctionIsSaid) {
  const std::string file = Save("a", StackProfile({Stack{"main;ParseJson", 10}}));
  const Result renamed = Check({.view = {.files = {file}}, .max = {"inuse_space:ParseJsen=1MB"}, .base = {}});
  EXPECT_EQ(renamed.exit_code, 0);
  EXPECT_EQ(renamed.err,
            "holdfast: --max inuse_space:ParseJsen=1MB: no function of the profile matches. Look at the names with "
            "holdfast top.\n");
  EXPECT_EQ(Check({.view = {.files = {file}}, .max = {"inuse_space:ParseJson=1MB"}, .base = {}}).err, "");
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

TEST(SuppressionsTest, AreThoseOfLeakSanitizer) {
  Suppressions known;
  ASSERT_TRUE(known.AddText("# known\nleak:libfoo.so\n  leak:^init_*_table$  \nrace:other\n\n", "known.txt").ok());
  EXPECT_TRUE(known.Matches("/usr/lib/libfoo.so.1"));
  EXPECT_TRUE(known.Matches("init_crc_table"));
  EXPECT_FALSE(known.Matches("my_init_crc_table"));
  EXPECT_FALSE(known.Matches("init_crc_tables"));
  EXPECT_FALSE(known.Matches("other"));
  EXPECT_EQ(known.AddText("leak\n", "bad.txt").message(), "bad.txt:1: \"leak\" is no suppression. Write leak:PATTERN.");
}

// ---- Leaks ----

// A program as its sampled heap: blocks are sampled with p = 1 − exp(−s/R) and weigh 1/p, as the library does it.
class Program {
 public:
  struct Slots {
    std::vector<uint64_t> blocks;  // 0: none, or not sampled
  };

  Program(unsigned seed, std::string program) : random_(seed), program_(std::move(program)) {}

  // Never freed.
  void AllocKept(const char* stack, int64_t bytes) {
    Slots forgotten;
    Replace(&forgotten, 0, stack, bytes);
  }

  // The new block takes the place of the old one in its slot.
  void Replace(Slots* slots, size_t at, const char* stack, int64_t bytes) {
    if (at >= slots->blocks.size()) slots->blocks.resize(at + 1);
    live_.erase(slots->blocks[at]);
    const auto size_class = std::bit_ceil(static_cast<uint64_t>(bytes));
    const double p = 1 - std::exp(-static_cast<double>(bytes) / kInterval);
    slots->blocks[at] = 0;
    if (std::uniform_real_distribution<double>()(random_) >= p) return;
    live_[++last_] = {stack, bytes, p};
    slots->blocks[at] = last_;
    Row& row = allocated_[{stack, size_class}];
    row.objects += 1 / p;
    row.bytes += static_cast<double>(bytes) / p;
  }
  int64_t Size(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  Profile Snapshot(int64_t time) const {
    std::map<Key, Row> rows;
    for (const auto& [id, block] : live_) {
      Row& row = rows[{block.stack, std::bit_ceil(static_cast<uint64_t>(block.bytes))}];
      row.objects += 1 / block.p;
      row.bytes += static_cast<double>(block.bytes) / block.p;
    }
    std::vector<Stack> stacks;
    for (const auto& [key, all] : allocated_) {
      const Row& row = rows[key];
      stacks.push_back({key.first, std::llround(row.bytes), std::llround(row.objects), std::llround(all.bytes),
                        std::llround(all.objects)});
    }
    Profile p = StackProfile(stacks);
    p.time_nanos = time;
    p.AddComment("process: " + program_);
    p.AddComment("interval: 524288 bytes");
    return p;
  }

 private:
  static constexpr double kInterval = 524288;
  using Key = std::pair<std::string, uint64_t>;  // stack, size class
  struct Row {
    double objects = 0, bytes = 0;
  };
  struct Block {
    std::string stack;
    int64_t bytes;
    double p;
  };
  std::mt19937_64 random_;
  std::string program_;
  std::map<uint64_t, Block> live_;
  std::map<Key, Row> allocated_;
  uint64_t last_ = 0;
};

constexpr int kMinutes = 60;
constexpr int64_t kMinute = 60'000'000'000;

class LeaksTest : public Analysis {
 protected:
  void Write(const Program& program, int minute) {
    Save("app.1." + std::to_string(1000 + minute) + ".heap.pb.gz",
         program.Snapshot(1'700'000'000'000'000'000 + minute * kMinute));
  }
};

TEST_F(LeaksTest, ALeakInABusyCacheIsRankedFirstWithItsSlopeInItsInterval) {
  constexpr int64_t kLeakedAMinute = 400 * 2048;  // 13.7 KB a second
  int within = 0;
  constexpr int kRuns = 20;
  for (unsigned seed = 1; seed <= kRuns; ++seed) {
    Program program(seed, "leaky");
    Program::Slots cache;
    for (size_t i = 0; i < 3000; ++i)
      program.Replace(&cache, i, "main;serve;cache_put;xmalloc", program.Size(1024, 20480));
    for (int minute = 0; minute < kMinutes; ++minute) {
      for (int i = 0; i < 1500; ++i) {
        program.Replace(&cache, static_cast<size_t>(program.Size(0, 2999)), "main;serve;cache_put;xmalloc",
                        program.Size(1024, 20480));
      }
      for (int i = 0; i < 400; ++i) program.AllocKept("main;serve;log_request;xmalloc", 2048);
      Write(program, minute);
    }
    const Result leaks = Leaks({.view = {.files = {folder_.path()}, .format = "csv"}});
    EXPECT_EQ(leaks.exit_code, 1) << "seed " << seed << leaks.err;
    const auto rows = ParseCsv(leaks.out);
    ASSERT_GE(rows.size(), 1u) << "seed " << seed;
    EXPECT_EQ(rows[0].at("stack"), "xmalloc;log_request;serve;main") << "seed " << seed;
    EXPECT_EQ(rows.size(), 1u) << "seed " << seed << ": the cache is none\n" << leaks.out;
    const double slope = std::stod(rows[0].at("slope")), error = std::stod(rows[0].at("slope_error"));
    within += std::abs(slope - 60.0 * kLeakedAMinute) <= error;
    EXPECT_LT(error, slope) << "seed " << seed;
  }
  // 95 % each: 16 or fewer of 20 happen in 1.6 % of all cases; the seeds are fixed.
  EXPECT_GE(within, 17);
}

TEST_F(LeaksTest, CachesBuffersAndTablesRaiseNoAlarm) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Program program(seed, "healthy");
    Program::Slots warm, ring, busy;
    for (int i = 0; i < 200; ++i) program.AllocKept("main;init_table", 65536);  // 13 MB at the start
    for (size_t i = 0; i < 2000; ++i) program.Replace(&busy, i, "main;serve;session_new", program.Size(512, 30000));
    size_t next = 0;
    for (int minute = 0; minute < kMinutes; ++minute) {
      // 20 MB cache that is full to 1 − exp(−t/12 min); 5 of those fit into the hour.
      for (int i = 0; i < 170; ++i)
        program.Replace(&warm, static_cast<size_t>(program.Size(0, 2000)), "main;serve;cache_put", 10240);
      // 16 MB ring of messages, full after 20 minutes.
      for (int i = 0; i < 200; ++i) program.Replace(&ring, next++ % 4000, "main;serve;ring_push", 4096);
      for (int i = 0; i < 800; ++i) {
        program.Replace(&busy, static_cast<size_t>(program.Size(0, 1999)), "main;serve;session_new",
                        program.Size(512, 30000));
      }
      Write(program, minute);
    }
    const Result leaks = Leaks({.view = {.files = {folder_.path()}, .format = "csv"}});
    EXPECT_EQ(leaks.exit_code, 0) << "seed " << seed << "\n" << leaks.out << leaks.err;
  }
}

TEST_F(LeaksTest, SaysWhatEachStackDoesAndWhenTheLimitComes) {
  for (int minute = 0; minute < 30; ++minute) {
    std::vector<Stack> stacks = {Stack{"main;leak", 1000 * (minute + 1), minute + 1}, Stack{"main;table", 50000},
                                 Stack{"main;ring", 1000 * std::min(minute + 1, 10)},
                                 Stack{"main;batch", 500 * (1 + minute % 5)}};
    Save("app.1." + std::to_string(1000 + minute) + ".heap.pb.gz", Snapshot("one", minute * kMinute + 1, stacks));
  }
  const LeaksOptions options{.view = {.files = {folder_.path()}}, .limit = "1MB", .all = true};
  const Result leaks = Leaks(options);
  EXPECT_EQ(leaks.exit_code, 1) << leaks.err;
  EXPECT_THAT(leaks.out, HasSubstr("program  app: 30 snapshots over 29 min\n"));
  EXPECT_THAT(leaks.out, HasSubstr("leaks    1 stack grows all the time\n"));
  // 60,000 bytes an hour; 92,500 in use at the end: (1,000,000 − 92,500) / 60,000 hours.
  EXPECT_THAT(leaks.out, HasSubstr("limit    976.56KiB in use is reached in 15.1 h\n")) << leaks.out;
  EXPECT_THAT(leaks.out, ::testing::ContainsRegex("\\+58.59KiB +±0 +60 +29.30KiB +30  growing +leak ← main"));
  EXPECT_THAT(leaks.out, ::testing::ContainsRegex("one-off +table ← main"));
  EXPECT_THAT(leaks.out, ::testing::ContainsRegex("plateau +ring ← main"));
  EXPECT_THAT(leaks.out, ::testing::ContainsRegex("saw-tooth +batch ← main"));
  const std::string known = folder_.Write("known.txt", "leak:^leak$\n");
  LeaksOptions suppressed = options;
  suppressed.suppressions = {known};
  EXPECT_EQ(Leaks(suppressed).exit_code, 0);
  EXPECT_THAT(Leaks(suppressed).out, HasSubstr("left out 1 leak by suppressions\n"));
}

TEST_F(LeaksTest, TooFewSnapshotsAndLocksAreErrors) {
  const std::string file = Save("app.1.0001.heap.pb.gz", Snapshot("one", 1, {Stack{"main", 1}}));
  const Result few = Leaks({.view = {.files = {folder_.path()}}});
  EXPECT_EQ(few.exit_code, 3);
  EXPECT_EQ(
      few.err,
      "holdfast: " + folder_.path() +
          ": 1 snapshot of a process is too few to see growth; it takes 5. Let it run on, or take them more often "
          "with --snapshot-every.\n");
  Profile locks = StackProfile({Stack{"main", 1}});
  for (auto& type : locks.sample_types) type.type = locks.strings.Intern("contentions");
  EXPECT_EQ(Leaks({.view = {.files = {Save("locks", locks)}}}).exit_code, 2);
}

Series Exact(const std::vector<double>& times, const std::vector<double>& values) {
  return {times, values, std::vector<double>(values.size()), {}};
}

TEST(GrowthTest, OutliersDoNotMoveTheSlope) {
  std::vector<double> times, values;
  for (int i = 0; i < 40; ++i) {
    times.push_back(i);
    values.push_back(i % 5 == 0 ? 1e9 : 7.0 * i);
  }
  EXPECT_NEAR(FitGrowth(Exact(times, values)).slope, 7, 0.5);
}

TEST(GrowthTest, FewOrConstantSnapshotsSayNothing) {
  const std::vector<double> times = {1, 2, 3, 4, 5, 6}, constant(6, 100.0), zeros(6, 0.0);
  EXPECT_EQ(FitGrowth(Exact({1, 2, 3, 4}, {1, 2, 3, 4})).growth_class, GrowthClass::kNoise);
  EXPECT_EQ(FitGrowth(Exact(times, constant)).growth_class, GrowthClass::kOneOff);
  EXPECT_EQ(FitGrowth(Exact(times, zeros)).growth_class, GrowthClass::kNoise);
  EXPECT_EQ(FitGrowth(Exact(std::vector<double>(6, 1.0), constant)).slope, 0);
  EXPECT_EQ(FitGrowth(Exact({}, {})).slope, 0);
}

TEST(GrowthTest, WhatStaysIsSurerThanWhatIsTurnedOver) {
  Series leak = Exact({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {40, 50, 60, 70, 80, 90, 100, 110, 120, 130});
  leak.variances = leak.values;
  Series cache = leak;
  leak.allocated = leak.values;
  for (const double value : leak.values) cache.allocated.push_back(value * 100);
  EXPECT_NEAR(FitGrowth(leak).half_width, 1.96 * std::sqrt(90.0) / 9, 1e-9);
  EXPECT_NEAR(FitGrowth(cache).half_width, 1.96 * std::sqrt(40.0 + 130.0) / 9, 1e-9);
  EXPECT_EQ(FitGrowth(leak).growth_class, GrowthClass::kGrowing);
}

}  // namespace
}  // namespace holdfast
