// The library itself does not grow, neither with time nor with restarts. HOLDFAST_TEST_FULL=1 runs the whole hour (10
// million samples, 1 million stacks, 100,000 threads) and 1,000 restarts; otherwise a tenth of them.
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class Growth : public Profiled {};

TEST_F(Growth, AnHourOfChurnLeavesItsOwnMemoryAsItWas) {
  const std::vector<std::string> argv = Full() ? std::vector<std::string>{"churn", "10000000", "1000000", "100000"}
                                               : std::vector<std::string>{"churn", "1000000", "1000000", "10000"};
  // In the short form smaller than the default, so that it is full within the second tenth: from then on nothing may grow.
  Command command =
      CommandFor(Launch::kPreload, argv, {{"heap-interval", "1"}, {"max-memory", Full() ? "64MiB" : "8MiB"}});
  command.timeout_seconds = 300;
  const RunResult r = RunAndSettle(command);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  std::istringstream lines(r.err);
  std::string word;
  std::vector<long> own, shared;
  for (long tenth, anonymous, table; lines >> word >> tenth >> word >> anonymous >> word >> table;) {
    own.push_back(anonymous);
    shared.push_back(table);
  }
  ASSERT_EQ(own.size(), 10u) << r.err;
  EXPECT_LE(static_cast<double>(own[9]), 1.02 * static_cast<double>(own[1])) << r.err;
  EXPECT_LE(static_cast<double>(shared[9]), 1.02 * static_cast<double>(shared[1])) << r.err;
  EXPECT_LE(shared[9], (Full() ? 64 : 8) << 10) << r.err;
  const Decoded heap = NewestHeap().at(0);
  EXPECT_EQ(heap.error, "");
  // No sample is lost: those without a row of their own are in [overflow].
  EXPECT_GE(heap.Total().at("alloc_objects"), Full() ? 10'000'000 : 1'000'000);
  EXPECT_GT(heap.SumAny("[overflow]").at("alloc_objects"), 0);
}

// The tables lie where a container's do: 64 MiB for all. What they take is measured all the time.
class ScarceRoom : public Profiled {
 protected:
  static constexpr uint64_t kRoom = 64 << 20;
  void SetUp() override {
    Profiled::SetUp();
    if (!IsRoot()) GTEST_SKIP() << "mounting a tmpfs needs root";
    room_ = folder() + "/room";
    mkdir(room_.c_str(), 0755);
    ASSERT_EQ(mount("room", room_.c_str(), "tmpfs", 0, "size=64m"), 0);
    watcher_ = std::thread([this] {
      while (!stop_) {
        most_ = std::max<uint64_t>(most_, BytesInTables());
        usleep(500);
      }
    });
  }
  void TearDown() override {
    stop_ = true;
    if (watcher_.joinable()) watcher_.join();
    if (!room_.empty()) umount2(room_.c_str(), MNT_DETACH);
    Profiled::TearDown();
  }
  uint64_t BytesInTables() const {
    uint64_t bytes = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(room_, error)) {
      struct stat info;
      if (lstat(entry.path().c_str(), &info) == 0) bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    }
    return bytes;
  }
  // No table is left, and at no moment there was more than a quarter of the room in them; but at least `least` bytes.
  void ExpectQuarterThenNothing(uint64_t least) {
    EXPECT_TRUE(Eventually([&] { return BytesInTables() == 0; }, 30)) << BytesInTables();
    EXPECT_LE(most_, kRoom / 4);
    EXPECT_GE(most_, least);
  }
  // Runs `recipe` for each target, 16 at a time, and profiles all processes, including make and shells.
  void Make(int targets, const std::string& recipe) {
    std::ofstream makefile(folder() + "/Makefile");
    makefile << "all:";
    for (int i = 0; i < targets; ++i) makefile << " t" << i;
    makefile << "\nt%:\n\t@" << recipe << "\n";
    makefile.close();
    Command command = CommandFor(Launch::kPreload, {"/usr/bin/make", "-s", "-j16", "-C", folder()},
                                 {{"heap-interval", "1"}, {"tables", room_}, {"snapshot-every", "0"}});
    command.timeout_seconds = 200;
    const RunResult r = Execute(command);
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    EXPECT_EQ(r.out + r.err, "");
  }
  std::string room_;

 private:
  std::thread watcher_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> most_{0};
};

