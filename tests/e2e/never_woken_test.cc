// Threads that nothing can wake any more: `holdfast stuck` (tests/programs/never_woken.cc).
#include <regex>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class NeverWoken : public Profiled {
 protected:
  RunResult Ask(const Running& program, std::vector<std::string> options) {
    std::vector<std::string> arguments = {"stuck", "--tables", tables(), std::to_string(program.pid())};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return RunTool(arguments);
  }
  // The part of the answer about threads that are never woken.
  static std::string Part(const std::string& answer) {
    const size_t at = answer.find("never woken:");
    return at == std::string::npos ? "" : answer.substr(at);
  }
};

TEST_F(NeverWoken, ThreadsToWhichNothingAliveLeads) {
  Running program(CommandFor(Launch::kPreload, {"never_woken"}, {{"heap-interval", "1"}}));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  const RunResult stopped = Ask(program, {"--stop"}), running = Ask(program, {});
  for (const RunResult& answer : {stopped, running}) {
    // The mutex of an ended thread is a deadlock.
    EXPECT_TRUE(answer.exited(1)) << answer.Describe();
    EXPECT_THAT(answer.out, HasSubstr("1 thread waits for a lock that nobody can release")) << answer.Describe();
    const std::string part = Part(answer.out);
    EXPECT_TRUE(std::regex_search(part, std::regex("o pointer found to what 9 threads wait for"))) << answer.Describe();
    for (const char* lost : {"lost_condition", "lost_semaphore", "lost_own_stack", "lost_mutex", "lost_future",
                             "lost_cycle_a", "lost_cycle_b", "lost_join", "lost_freed"})
      EXPECT_THAT(part, HasSubstr(lost)) << answer.Describe();
    EXPECT_THAT(part, Not(HasSubstr("kept_"))) << answer.Describe();
    EXPECT_THAT(part, HasSubstr("allocated\n"));
  }
  EXPECT_THAT(Part(stopped.out), Not(HasSubstr("cannot tell")));
  // Registers of the other threads are unknown.
  EXPECT_THAT(Part(running.out), HasSubstr("never woken: cannot tell. ")) << running.Describe();
  EXPECT_THAT(Part(running.out), HasSubstr("holdfast stuck --stop " + std::to_string(program.pid()) + " decides"));
  const RunResult json = Ask(program, {"--stop", "--json"});
  EXPECT_THAT(json.out, HasSubstr("\"never_woken\":{\"certain\":true,\"unknown\":0,\"threads\":[{\"tid\":"))
      << json.Describe();
}

TEST_F(NeverWoken, ThreadsThatSomethingCanWakeAreNotNamed) {
  Running program(CommandFor(Launch::kPreload, {"never_woken", "kept"}));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  for (const std::vector<std::string>& options : {std::vector<std::string>{}, {"--stop"}}) {
    const RunResult answer = Ask(program, options);
    EXPECT_TRUE(answer.exited(0)) << answer.Describe();
    EXPECT_EQ(Part(answer.out), "") << answer.Describe();
  }
}

// Each thread sleeps before and after the stop, and one of each pair runs during the stop. A tool that looks only before
// and after the stop names threads in one of four answers, so this test finds that in 9 of 10 runs.
TEST_F(NeverWoken, AStoppedThreadIsJudgedByWhatItDidAtTheStop) {
  Running program(CommandFor(Launch::kPreload, {"alternating_threads"}));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  for (int i = 0; i < 8; ++i) {
    const RunResult answer = Ask(program, {"--stop"});
    EXPECT_TRUE(answer.exited(0)) << answer.Describe();
    EXPECT_EQ(Part(answer.out), "") << answer.Describe();
  }
}

}  // namespace
}  // namespace holdfast::testing
