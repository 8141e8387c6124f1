// What collectors rely on between snapshots, and how files are named and put in place.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class Snapshots : public Profiled {
 protected:
  void RunThroughSnapshots(int steps, Launch launch = Launch::kPreload) {
    Running running(
        CommandFor(launch, {"waits_for_input"}, {{"heap-interval", "1"}, {"snapshot-every", "200ms"}, {"peak", "no"}}));
    StepThroughSnapshots(&running, steps);
  }
};

TEST_F(Snapshots, CountersNeverDecrease) {
  RunThroughSnapshots(5);
  std::map<std::string, Values> last;
  int64_t last_time = 0;
  int last_seq = 0;
  const std::vector<ProfileName> names = ListProfiles(out());
  EXPECT_GE(names.size(), 5u);
  for (const ProfileName& name : names) {
    ASSERT_EQ(name.kind, "heap");
    EXPECT_EQ(name.seq, last_seq + 1);
    last_seq = name.seq;
    const Decoded profile = Decode(name.path);
    ASSERT_EQ(profile.error, "") << name.path;
    EXPECT_GE(profile.time_nanos, last_time);
    last_time = profile.time_nanos;
    std::map<std::string, Values> now;
    for (const DecodedSample& sample : profile.samples) {
      std::string key;
      for (const DecodedFrame& frame : sample.frames) key += std::to_string(frame.address) + " ";
      for (const auto& [label, value] : sample.numbers) key += label + std::to_string(value);
      EXPECT_TRUE(now.emplace(key, sample.values).second) << "a stack is listed twice: " << key;
    }
    for (const auto& [key, values] : last) {
      ASSERT_TRUE(now.count(key)) << "a stack is gone: " << key;
      EXPECT_GE(now[key].at("alloc_objects"), values.at("alloc_objects"));
      EXPECT_GE(now[key].at("alloc_space"), values.at("alloc_space"));
    }
    last = now;
  }
  EXPECT_EQ(NewestHeap().at(0).SumLeaf("for_each_line").at("alloc_objects"), 500);
}

TEST_F(Snapshots, AKindWithNothingNewWritesNoNewFile) {
  Running running(
      CommandFor(Launch::kPreload, {"waits_for_input"}, {{"heap-interval", "1"}, {"snapshot-every", "50ms"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 1"));
  ASSERT_TRUE(Eventually(
      [&] { return !NewestHeap().empty() && NewestHeap()[0].SumLeaf("for_each_line").at("alloc_objects") == 100; }));
  // The state at the peak comes later where the program had not lived for a second.
  const auto heaps = [&] {
    const std::vector<ProfileName> all = ListProfiles(out());
    return std::count_if(all.begin(), all.end(), [](const auto& name) { return name.kind == "heap"; });
  };
  const auto files = heaps();
  usleep(500'000);  // ten intervals in which nothing happens: the absence of an event has no event to wait for
  EXPECT_EQ(heaps(), files);
  running.Wait();
}

TEST_F(Snapshots, FilesAreNamedForProgramProcessAndKind) {
  RunAs(Launch::kPreload, {"hot_mutex"}, {{"heap-interval", "1"}, {"lock-interval", "1ns"}});
  std::set<std::string> kinds;
  for (const ProfileName& name : ListProfiles(out())) {
    EXPECT_EQ(name.program, "hot_mutex");
    EXPECT_EQ(name.seq, 1);
    const Decoded profile = Decode(name.path);
    EXPECT_EQ(profile.CommentNumber("pid"), name.pid);
    kinds.insert(name.kind);
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"block", "heap", "map", "mutex", "threads"}));
}

TEST_F(Snapshots, NoFileIsEverOverwritten) {
  RunAs(Launch::kPreload, {"endings", "return"}, {{"heap-interval", "1"}});
  std::filesystem::create_directories(out());
  // What the next process would write: taken already, by anyone, for many pids.
  std::map<std::string, std::string> before;
  for (const ProfileName& name : ListProfiles(out())) before[name.path] = ReadFile(name.path);
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const std::string taken = out() + "/waits_for_input." + std::to_string(running.pid()) + ".0007.heap.pb.gz";
  WriteFile(taken, "somebody's");
  before[taken] = "somebody's";
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 1"));
  running.Wait();
  ASSERT_TRUE(Settled());
  for (const auto& [path, bytes] : before) EXPECT_EQ(ReadFile(path), bytes) << path;
  EXPECT_TRUE(
      std::filesystem::exists(out() + "/waits_for_input." + std::to_string(running.pid()) + ".0008.heap.pb.gz"));
}

TEST_F(Snapshots, ALinkInTheOutputFolderIsNotFollowed) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  std::filesystem::create_directories(out());
  const std::string victim = folder() + "/victim";
  WriteFile(victim, "precious");
  std::filesystem::create_symlink(victim,
                                  out() + "/waits_for_input." + std::to_string(running.pid()) + ".0001.heap.pb.gz");
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 1"));
  running.Wait();
  ASSERT_TRUE(Settled());
  EXPECT_EQ(ReadFile(victim), "precious");
  EXPECT_EQ(ListProfiles(out()).size(), 2u);
}

TEST_F(Snapshots, AnOutputFolderThatWasRemovedIsMadeAgain) {
  for (int i = 0; i < 3; ++i) {
    RunAs(Launch::kRun, {"endings", "return"}, {{"heap-interval", "1"}});
    EXPECT_EQ(ListProfiles(out()).size(), 1u);
    std::filesystem::remove_all(out());  // while the exporter may still be there
  }
}

TEST_F(Snapshots, OneExporterServesManyProcessesAndEndsWithThem) {
  const auto exporters = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string command = ReadFile(entry.path() / "cmdline");
      if (command.find("exporter") != std::string::npos && command.find(out()) != std::string::npos) ++count;
    }
    return count;
  };
  {
    std::vector<std::unique_ptr<Running>> all;
    for (int i = 0; i < 6; ++i) {
      all.push_back(
          std::make_unique<Running>(CommandFor(Launch::kPreload, {"waits_for_input"}, {{"heap-interval", "1"}})));
    }
    for (auto& one : all) {
      ASSERT_TRUE(one->WaitForOutput("ready"));
      one->Write("line\n");
      ASSERT_TRUE(one->WaitForOutput("done 1"));
    }
    EXPECT_TRUE(Eventually([&] { return exporters() == 1; })) << exporters();
    for (auto& one : all) one->Wait();
  }
  ASSERT_TRUE(Settled());
  EXPECT_EQ(NewestHeap().size(), 6u);
  EXPECT_TRUE(Eventually([&] { return exporters() == 0; })) << exporters();
}

}  // namespace
}  // namespace holdfast::testing
