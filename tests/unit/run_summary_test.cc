// What `holdfast run` advises at the end of the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "report/profile/pprof.h"
#include "report/run/run_finish.h"
#include "tests/unit/pprof_fixture.h"
#include "tests/unit/view_fixture.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A heap profile of 1,000 bytes that were allocated, `in_use` of them live.
std::string HeapWith(int64_t in_use) {
  const Stack stack = {
      .frames = "main;hold", .bytes = in_use, .objects = in_use > 0, .allocated_bytes = 1000, .allocated_objects = 1};
  Profile profile = StackProfile({stack});
  profile.AddComment("moment: after exit handlers");
  return EncodePprof(profile);
}

TEST(RunSummary, MemoryFreedOnExitNamesTheFolder) {
  const Folder folder;
  const std::string first = "app.7.0001.heap.pb.gz", last = "app.7.0002.heap.pb.gz";
  FinishedRun run;
  run.program = "app", run.command = {"app"}, run.pid = 7, run.out = folder.path();
  folder.Write(first, HeapWith(1000));
  folder.Write(last, HeapWith(100));
  const std::string freed = Summary(run, {first, last}, {}, 0);
  EXPECT_THAT(freed, HasSubstr("holdfast top " + run.out + " ")) << freed;
  EXPECT_THAT(freed, HasSubstr("# in use before the program freed it on exit\n"));

  folder.Write(last, HeapWith(500));
  const std::string held = Summary(run, {first, last}, {}, 0);
  EXPECT_THAT(held, HasSubstr("holdfast top " + folder.File(last))) << held;
  EXPECT_THAT(held, Not(HasSubstr("before the program freed it")));
}

}  // namespace
}  // namespace holdfast::testing
