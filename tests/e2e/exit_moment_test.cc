// A file of its own contains what a program held when main returned, before the exit handlers free it.
#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <utility>

#include "sampler/contract/layout.h"
#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kHeldBytes = 2 * 100 * 50000;

// Of the processes that called Fill.
std::vector<Decoded> HeapFiles(const std::string& folder) {
  std::vector<Decoded> files;
  for (const ProfileName& name : ListProfiles(folder)) {
    if (name.kind != "heap") continue;
    Decoded file = Decode(name.path);
    if (file.Names("Fill(Holder*)")) files.push_back(std::move(file));
  }
  return files;
}

class ExitMoments : public Profiled {
 protected:
  uint32_t WordOfTables(size_t offset) const {
    uint32_t word = 0;
    for (const std::string& table : Tables()) {
      const std::string bytes = ReadFile(tables() + "/" + table);
      if (word == 0 && bytes.size() >= sizeof(TableHeader)) memcpy(&word, bytes.data() + offset, sizeof word);
    }
    return word;
  }

  // Runs freed_at_exit, and lets it end once an exporter serves it. On an overloaded machine the exporter may take longer
  // than the program waits before its exit handlers, so this is tried again until the copy came in time.
  std::vector<Decoded> FilesOf(const std::string& way, const std::string& program = "freed_at_exit",
                               const std::string& interval = "1") {
    std::vector<Decoded> files;
    for (int attempt = 0; attempt < 20; ++attempt) {
      const std::string folder = out() + "/" + std::to_string(attempt);
      Command command = CommandFor(Launch::kPreload, {program, way}, {{"heap-interval", interval}, {"out", folder}});
      Running running(command);
      EXPECT_TRUE(running.WaitForOutput("ready"));
      EXPECT_TRUE(Eventually([&] { return WordOfTables(offsetof(TableHeader, exporter_pid)) != 0; }));
      running.CloseInput();
      const RunResult r = running.Wait();
      EXPECT_TRUE(r.exited(7)) << r.Describe();
      EXPECT_TRUE(Settled());
      files = HeapFiles(folder);
      for (const Decoded& file : files) EXPECT_EQ(file.error, "") << file.path;
      if (way == "_exit" || (!files.empty() && files[0].Comment("moment") == "before exit handlers")) return files;
    }
    ADD_FAILURE() << "no copy came in time";
    return files;
  }
};

class ExitMoment : public ExitMoments, public ::testing::WithParamInterface<std::string> {};

TEST_P(ExitMoment, ShowsWhatTheExitHandlersFree) {
  const std::vector<Decoded> files = FilesOf(GetParam());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].SumAny("Fill(Holder*)").at("inuse_space"), kHeldBytes) << files[0].Summary();
  EXPECT_EQ(files[1].Comment("moment"), "after exit handlers");
  EXPECT_LT(files[1].SumAny("Fill(Holder*)").at("inuse_space"), kHeldBytes) << files[1].Summary();
  EXPECT_EQ(files[1].SumAny("Fill(Holder*)").at("alloc_space"), kHeldBytes);
}

INSTANTIATE_TEST_SUITE_P(Ways, ExitMoment,
                         ::testing::Values("return", "exit", "quick_exit", "thread", "fork", "handler_threads",
                                           "realloc"),
                         [](const auto& info) { return info.param; });

// Unless every allocation is recorded, the first change of something sampled waits for the copy, and all threads with it. Of
// blocks of 50,000 bytes, 1 in 10^42 has no sample at this interval.
TEST_P(ExitMoment, ShowsWhatTheExitHandlersFreeOfRareSamples) {
  const std::vector<Decoded> files = FilesOf(GetParam(), "freed_at_exit", "512");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].SumAny("Fill(Holder*)").at("inuse_space"), kHeldBytes) << files[0].Summary();
  EXPECT_EQ(files[1].Comment("moment"), "after exit handlers");
  EXPECT_LT(files[1].SumAny("Fill(Holder*)").at("inuse_space"), kHeldBytes) << files[1].Summary();
  EXPECT_EQ(files[1].SumAny("Fill(Holder*)").at("alloc_space"), kHeldBytes);
}

