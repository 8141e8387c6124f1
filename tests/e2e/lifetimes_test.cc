// How long blocks lived: ages, who freed them, temporaries; and the ages of live blocks.
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Lived {
  std::string function, how;
  double blocks, bytes, least_ns, most_ns;
};
struct Said {
  std::vector<Lived> lived;
  double kept_bytes = 0;
};

Said WhatItSaid(const std::string& output) {
  Said said;
  std::istringstream lines(output);
  for (std::string word, function; lines >> word;) {
    if (word == "lived") {
      Lived of;
      lines >> of.function >> of.blocks >> of.bytes >> of.least_ns >> of.most_ns >> of.how;
      said.lived.push_back(of);
    } else if (word == "kept") {
      lines >> function >> said.kept_bytes;
    }
  }
  return said;
}

// Of the blocks of one function.
struct Found {
  double objects = 0, space = 0, lifetime = 0, alive = 0;
  double youngest = 1e300, oldest = 0;  // upper edges
  std::map<std::string, double> freed;  // objects
};
Found FindIn(const Decoded& profile, const std::string& function) {
  Found found;
  for (const DecodedSample& sample : profile.samples) {
    if (!sample.LeafIs(function)) continue;
    const auto objects = static_cast<double>(sample.values.at("freed_objects"));
    found.objects += objects;
    found.space += static_cast<double>(sample.values.at("freed_space"));
    found.lifetime += static_cast<double>(sample.values.at("lifetime"));
    found.alive += static_cast<double>(sample.values.at("alive_space"));
    if (objects == 0) continue;
    found.freed[sample.labels.at("freed")] += objects;
    found.youngest = std::min(found.youngest, static_cast<double>(sample.numbers.at("age")));
    found.oldest = std::max(found.oldest, static_cast<double>(sample.numbers.at("age")));
  }
  return found;
}

// By column; no cell of these has a comma but the last.
std::vector<std::map<std::string, std::string>> ParseCsvRows(const std::string& text) {
  std::vector<std::map<std::string, std::string>> rows;
  std::vector<std::string> columns;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells;
    std::istringstream parts(line);
    for (std::string cell; std::getline(parts, cell, ',');) cells.push_back(cell);
    if (columns.empty()) {
      columns = cells;
      continue;
    }
    rows.emplace_back();
    for (size_t i = 0; i < columns.size(); ++i) rows.back()[columns[i]] = i < cells.size() ? cells[i] : "";
  }
  return rows;
}

class LifetimesTest : public Profiled {
 protected:
  RunResult Run(const std::string& interval, int seed, std::vector<std::string> arguments, Options more = {}) {
    more.insert({{"heap-interval", interval},
                 {"seed", std::to_string(seed)},
                 {"snapshot-every", "0"},
                 {"lock-interval", "0"},
                 {"lifetimes", "yes"}});
    arguments.insert(arguments.begin(), "known_lifetimes");
    return RunAs(Launch::kRun, arguments, more);
  }
  Decoded Only() const {
    const std::vector<Decoded> all = Newest(out(), "lifetimes");
    EXPECT_EQ(all.size(), 1u) << AllSummaries();
    return all.empty() ? Decoded{} : all[0];
  }
  // What holds of each sample; `chance`: that a block is sampled and its age known.
  static void ExpectKnownAges(const Decoded& profile, const Said& said, double chance) {
    ASSERT_EQ(profile.error, "");
    ASSERT_EQ(said.lived.size(), 4u);
    for (const Lived& of : said.lived) {
      SCOPED_TRACE(of.function);
      const Found found = FindIn(profile, of.function);
      const double error = std::sqrt(of.blocks * (1 - chance) / chance);
      // 5 standard errors, of normal numbers 1 in 1.7 million; a few hundred are looked at. Seeds are fixed, what libc allocates is not.
      EXPECT_NEAR(found.objects, of.blocks, 5 * error + 1);
      EXPECT_NEAR(found.space, of.bytes, (5 * error + 1) * of.bytes / of.blocks);
      if (found.objects == 0) continue;
      const double mean = found.lifetime / found.objects;
      EXPECT_GE(mean, of.least_ns);
      EXPECT_LE(mean, of.most_ns);
      EXPECT_GE(found.youngest, of.least_ns) << "an upper edge";
      EXPECT_LE(found.oldest, std::max(1000.0, 2.5 * of.most_ns)) << "an upper edge: at most 2.5 times the lower one";
      const auto objects = [&found](const char* how) { return found.freed.contains(how) ? found.freed.at(how) : 0; };
      if (of.how == "temporary") {
        EXPECT_EQ(objects("temporary"), found.objects);
      }
      if (of.how == "same") {
        EXPECT_EQ(objects("same thread"), found.objects);
      }
      if (of.how == "other") {
        EXPECT_EQ(objects("other thread"), found.objects);
      }
      if (of.how == "pairs") {
        EXPECT_EQ(objects("other thread"), 0);
        EXPECT_NEAR(objects("same thread"), of.blocks / 2, 5 * error / std::sqrt(2) + 1);
      }
    }
    const Found kept = FindIn(profile, "kept");
    const double each = said.lived[0].bytes / said.lived[0].blocks, blocks = said.kept_bytes / each;
    EXPECT_EQ(kept.objects, 0);
    EXPECT_NEAR(kept.alive, said.kept_bytes, (5 * std::sqrt(blocks * (1 - chance) / chance) + 1) * each);
  }
};

