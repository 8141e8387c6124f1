// Each system call of the library fails in turn, then many at random, under load. The program's output and end stay the
// same, and what is missing from the profile is counted as lost.
#include <fcntl.h>

#include <cerrno>
#include <fstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class Faults : public Profiled {
 protected:
  void Use(std::vector<std::string> program) {
    program_ = std::move(program);
    bare_ = Execute(CommandFor(Launch::kBare, program_));
    ASSERT_FALSE(KnownHeap(bare_.out).empty()) << bare_.Describe();
  }

  // Runs the program below fail_syscalls (tests/programs), which makes calls fail as `how` says. How many there were.
  int RunWith(const std::vector<std::string>& how, const std::string& exporter = "") {
    SCOPED_TRACE(::testing::PrintToString(how));
    const std::string counted = folder() + "/calls", to = out() + "/" + std::to_string(++runs_);
    Command command =
        CommandFor(Launch::kPreload, program_, {{"heap-interval", "1"}, {"lock-interval", "1ns"}, {"out", to}});
    // The variables are for the program alone.
    std::vector<std::string> argv = {ProgramPath("fail_syscalls"), counted};
    argv.insert(argv.end(), how.begin(), how.end());
    argv.push_back("env");
    for (const auto& [name, value] : command.env) argv.push_back(name + "=" + value);
    if (!exporter.empty()) argv.push_back("HOLDFAST_EXPORTER=" + exporter);
    argv.insert(argv.end(), command.argv.begin(), command.argv.end());
    const RunResult r = Execute({.argv = argv});
    EXPECT_FALSE(r.timed_out);
    EXPECT_EQ(r.status, bare_.status) << r.Describe();
    EXPECT_EQ(r.out, bare_.out);
    EXPECT_EQ(r.err, bare_.err);
    EXPECT_TRUE(r.AboutAsFastAs(bare_)) << r.Describe();
    Settled(exporter.empty() ? 1 : 0);
    RunTool({"collect", tables()});
    ExpectExactOrCounted(to);
    int calls = 0;
    std::ifstream(counted) >> calls;
    return calls;
  }

  // What there is of profiles is whole, and right or marked as lacking something.
  void ExpectExactOrCounted(const std::string& folder) {
    for (const Decoded& heap : Newest(folder, "heap")) {
      EXPECT_EQ(heap.error, "") << heap.path;
      bool exact = true;
      for (const Known& known : KnownHeap(bare_.out))
        exact = exact && heap.SumLeaf(known.function).at("alloc_objects") == known.alloc_objects;
      if (exact) {
        ++exact_;
      } else {
        EXPECT_FALSE(heap.Comment("losses").has_value()) << "says: no losses\n" << heap.Summary();
        ++counted_;
      }
    }
  }

  std::vector<std::string> program_;
  RunResult bare_;
  int runs_ = 0, exact_ = 0, counted_ = 0;
};

// One thread, so that the N-th call is the same in every run.
TEST_F(Faults, EachCallThatFailsOnceChangesNothingForTheProgram) {
  constexpr int kErrors[] = {ENOMEM, ENOSPC, EMFILE, EACCES, EINTR};
  Use({"endings", "exit"});
  const int calls = RunWith({"nth", "0", "0"}, "no");
  ASSERT_GT(calls, 30);
  EXPECT_EQ(exact_, 1);
  for (int call = 1; call <= calls; ++call)
    RunWith({"nth", std::to_string(call), std::to_string(kErrors[call % 5])}, "no");
  EXPECT_GE(exact_, calls / 3);
}

TEST_F(Faults, StartingTheExporterMayFailAnywhere) {
  Use({"endings", "exit"});
  const int without = RunWith({"nth", "0", "0"}, "no"), calls = RunWith({"nth", "0", "0"});
  ASSERT_GT(calls, without);
  for (int call = 20; call <= calls; call += 3)
    RunWith({"nth", std::to_string(call), std::to_string(call % 2 == 0 ? EAGAIN : EMFILE)});
}

TEST_F(Faults, EveryCallMayFailFromSomeMomentOn) {
  Use({"endings", "exit"});
  const int calls = RunWith({"nth", "0", "0"}, "no");
  for (int call = 1; call <= calls; call += 5)
    RunWith({"from", std::to_string(call), std::to_string(call % 2 == 0 ? ENOSPC : ENOMEM)}, "no");
}

TEST_F(Faults, ManyCallsFailAtRandomUnderLoad) {
  Use({"threads_exact"});
  for (int seed = 1; seed <= 6; ++seed) RunWith({"random", std::to_string(seed * 5), std::to_string(seed)}, "no");
  for (int seed = 1; seed <= 4; ++seed) RunWith({"random", "15", std::to_string(seed)});
}

}  // namespace
}  // namespace holdfast::testing