TEST_F(ScarceRoom, AProgramThatCrashesAndIsRestartedLeavesNoTableBehind) {
  const int restarts = Full() ? 1000 : 100;
  for (int i = 0; i < restarts; ++i) {
    const RunResult r = Execute(CommandFor(Launch::kPreload, {"endings", i % 2 == 0 ? "segv" : "abort"},
                                           {{"heap-interval", "1"}, {"keep", "1"}, {"tables", room_}}));
    ASSERT_FALSE(r.exited(0));
    // On a busy machine they crash faster than the exporter writes; once a quarter of the room is full, nothing is recorded.
    ASSERT_TRUE(Eventually([&] { return BytesInTables() <= kRoom / 8; }, 30));
  }
  ExpectQuarterThenNothing(64 << 10);
  EXPECT_EQ(Newest(out(), "heap").size(), static_cast<size_t>(restarts));
}

// Tables that wait for `collect`, of a folder that takes no profiles, and programs that run meanwhile with good ones.
TEST_F(ScarceRoom, AMissingTableIsExplained) {
  WriteFile(folder() + "/file", "");
  const auto said = [&](const std::string& tables) {
    Command command = CommandFor(Launch::kPreload, {"endings", "exit"}, {{"heap-interval", "1"}, {"tables", tables}});
    command.env["HOLDFAST_VERBOSE"] = "1";
    const RunResult r = Execute(command);
    EXPECT_TRUE(r.exited(6)) << r.Describe();
    return r.err;
  };
  const auto reason = [](const std::string& why) {
    return ::testing::HasSubstr(": no table could be created: " + why +
                                "; nothing is recorded. Set HOLDFAST_TABLES to a folder in memory that has room\n");
  };
  EXPECT_THAT(said(folder() + "/none"), reason(folder() + "/none does not exist"));
  EXPECT_THAT(said(folder() + "/file"), reason(folder() + "/file is not a folder"));
  EXPECT_THAT(said("/proc"), reason("/proc is not in memory (a tmpfs), and a disk would slow the program down"));
  ASSERT_EQ(mount("", room_.c_str(), "", MS_REMOUNT | MS_RDONLY, ""), 0);
  EXPECT_THAT(said(room_), reason(room_ + " is read-only"));
  const RunResult doctor =
      Execute({.argv = {Tool(), "doctor", "--", "/bin/true"}, .env = {{"HOLDFAST_TABLES", room_}}});
  EXPECT_THAT(doctor.out, ::testing::HasSubstr(room_ + " cannot be written: nothing can be recorded"))
      << doctor.Describe();
  const RunResult run = Execute(CommandFor(Launch::kRun, {"endings", "exit"}, {{"tables", room_}}));
  EXPECT_THAT(run.err, ::testing::HasSubstr("no table could be created: " + room_ + " is read-only")) << run.Describe();
  ASSERT_EQ(mount("", room_.c_str(), "", MS_REMOUNT, "size=64m"), 0);
  WriteFile(room_ + "/rest", std::string(kRoom - (32 << 10), 'x'));
  EXPECT_THAT(said(room_), reason(room_ + " is full"));
}

class Waiting : public ScarceRoom {
 protected:
  static constexpr uint64_t kShare = kRoom / 4 - kRoom / 32;  // of all tables of one user, in an empty room
  // Programs leave their tables until there is no room for another one: large ones, and then small ones.
  void FillRoom(bool with_exporter) {
    for (int i = 0; i < 60 && BytesInTables() + (100 << 10) < kShare; ++i) {
      const bool large = BytesInTables() < kShare * 3 / 4;
      Command command = CommandFor(Launch::kPreload,
                                   large ? std::vector<std::string>{"churn", "20000", "20000", "0"}
                                         : std::vector<std::string>{"endings", "segv"},
                                   {{"heap-interval", "1"}, {"tables", room_}, {"out", folder() + "/file/out"}});
      if (!with_exporter) command.env["HOLDFAST_EXPORTER"] = "no";
      Execute(command);
      if (with_exporter && i == 3) return;
    }
    EXPECT_GT(BytesInTables(), kShare - (200 << 10));
  }
  void ExpectAProfile(Launch launch) {
    const std::string good = folder() + "/good." + std::to_string(static_cast<int>(launch));
    const RunResult r =
        Execute(CommandFor(launch, {"endings", "exit"}, {{"heap-interval", "1"}, {"tables", room_}, {"out", good}}));
    EXPECT_TRUE(r.exited(6)) << r.Describe();
    EXPECT_TRUE(Eventually([&] { return Newest(good, "heap").size() == 1; })) << r.Describe();
  }
};

TEST_F(Waiting, TablesThatAnExporterLeavesUseHalfOfTheShare) {
  WriteFile(folder() + "/file", "no folder can be made below it");
  FillRoom(true);
  EXPECT_TRUE(Eventually([&] { return BytesInTables() <= kShare / 2; })) << BytesInTables();
  EXPECT_GT(BytesInTables(), 0u);  // the newest
  ExpectAProfile(Launch::kPreload);
}