double Chance(double interval, double bytes = 3000) { return 1 - std::exp(-bytes / interval); }

TEST_F(LifetimesTest, EqualTheKnownLifetimesOfTheProgram) {
  const RunResult result = Run("1KiB", 1, {"4000", "1000", "3000"}, {{"lifetimes", "auto"}});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  const Decoded profile = Only();
  ExpectKnownAges(profile, WhatItSaid(result.out), Chance(1024));
  EXPECT_EQ(profile.types, (std::vector<std::string>{"freed_objects/count", "freed_space/bytes", "lifetime/nanoseconds",
                                                     "alive_space/bytes"}));
  EXPECT_EQ(profile.default_type, "freed_space");
  EXPECT_EQ(profile.Comment("ages known"), "of each block that was sampled");
  EXPECT_EQ(profile.Comment("losses"), "none");
}

// Whoever takes a sample in a fixed stride meets the second of each pair always, or never.
TEST_F(LifetimesTest, AreUnbiasedAtEveryInterval) {
  double objects = 0, expected = 0, variance = 0;
  for (int seed = 1; seed <= 20; ++seed) {
    const bool every = seed % 2 == 0;
    SCOPED_TRACE(seed);
    std::filesystem::remove_all(out());
    const RunResult result = Run(every ? "1" : "512KiB", seed, {"40000", "3", every ? "300" : "3000"});
    ASSERT_TRUE(result.exited(0)) << result.Describe();
    const Decoded profile = Only();
    const double chance = every ? 1.0 / 384 : Chance(512 * 1024);
    ExpectKnownAges(profile, WhatItSaid(result.out), chance);
    if (every) {
      EXPECT_THAT(profile.Comment("ages known").value_or(""), HasSubstr("of one block in 384"));
      EXPECT_EQ(profile.VarianceOf("freed_objects"), 0);
      continue;
    }
    objects += static_cast<double>(profile.Total().at("freed_objects"));
    expected += 4 * 40000;
    variance += 4 * 40000 * (1 - chance) / chance;
    EXPECT_NEAR(profile.VarianceOf("freed_objects"), 4 * 40000 * (1 - chance) / chance,
                0.3 * 4 * 40000 * (1 - chance) / chance);
  }
  EXPECT_NEAR(objects, expected, 4 * std::sqrt(variance));
}

