#include "report/daemon/exporter.h"

#include <gmock/gmock.h>
#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "report/builder/output_folder.h"
#include "report/builder/process_exporter.h"
#include "report/daemon/exporter_lock.h"
#include "report/daemon/sweep_tables.h"
#include "sampler/contract/attach_call.h"
#include "sampler/contract/exporter_service.h"
#include "tests/unit/fake_target.h"
#include "tests/unit/pprof_fixture.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using testing::FakeTarget;
using testing::Folder;
using ::testing::IsEmpty;
using testing::MadeTable;
using testing::MappedTable;
using testing::TablesFolder;

// Asks until it is so, at most 10 s.
template <typename Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

class ExporterTest : public ::testing::Test {
 protected:
  // Forks first: the fake targets are made before the exporter runs as a thread of this process.
  void Start(std::optional<std::string> out = std::nullopt) {
    options_.out = out.value_or(out_);
    options_.tables = tables_.path();
    exporter_ = std::thread([this] { status_ = ServeTables(options_); });
  }
  absl::Status Ended() {
    exporter_.join();
    return status_;
  }
  void TearDown() override {
    if (exporter_.joinable()) exporter_.join();
  }

  // Asks for a snapshot, and waits until it was made.
  static void Ask(const MappedTable& mapped, const FakeTarget& target, uint32_t request) {
    mapped.header()->snapshot_request = request;
    utimensat(AT_FDCWD, target.path().c_str(), nullptr, 0);
    ASSERT_TRUE(Eventually([&] { return mapped.header()->snapshot_done == request; }));
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    if (!std::filesystem::exists(out_)) return names;
    for (const auto& entry : std::filesystem::directory_iterator(out_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  static std::string Name(pid_t pid, int seq, const char* kind = "heap") {
    return ProfileName{"made", static_cast<uint32_t>(pid), static_cast<uint32_t>(seq), kind}.ToString();
  }
  std::vector<std::string> Tables() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(tables_.path())) {
      if (entry.path().extension() == ".table") names.push_back(entry.path());
    }
    return names;
  }
  static void AddAllocation(const MappedTable& mapped) {
    auto* bytes = reinterpret_cast<char*>(mapped.header());
    for (const auto& list : mapped.header()->stack_lists) {
      if (list == 0) continue;
      const auto* stack = reinterpret_cast<Stack*>(bytes + uint64_t{list} * kUnit);
      reinterpret_cast<Row*>(bytes + uint64_t{stack->rows} * kUnit)->sums[kAllocObjects] += 1 << kCountFractionBits;
    }
  }
  static FakeTarget::Fill Every(uint64_t ns, uint32_t keep = 0) {
    return [=](MadeTable& table) {
      FakeTarget::AddOneRow(table);
      table.head().snapshot_every_ns = ns;
      table.head().keep = keep;
    };
  }

  Folder folder_;
  TablesFolder tables_;
  const std::string out_ = folder_.File("out");
  ExporterOptions options_;
  std::thread exporter_;
  absl::Status status_;
};

TEST_F(ExporterTest, WritesTheLastProfileOfAProcessThatDiedAndEnds) {
  FakeTarget target(tables_.path(), out_);
  const pid_t pid = target.pid();
  Start();
  ASSERT_TRUE(Eventually([&] { return MappedTable(target.path()).header()->exporter_pid == getpid(); }));
  EXPECT_THAT(Files(), IsEmpty());
  target.Kill();
  EXPECT_TRUE(Ended().ok()) << status_;
  EXPECT_THAT(Files(), ElementsAre(Name(pid, 1)));
  EXPECT_TRUE(std::filesystem::is_empty(tables_.path()));  // no table, no lock
  const absl::StatusOr<Profile> profile = ReadPprofFile(out_ + "/" + Name(pid, 1));
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->Total(0), 5);
  EXPECT_EQ(profile->Total(3), 300);
}

TEST_F(ExporterTest, OneThatComesAfterTheEndWritesToo) {
  FakeTarget target(tables_.path(), out_);
  const pid_t pid = target.pid();
  target.Kill();
  Start();
  EXPECT_TRUE(Ended().ok());
  EXPECT_THAT(Files(), ElementsAre(Name(pid, 1)));
}