TEST_F(ExitMoments, HandlersThatChangeNothingSampledWaitForNoCopy) {
  const std::string trace = folder() + "/trace";
  if (!Execute({.argv = {"strace", "-V"}}).exited(0)) GTEST_SKIP() << "strace is not installed";
  // At 1, every program waits for the copy.
  for (const auto& [interval, notices] : {std::pair("1", 2), std::pair("512", 1)}) {
    const std::string to = out() + "/" + interval;
    Command traced =
        CommandFor(Launch::kPreload, {"freed_at_exit", "idle"}, {{"heap-interval", interval}, {"out", to}});
    traced.argv.insert(traced.argv.begin(), {"strace", "-E", "LD_PRELOAD=" + traced.env["LD_PRELOAD"], "-o", trace});
    traced.env.erase("LD_PRELOAD");
    EXPECT_TRUE(RunAndSettle(traced).exited(7));
    const std::string calls = ReadFile(trace);
    int seen = 0;
    for (size_t at = 0; (at = calls.find(".table\", NULL, 0)", at)) != std::string::npos; ++at) ++seen;
    EXPECT_EQ(seen, notices) << "notices to the exporter\n" << calls;
    const std::vector<Decoded> files = HeapFiles(to);
    ASSERT_EQ(files.size(), 1u);
    EXPECT_EQ(files[0].Comment("moment"), "before exit handlers");
    EXPECT_EQ(files[0].SumAny("Fill(Holder*)").at("inuse_space"), kHeldBytes / 2);
  }
}

// Views of the folder show what there was to see, and say so; a file that is named is shown as it is.
TEST_F(ExitMoments, ViewsShowWhatTheExitHandlersFree) {
  const std::vector<Decoded> files = FilesOf("exit");
  ASSERT_EQ(files.size(), 2u);
  const std::string folder = std::filesystem::path(files[0].path).parent_path();
  for (const char* view : {"top", "tree"}) {
    const RunResult shown = RunTool({view, "--unit", "bytes", folder});
    EXPECT_TRUE(shown.exited(0)) << shown.Describe();
    EXPECT_THAT(shown.out, HasSubstr("metric   inuse_space (heap)"));
    EXPECT_THAT(shown.out, HasSubstr(std::to_string(kHeldBytes)));
    EXPECT_THAT(shown.out,
                ContainsRegex("note     shown: [0-9:]+ \\(UTC\\), (just )?before the program freed memory at exit"));
  }
  EXPECT_THAT(RunTool({"top", "--format", "json", folder}).out, HasSubstr("\"freed_at_exit\": 1"));
  const RunResult named = RunTool({"top", "--unit", "bytes", "--metric", "inuse_space", files[1].path});
  EXPECT_THAT(named.out, Not(HasSubstr("freed memory at exit")));
  EXPECT_THAT(named.out, Not(HasSubstr(std::to_string(kHeldBytes))));
}

TEST_F(ExitMoments, HandlersThatFreeNothingNeedNoFileOfTheirOwn) {
  const std::vector<Decoded> files = FilesOf("nothing");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].SumAny("Fill(Holder*)").at("inuse_space"), kHeldBytes / 2);
}

// The library asks libc to call it at the end, which takes a block from the program's own allocator.
TEST_F(ExitMoments, AReturnFromMainIsSeenWithAnAllocatorInTheExecutable) {
  bool is_linked = false;
  for (const char* program : {"linked_exits_jemalloc", "linked_exits_tcmalloc"}) {
    if (access(ProgramPath(program).c_str(), X_OK) != 0) continue;
    is_linked = true;
    const std::vector<Decoded> files = FilesOf("nothing", program);
    ASSERT_FALSE(files.empty()) << program;
    EXPECT_EQ(files[0].SumAny("Fill(Holder*)").at("inuse_space"), kHeldBytes / 2);
  }
  if (!is_linked) GTEST_SKIP() << "no allocator's archive is installed";
}

TEST_F(ExitMoments, NoHandlerRunsBeforeUnderscoreExit) {
  const std::vector<Decoded> files = FilesOf("_exit");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].Comment("moment"), std::nullopt);
  EXPECT_EQ(files[0].SumAny("Fill(Holder*)").at("inuse_space"), kHeldBytes);
}