// Ages are drawn; what is counted is not. Of ten blocks the age of one may be known, or of none.
TEST_F(LifetimesTest, EveryFreeIsCountedWhereEveryAllocationIsRecorded) {
  for (const char* blocks : {"10", "100", "500", "4000"}) {
    SCOPED_TRACE(blocks);
    std::filesystem::remove_all(out());
    const RunResult result = Run("1", 6, {blocks, "3", "300"});
    ASSERT_TRUE(result.exited(0)) << result.Describe();
    const Decoded profile = Only();
    ASSERT_EQ(profile.error, "");
    for (const Lived& of : WhatItSaid(result.out).lived) {
      double objects = 0, space = 0, known = 0;
      for (const DecodedSample& sample : profile.samples) {
        if (!sample.LeafIs(of.function)) continue;
        objects += static_cast<double>(sample.values.at("freed_objects"));
        space += static_cast<double>(sample.values.at("freed_space"));
        const bool has_age = sample.numbers.contains("age");
        known += has_age ? static_cast<double>(sample.values.at("freed_objects")) : 0;
        EXPECT_EQ(sample.labels.at("freed") == "age not known", !has_age);
      }
      EXPECT_EQ(objects, of.blocks) << of.function;
      EXPECT_EQ(space, of.bytes) << of.function;
      EXPECT_LE(known, objects);
    }
    EXPECT_EQ(profile.VarianceOf("freed_objects"), 0);
    EXPECT_EQ(profile.VarianceOf("freed_space"), 0);
    const Decoded heap = NewestHeap().at(0);
    EXPECT_EQ(profile.Total().at("freed_objects"), heap.CommentNumber("free_calls"));
    const RunResult view = RunTool({"lifetimes", "--width", "200", out()});
    ASSERT_TRUE(view.exited(0)) << view.Describe();
    EXPECT_THAT(view.out, ::testing::ContainsRegex("ages +of one block in 384 .*; each share ± [0-9]+ points"));
    EXPECT_THAT(view.out, HasSubstr("±ages"));
    EXPECT_THAT(view.out, HasSubstr("freed    " + std::to_string(profile.Total().at("freed_objects")) + " blocks"));
  }
}

// Where no walk is remembered each block has a slot of its own, and its age.
TEST_F(LifetimesTest, AtInterval1WithoutTheShortWayEachIsKnown) {
  Command command = CommandFor(Launch::kPreload, {"known_lifetimes", "400", "3", "300"},
                               {{"heap-interval", "1"}, {"lock-interval", "0"}, {"lifetimes", "yes"}});
  command.env["HOLDFAST_REPLAY"] = "0";
  const RunResult result = RunAndSettle(command);
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  ExpectKnownAges(Only(), WhatItSaid(result.out), 1);
}

TEST_F(LifetimesTest, AForkedChildHasItsOwnAndAKilledProcessHasThem) {
  RunResult result = Run("1", 3, {"40000", "3", "300", "fork"});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  ExpectKnownAges(Only(), WhatItSaid(result.out), 1.0 / 384);
  std::filesystem::remove_all(out());
  result = Run("16KiB", 4, {"4000", "3", "3000", "kill"});
  ExpectKnownAges(Only(), WhatItSaid(result.out), Chance(16 * 1024));
}

// Of a process that has ended while nobody served it: as old as they were then, and no older because somebody looks later.
TEST_F(LifetimesTest, ACollectedTableHasTheLifetimesAtItsEnd) {
  Command command = CommandFor(Launch::kPreload, {"known_lifetimes", "400", "1", "3000"},
                               {{"heap-interval", "1KiB"}, {"lifetimes", "yes"}});
  command.env["HOLDFAST_EXPORTER"] = "no";
  ASSERT_TRUE(Execute(command).exited(0));
  Eventually([] { return false; }, 3);
  const RunResult collect = RunTool({"collect", out(), "--tables", tables()});
  ASSERT_TRUE(collect.exited(0)) << collect.Describe();
  const Decoded profile = Only();
  double oldest = 0, alive = 0;
  for (const DecodedSample& sample : profile.samples) {
    if (sample.values.at("alive_space") == 0) continue;
    alive += static_cast<double>(sample.values.at("alive_space"));
    oldest = std::max(oldest, static_cast<double>(sample.numbers.at("age")));
  }
  EXPECT_GT(alive, 0);
  EXPECT_LE(oldest, 1e9) << profile.Summary();
  EXPECT_LT(std::stod(profile.Comment("elapsed").value_or("9")), 2.5);
}

