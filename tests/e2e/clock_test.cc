// The clock of the day jumps, to and fro by more than a year at every look: snapshots come as often as they should, in
// their order, and no sample is lost. Only wall times in the files are wrong.
#include <sys/stat.h>

#include <fstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class Clock : public Profiled {
 protected:
  // So many looks at random never go back once in 5,000 times.
  static constexpr int kSteps = 12;
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
  Command command = CommandFor(Launch::kPreload, {"waits_for_input"},
                               {{"heap-interval", "1"}, {"snapshot-every", "50ms"}, {"lifetimes", "yes"}});
  command.env["HOLDFAST_EXPORTER"] = JumpingExporter();
  command.env["LD_PRELOAD"] += ":" + ProgramPath("jumping_clock.so");
  Running running(command);
  StepThroughSnapshots(&running, kSteps);

  std::vector<ProfileName> names = ListProfiles(out());
  std::erase_if(names, [](const ProfileName& name) { return name.kind != "heap"; });
  ASSERT_GE(names.size(), size_t{kSteps});
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
  EXPECT_EQ(blocks, 100 * kSteps);
  EXPECT_EQ(NewestHeap().size(), 1u);
  EXPECT_EQ(NewestHeap().at(0).SumLeaf("for_each_line").at("alloc_objects"), 100 * kSteps);
  // No block is as old as the clock has jumped, nor is the process.
  const std::vector<Decoded> ages = Newest(out(), "lifetimes");
  ASSERT_EQ(ages.size(), 1u) << AllSummaries();
  for (const DecodedSample& sample : ages[0].samples) EXPECT_LE(sample.numbers.at("age"), 1'000'000'000'000);
  const double elapsed = std::stod(ages[0].Comment("elapsed").value_or("-1"));
  EXPECT_GT(elapsed, 0);
  EXPECT_LT(elapsed, 1000);
}

}  // namespace
}  // namespace holdfast::testing
