// Labels of threads, set with holdfast_label: what heap and lock samples contain of them, and what may go wrong.
#include <algorithm>
#include <filesystem>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// "kind=write,tenant=acme"; "-": none. But for those of Holdfast's own.
std::string LabelsOf(const DecodedSample& sample) {
  std::string text;
  for (const auto& [key, value] : sample.labels) {
    if (key == "wait" || key == "lock" || key == "state") continue;
    text += (text.empty() ? "" : ",") + key + "=" + value;
  }
  return text.empty() ? "-" : text;
}

class ApiLabels : public Profiled {
 protected:
  // By labels, of the samples that have passed through `function`.
  std::map<std::string, Values> ByLabels(const std::string& kind, const std::string& function) const {
    std::map<std::string, Values> sums;
    for (const Decoded& profile : Newest(out(), kind)) {
      EXPECT_EQ(profile.error, "");
      for (const DecodedSample& sample : profile.samples) {
        if (!sample.Has(function)) continue;
        for (const auto& [name, value] : sample.values) sums[LabelsOf(sample)][name] += value;
      }
    }
    return sums;
  }
  // What the program printed: "expect LABELS objects bytes, and in use".
  void ExpectKnown(const std::string& output, const std::string& function) const {
    const auto sums = ByLabels("heap", function);
    const auto known = KnownHeap(output);
    EXPECT_FALSE(known.empty()) << output;
    for (const Known& expected : known) {
      const auto found = sums.find(expected.function);
      ASSERT_NE(found, sums.end()) << expected.function << " in " << ::testing::PrintToString(sums).substr(0, 3000);
      EXPECT_EQ(found->second.at("alloc_objects"), expected.alloc_objects) << expected.function;
      EXPECT_EQ(found->second.at("alloc_space"), expected.alloc_space) << expected.function;
      EXPECT_EQ(found->second.at("inuse_objects"), expected.inuse_objects) << expected.function;
      EXPECT_EQ(found->second.at("inuse_space"), expected.inuse_space) << expected.function;
    }
  }
};

class ApiLabelsExamples : public ApiLabels, public ::testing::WithParamInterface<const char*> {};
TEST_P(ApiLabelsExamples, MemoryHasTheLabelOfItsAllocation) {
  const RunResult bare = RunAs(Launch::kBare, {GetParam()});
  ASSERT_TRUE(bare.exited(0)) << bare.Describe();
  const RunResult profiled = RunAs(Launch::kPreload, {GetParam()}, {{"heap-interval", "1"}});
  ASSERT_TRUE(profiled.exited(0)) << profiled.Describe();
  EXPECT_EQ(profiled.out, bare.out);
  ExpectKnown(profiled.out, "serve");
}
INSTANTIATE_TEST_SUITE_P(All, ApiLabelsExamples, ::testing::Values("api_labels_c", "api_labels_rust"));