TEST_F(LifetimesTest, AShortProcessLeavesNoneUnlessAsked) {
  ASSERT_TRUE(Run("1KiB", 1, {"400", "1", "300"}, {{"lifetimes", "auto"}}).exited(0));
  ASSERT_EQ(NewestHeap().size(), 1u);
  // On a busy machine it may have lasted a second.
  if (std::stod(NewestHeap()[0].Comment("elapsed").value_or("9")) < 1) {
    EXPECT_TRUE(Newest(out(), "lifetimes").empty()) << AllSummaries();
    EXPECT_THAT(RunTool({"lifetimes", out()}).err, HasSubstr("--lifetimes yes"));
  }
  std::filesystem::remove_all(out());
  ASSERT_TRUE(Run("1KiB", 1, {"400", "1100", "300"}, {{"lifetimes", "no"}}).exited(0));
  EXPECT_TRUE(Newest(out(), "lifetimes").empty()) << AllSummaries();
}

TEST_F(LifetimesTest, AreATableAndTheOldestIsFirst) {
  const RunResult ran = Run("1KiB", 1, {"4000", "20", "3000"});
  ASSERT_TRUE(ran.exited(0)) << ran.Describe();
  RunResult result = RunTool({"lifetimes", out()});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  for (const char* part : {"at_once", "handed_over", "median", "temp%", "in live blocks (not included above)",
                           "of each block that was sampled"})
    EXPECT_THAT(result.out, HasSubstr(part));
  result = RunTool({"lifetimes", "--sort", "temporary", "-n", "1", out()});
  EXPECT_THAT(result.out, HasSubstr("100%"));
  EXPECT_THAT(result.out, HasSubstr("at_once"));
  // A narrow terminal has room for the functions and for the column that the rows are sorted by.
  result = RunTool({"lifetimes", "--width", "80", "--sort", "mean", out()});
  EXPECT_THAT(result.out, ::testing::ContainsRegex("\n +freed .* mean .* function"));
  EXPECT_THAT(result.out, HasSubstr("  handed_over"));
  result = RunTool({"lifetimes", "--format", "json", NewestHeap().at(0).path});
  ASSERT_TRUE(result.exited(0)) << "the file beside a heap profile: " << result.Describe();
  EXPECT_THAT(result.out, HasSubstr("\"within_1ms_percent\""));
  // The bytes are called freed already.
  result = RunTool({"lifetimes", "--by", "freed", "--format", "csv", out()});
  EXPECT_THAT(result.out, ::testing::ContainsRegex("^freed,.*,freed_by\n")) << result.Describe();
  EXPECT_TRUE(RunTool({"lifetimes", "--sort", "colour", out()}).exited(2));
  result = RunTool({"top", "--by", "age", "--error", out()});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  EXPECT_THAT(result.out, HasSubstr("alive_space (lifetimes)"));
  EXPECT_THAT(result.out, HasSubstr("oldest first"));
  result = RunTool({"top", "--kind", "lifetimes", "--error", "--focus", "at_once", out()});
  EXPECT_THAT(result.out, HasSubstr("freed_space"));
}

