// What live pages are fed with: made once for all who ask, and forgotten when nobody does.
#include "report/fleet/serve/live_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "fmt/format.h"
#include "report/builder/profile_builder.h"
#include "report/fleet/serve/metrics.h"
#include "tests/unit/process_table.h"
#include "tests/unit/view_fixture.h"

namespace holdfast {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::FakeTarget;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing::TableOf;
using testing::TablesFolder;

class LiveFeedsTest : public ::testing::Test {
 protected:
  static void WaitFor(const std::function<bool()>& condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  TablesFolder folder_;
};

TEST_F(LiveFeedsTest, AllWhoAskWithinAPaceGetOneAnswer) {
  const FakeTarget target(folder_.path(), "/some/where");
  const ProcessTable process = TableOf(folder_, target);
  LiveFeeds feeds;
  const absl::StatusOr<LiveAnswer> first = feeds.Of(process);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(*first->data, StartsWith("HFR1"));
  EXPECT_GE(first->pace, LiveFeeds::kMinPace);
  std::vector<std::thread> others;
  std::atomic<int> same{0};
  for (int i = 0; i < 8; ++i) {
    others.emplace_back([&] { same += feeds.Of(process)->data == first->data ? 1 : 0; });
  }
  for (std::thread& other : others) other.join();
  EXPECT_EQ(same, 8);
  EXPECT_EQ(feeds.size(), 1u);
}

TEST_F(LiveFeedsTest, UnrequestedProcessesAreForgottenCompletely) {
  const FakeTarget target(folder_.path(), "/some/where");
  const ProcessTable process = TableOf(folder_, target);
  LiveFeeds feeds(std::chrono::milliseconds(20));
  std::weak_ptr<const std::string> data;
  {
    const absl::StatusOr<LiveAnswer> answer = feeds.Of(process);
    ASSERT_TRUE(answer.ok()) << answer.status();
    data = answer->data;
  }
  WaitFor([&] { return feeds.size() == 0; });
  WaitFor([&] { return data.expired(); });
  ASSERT_TRUE(feeds.Of(process).ok()) << "and read again for who comes back";
  WaitFor([&] { return feeds.Of(process).ok() && feeds.size() == 1; });  // again: it is soon forgotten
}

TEST_F(LiveFeedsTest, TheMostRecentlyRequestedProcessesAreKept) {
  LiveFeeds feeds;
  std::vector<std::unique_ptr<FakeTarget>> targets;
  for (size_t i = 0; i < LiveFeeds::kMaxFeeds + 3; ++i) {
    targets.push_back(std::make_unique<FakeTarget>(folder_.path(), "/some/where"));
    ASSERT_TRUE(feeds.Of(TableOf(folder_, *targets.back())).ok());
  }
  EXPECT_EQ(feeds.size(), LiveFeeds::kMaxFeeds);
}

// The verdict of `holdfast leaks` on the snapshots that were written of a running process.
class GrowthWatchTest : public LiveFeedsTest {
 protected:
  // One more snapshot of the process of `table`: keep_here holds 1 MiB more than in the one before.
  void SaveSnapshot(const ProcessTable& table, int number) {
    const std::string process = ProcessId(table.table.TakeSnapshot()->process);
    Profile p = testing::StackProfile(
        {{"main;keep_here", int64_t{1 << 20} * number, 10 * number}, {"main;table", 1 << 20, 10}});
    for (StringId& comment : p.comments) {
      if (p.strings[comment] == "program: app") comment = p.strings.Intern("program: " + table.table.program());
    }
    p.AddComment("process: " + process);
    p.time_nanos += int64_t{60} * kSecond * number;
    out_.Write(fmt::format("app.{}.{:04}.heap.pb.gz", table.table.owner().pid, number), EncodePprof(p));
  }
  testing::Folder out_;
};

TEST_F(GrowthWatchTest, MetricsAndTheLivePageHaveTheVerdict) {
  const FakeTarget target(folder_.path(), out_.path());
  const ProcessTable process = TableOf(folder_, target);
  std::vector<ProcessTable> processes;
  processes.push_back(TableOf(folder_, target));
  GrowthWatch watch;
  EXPECT_THAT(Metrics(processes, watch.Of(processes), "", MetricLabels::kOfProcess).body, Not(HasSubstr("growth")));
  for (int number = 1; number <= 3; ++number) SaveSnapshot(process, number);
  EXPECT_THAT(Metrics(processes, watch.Of(processes), "", MetricLabels::kOfProcess).body,
              AllOf(HasSubstr("# TYPE holdfast_heap_growth_verdict gauge\n"),
                    ContainsRegex("holdfast_heap_growth_verdict\\{[^}]*\\} -1\n")));
  for (int number = 4; number <= 12; ++number) SaveSnapshot(process, number);
  const std::string body = Metrics(processes, watch.Of(processes), "", MetricLabels::kOfProcess).body;
  EXPECT_THAT(body, ContainsRegex("holdfast_heap_growth_verdict\\{[^}]*\\} 2\n"));
  EXPECT_THAT(body, ContainsRegex("holdfast_heap_growth_bytes_per_second\\{[^}]*\\} 1747[0-9.]*\n"))
      << "1 MiB a minute";
  EXPECT_THAT(body, HasSubstr("holdfast_heap_growth_bound_bytes_per_second{"));
  EXPECT_THAT(body, Not(HasSubstr("holdfast_mapped_growth"))) << "there is no file of that kind";
  LiveFeeds feeds(&watch);
  const absl::StatusOr<LiveAnswer> answer = feeds.Of(process);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(*answer->data, AllOf(HasSubstr("\"grows\":\"growing\""), HasSubstr("by keep_here")));
}

}  // namespace
}  // namespace holdfast