TEST_F(ExitMoments, StacksOfExitHandlersHaveNoFrameOfOurs) {
  const std::vector<Decoded> files = FilesOf("exit");
  ASSERT_FALSE(files.empty());
  bool seen = false;
  for (const DecodedSample& sample : files.back().samples) {
    if (!sample.LeafIs("Handler()")) continue;
    seen = true;
    for (const DecodedFrame& frame : sample.frames) EXPECT_EQ(frame.mapping.find("libholdfast"), std::string::npos);
  }
  EXPECT_TRUE(seen) << files.back().Summary();
}

// A program that sleeps writes no snapshots, as nothing changes. Its last file says how often that was looked at.
TEST_F(ExitMoments, TheLastFileCountsSnapshotsThatChangedNothing) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"},
                             {{"heap-interval", "1"}, {"snapshot-every", "100ms"}, {"profiles", "heap"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  running.HoldInput();
  const auto files = [&] {
    std::vector<ProfileName> heap = ListProfiles(out());
    std::erase_if(heap, [](const ProfileName& name) { return name.kind != "heap"; });
    return heap;
  };
  ASSERT_TRUE(Eventually([&] { return !files().empty(); }));
  const size_t first = files().size();
  // The exporter's beats are as far apart as snapshots here.
  const uint32_t beat = WordOfTables(offsetof(TableHeader, exporter_beat));
  ASSERT_TRUE(Eventually([&] { return WordOfTables(offsetof(TableHeader, exporter_beat)) >= beat + 4; }));
  running.Signal(SIGKILL);
  running.Wait();
  ASSERT_TRUE(Settled());
  ASSERT_GT(files().size(), first) << AllSummaries();
  const Decoded last = Decode(files().back().path), before = Decode(files()[files().size() - 2].path);
  EXPECT_GE(last.CommentNumber("unchanged snapshots"), 1) << last.Summary();
  EXPECT_EQ(last.Total(), before.Total());
}

// Exit handlers destroy objects that other threads use. Bare, a thread has microseconds to touch one, so nothing waits
// after the handlers: what they leave is written after the program's end.
TEST_F(ExitMoments, WhileOtherThreadsRunNothingWaitsAfterTheHandlers) {
  for (const std::string way : {"return", "exit"}) {
    const std::string to = out() + "/" + way, trace = folder() + "/trace";
    const Options options = {{"heap-interval", "1"}, {"out", to}};
    EXPECT_TRUE(RunAs(Launch::kPreload, {"threads_outlive_main", way}, options).exited(7));
    std::vector<Decoded> files;
    for (const ProfileName& name : ListProfiles(to)) {
      if (name.kind == "heap") files.push_back(Decode(name.path));
    }
    ASSERT_EQ(files.size(), 2u) << AllSummaries();
    EXPECT_EQ(files[0].Comment("moment"), "before exit handlers");
    EXPECT_EQ(files[0].SumLeaf("hold").at("inuse_space"), 100'000) << files[0].Summary();
    EXPECT_EQ(files[1].Comment("moment"), "after exit handlers");
    EXPECT_EQ(files[1].SumLeaf("hold").at("inuse_space"), 0) << files[1].Summary();
    EXPECT_EQ(files[1].SumLeaf("hold").at("alloc_space"), 100'000);

    Command traced = CommandFor(Launch::kPreload, {"threads_outlive_main", way}, options);
    traced.argv.insert(traced.argv.begin(), {"strace", "-E", "LD_PRELOAD=" + traced.env["LD_PRELOAD"], "-o", trace});
    traced.env.erase("LD_PRELOAD");
    if (!Execute({.argv = {"strace", "-V"}}).exited(0)) continue;
    EXPECT_TRUE(RunAndSettle(traced).exited(7));
    const std::string calls = ReadFile(trace);
    const size_t handler = calls.find("write(1, \"handler");
    ASSERT_NE(handler, std::string::npos) << calls;
    EXPECT_NE(calls.rfind("FUTEX_WAIT", handler), std::string::npos) << "it waits before the handlers\n" << calls;
    EXPECT_EQ(calls.find("FUTEX_WAIT", handler), std::string::npos) << calls;
  }
}

}  // namespace
}  // namespace holdfast::testing