// What leaks is as old as it has leaked; a cache beside it is young.
TEST_F(LifetimesTest, AreTheAgesOfWhatLeaks) {
  const RunResult ran = RunAs(Launch::kRun, {"leaks_beside_a_cache", "6"},
                              {{"heap-interval", "8KiB"}, {"snapshot-every", "200ms"}, {"lifetimes", "yes"}});
  ASSERT_TRUE(ran.exited(0)) << ran.Describe();
  RunResult leaks = RunTool({"leaks", out()});
  EXPECT_THAT(leaks.out, HasSubstr(" half oldest"));
  EXPECT_THAT(leaks.out, HasSubstr("half: the median age of the bytes in use"));
  leaks = RunTool({"leaks", "--all", "--format", "csv", out()});
  const std::vector<std::map<std::string, std::string>> rows = ParseCsvRows(leaks.out);
  double leaked = -1, cached = -1;
  for (const auto& row : rows) {
    const std::string& stack = row.at("stack");
    if (row.at("age_half_ns").empty()) continue;
    if (stack.starts_with("remember_forever")) leaked = std::stod(row.at("age_half_ns"));
    if (stack.starts_with("put_into_cache")) cached = std::stod(row.at("age_half_ns"));
    if (stack.starts_with("remember_forever")) {
      EXPECT_GE(std::stod(row.at("age_oldest_ns")), 5e9) << leaks.out;  // 6 s: a bucket from 5 on
      EXPECT_LE(std::stod(row.at("age_oldest_ns")), 1e10) << leaks.out;
    }
  }
  // Half of 6 s; its bucket begins at 2.
  EXPECT_EQ(leaked, 2e9) << leaks.out;
  EXPECT_GE(cached, 0) << leaks.out;
  EXPECT_LT(cached, leaked) << leaks.out;
  // Without that file, and with one of another moment, nothing is said.
  for (const auto& file : std::filesystem::directory_iterator(out())) {
    if (file.path().string().find(".lifetimes.") != std::string::npos) std::filesystem::remove(file.path());
  }
  leaks = RunTool({"leaks", "--all", "--format", "json", out()});
  EXPECT_THAT(leaks.out, HasSubstr("\"age_half_ns\": null"));
  EXPECT_THAT(RunTool({"leaks", out()}).out, Not(HasSubstr("oldest")));
  EXPECT_TRUE(RunTool({"leaks", "--kind", "mutex", out()}).exited(2));
  EXPECT_TRUE(RunTool({"leaks", "--kind", "heap", out()}).exited(1));
}

TEST_F(LifetimesTest, JsonHasTheLinesAboveTheTable) {
  ASSERT_TRUE(Run("1KiB", 1, {"4000", "20", "3000"}).exited(0));
  const std::string json = RunTool({"lifetimes", "--format", "json", out()}).out;
  for (const char* part : {"\"sampled\": \"1 in 1KiB\"", "\"ages_known\": \"of each block that was sampled\"",
                           "\"started\": \"20", "\"elapsed\": \"", "\"median_ns\":", "\"temporary_percent\":",
                           "\"alive\":", "\"alive_longer_than_1s\":", "\"total_error\":"})
    EXPECT_THAT(json, HasSubstr(part));
}

// At interval 1 the heap profile knows what lives to the byte, the ages of it are of few blocks.
TEST_F(LifetimesTest, LiveBlocksEqualThoseOfTheHeapProfile) {
  const auto member = [](const std::string& json, const std::string& key) -> std::string {
    const size_t at = json.find("\"" + key + "\": "), start = at + key.size() + 4;
    return at == std::string::npos ? "none" : json.substr(start, json.find_first_of(",\n}", start) - start);
  };
  const RunResult ran = Run("1", 5, {"4000", "3", "300"});
  ASSERT_TRUE(ran.exited(0)) << ran.Describe();
  const double kept = WhatItSaid(ran.out).kept_bytes;
  const Decoded heap = NewestHeap().at(0);
  const std::string in_use = std::to_string(heap.Total().at("inuse_space"));
  std::string json = RunTool({"lifetimes", "--format", "json", "-n", "0", out()}).out;
  EXPECT_EQ(member(json, "alive"), in_use) << json;
  EXPECT_EQ(member(json, "alive_error"), "0") << json;
  const size_t name = json.find("\"function\": \"kept\"");
  ASSERT_NE(name, std::string::npos) << json;
  const std::string row = json.substr(json.rfind('{', name), name - json.rfind('{', name));
  EXPECT_EQ(member(row, "alive"), std::to_string(static_cast<int64_t>(kept))) << row;
  // Nothing of it was freed: what nobody knows is no number.
  for (const char* key : {"median_ns", "mean_ns"}) EXPECT_EQ(member(row, key), "null") << row;
  json = RunTool({"lifetimes", "--format", "json", "--focus", "^kept$", out()}).out;
  EXPECT_EQ(member(json, "alive"), std::to_string(static_cast<int64_t>(kept))) << json;
  EXPECT_EQ(member(json, "median_ns"), "null") << json;
  EXPECT_THAT(RunTool({"lifetimes", "--width", "0", out()}).out, HasSubstr(" ± 0 (95 %) in live blocks"));
  // The file says it by itself.
  std::filesystem::remove(heap.path);
  json = RunTool({"lifetimes", "--format", "json", out()}).out;
  EXPECT_EQ(member(json, "alive"), in_use) << json;
}