TEST_F(ExporterTest, AnOrderlyEndIsAnsweredWhenTheFileIsInPlace) {
  FakeTarget target(tables_.path(), out_);
  const pid_t pid = target.pid();
  Start();
  {
    const MappedTable mapped(target.path());
    mapped.header()->exit_request = 1;  // and nothing tells of it: in a chroot
    ASSERT_TRUE(Eventually([&] { return mapped.header()->exported == 1; }));
    EXPECT_THAT(Files(), ElementsAre(Name(pid, 1)));
    AddAllocation(mapped);  // it lives on for a while
  }
  target.Kill();
  EXPECT_TRUE(Ended().ok());
  EXPECT_THAT(Files(), ElementsAre(Name(pid, 1), Name(pid, 2)));
}

TEST_F(ExporterTest, ARequestIsAnsweredWithASnapshotAndNothingNewWritesNoFile) {
  FakeTarget target(tables_.path(), out_);
  const pid_t pid = target.pid();
  Start();
  {
    const MappedTable mapped(target.path());
    for (uint32_t request = 1; request <= 2; ++request) {
      ASSERT_NO_FATAL_FAILURE(Ask(mapped, target, request));
      EXPECT_THAT(Files(), ElementsAre(Name(pid, 1)));
    }
  }
  target.Kill();
  EXPECT_TRUE(Ended().ok());
  EXPECT_THAT(Files(), ElementsAre(Name(pid, 1)));
}

// The program touches memory that it allocated before, for example.
TEST_F(ExporterTest, MuchMoreResidentMemoryIsNews) {
  FakeTarget target(tables_.path(), out_);
  const pid_t pid = target.pid();
  Start();
  const auto resident = [pid] {
    std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
    uint64_t pages = 0;
    file >> pages >> pages;
    return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  };
  {
    const MappedTable mapped(target.path());
    ASSERT_NO_FATAL_FAILURE(Ask(mapped, target, 1));
    const uint64_t before = resident();
    target.UseMoreMemory();
    ASSERT_TRUE(Eventually([&] { return resident() >= before + FakeTarget::kMoreBytes; }));
    ASSERT_NO_FATAL_FAILURE(Ask(mapped, target, 2));
    EXPECT_THAT(Files(), ElementsAre(Name(pid, 1), Name(pid, 2)));
    ASSERT_NO_FATAL_FAILURE(Ask(mapped, target, 3));
    EXPECT_THAT(Files(), ElementsAre(Name(pid, 1), Name(pid, 2))) << "nothing new";
  }
  const auto in_file = [&](int seq) { return ReadPprofFile(out_ + "/" + Name(pid, seq))->process().resident_bytes; };
  EXPECT_GE(in_file(2), in_file(1) + FakeTarget::kMoreBytes / 2);
}

TEST_F(ExporterTest, TheEndOfHeapSamplesIsNews) {
  FakeTarget target(tables_.path(), out_, [](MadeTable& table) {
    FakeTarget::AddOneRow(table);
    table.head().profiles |= kAttachedBit;
  });
  const pid_t pid = target.pid();
  Start();
  {
    const MappedTable mapped(target.path());
    for (uint32_t request = 1; request <= 2; ++request) {
      ASSERT_NO_FATAL_FAILURE(Ask(mapped, target, request));
      mapped.header()->heap_intervals[1] = {7, 0};
      mapped.header()->heap_interval_count = 2;
    }
    EXPECT_THAT(Files(), ElementsAre(Name(pid, 1), Name(pid, 2)));
  }
  const auto profile = ReadPprofFile(out_ + "/" + Name(pid, 2));
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_TRUE(profile->process().attached);
  ASSERT_EQ(profile->records().sampling->interval.size(), 2u);
  EXPECT_EQ(profile->records().sampling->interval[1].mean, 0);
}

TEST_F(ExporterTest, WritesAtEachIntervalAndKeepsSoMany) {
  FakeTarget target(tables_.path(), out_, Every(20'000'000, 3));
  const pid_t pid = target.pid();
  Start();
  {
    const MappedTable mapped(target.path());
    for (int seq = 1; seq <= 6; ++seq) {
      ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(out_ + "/" + Name(pid, seq)); })) << seq;
      if (seq < 6) AddAllocation(mapped);
    }
  }
  target.Kill();
  EXPECT_TRUE(Ended().ok());
  EXPECT_THAT(Files(), ElementsAre(Name(pid, 4), Name(pid, 5), Name(pid, 6)));
  EXPECT_EQ(ReadPprofFile(out_ + "/" + Name(pid, 6))->CommentValue("removed snapshots"), "2");
}

