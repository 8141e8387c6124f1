#include "report/analysis/profiles/profile_set.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/analysis/profiles/live_processes.h"
#include "report/analysis/profiles/metric.h"
#include "tests/unit/fake_target.h"
#include "tests/unit/pprof_fixture.h"
#include "tests/unit/view_fixture.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using testing::Folder;
using ::testing::HasSubstr;
using testing::SmallProfile;

std::string Of(const std::string& process, int64_t time, const char* kind = "heap", int64_t duration = 0) {
  Profile p = SmallProfile();
  p.comments.clear();
  p.AddComment(std::string("kind: ") + kind);
  if (!process.empty()) p.AddComment("process: " + process);
  p.AddComment("program: app");
  p.time_nanos = time;
  p.duration_nanos = duration;
  return EncodePprof(p);
}

std::vector<std::string> Names(const ProfileGroup& group) {
  std::vector<std::string> names;
  for (const ProfileFile& file : group.files) names.push_back(file.path.substr(file.path.rfind('/') + 1));
  return names;
}

// One folder is in the order of its numbers, several are by time: the clock was set back between one's files.
TEST(ProfileSet, TheNewestIsThereWhenAnotherFolderChangesTheOrder) {
  const Folder one, two;
  one.Write("app.1.0001.heap.pb.gz", Of("one", 200));
  one.Write("app.1.0002.heap.pb.gz", Of("one", 100));
  two.Write("app.1.0001.heap.pb.gz", Of("one", 50));
  const auto alone = ReadProfileSet({one.path()}, {});
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->groups[0].NewestCumulative()->time_nanos, 100);
  const auto set = ReadProfileSet({one.path(), two.path()}, {});
  ASSERT_TRUE(set.ok()) << set.status();
  const ProfileFile* newest = set->groups[0].NewestCumulative();
  EXPECT_EQ(newest->time_nanos, 200);
  ASSERT_NE(newest->profile, nullptr) << "it was dropped as an older one, before the other folder was read";
  EXPECT_EQ(newest->profile->time_nanos, 200);
  EXPECT_TRUE(set->groups[0].Counts(*newest));
  EXPECT_FALSE(set->groups[0].Counts(set->groups[0].files[0]));
}

std::string At(const std::string& moment, int64_t time, const char* kind = "heap", int64_t in_use = 1000) {
  Profile p = SmallProfile();
  p.comments.clear();
  for (const std::string& comment : {std::string("kind: ") + kind, std::string("process: one")}) p.AddComment(comment);
  if (!moment.empty()) p.AddComment("moment: " + moment);
  for (size_t i = 0; i < p.samples.size(); ++i) p.ValuesOf(i)[3] = i == 0 ? in_use : 0;
  p.time_nanos = time;
  return EncodePprof(p);
}

// What exit handlers freed the program held until then.
TEST(ProfileSet, AFolderUsesTheStateBeforeExitHandlers) {
  const Folder folder;
  folder.Write("app.1.0001.heap.pb.gz", Of("one", 100));
  folder.Write("app.1.0002.heap.pb.gz", At("before exit handlers", 200));
  const std::string after = folder.Write("app.1.0003.heap.pb.gz", At("after exit handlers", 300));
  const auto set = ReadProfileSet({folder.path()}, {});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(Names(set->groups[0]), ElementsAre("app.1.0001.heap.pb.gz", "app.1.0002.heap.pb.gz"));
  EXPECT_EQ(set->groups[0].NewestCumulative()->freed_at_exit, 300);
  ASSERT_NE(set->groups[0].NewestCumulative()->profile, nullptr);
  EXPECT_EQ(ReadProfileSet({folder.path()}, {.after_exit = true})->groups[0].newest().path, after);
  // Files that are named are shown as they are.
  EXPECT_EQ(ReadProfileSet({folder.path() + "/app.1.0002.heap.pb.gz", after}, {})->groups[0].newest().path, after);
}

// main's locals are destroyed before main returns: before the exit handlers there is nothing left to see.
TEST(ProfileSet, AFolderUsesTheStateBeforeTheProgramShutDown) {
  const Folder folder;
  folder.Write("app.1.0001.heap.pb.gz", At("", 100, "heap", 1000));
  folder.Write("app.1.0002.heap.pb.gz", At("", 200, "heap", 900));
  folder.Write("app.1.0003.heap.pb.gz", At("before exit handlers", 300, "heap", 10));
  folder.Write("app.1.0004.heap.pb.gz", At("after exit handlers", 400, "heap", 0));
  const auto set = ReadProfileSet({folder.path()}, {});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->groups[0].newest().time_nanos, 200);
  EXPECT_EQ(set->groups[0].newest().freed_at_exit, 300);
  folder.Write("app.1.0003.heap.pb.gz", At("", 300, "heap", 10));
  folder.Write("app.1.0004.heap.pb.gz", At("", 400, "heap", 0));
  EXPECT_EQ(ReadProfileSet({folder.path()}, {})->groups[0].newest().time_nanos, 400)
      << "the process runs, or was killed";
}

