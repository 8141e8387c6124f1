// Which owner's blocks pin pages, proved by freeing them: `holdfast memory --pinned` (tests/programs/pins_pages.cc).
#include <cmath>
#include <regex>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;

class Pinned : public Profiled {
 protected:
  // Returns what would be returned by freeing what an owner holds; -1: the owner is not listed.
  static double Predicted(const RunResult& answer, const std::string& owner) {
    std::smatch found;
    const std::regex row("\"owner\":\"[^\"]*" + owner + "[^\"]*\",\"would_return\":([0-9]+)");
    return std::regex_search(answer.out, found, row) ? std::stod(found[1]) : -1;
  }
};

// scripts/pinned-mixes does this for 20 mixes.
TEST_F(Pinned, FreeingReturnsWhatWasPredicted) {
  for (const auto& [seed, launch] : {std::pair("1", Launch::kBare), std::pair("2", Launch::kPreload)}) {
    Running program(CommandFor(launch, {"pins_pages", seed}, {{"heap-interval", "1"}}));
    ASSERT_TRUE(program.WaitForOutput("ready\n"));
    const RunResult answer = RunTool({"memory", "--pinned", "--json", std::to_string(program.pid())});
    ASSERT_TRUE(answer.exited(0)) << answer.Describe();
    const bool by_function = launch == Launch::kPreload;
    const double predicted = Predicted(answer, by_function ? "log_line" : "held_by_log");
    ASSERT_GT(predicted, 1 << 20) << answer.out;
    program.Write("free log\n");
    ASSERT_TRUE(program.WaitForOutput("returned "));
    program.CloseInput();
    std::smatch returned;
    const RunResult ended = program.Wait();
    ASSERT_TRUE(std::regex_search(ended.out, returned, std::regex("returned ([0-9]+)")));
    EXPECT_LT(std::abs(std::stod(returned[1]) - predicted), 0.02 * predicted) << answer.out;
  }
}

TEST_F(Pinned, SaysWhoPinsMost) {
  Running program(CommandFor(Launch::kPreload, {"pins_pages", "3"}, {{"heap-interval", "1"}}));
  ASSERT_TRUE(program.WaitForOutput("ready\n"));
  const RunResult answer = RunTool({"memory", "--pinned", std::to_string(program.pid())});
  EXPECT_TRUE(
      std::regex_search(answer.out, std::regex("freeing what [a-z_]+ holds \\([0-9.]+KiB\\) would return [0-9.]+MiB")))
      << answer.Describe();
  EXPECT_THAT(answer.out, HasSubstr("log_line"));
  const RunResult file = RunTool({"memory", "--pinned", folder()});
  EXPECT_TRUE(file.exited(2)) << file.Describe();
}

}  // namespace
}  // namespace holdfast::testing
