// What live pages are fed with: made once for all who ask, and forgotten when nobody does.
#include "report/serve/live_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "tests/unit/fake_target.h"

namespace holdfast {
namespace {

using testing::FakeTarget;
using ::testing::StartsWith;
using testing::TablesFolder;

class LiveFeedsTest : public ::testing::Test {
 protected:
  ProcessTable TableOf(const FakeTarget& target) const {
    return {
        .folder = folder_.path(),
        .root = "",
        .table = TableFile::Open(*OpenFolder(folder_.path()), std::filesystem::path(target.path()).filename()).value(),
        .pid = target.pid()};
  }
  static void WaitFor(const std::function<bool()>& condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  TablesFolder folder_;
};

TEST_F(LiveFeedsTest, AllWhoAskWithinAPaceGetOneAnswer) {
  const FakeTarget target(folder_.path(), "/some/where");
  const ProcessTable process = TableOf(target);
  LiveFeeds feeds;
  const absl::StatusOr<LiveAnswer> first = feeds.Of(process);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(*first->data, StartsWith("HFR1"));
  EXPECT_GE(first->pace, LiveFeeds::kLeastPace);
  std::vector<std::thread> others;
  std::atomic<int> same{0};
  for (int i = 0; i < 8; ++i) {
    others.emplace_back([&] { same += feeds.Of(process)->data == first->data ? 1 : 0; });
  }
  for (std::thread& other : others) other.join();
  EXPECT_EQ(same, 8);
  EXPECT_EQ(feeds.size(), 1u);
}

TEST_F(LiveFeedsTest, WhatNobodyAsksForIsForgottenWithAllThatWasReadForIt) {
  const FakeTarget target(folder_.path(), "/some/where");
  const ProcessTable process = TableOf(target);
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
  EXPECT_EQ(feeds.size(), 1u);
}

TEST_F(LiveFeedsTest, OfManyProcessesThoseAskedForLastAreKept) {
  LiveFeeds feeds;
  std::vector<std::unique_ptr<FakeTarget>> targets;
  for (size_t i = 0; i < LiveFeeds::kMostFeeds + 3; ++i) {
    targets.push_back(std::make_unique<FakeTarget>(folder_.path(), "/some/where"));
    ASSERT_TRUE(feeds.Of(TableOf(*targets.back())).ok());
  }
  EXPECT_EQ(feeds.size(), LiveFeeds::kMostFeeds);
}

}  // namespace
}  // namespace holdfast