TEST(ProfileSet, WithoutAFileBeforeExitHandlersTheLastOneCounts) {
  const Folder folder;
  folder.Write("app.1.0001.heap.pb.gz", Of("one", 100));
  folder.Write("app.1.0002.heap.pb.gz", At("after exit handlers", 300));
  EXPECT_EQ(ReadProfileSet({folder.path()}, {})->groups[0].files.size(), 2u);
  // Waits add up to the end.
  const Folder waits;
  waits.Write("app.1.0001.block.pb.gz", At("before exit handlers", 100, "block"));
  waits.Write("app.1.0002.block.pb.gz", At("after exit handlers", 200, "block"));
  EXPECT_EQ(ReadProfileSet({waits.path()}, {})->groups[0].newest().time_nanos, 200);
}

std::vector<const ProfileFile*> NewestOf(const ProfileSet& set) {
  std::vector<const ProfileFile*> files;
  for (const ProfileGroup& group : set.groups) files.push_back(&group.newest());
  return files;
}

// Of a server that forks: what processes held when they ended is no amount that ever was in use.
TEST(ProfileSet, ProcessesThatExitedEarlierAreKeptApart) {
  constexpr int64_t kMinute = 60'000'000'000;
  Folder folder;
  folder.Write("app.1.0001.heap.pb.gz", Of("master", 9 * kMinute));
  folder.Write("app.2.0001.heap.pb.gz", Of("worker", 9 * kMinute - 1));
  folder.Write("app.3.0001.heap.pb.gz", Of("ended", kMinute));
  const auto set = ReadProfileSet({folder.path()}, {});
  ASSERT_TRUE(set.ok());
  std::vector<const ProfileFile*> files = NewestOf(*set);
  const std::vector<const ProfileFile*> ended = TakeEnded(&files);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0]->process, "ended");
  EXPECT_EQ(files.size(), 2u);
}

// Writes heap profiles of exited processes into a folder.
class Exited {
 public:
  // Times are in seconds. A process with resident memory was running when the file was written.
  void Add(const std::string& process, int64_t start, int64_t end, int64_t bytes, int64_t resident = 0) {
    constexpr int64_t kSecond = 1'000'000'000, kStart = 1000 * kSecond;
    Profile p = testing::StackProfile({testing::Stack{"main;a", bytes}});
    p.comments.clear();
    for (const std::string& comment :
         {std::string("kind: heap"), std::string("program: app"), "process: " + process,
          "elapsed: " + std::to_string(end - start) + "s", "resident_bytes: " + std::to_string(resident)})
      p.AddComment(comment);
    p.time_nanos = kStart + end * kSecond;
    folder_.Write("app." + std::to_string(++files_) + ".0001.heap.pb.gz", EncodePprof(p));
  }
  // Returns the sum of the processes that count, and how many do not.
  std::pair<int64_t, size_t> HeldAndEnded() const {
    const auto set = ReadProfileSet({folder_.path()}, {});
    EXPECT_TRUE(set.ok()) << set.status();
    std::vector<const ProfileFile*> kept = NewestOf(*set);
    const size_t ended = TakeEnded(&kept).size();
    int64_t held = 0;
    for (const ProfileFile* file : kept) held += file->profile->Total(3);
    return {held, ended};
  }

 private:
  Folder folder_;
  int files_ = 0;
};

// A script: a helper, the server that it executes with two workers, and a helper that exits last. The server and its
// workers held their memory at one moment.
TEST(ProfileSet, ExitedProcessesCountAtTheMomentOfTheLargestSum) {
  Exited exited;
  exited.Add("host/1/10/5/shell", 0, 1, 900);  // executes the server
  exited.Add("host/1/11/6/helper", 0, 1, 5000);
  exited.Add("host/1/10/5/server", 1, 8, 3000);
  exited.Add("host/1/12/7/worker", 2, 7, 2000);
  exited.Add("host/1/13/8/worker", 2, 7, 2000);
  exited.Add("host/1/14/9/cleanup", 9, 10, 100);
  EXPECT_EQ(exited.HeldAndEnded(), std::pair(int64_t{7000}, size_t{3}));
}