// A table may be hostile: it neither opens the folder for more than the user said, nor has others' files removed.
TEST_F(ExporterTest, TheCapIsTheExportersWordAndNotTheTables) {
  FakeTarget target(tables_.path(), out_, [](MadeTable& table) {
    Every(20'000'000)(table);
    table.head().max_disk_bytes = 0;  // it says: any number
  });
  const pid_t pid = target.pid();
  std::filesystem::create_directories(out_);
  const std::string theirs = ProfileName{"other", 7, 1, "heap"}.ToString();
  std::ofstream(out_ + "/" + theirs) << "precious";
  options_.max_disk_bytes = 1;
  Start();
  {
    const MappedTable mapped(target.path());
    for (int seq = 1; seq <= 3; ++seq) {
      ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(out_ + "/" + Name(pid, seq)); })) << seq;
      if (seq < 3) AddAllocation(mapped);
    }
  }
  target.Kill();
  EXPECT_TRUE(Ended().ok());
  EXPECT_THAT(Files(), ElementsAre(Name(pid, 3), theirs));
}

TEST_F(ExporterTest, AnotherExportersFilesOfTheSameProcessCountForKeepAndNoOthers) {
  FakeTarget target(tables_.path(), out_, Every(0, 1));
  const pid_t pid = target.pid();
  Start();
  {
    const MappedTable mapped(target.path());
    mapped.header()->snapshot_request = 1;
    ASSERT_TRUE(Eventually([&] { return mapped.header()->snapshot_done == 1u; }));
    // Named as ours are, of another process of the same pid, and newer: never removed.
    Profile theirs = testing::SmallProfile();
    theirs.AddComment("process: elsewhere");
    std::ofstream(out_ + "/" + Name(pid, 2), std::ios::binary) << EncodePprof(theirs);
    AddAllocation(mapped);
  }
  target.Kill();
  EXPECT_TRUE(Ended().ok());
  EXPECT_THAT(Files(), ElementsAre(Name(pid, 2), Name(pid, 3)));
}

