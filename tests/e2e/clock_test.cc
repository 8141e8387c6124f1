// The clock of the day jumps, to and fro by more than a year at every look: snapshots come as often as they should, in
// their order, and no sample is lost. Only wall times in the files are wrong.
#include <sys/stat.h>

#include <fstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class Clock : public Profiled {
 protected:
  // An exporter that lives with such a clock.
  std::string JumpingExporter() const {
    const std::string path = folder() + "/exporter";
    std::ofstream(path) << "#!/bin/sh\nLD_PRELOAD=" << ProgramPath("jumping_clock.so") << " exec " << Tool()
                        << " \"$@\"\n";
    chmod(path.c_str(), 0755);
    return path;
  }
};

TEST_F(Clock, JumpsChangeNeitherOrderNorNumbers) {
  Command command =
      CommandFor(Launch::kPreload, {"waits_for_input"}, {{"heap-interval", "1"}, {"snapshot-every", "50ms"}});
  command.env["HOLDFAST_EXPORTER"] = JumpingExporter();
  command.env["LD_PRELOAD"] += ":" + ProgramPath("jumping_clock.so");
  Running running(command);
  StepThroughSnapshots(&running, 5);

  std::vector<ProfileName> names = ListProfiles(out());
  std::erase_if(names, [](const ProfileName& name) { return name.kind != "heap"; });
  ASSERT_GE(names.size(), 5u);
  int64_t blocks = 0;
  bool jumped = false;
  int64_t time = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(names[i].seq, static_cast<int>(i) + 1) << names[i].path;
    const Decoded heap = Decode(names[i].path);
    ASSERT_EQ(heap.error, "") << heap.path;
    const int64_t now = heap.SumLeaf("for_each_line").at("alloc_objects");
    EXPECT_GE(now, blocks) << heap.path;
    blocks = now;
    jumped = jumped || heap.time_nanos < time;
    time = heap.time_nanos;
  }
  EXPECT_TRUE(jumped) << "the clock did not jump: this test shows nothing";
  EXPECT_EQ(blocks, 500);
  EXPECT_EQ(NewestHeap().size(), 1u);
  EXPECT_EQ(NewestHeap().at(0).SumLeaf("for_each_line").at("alloc_objects"), 500);
}

}  // namespace
}  // namespace holdfast::testing