// The wall clock was set back by an hour before the files were written.
TEST(ProfileSet, ALifeHasALengthAlsoIfTheClockWasSetBack) {
  const Folder folder;
  for (const char* pid : {"1", "2"}) {
    Profile p = SmallProfile();
    p.comments.clear();
    for (const std::string& comment : {std::string("kind: heap"), "process: app" + std::string(pid),
                                       std::string("started: 2026-03-04T11:00:00.000Z"), std::string("elapsed: 600s")})
      p.AddComment(comment);
    p.time_nanos = 1'772'618'400'000'000'000;  // 10:00
    folder.Write("app." + std::string(pid) + ".0001.heap.pb.gz", EncodePprof(p));
  }
  const auto set = ReadProfileSet({folder.path()}, {});
  ASSERT_TRUE(set.ok());
  std::vector<const ProfileFile*> files = NewestOf(*set);
  ASSERT_GT(files[0]->start_nanos, files[0]->time_nanos);
  EXPECT_TRUE(TakeEnded(&files).empty());
  EXPECT_EQ(files.size(), 2u);
}

// Workers of a container, as the host sees them: those that are idle write no new files.
TEST(ProfileSet, IdleProcessesOfAContainerStillHoldTheirMemory) {
  Exited exited;
  exited.Add("host/1/10/5/master", 0, 60, 100, 1000);
  exited.Add("host/1/11/6/idle", 1, 5, 2000, 3000);
  exited.Add("host/1/12/7/busy", 1, 60, 500, 1000);
  exited.Add("host/1/13/8/killed", 1, 5, 4000, 0);
  EXPECT_EQ(exited.HeldAndEnded(), std::pair(int64_t{2600}, size_t{1}));
}

// A server that forks a child to save its data shortly before it exits.
TEST(ProfileSet, AShortHelperIsNotAddedToTheProgram) {
  Exited exited;
  exited.Add("host/1/10/5/server", 0, 60, 3000);
  exited.Add("host/1/11/6/saves", 55, 57, 500);
  EXPECT_EQ(exited.HeldAndEnded(), std::pair(int64_t{3000}, size_t{1}));
}

TEST(ProfileSet, ALiveProcessLeavesTheEndedOnesOut) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  struct stat ns;
  ASSERT_EQ(stat("/proc/self/ns/pid", &ns), 0);
  const std::string own = host + std::string("/") + std::to_string(ns.st_ino) + "/";
  Folder folder;
  folder.Write("app.1.0001.heap.pb.gz",
               Of(own + std::to_string(getpid()) + "/" + std::to_string(testing::StartTicksOf(getpid())) + "/1", 10));
  folder.Write("app.2.0001.heap.pb.gz", Of(own + "1999999999/1/1", 20));
  const auto set = ReadProfileSet({folder.path()}, {});
  ASSERT_TRUE(set.ok());
  std::vector<const ProfileFile*> files = NewestOf(*set);
  const std::vector<const ProfileFile*> ended = TakeEnded(&files);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_THAT(ended[0]->process, HasSubstr("/1999999999/"));
}

TEST(ProfileSet, AFolderIsSortedIntoProcessesAndKinds) {
  Folder folder;
  folder.Write("app.1.0002.heap.pb.gz", Of("one", 20));
  folder.Write("app.1.0001.heap.pb.gz", Of("one", 10));
  folder.Write("app.1.0001.block.pb.gz", Of("one", 10, "block"));
  folder.Write("app.2.0001.heap.pb.gz", Of("two", 15));
  folder.Write(".app.2.0002.heap.pb.gz", "half written");
  folder.Write("notes.txt", "none of ours");
  const auto set = ReadProfileSet({folder.path()}, {});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(set->Kinds(), ElementsAre("block", "heap"));
  ASSERT_EQ(set->groups.size(), 3u);
  EXPECT_EQ(set->files(), 4u);
  EXPECT_THAT(Names(set->groups[1]), ElementsAre("app.1.0001.heap.pb.gz", "app.1.0002.heap.pb.gz"));
  EXPECT_EQ(set->groups[1].process, "one");
  EXPECT_EQ(set->groups[1].files[0].profile, nullptr) << "an older snapshot is kept";
  EXPECT_NE(set->groups[1].files[1].profile, nullptr);
}

TEST(ProfileSet, NumbersOrderFilesAlsoWhenTheClockWasSetBack) {
  Folder folder;
  folder.Write("app.1.0001.heap.pb.gz", Of("one", 500));
  folder.Write("app.1.0002.heap.pb.gz", Of("one", 10));
  const auto set = ReadProfileSet({folder.path()}, {.keep = KeepProfiles::kAll});
  ASSERT_TRUE(set.ok());
  EXPECT_THAT(Names(set->groups[0]), ElementsAre("app.1.0001.heap.pb.gz", "app.1.0002.heap.pb.gz"));
  EXPECT_NE(set->groups[0].files[0].profile, nullptr);
}