// Four files are the course of a process. Reading rows must end then, although a child wrote the files.
TEST_F(ExporterTest, TheCourseEndsWithTheFourthFileThatAChildWrites) {
  const FakeTarget target(tables_.path(), out_);
  const MappedTable mapped(target.path());
  const auto folder = OpenFolder(tables_.path());
  ASSERT_TRUE(folder.ok());
  auto table = TableFile::Open(*folder, std::filesystem::path(target.path()).filename());
  ASSERT_TRUE(table.ok()) << table.status();
  const auto output = OutputFolder::Open(out_);
  ASSERT_TRUE(output.ok());
  ModuleSymbolizer symbolizer(DebugFileFinder::Options{.roots = {}});
  ProcessExporter exporter(*std::move(table));
  const auto has_moments = [&] {
    exporter.LookAtCourse();
    return !exporter.course().moments().empty();
  };
  for (int i = 0; i < 30'000 && !has_moments(); ++i) usleep(1000);
  for (int file = 0; file < 4; ++file) {
    EXPECT_TRUE(has_moments()) << file;
    AddAllocation(mapped);
    const auto written =
        exporter.Export(*output, symbolizer, Deadline::In(std::chrono::milliseconds(0)), {.begin_child = [] {}});
    ASSERT_TRUE(written.ok()) << written.status();
    ASSERT_EQ(written->size(), 1u);
  }
  EXPECT_FALSE(has_moments());
}

TEST_F(ExporterTest, AllKindsOfASnapshotShareASeq) {
  FakeTarget target(tables_.path(), out_, [](MadeTable& table) {
    FakeTarget::AddOneRow(table);
    const Offset stack = table.AddStack({0x10, 0x20});
    table.AddRow(stack, ProfileKind::kBlock, WaitKind::kMutex, 0, {1 << kCountFractionBits, 90 << kAmountFractionBits});
    table.head().profiles = 1 << static_cast<int>(ProfileKind::kHeap) | 1 << static_cast<int>(ProfileKind::kBlock);
  });
  const pid_t pid = target.pid();
  target.Kill();
  Start();
  EXPECT_TRUE(Ended().ok());
  EXPECT_THAT(Files(), ElementsAre(Name(pid, 1, "block"), Name(pid, 1)));
}

TEST_F(ExporterTest, AProcessWithoutSamplesLeavesNoFileAndNoTable) {
  FakeTarget target(tables_.path(), out_, [](MadeTable&) {});
  target.Kill();
  Start();
  EXPECT_TRUE(Ended().ok());
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_THAT(Tables(), IsEmpty());
}

TEST_F(ExporterTest, AfterExecTheEarlierImageIsFinishedWhileTheProcessLives) {
  FakeTarget target(tables_.path(), out_);
  const pid_t pid = target.pid();
  const std::string earlier = target.WriteTable(FakeTarget::AddOneRow, 0x2000, 0);
  Start();
  EXPECT_TRUE(Eventually([&] { return !std::filesystem::exists(earlier); }));
  EXPECT_THAT(Files(), ElementsAre(Name(pid, 1)));
  EXPECT_THAT(Tables(), ElementsAre(target.path()));
  target.Kill();
  EXPECT_TRUE(Ended().ok());
  EXPECT_THAT(Files(), ElementsAre(Name(pid, 1), Name(pid, 2)));
}

TEST_F(ExporterTest, ProcessesThatComeLaterAreServedToo) {
  FakeTarget first(tables_.path(), out_);
  Start();
  ASSERT_TRUE(Eventually([&] { return MappedTable(first.path()).header()->exporter_pid != 0; }));
  FakeTarget second(tables_.path(), out_);
  ASSERT_TRUE(Eventually([&] { return MappedTable(second.path()).header()->exporter_pid != 0; }));
  const pid_t pids[] = {first.pid(), second.pid()};
  first.Kill();
  second.Kill();
  EXPECT_TRUE(Ended().ok());
  EXPECT_THAT(Files(), ::testing::UnorderedElementsAre(Name(pids[0], 1), Name(pids[1], 1)));
}

TEST_F(ExporterTest, OnlyOneServesAFolder) {
  FakeTarget target(tables_.path(), out_);
  Start();
  ASSERT_TRUE(Eventually([&] { return MappedTable(target.path()).header()->exporter_pid != 0; }));
  EXPECT_TRUE(ServeTables(options_).ok());  // at once: the target lives
  ExporterLock lock(tables_.path(), out_);
  EXPECT_FALSE(lock.Take());
  target.Kill();
  EXPECT_TRUE(Ended().ok());
  EXPECT_TRUE(lock.Take());
}

TEST_F(ExporterTest, TablesOfOtherFoldersAreLeftAlone) {
  FakeTarget other(tables_.path(), folder_.File("elsewhere"));
  other.Kill();
  Start();
  EXPECT_TRUE(Ended().ok());
  EXPECT_THAT(Tables(), ElementsAre(other.path()));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("elsewhere")));
}

TEST_F(ExporterTest, ABadTableStopsNoOther) {
  FakeTarget bad(tables_.path(), out_, [](MadeTable& table) {
    FakeTarget::AddOneRow(table);
    table.head().modules = 0xffffff;
  });
  FakeTarget cut(tables_.path(), out_);
  FakeTarget good(tables_.path(), out_);
  const pid_t pid = good.pid();
  tables_.Write("holdfast." + std::to_string(geteuid()) + ".1.1.00000000000000ab.table", "garbage");
  Start();
  ASSERT_TRUE(Eventually([&] { return MappedTable(cut.path()).header()->exporter_pid != 0; }));
  ASSERT_EQ(truncate(cut.path().c_str(), 5000), 0);
  bad.Kill();
  cut.Kill();
  good.Kill();
  EXPECT_FALSE(Ended().ok());
  EXPECT_THAT(Files(), ElementsAre(Name(pid, 1)));
  EXPECT_THAT(Tables(), ::testing::Contains(bad.path()));  // for `collect`, which says what is wrong with it
}

TEST_F(ExporterTest, AFolderThatCannotBeWrittenLeavesTheTableAndAnswersAllTheSame) {
  folder_.Write("out", "a file in its place");
  FakeTarget target(tables_.path(), out_);
  const pid_t pid = target.pid();
  Start();
  {
    const MappedTable mapped(target.path());
    mapped.header()->exit_request = 1;
    ASSERT_TRUE(Eventually([&] { return mapped.header()->exported == 1; }));
  }
  target.Kill();
  EXPECT_FALSE(Ended().ok());
  EXPECT_THAT(Tables(), ElementsAre(target.path()));
  // Once it can be written, the next one does it.
  std::filesystem::remove(out_);
  Start();
  EXPECT_TRUE(Ended().ok());
  EXPECT_THAT(Files(), ElementsAre(Name(pid, 1)));
}

