// The wall clock jumps by more than a year back and forth at every reading. Snapshots still come as often as they
// should and in order, and no sample is lost. Only wall times in the files are wrong.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class Clock : public Profiled {
 protected:
  // With this number of random looks, the clock never goes back in one of 5,000 runs.
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
  int known = 0;  // of most small blocks the age is not known
  for (const DecodedSample& sample : ages[0].samples) {
    const auto age = sample.numbers.find("age");
    if (age == sample.numbers.end()) continue;
    ++known;
    EXPECT_LE(age->second, 1'000'000'000'000);
  }
  EXPECT_GT(known, 0);
  const double elapsed = std::stod(ages[0].Comment("elapsed").value_or("-1"));
  EXPECT_GT(elapsed, 0);
  EXPECT_LT(elapsed, 1000);
}

// The clock that a program interposes belongs to the program: it allocates and locks, and nothing of ours calls it.
TEST_F(Clock, MayBeInterposedByOneThatAllocatesAndLocks) {
  for (const char* interval : {"1", "512KiB"}) {
    for (const bool library_first : {true, false}) {
      Command command = CommandFor(Launch::kPreload, {"reads_clock"}, {{"heap-interval", interval}});
      const std::string clock = ProgramPath("locking_clock.so");
      command.env["LD_PRELOAD"] = library_first ? Library() + ":" + clock : clock + ":" + Library();
      command.timeout_seconds = 20;
      const RunResult r = RunAndSettle(command);
      EXPECT_TRUE(r.exited(0)) << interval << (library_first ? ", first: " : ", last: ") << r.Describe();
      EXPECT_EQ(r.out, "done\n");
    }
  }
}

// libfaketime's own, where it is installed: this one waits for a lock at each look.
TEST_F(Clock, MayBeLibfaketimes) {
  const std::string fake = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
  if (access(fake.c_str(), R_OK) != 0) GTEST_SKIP() << "needs libfaketime";
  for (const bool library_first : {true, false}) {
    Command command = CommandFor(Launch::kPreload, {"reads_clock"});
    command.env["LD_PRELOAD"] = library_first ? Library() + ":" + fake : fake + ":" + Library();
    command.env["FAKETIME"] = "-1d";
    command.timeout_seconds = 20;
    const RunResult r = RunAndSettle(command);
    EXPECT_TRUE(r.exited(0)) << library_first << r.Describe();
  }
}

}  // namespace
}  // namespace holdfast::testing
