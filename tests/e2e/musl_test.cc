// Programs of the C library musl: the library is made for glibc's, and the same file serves both.
#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class Musl : public Profiled, public ::testing::WithParamInterface<Launch> {};

TEST_P(Musl, BlocksAreExactAndNothingElseChanges) {
  const RunResult bare = RunAs(Launch::kBare, {"musl_program"});
  const RunResult r = RunAs(GetParam(), {"musl_program"}, {{"heap-interval", "1"}, {"lock-interval", "1ns"}});
  EXPECT_TRUE(r.exited(5)) << r.Describe();
  EXPECT_EQ(r.out, bare.out);
  ExpectKnownHeap(r.out);
}
INSTANTIATE_TEST_SUITE_P(Ways, Musl, ::testing::Values(Launch::kExec, Launch::kPreload), LaunchName);

using MuslChild = Profiled;

// A script's LD_PRELOAD reaches whatever it starts.
TEST_F(MuslChild, OfAScriptIsProfiled) {
  const RunResult r =
      RunAs(Launch::kExec, {"/bin/sh", "-c", "\"$0\"; exit $?", ProgramPath("musl_program")}, {{"heap-interval", "1"}});
  EXPECT_TRUE(r.exited(5)) << r.Describe();
  ExpectKnownHeap(r.out);
}

}  // namespace
}  // namespace holdfast::testing