TEST_F(Waiting, UnservedTablesYieldToARunningProgram) {
  WriteFile(folder() + "/file", "no folder can be made below it");
  FillRoom(false);
  ExpectAProfile(Launch::kPreload);
  EXPECT_LE(BytesInTables(), kShare / 2 + (200 << 10));
  FillRoom(false);
  ExpectAProfile(Launch::kRun);
}

TEST_F(Waiting, RunAndDoctorReportMissingRoomForATable) {
  ASSERT_EQ(mount("room", room_.c_str(), "tmpfs", MS_REMOUNT, "size=256k"), 0);
  const RunResult r =
      Execute(CommandFor(Launch::kRun, {"endings", "exit"}, {{"heap-interval", "4KiB"}, {"tables", room_}}));
  EXPECT_THAT(r.err, ::testing::HasSubstr("no table could be created: this user's tables use 0 in " + room_));
  EXPECT_THAT(r.err, ::testing::HasSubstr("--tables"));
  EXPECT_THAT(r.err, ::testing::Not(::testing::HasSubstr("lower --heap-interval")));
  const RunResult doctor = Execute({.argv = {Tool(), "doctor", "--", "true"}, .env = {{"HOLDFAST_TABLES", room_}}});
  EXPECT_TRUE(doctor.exited(1));
  EXPECT_THAT(doctor.out, ::testing::HasSubstr("a program that starts now records nothing"));
}

// A build leaves thousands of tables if nobody removes them, and each program that starts looks for room.
class ManyLeft : public ScarceRoom {
 protected:
  // Returns how many system calls the library makes in a program that samples, beside `tables` tables in a tmpfs of this size.
  long CallsBeside(int tables, const char* size) {
    EXPECT_EQ(mount("room", room_.c_str(), "tmpfs", MS_REMOUNT, size), 0) << size;
    for (; left_ < tables; ++left_) {
      WriteFile(room_ + "/holdfast." + std::to_string(geteuid()) + "." + std::to_string(left_) + ".1.left.table", "");
    }
    const std::string counted = folder() + "/calls";
    const Command command = CommandFor(Launch::kPreload, {"endings", "exit"},
                                       {{"heap-interval", "1"}, {"tables", room_}, {"snapshot-every", "0"}});
    std::vector<std::string> argv = {ProgramPath("fail_syscalls"), counted, "nth", "0", "0", "env"};
    for (const auto& [name, value] : command.env) argv.push_back(name + "=" + value);
    argv.insert(argv.end(), {"HOLDFAST_EXPORTER=no"});
    argv.insert(argv.end(), command.argv.begin(), command.argv.end());
    const RunResult r = Execute({.argv = argv});
    EXPECT_TRUE(r.exited(6)) << r.Describe();
    EXPECT_TRUE(RunTool({"collect", out(), "--tables", room_}).exited(0));
    EXPECT_EQ(Newest(out(), "heap").size(), 1u) << "no table was made beside " << tables;
    std::filesystem::remove_all(out());
    long calls = -1;
    std::ifstream(counted) >> calls;
    return calls;
  }

 private:
  int left_ = 0;
};
constexpr long kByChance = 50;  // calls that are made again, or by a thread that waits

TEST_F(ManyLeft, AmpleRoomNeedsNoChecks) {
  const long alone = CallsBeside(0, "size=8g");
  EXPECT_GT(alone, 0);
  EXPECT_LE(CallsBeside(2000, "size=8g"), alone + kByChance);
}

TEST_F(ManyLeft, ScarceRoomBoundsTheNumberOfChecks) {
  const long beside_few = CallsBeside(1500, "size=64m");
  EXPECT_LE(CallsBeside(4000, "size=64m"), beside_few + kByChance);
}

TEST_F(ScarceRoom, AParallelMakeOfShortProgramsLeavesNoTableBehind) {
  Make(Full() ? 1000 : 100, ProgramPath("endings") + " exit >/dev/null; test $$? = 6");
  ExpectQuarterThenNothing(64 << 10);
}

// Each of the programs would fill 10 MiB.
TEST_F(ScarceRoom, ProgramsThatAllWantMuchShareAQuarter) {
  Make(Full() ? 300 : 32, ProgramPath("churn") + " 20000 20000 0 >/dev/null 2>&1");
  ExpectQuarterThenNothing(6 << 20);
  ExpectAllWhole();
}

}  // namespace
}  // namespace holdfast::testing
