// Searches for holders on request: one at a time, with progress, and never by default.
#include "report/fleet/serve/holder_searches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <stop_token>
#include <thread>

#include "tests/unit/process_table.h"
#include "tests/unit/view_fixture.h"

namespace holdfast {
namespace {

using testing::FakeTarget;
using ::testing::HasSubstr;
using testing::TableOf;
using testing::TablesFolder;

class HolderSearchesTest : public ::testing::Test {
 protected:
  static HttpResponse Ask(HolderSearches& searches, const ProcessTable& process, const char* method = "GET") {
    HttpRequest request;
    request.method = method;
    return searches.Answer(process, request);
  }
  static void WaitFor(HolderSearches& searches, const ProcessTable& process, const std::string& text) {
    while (Ask(searches, process).body.find(text) == std::string::npos) std::this_thread::yield();
  }
  TablesFolder folder_;
};

TEST_F(HolderSearchesTest, OneSearchRunsAtATimeAndOnlyOnRequest) {
  const FakeTarget target(folder_.path(), "/some/where"), other(folder_.path(), "/some/where");
  const ProcessTable process = TableOf(folder_, target), second = TableOf(folder_, other);
  std::promise<absl::Status> end;
  std::atomic<int> started{0};
  HolderSearches searches([&](pid_t, const std::function<void(int)>& progress,
                              const std::stop_token&) -> absl::StatusOr<MakeHoldersProfile> {
    ++started;
    progress(37);
    if (absl::Status status = end.get_future().get(); !status.ok()) return status;
    return MakeHoldersProfile([] { return Profile(); });
  });
  EXPECT_THAT(Ask(searches, process).body, HasSubstr("\"state\":\"none\""));
  EXPECT_EQ(started, 0);
  EXPECT_EQ(searches.Of(process.table.key()).number, 0u);

  EXPECT_EQ(Ask(searches, process, "POST").status, 202);
  WaitFor(searches, process, "\"state\":\"running\",\"percent\":37");
  Ask(searches, process, "POST");
  EXPECT_EQ(started, 1);
  EXPECT_THAT(Ask(searches, second, "POST").body, HasSubstr("another program is being searched"));

  end.set_value(absl::OkStatus());
  WaitFor(searches, process, "\"state\":\"done\"");
  const HolderSearches::Found found = searches.Of(process.table.key());
  EXPECT_TRUE(found.make_profile);
  EXPECT_NE(found.number, 0u);

  // The result of the last complete search remains after a failure.
  end = std::promise<absl::Status>();
  end.set_value(absl::ResourceExhaustedError("needs more"));
  Ask(searches, process, "POST");
  WaitFor(searches, process, "\"state\":\"failed\"");
  EXPECT_THAT(Ask(searches, process).body, HasSubstr("\"message\":\"needs more\""));
  EXPECT_EQ(searches.Of(process.table.key()).number, found.number);
}

TEST_F(HolderSearchesTest, TheEndOfTheServerEndsARunningSearch) {
  const FakeTarget target(folder_.path(), "/some/where");
  const ProcessTable process = TableOf(folder_, target);
  std::atomic<bool> was_ended{false};
  {
    HolderSearches searches(
        [&](pid_t, const std::function<void(int)>&, std::stop_token stop) -> absl::StatusOr<MakeHoldersProfile> {
          while (!stop.stop_requested()) std::this_thread::yield();
          was_ended = true;
          return absl::CancelledError("ended");
        });
    Ask(searches, process, "POST");
    WaitFor(searches, process, "\"state\":\"running\"");
  }
  EXPECT_TRUE(was_ended);
}

}  // namespace
}  // namespace holdfast