std::string NameOf(const DecodedSample& sample) {
  return sample.frames.empty() || sample.frames[0].functions.empty() ? "" : sample.frames[0].functions[0];
}

// Few ages are known, or none: what is alive is in some row all the same.
TEST_F(LifetimesTest, LiveBlocksAddUpEvenWithUnknownAges) {
  for (const auto& [interval, blocks] :
       std::vector<std::pair<const char*, const char*>>{{"1", "10"}, {"1", "4000"}, {"16KiB", "400"}}) {
    SCOPED_TRACE(std::string(interval) + " " + blocks);
    std::filesystem::remove_all(out());
    ASSERT_TRUE(Run(interval, 6, {blocks, "3", "300"}).exited(0));
    const Decoded heap = NewestHeap().at(0), ages = Only();
    std::map<std::string, int64_t> in_use, alive;  // by size class and allocating function
    const auto add = [](const Decoded& profile, const char* type, std::map<std::string, int64_t>* sums) {
      for (const DecodedSample& sample : profile.samples) {
        if (sample.values.at(type) == 0) continue;
        (*sums)[NameOf(sample) + " " + std::to_string(sample.numbers.at("bytes"))] += sample.values.at(type);
      }
    };
    add(heap, "inuse_space", &in_use);
    add(ages, "alive_space", &alive);
    EXPECT_EQ(in_use, alive);
    EXPECT_EQ(heap.VarianceOf("inuse_space"), ages.VarianceOf("alive_space"));
    int64_t sum = 0;
    for (const auto& row : ParseCsvRows(RunTool({"top", "--by", "age", "--format", "csv", "-n", "0", out()}).out))
      sum += std::stoll(row.at("total"));
    EXPECT_EQ(sum, heap.Total().at("inuse_space"));
    if (interval == std::string("1")) {
      EXPECT_THAT(RunTool({"top", "--by", "age", out()}).out, HasSubstr("(age unknown)"));
    }
  }
}

// A folder of several processes is a sum of files.
TEST_F(LifetimesTest, SeveralProcessesReportTheErrorOfTheirAges) {
  ASSERT_TRUE(Run("1", 5, {"4000", "3", "300"}).exited(0));
  const std::string alone = RunTool({"lifetimes", "--width", "200", out()}).out;
  ASSERT_TRUE(Run("1", 6, {"4000", "3", "300"}).exited(0));
  const std::string both = RunTool({"lifetimes", "--width", "200", out()}).out;
  const auto error_of = [](const std::string& text) {
    std::smatch found;
    EXPECT_TRUE(std::regex_search(text, found, std::regex("; each share ± ([0-9]+) points"))) << text;
    EXPECT_THAT(text, HasSubstr("±ages"));
    return found.empty() ? 0 : std::stod(found[1]);
  };
  EXPECT_GT(error_of(alone), error_of(both)) << "twice as many ages are known";
  EXPECT_GT(error_of(both), 0);
  const RunResult merge = RunTool({"merge", "--kind", "lifetimes", "-o", out() + "/sum.pb.gz", out()});
  ASSERT_TRUE(merge.exited(0)) << merge.Describe();
  EXPECT_EQ(error_of(RunTool({"lifetimes", "--width", "200", out() + "/sum.pb.gz"}).out), error_of(both));
}

TEST_F(LifetimesTest, MergedChildrenShareOneFileOnRequest) {
  const RunResult result =
      Run("1KiB", 1, {"4000", "3", "3000", "fork"}, {{"merge-children", "yes"}, {"snapshot-every", "60s"}});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  const Decoded profile = Only();
  EXPECT_THAT(profile.path, HasSubstr(".0.0001.lifetimes.pb.gz"));
  EXPECT_EQ(profile.Comment("ages known"), "of each block that was sampled");
  ExpectKnownAges(profile, WhatItSaid(result.out), Chance(1024));
}

}  // namespace
}  // namespace holdfast::testing