// Every allocation recorded, by remembered walks and by the long way; and the cases of a server's life.
class ApiLabelsCases : public ApiLabels, public ::testing::WithParamInterface<std::tuple<const char*, const char*>> {};
TEST_P(ApiLabelsCases, EachSampleHasTheLabelsOfItsMoment) {
  const auto [name, replay] = GetParam();
  const RunResult r = RunAs(Launch::kPreload, {"labelled", name},
                            {{"heap-interval", "1"}, {"replay", replay}, {"max-memory", "256MiB"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  ExpectKnown(r.out, "serve");
}
INSTANTIATE_TEST_SUITE_P(All, ApiLabelsCases,
                         ::testing::Combine(::testing::Values("sets", "many", "huge", "threads", "forks", "signals",
                                                              "race"),
                                            ::testing::Values("0", "1")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param)[0] == '0' ? "_long" : "");
                         });

TEST_F(ApiLabels, LabelsWithoutRoomAreReported) {
  RunAs(Launch::kPreload, {"labelled", "many"}, {{"heap-interval", "1"}});
  EXPECT_THAT(RunTool({"info", out()}).out, HasSubstr("lost labels-full: 5968"));
  std::filesystem::remove_all(out());
  // Where the table has none, nothing is lost but names.
  const RunResult r = RunAs(Launch::kPreload, {"labelled", "many"}, {{"heap-interval", "1"}, {"max-memory", "2MiB"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  for (const Decoded& profile : NewestHeap()) {
    EXPECT_EQ(profile.error, "");
    EXPECT_EQ(profile.CommentNumber("alloc_calls"), profile.Total().at("alloc_objects"));
  }
}

TEST_F(ApiLabels, LabelsOfBeforeMainHoldAndExecForgetsThem) {
  Command command = CommandFor(Launch::kPreload, {"labelled", "executes"}, {{"heap-interval", "1"}});
  command.env["LABEL_EARLY"] = "1";
  const RunResult r = RunAndSettle(command);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  ExpectKnown(r.out, "serve");
}

TEST_F(ApiLabels, EveryViewCanBeAskedByThem) {
  RunAs(Launch::kPreload, {"labelled", "sets"}, {{"heap-interval", "1"}});
  const std::string file = out();
  const std::string by = RunTool({"top", "--by", "tenant", "--metric", "alloc_space", "--focus", "^serve$", file}).out;
  EXPECT_THAT(by, HasSubstr("acme"));
  EXPECT_THAT(by, HasSubstr("zenith"));
  EXPECT_THAT(by, HasSubstr("107.42KiB"));  // 80,000 + 30,000 bytes
  const RunResult focused = RunTool({"top", "--format", "json", "--tagfocus", "tenant=zenith", "--metric",
                                     "alloc_space", "--focus", "^serve$", file});
  EXPECT_THAT(focused.out, HasSubstr("40000"));
  const std::string tree = RunTool({"tree", "--by", "kind", "--metric", "alloc_space", file}).out;
  EXPECT_THAT(tree, HasSubstr("write"));
  EXPECT_THAT(RunTool({"export", "--tagfocus", "kind=write", "--metric", "alloc_space", file}).out,
              HasSubstr("serve 120000"));
}

TEST_F(ApiLabels, GoReadsThem) {
  RunAs(Launch::kPreload, {"labelled", "sets"}, {{"heap-interval", "1"}});
  const RunResult tags = RunGoPprof({"-tags", "-sample_index=alloc_space", NewestHeap().at(0).path});
  if (!tags.exited(0)) GTEST_SKIP() << tags.Describe();
  EXPECT_THAT(tags.out, HasSubstr("tenant: Total"));
  EXPECT_THAT(tags.out, HasSubstr("acme"));
}

TEST_F(ApiLabels, ALockRecordsTheLabelsOfItsHolderAndWaiter) {
  for (const char* interval : {"1ns", "100us"}) {
    std::filesystem::remove_all(out());
    const RunResult r = RunAs(Launch::kPreload, {"api_labels_cxx"}, {{"lock-interval", interval}});
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    for (const char* kind : {"block", "mutex"}) {
      const auto sums = ByLabels(kind, "post_entry()");
      for (const char* labels : {"kind=write,tenant=acme", "kind=write,tenant=zenith"}) {
        ASSERT_EQ(sums.count(labels), 1u) << kind << ::testing::PrintToString(sums);
        // 50 + 100 ms were waited, two waits or one hold and one.
        EXPECT_GE(sums.at(labels).at("delay"), 100'000'000) << kind << labels;
        EXPECT_LE(sums.at(labels).at("delay"), 1'500'000'000) << kind << labels;
      }
      EXPECT_EQ(sums.size(), 2u) << kind << ::testing::PrintToString(sums);
    }
  }
}

TEST_F(ApiLabels, WaitsInProgressHaveLabels) {
  Running running(CommandFor(Launch::kPreload, {"labelled", "waits"}, {{"lock-interval", "1ns"}}));
  ASSERT_TRUE(running.WaitForOutput("waiting"));
  const std::string pid = std::to_string(running.pid());
  std::string said;
  for (int i = 0; i < 100 && said.find("mutex") == std::string::npos; ++i) said = RunTool({"stuck", pid}).out;
  EXPECT_THAT(said, HasSubstr("; kind=read, tenant=acme)"));
  EXPECT_THAT(RunTool({"stuck", "--json", pid}).out, HasSubstr("\"labels\":\"kind=read, tenant=acme\""));
  running.Write("go\n");
  EXPECT_TRUE(running.Wait().exited(0));
}

// Thread names, where they are asked for (--thread-label).
class ThreadLabels : public ApiLabels {
 protected:
  // Objects by label `thread`, of what serve() allocated in all processes.
  std::map<std::string, int64_t> Served() const {
    std::map<std::string, int64_t> objects;
    for (const auto& [labels, values] : ByLabels("heap", "serve")) objects[labels] += values.at("alloc_objects");
    return objects;
  }
};

class ThreadLabelsCases : public ThreadLabels,
                          public ::testing::WithParamInterface<std::tuple<const char*, const char*>> {};
TEST_P(ThreadLabelsCases, ASampleHasTheNameThatItsThreadHadThen) {
  const auto [name, replay] = GetParam();
  const RunResult r = RunAs(Launch::kPreload, {"thread_labels", name},
                            {{"heap-interval", "1"}, {"replay", replay}, {"thread-label", "yes"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  if (std::string(name) == "renames" && replay[0] == '1') {
    // Who remembers its walks asks for what others have called it at every 64th sample.
    const auto objects = Served();
    EXPECT_EQ(objects.at("thread=alpha"), 1100);
    EXPECT_EQ(objects.at("thread=beta") + objects.at("thread=gamma"), 1000);
    EXPECT_GE(objects.at("thread=gamma"), 500 - 32);
    return;
  }
  ExpectKnown(r.out, "serve");
}
INSTANTIATE_TEST_SUITE_P(All, ThreadLabelsCases,
                         ::testing::Combine(::testing::Values("renames", "labels", "forked"),
                                            ::testing::Values("0", "1")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param)[0] == '0' ? "_long" : "");
                         });

// Up to 64 KiB stacks come from remembered walks, too, but each sample asks for the name.
TEST_F(ThreadLabels, ANameGivenByAnotherThreadIsSeenByTheNextSampleOfASmallInterval) {
  std::map<std::string, int64_t> by_way[2];
  for (const int replay : {0, 1}) {
    std::filesystem::remove_all(out());
    const RunResult r =
        RunAs(Launch::kPreload, {"thread_labels", "called"},
              {{"heap-interval", "500"}, {"seed", "7"}, {"replay", std::to_string(replay)}, {"thread-label", "yes"}});
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    by_way[replay] = Served();
  }
  EXPECT_EQ(by_way[0].size(), 4u);
  EXPECT_EQ(by_way[0], by_way[1]);
}

TEST_F(ThreadLabels, AreOffUnlessAskedFor) {
  RunAs(Launch::kPreload, {"thread_labels", "renames"}, {{"heap-interval", "1"}});
  EXPECT_EQ(Served(), (std::map<std::string, int64_t>{{"-", 2110}}));
}

TEST_F(ThreadLabels, AreOfEveryKind) {
  const RunResult r = RunAs(Launch::kRun, {"thread_labels", "kinds"},
                            {{"heap-interval", "1"}, {"lock-interval", "1ns"}, {"thread-label", "yes"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const auto has = [&](const char* kind, const char* function, const char* labels) {
    const auto sums = ByLabels(kind, function);
    EXPECT_EQ(sums.count(labels), 1u) << kind << ::testing::PrintToString(sums);
  };
  has("block", "(anonymous namespace)::Waiter(void*)", "thread=waiter");
  has("mutex", "(anonymous namespace)::Holder(void*)", "thread=holder");
  has("threads", "(anonymous namespace)::Waiter(void*)", "thread=waiter");
  EXPECT_EQ(
      ByLabels("exceptions", "(anonymous namespace)::Waiter(void*)").at("thread=waiter,type=int").at("exceptions"), 7);
}

TEST_F(ThreadLabels, NumbersAreFoldedOnceThereAreManyNames) {
  const Options options = {{"heap-interval", "1"}, {"thread-label", "yes"}};
  RunAs(Launch::kPreload, {"thread_labels", "many"}, options);
  auto objects = Served();
  EXPECT_EQ(objects.size(), 64u) << ::testing::PrintToString(objects);
  EXPECT_EQ(objects["thread=worker-0"], 10);
  EXPECT_EQ(objects["thread=worker-*"], 2000 - 64 * 10 + 10);  // main's own name is one of the 64
  EXPECT_THAT(RunTool({"info", out()}).out, Not(HasSubstr("labels-full")));
  std::filesystem::remove_all(out());
  // Names that have none: as many again, and then one for all others, which is said.
  RunAs(Launch::kPreload, {"thread_labels", "different"}, options);
  objects = Served();
  EXPECT_EQ(objects.size(), 128u) << ::testing::PrintToString(objects);
  EXPECT_EQ(objects["thread=[overflow]"], 3000 - 127 * 10);
  EXPECT_THAT(RunTool({"info", out()}).out, HasSubstr("lost labels-full: 173"));
}

TEST_F(ThreadLabels, FoldedTheyAreOneForAPool) {
  RunAs(Launch::kPreload, {"thread_labels", "many"}, {{"heap-interval", "1"}, {"thread-label", "folded"}});
  EXPECT_EQ(Served(), (std::map<std::string, int64_t>{{"thread=worker-*", 2000}}));
}

TEST_F(ThreadLabels, ViewsAreNarrowedByThem) {
  RunAs(Launch::kPreload, {"thread_labels", "renames"},
        {{"heap-interval", "1"}, {"replay", "0"}, {"thread-label", "yes"}});
  const std::vector<std::string> all = {"--metric", "alloc_space", "--focus", "^serve$", out()};
  const auto view = [&](std::vector<std::string> words) {
    words.insert(words.end(), all.begin(), all.end());
    return RunTool(words).out;
  };
  const std::string by = view({"top", "--by", "thread", "--format", "csv", "--unit", "bytes"});
  EXPECT_THAT(by, HasSubstr("15000"));
  EXPECT_THAT(by, HasSubstr("gamma"));
  EXPECT_THAT(view({"export", "--tagfocus", "thread=gamma"}), HasSubstr("serve 15000"));
  EXPECT_THAT(view({"tree", "--by", "thread"}), HasSubstr("beta"));
}

TEST_F(ThreadLabels, ABadValueIsNamed) {
  const RunResult r = RunTool({"run", "--thread-label", "maybe", "--", "true"});
  EXPECT_TRUE(r.exited(125)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("--thread-label: \"maybe\" is not yes, no or folded"));
}

}  // namespace
}  // namespace holdfast::testing