TEST(ProfileSet, OtherwiseTimeOrdersThem) {
  Folder folder;
  const auto set = ReadProfileSet({folder.Write("b", Of("one", 10)), folder.Write("a", Of("one", 20))},
                                  {.keep = KeepProfiles::kNone});
  ASSERT_TRUE(set.ok());
  EXPECT_THAT(Names(set->groups[0]), ElementsAre("b", "a"));
  EXPECT_EQ(set->groups[0].files[1].profile, nullptr);
}

TEST(ProfileSet, DifferencesAndFilesWithoutAProcessAreAllKept) {
  Folder folder;
  const auto set =
      ReadProfileSet({folder.Write("a", Of("one", 10, "heap", 5)), folder.Write("b", Of("one", 20, "heap", 5)),
                      folder.Write("c", Of("", 10)), folder.Write("d", Of("", 20))},
                     {});
  ASSERT_TRUE(set.ok());
  ASSERT_EQ(set->groups.size(), 2u);
  for (const ProfileGroup& group : set->groups) {
    for (const ProfileFile& file : group.files) EXPECT_NE(file.profile, nullptr) << file.path;
  }
  EXPECT_EQ(set->groups[0].NewestCumulative(), nullptr);
  EXPECT_EQ(set->groups[1].process, "");
}

TEST(ProfileSet, AFileThatIsNamedTwiceCountsOnce) {
  Folder folder;
  const std::string file = folder.Write("app.1.0001.heap.pb.gz", Of("", 10));
  const auto set = ReadProfileSet({file, folder.path(), file}, {});
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set->files(), 1u);
}

TEST(ProfileSet, OnlyTheKindThatWasAskedFor) {
  Folder folder;
  folder.Write("app.1.0001.heap.pb.gz", Of("one", 10));
  folder.Write("app.1.0001.block.pb.gz", "not opened");
  const auto set = ReadProfileSet({folder.path()}, {.kind = "heap"});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(set->Kinds(), ElementsAre("heap"));
  EXPECT_EQ(set->warnings.size(), 0u);
  EXPECT_THAT(std::string(ReadProfileSet({folder.path()}, {.kind = "mutex"}).status().message()),
              HasSubstr("no mutex profiles in this folder"));
}

TEST(ProfileSet, ADamagedFileOfAFolderIsAWarningANamedOneAnError) {
  Folder folder;
  folder.Write("app.1.0001.heap.pb.gz", Of("one", 10));
  const std::string bad = folder.Write("app.1.0002.heap.pb.gz", "\x1f\x8b\x08");
  const auto set = ReadProfileSet({folder.path()}, {});
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_EQ(set->warnings.size(), 1u);
  EXPECT_THAT(set->warnings[0], HasSubstr("app.1.0002.heap.pb.gz"));
  EXPECT_FALSE(ReadProfileSet({bad}, {}).ok());
}

TEST(ProfileSet, AFolderWithoutProfilesSaysSo) {
  Folder folder;
  EXPECT_THAT(std::string(ReadProfileSet({folder.path()}, {}).status().message()),
              HasSubstr("no profiles in this folder (*.pb.gz). Give the folder that holdfast run printed."));
  EXPECT_FALSE(ReadProfileSet({folder.File("none")}, {}).ok());
}

TEST(PeakOf, SaysHowFarTheHeightMayBeOff) {
  const auto peak = [](const char* interval, const char* error) {
    Profile p = SmallProfile();
    p.comments.clear();
    p.AddComment(std::string("interval: ") + interval);
    p.AddComment("peak: 104857600 bytes at 2026-11-24T10:00:00.000Z");
    if (error != nullptr) p.AddComment(std::string("peak error: ") + error);
    return PeakOf(testing::WithRecords(p));
  };
  EXPECT_EQ(peak("524288 bytes", nullptr), "100MiB at 2026-11-24T10:00:00.000Z");
  EXPECT_EQ(peak("1 bytes", nullptr), "100MiB at 2026-11-24T10:00:00.000Z");
  EXPECT_EQ(peak("1 bytes", "none"), "100MiB at 2026-11-24T10:00:00.000Z");
  EXPECT_EQ(peak("1 bytes", "102400 bytes more at most, as threads count apart"),
            "100MiB at 2026-11-24T10:00:00.000Z (several threads: up to 100KiB more)");
}

}  // namespace
}  // namespace holdfast