TEST_F(ExporterTest, AFailedWriteIsReportedInTheNextFile) {
  FakeTarget target(tables_.path(), out_);
  const pid_t pid = target.pid();
  folder_.Write("out", "a file in its place");
  std::filesystem::remove(out_);
  std::filesystem::create_directory(out_);
  // The temporary name is taken by a folder: the file cannot be made.
  const std::string block = out_ + "/.holdfast." + std::to_string(getpid()) + "." + Name(pid, 1) + ".new";
  std::filesystem::create_directory(block);
  Start();
  {
    const MappedTable mapped(target.path());
    mapped.header()->exit_request = 1;
    ASSERT_TRUE(Eventually([&] { return mapped.header()->exported == 1; }));
    std::filesystem::remove(block);
  }
  target.Kill();
  Ended().IgnoreError();
  EXPECT_THAT(Files(), ElementsAre(Name(pid, 1)));
  EXPECT_EQ(ReadPprofFile(out_ + "/" + Name(pid, 1))->CommentValue("failed writes"), "1");
}

TEST_F(ExporterTest, DeadTablesOlderThanADayAreSweptLiveAndYoungOnesNot) {
  FakeTarget old(tables_.path(), "/nowhere"), young(tables_.path(), "/nowhere"), live(tables_.path(), "/nowhere");
  // Of a process that began just now, while the clock of the day says that it is old: the clock jumped.
  FakeTarget jumped(tables_.path(), "/nowhere");
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  for (const FakeTarget* target : {&old, &live})
    MappedTable(target->path()).header()->start_monotonic_ns = (now.tv_sec - 2 * 86400) * int64_t{1'000'000'000};
  MappedTable(jumped.path()).header()->start_monotonic_ns = now.tv_sec * int64_t{1'000'000'000};
  const std::string prefix = "holdfast." + std::to_string(geteuid()) + ".";
  tables_.Write(prefix + "1.1.0000000000000001.new", "never finished");
  tables_.Write(prefix + "0000000000000001.lock", "");
  old.Kill();
  young.Kill();
  jumped.Kill();
  const timespec times[2] = {{1000000, 0}, {1000000, 0}};
  for (const std::string& path : {old.path(), live.path(), jumped.path()}) {
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  EXPECT_EQ(SweepOldTables(tables_.path()), 3);
  EXPECT_THAT(Tables(), ::testing::UnorderedElementsAre(young.path(), live.path(), jumped.path()));
}

TEST_F(ExporterTest, AnUnfinishedOrLockedFileIsNotALeftover) {
  const std::string prefix = "holdfast." + std::to_string(geteuid()) + ".";
  const std::string made = tables_.File(prefix + "1.1.0000000000000001.new");
  tables_.Write(prefix + "1.1.0000000000000001.new", "at work");
  tables_.Write("holdfast.12345.1.1.0000000000000002.new", "killed, in a user namespace");
  ExporterLock lock(tables_.path(), out_);
  ASSERT_TRUE(lock.Take());
  {
    std::ofstream maker(made, std::ios::app);
    EXPECT_EQ(SweepOldTables(tables_.path()), 1);
    EXPECT_TRUE(std::filesystem::exists(made));
  }
  EXPECT_EQ(SweepOldTables(tables_.path()), 1);
  EXPECT_FALSE(std::filesystem::exists(made));
  ExporterLock other(tables_.path(), out_);
  EXPECT_FALSE(other.Take());
}

TEST_F(ExporterTest, AFolderOfThatPathElsewhereIsNotServed) {
  std::filesystem::create_directory(out_);
  FakeTarget other(tables_.path(), out_, [](MadeTable& table) {
    FakeTarget::AddOneRow(table);
    table.head().out_id = {1, 2};  // in another container
  });
  other.Kill();
  Start();
  EXPECT_TRUE(Ended().ok());
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_THAT(Tables(), ElementsAre(other.path()));
}

// Its user cannot see the folder. What is known is in which mount namespace it looked for it.
TEST_F(ExporterTest, AFolderOfAnotherMountNamespaceIsRecognized) {
  std::filesystem::create_directory(out_);
  const auto elsewhere = [](MadeTable& table) {
    FakeTarget::AddOneRow(table);
    table.head().out_id = {1, 0};
  };
  FakeTarget ended(tables_.path(), out_, elsewhere), lives(tables_.path(), out_, elsewhere);
  const pid_t pid = lives.pid();
  ended.Kill();
  Start();
  // For the one that lives it is the folder that we see.
  EXPECT_TRUE(Eventually([&] { return MappedTable(lives.path()).header()->exporter_pid != 0; }));
  lives.Kill();
  EXPECT_TRUE(Ended().ok());
  EXPECT_THAT(Files(), ElementsAre(Name(pid, 1)));
  EXPECT_THAT(Tables(), ElementsAre(ended.path()));
}

TEST_F(ExporterTest, AnExporterOfAnotherLayoutServesNobodyOfThisOne) {
  char own[700], other[700];
  ExporterLockPath(tables_.path().c_str(), out_.c_str(), {}, geteuid(), own, sizeof own);
  ExporterLockPath(tables_.path().c_str(), out_.c_str(), {}, geteuid(), other, sizeof other, kLayoutVersion - 1);
  EXPECT_STRNE(own, other);
  const int held = open(other, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  EXPECT_FALSE(ExporterServes(tables_.path().c_str(), out_.c_str(), {}));
  FakeTarget target(tables_.path(), out_);
  const pid_t pid = target.pid();
  target.Kill();
  Start();
  EXPECT_TRUE(Ended().ok());
  EXPECT_THAT(Files(), ElementsAre(Name(pid, 1)));
  close(held);
}

TEST_F(ExporterTest, ItsBeatGoesOn) {
  FakeTarget target(tables_.path(), out_, Every(300'000'000));
  Start();
  EXPECT_TRUE(Eventually([&] { return MappedTable(target.path()).header()->exporter_beat >= 3; }));
  target.Kill();
  EXPECT_TRUE(Ended().ok());
}

// 16 MiB in all: the tables of a folder that can take nothing are left, but not without end.
TEST_F(ExporterTest, TheNewestTablesThatCannotBeExportedStay) {
  folder_.Write("out", "a file in its place");
  std::vector<std::unique_ptr<FakeTarget>> targets;
  for (int i = 0; i < 5; ++i) {
    targets.push_back(
        std::make_unique<FakeTarget>(tables_.path(), out_, [](MadeTable& table) { FakeTarget::AddOneRow(table); }));
    const int fd = open(targets.back()->path().c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_EQ(fallocate(fd, 0, 0, 5 << 20), 0);
    close(fd);
  }
  Start();
  ASSERT_TRUE(Eventually([&] { return MappedTable(targets.back()->path()).header()->exporter_pid != 0; }));
  for (const auto& target : targets) target->Kill();
  EXPECT_FALSE(Ended().ok());
  EXPECT_EQ(Tables().size(), 3u);
}

TEST_F(ExporterTest, ShortProcessesShareTheFileOfTheirProgram) {
  const auto sharing = [](MadeTable& table) {
    FakeTarget::AddOneRow(table);
    table.head().merge = 1;
    strcpy(table.head().host, "box");
  };
  for (int turn = 1; turn <= 2; ++turn) {  // the second exporter goes on from the first one's file
    std::vector<std::unique_ptr<FakeTarget>> targets;
    for (int i = 0; i < 3; ++i) targets.push_back(std::make_unique<FakeTarget>(tables_.path(), out_, sharing));
    for (const auto& target : targets) target->Kill();
    Start();
    EXPECT_TRUE(Ended().ok()) << status_;
    ASSERT_EQ(Files().size(), 1u) << turn;
    const absl::StatusOr<Profile> sum = ReadPprofFile(out_ + "/" + Files()[0]);
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ(ParseProfileName(Files()[0])->pid, 0u);
    EXPECT_EQ(sum->Total(0), 15 * turn);
    EXPECT_EQ(sum->CommentValue("merged"), turn == 1 ? "sum of 3 processes" : "sum of 6 processes");
    EXPECT_THAT(Tables(), IsEmpty());
  }
}

}  // namespace
}  // namespace holdfast
