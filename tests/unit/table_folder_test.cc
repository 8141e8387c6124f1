#include "report/observe/table/table_folder.h"

#include <gmock/gmock.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "report/observe/table/process_info.h"
#include "tests/unit/fake_target.h"

namespace holdfast {
namespace {

using testing::FakeTarget;
using ::testing::HasSubstr;
using testing::MadeTable;
using testing::MappedTable;
using testing::TablesFolder;

class TableFolder : public ::testing::Test {
 protected:
  absl::StatusOr<TableFile> Open(const std::string& path) const {
    return TableFile::Open(*OpenFolder(folder_.path()), std::filesystem::path(path).filename());
  }
  void ExpectRefused(const std::string& name, const std::string& why) const {
    const absl::StatusOr<TableFile> table = Open(name);
    EXPECT_FALSE(table.ok()) << name;
    EXPECT_THAT(table.status().ToString(), HasSubstr(why));
  }
  TablesFolder folder_;
};

TEST_F(TableFolder, OpensATableAndKnowsItsOwner) {
  const FakeTarget target(folder_.path(), "/some/where");
  const absl::StatusOr<TableFile> table = Open(target.path());
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->out(), "/some/where");
  EXPECT_EQ(table->program(), "made");
  EXPECT_EQ(table->owner().pid, static_cast<uint32_t>(target.pid()));
  EXPECT_EQ(table->TakeSnapshot()->rows.size(), 1u);
  EXPECT_THAT(ListTableNames(*OpenFolder(folder_.path())), ::testing::ElementsAre(table->name()));
}

TEST_F(TableFolder, ForeignFilesAreNotOpened) {
  const std::string prefix = "holdfast." + std::to_string(geteuid()) + ".";
  MadeTable table;
  table.WriteTo(folder_.File(prefix + "good.table"));
  std::filesystem::create_symlink(folder_.File(prefix + "good.table"), folder_.File(prefix + "link.table"));
  ExpectRefused(prefix + "link.table", "Too many levels of symbolic links");
  mkfifo(folder_.File(prefix + "pipe.table").c_str(), 0600);
  ExpectRefused(prefix + "pipe.table", "not a regular file");
  folder_.Write(prefix + "text.table", "this is no table");
  ExpectRefused(prefix + "text.table", "not a table");
  ExpectRefused(prefix + "gone.table", "No such file");
  table.head().version = 99;
  table.WriteTo(folder_.File(prefix + "new.table"));
  ExpectRefused(prefix + "new.table", "layout version 99");
  if (geteuid() == 0) {
    ASSERT_EQ(chown(folder_.File(prefix + "good.table").c_str(), 65534, 65534), 0);
    ExpectRefused(prefix + "good.table", "belongs to user 65534");
  }
}

TEST_F(TableFolder, ATableThatWasCutShortIsAnErrorAndNoSignal) {
  const FakeTarget target(folder_.path(), "/out");
  const absl::StatusOr<TableFile> table = Open(target.path());
  for (const off_t size : {off_t{100}, off_t{5000}, static_cast<off_t>(sizeof(TableHeader) + 8), off_t{0}}) {
    ASSERT_EQ(truncate(target.path().c_str(), size), 0);
    EXPECT_FALSE(table->TakeSnapshot().ok()) << size;
  }
  EXPECT_FALSE(table->ReadWords().ok());
  table->AnswerExit();
}

TEST_F(TableFolder, ATableThatClaimsMoreThanHasPagesIsNotRead) {
  const FakeTarget target(folder_.path(), "/out");
  ASSERT_EQ(truncate(target.path().c_str(), off_t{1} << 34), 0);  // a hole of 16 GiB
  MappedTable mapped(target.path());
  mapped.header()->used = mapped.header()->backed = (uint64_t{1} << 34) / kUnit;
  const absl::StatusOr<TableSnapshot> snapshot = Open(target.path())->TakeSnapshot();
  EXPECT_THAT(std::string(snapshot.status().message()), HasSubstr("claims to use 17179869184"));
}

// cp and tar leave out pages of zeros, as between the keys of an almost empty segment of live samples.
TEST_F(TableFolder, ACopyWithHolesIsReadAsTheTable) {
  const FakeTarget target(folder_.path(), "/out");
  const off_t pages = static_cast<off_t>(std::filesystem::file_size(target.path()) + 4095) / 4096;
  ASSERT_EQ(truncate(target.path().c_str(), 1 << 20), 0);
  {
    MappedTable mapped(target.path());
    mapped.header()->used = mapped.header()->backed = (1 << 20) / kUnit;
  }
  struct stat info;
  ASSERT_EQ(stat(target.path().c_str(), &info), 0);
  ASSERT_LE(info.st_blocks * 512, pages * 4096);
  const absl::StatusOr<TableSnapshot> snapshot = Open(target.path())->TakeSnapshot();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(snapshot->rows.size(), 1u);
}

TEST_F(TableFolder, AProcessIsDeadOnceItEnded) {
  FakeTarget target(folder_.path(), "/out");
  const absl::StatusOr<TableFile> table = Open(target.path());
  EXPECT_EQ(table->liveness(), Liveness::kAlive);
  kill(target.pid(), SIGKILL);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(target.pid()), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(table->liveness(), Liveness::kDead);  // a zombie
  target.Kill();
  EXPECT_EQ(table->liveness(), Liveness::kDead);  // gone
}

TEST_F(TableFolder, ATableThatNobodyMapsIsDeadThoughItsProcessRuns) {
  FakeTarget target(folder_.path(), "/out");
  const std::string earlier_image = target.WriteTable(FakeTarget::AddOneRow, 0x2000);
  EXPECT_EQ(Open(earlier_image)->liveness(), Liveness::kDead);
  EXPECT_EQ(Open(target.path())->liveness(), Liveness::kAlive);
}

TEST_F(TableFolder, APidThatCameBackIsAnotherProcess) {
  FakeTarget target(folder_.path(), "/out");
  const std::string earlier = target.WriteTable(FakeTarget::AddOneRow, 0x2000);
  const MappedTable held(earlier);  // as a forked child holds its parent's table
  EXPECT_EQ(Open(earlier)->liveness(), Liveness::kAlive);
  held.header()->start_ticks += 1;
  EXPECT_EQ(Open(earlier)->liveness(), Liveness::kDead);
}

// Root's exporter reads the table of such a program with that user's rights.
TEST(ProcessInfo, TheOtherUserThanRootIsThatOfTheOwnerNotOfALaterProcess) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  constexpr uid_t kUser = 12345;
  int to_child[2], from_child[2];
  ASSERT_EQ(pipe(to_child), 0);
  ASSERT_EQ(pipe(from_child), 0);
  const pid_t child = fork();
  char byte = 0;
  if (child == 0) {
    if (read(to_child[0], &byte, 1) != 1 || setresuid(kUser, kUser, kUser) != 0) _exit(1);
    if (write(from_child[1], &byte, 1) != 1) _exit(1);
    pause();
  }
  TableOwner owner;
  owner.pid = static_cast<uint32_t>(child);
  owner.start_ticks = StartTicksOf(child).value_or(0);
  EXPECT_EQ(UserOfProcess(owner), 0u);
  EXPECT_EQ(OtherUserThanRoot(owner), std::nullopt);
  EXPECT_EQ(write(to_child[1], &byte, 1), 1);
  EXPECT_EQ(read(from_child[0], &byte, 1), 1);
  EXPECT_EQ(UserOfProcess(owner), kUser);
  EXPECT_EQ(OtherUserThanRoot(owner), kUser);
  owner.start_ticks += 1;  // the pid came back
  EXPECT_EQ(UserOfProcess(owner), std::nullopt);
  EXPECT_EQ(OtherUserThanRoot(owner), std::nullopt);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(OtherUserThanRoot(owner), std::nullopt);
  for (const int end : {to_child[0], to_child[1], from_child[0], from_child[1]}) close(end);
}

TEST(ProcessInfo, AForkedChildLooksAtItsOwnNamespace) {
  constexpr int kSame = 1, kCannot = 2;
  const pid_t child = fork();
  if (child == 0) {
    struct stat info;
    TableOwner owner;
    if (stat("/proc/self/ns/pid", &info) != 0) _exit(kCannot);
    owner.pid_ns = info.st_ino;
    if (!owner.IsOfOurNamespace() || unshare(CLONE_NEWPID) != 0) _exit(kCannot);  // of its children
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(owner.IsOfOurNamespace() ? kSame : 0);
    int status = 0;
    _exit(waitpid(grandchild, &status, 0) == grandchild && WIFEXITED(status) ? WEXITSTATUS(status) : kCannot);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kCannot) GTEST_SKIP() << "no new pid namespace can be made";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// In another time namespace, or restored from a checkpoint, it began at another tick than it says; it has the table mapped.
TEST_F(TableFolder, AProcessThatMapsItsTableIsAliveWheneverItBegan) {
  FakeTarget target(folder_.path(), "/out");
  MappedTable(target.path()).header()->start_ticks += 100'000;
  EXPECT_EQ(Open(target.path())->liveness(), Liveness::kAlive);
}

TEST_F(TableFolder, ATableNamedAfterAnotherUserIdIsListedForItsOwner) {
  MadeTable table;
  table.WriteTo(folder_.File("holdfast.12345.1.1.0000000000000001.table"));  // of a program in a user namespace
  EXPECT_THAT(ListTableNames(*OpenFolder(folder_.path())),
              ::testing::ElementsAre("holdfast.12345.1.1.0000000000000001.table"));
}

TEST_F(TableFolder, AStackThatBeganElsewhereIsAnotherImageUnlessTheTableIsMapped) {
  FakeTarget target(folder_.path(), "/out");
  const MappedTable held(target.path());
  held.header()->stack_end = 0x1000;  // as under an explicit ld.so: the process has the table, so it is alive
  EXPECT_EQ(Open(target.path())->liveness(), Liveness::kAlive);
  const std::string other = target.WriteTable([](MadeTable& table) { table.head().stack_end = 0x1000; }, 0x2000);
  const MappedTable held_by_another(other);
  EXPECT_EQ(Open(other)->liveness(), Liveness::kDead);
}

TEST_F(TableFolder, AProcessOfAnotherNamespaceIsDeadWhenNobodyMapsItsTable) {
  FakeTarget target(folder_.path(), "/out");
  const std::string foreign = target.WriteTable([](MadeTable& table) { table.head().pid_ns = 12345; }, 0x2000);
  EXPECT_EQ(Open(foreign)->liveness(), Liveness::kDead);
}

TEST_F(TableFolder, AnAnswerWakesWhoWaitsForIt) {
  const FakeTarget target(folder_.path(), "/out");
  const MappedTable mapped(target.path());
  std::thread waiter([&] {
    while (mapped.header()->exported == 0)
      syscall(SYS_futex, &mapped.header()->exported, FUTEX_WAIT, 0, nullptr, nullptr, 0);
  });
  Open(target.path())->AnswerExit();
  waiter.join();
  Open(target.path())->AnswerSnapshot(9);
  Open(target.path())->SetExporterPid(77);
  EXPECT_EQ(mapped.header()->snapshot_done, 9u);
  EXPECT_EQ(mapped.header()->exporter_pid, 77);
  const absl::StatusOr<ControlWords> words = Open(target.path())->ReadWords();
  EXPECT_EQ(words->exported, 1u);
  EXPECT_EQ(words->snapshot_done, 9u);
}

// The process applies a change if the count is not the one that it has applied. Changes of CPU samples have no end.
TEST_F(TableFolder, NoChangeOfCpuSamplesIsOverlooked) {
  for (uint32_t applied = 1; applied <= kIntervals; ++applied) {
    SCOPED_TRACE(applied);
    const FakeTarget target(folder_.path(), "/out");
    const absl::StatusOr<TableFile> table = Open(target.path());
    const MappedTable mapped(target.path());
    TableHeader& head = *mapped.header();
    const auto change = [&](uint64_t interval) {
      const absl::StatusOr<bool> changed = table->ChangeInterval(TableFile::IntervalOf::kCpu, interval, 0);
      ASSERT_TRUE(changed.ok() && *changed) << changed.status();
      const uint32_t count = head.cpu.interval_count.load();
      ASSERT_TRUE(count >= 1 && count <= kIntervals) << count;
      EXPECT_EQ(head.cpu_intervals[count - 1].interval, interval);
    };
    head.cpu.interval_count = 1;
    head.cpu.state = CpuState::kOn;
    while (head.cpu.interval_count.load() < applied) change(1000 + head.cpu.interval_count.load());
    // From here on the process comes to no slow path.
    head.cpu.applied = applied;
    for (uint64_t i = 0; i < 3 * kIntervals; ++i) {
      change(i + 1);
      EXPECT_NE(head.cpu.interval_count.load(), applied) << i;
    }
  }
}

// A program that finds new call paths all the time: every snapshot is whole, and none holds less than the one before.
TEST_F(TableFolder, SnapshotsOfATableThatGrowsAreWhole) {
  const std::string path = folder_.File("holdfast.0.1.1.0000000000000001.table");
  MadeTable made(32 << 20);
  made.WriteTo(path);
  const MappedTable mapped(path);
  TableHeader* head = mapped.header();
  std::atomic<bool> stop = false;
  std::thread program([&] {
    const auto at = [&](Offset offset) { return reinterpret_cast<char*>(head) + uint64_t{offset} * kUnit; };
    const auto allocate = [&](size_t bytes) { return head->used.fetch_add(static_cast<uint32_t>(bytes / kUnit)); };
    Offset last_stack = 0;
    // Room for modules that a thread has taken, and which come one by one.
    constexpr uint32_t kModules = 2'000;
    Offset module = allocate(kModules * sizeof(Module));
    for (uint32_t i = 0; !stop && head->used * uint64_t{kUnit} < made.capacity() - 4096; ++i) {
      const Offset node = allocate(sizeof(Node)), stack = allocate(sizeof(Stack) + sizeof(TaggedPc)),
                   row = allocate(sizeof(Row));
      for (TaggedPc& frame : reinterpret_cast<Node*>(at(node))->frames) frame = 1;
      auto* filled_row = reinterpret_cast<Row*>(at(row));
      filled_row->sums[kAllocObjects] = 1 << kCountFractionBits;
      auto* filled = reinterpret_cast<Stack*>(at(stack));
      filled->parent = node;
      filled->count = 1;
      filled->frames[0] = i + 1;
      filled->rows = row;
      auto& list = head->stack_lists[i % kStackLists];
      filled->next = list;
      list.store(stack, std::memory_order_release);
      if (last_stack != 0) {  // and a second row for an older stack
        const Offset more = allocate(sizeof(Row));
        auto* older = reinterpret_cast<Stack*>(at(last_stack));
        reinterpret_cast<Row*>(at(more))->next = older->rows;
        older->rows.store(more, std::memory_order_release);
      }
      if (i % 16 == 0) last_stack = stack;
      if (i % 16 == 8 && i / 16 < kModules) {
        auto* come = reinterpret_cast<Module*>(at(module));
        come->start = i;
        come->next = head->modules;
        head->modules.store(module, std::memory_order_release);
        module += sizeof(Module) / kUnit;
      }
#if defined(__aarch64__)
      for (int pause = 0; pause < 150; ++pause) asm volatile("yield");
#else
      for (int pause = 0; pause < 150; ++pause) asm volatile("pause");
#endif
    }
  });
  const absl::StatusOr<TableFile> table = Open(path);
  size_t rows = 0, modules = 0;
  int taken = 0;
  // On a busy machine it may come to run late.
  while (head->used * uint64_t{kUnit} < made.capacity() / 64) std::this_thread::yield();
  for (; taken < 200 && head->used * uint64_t{kUnit} < made.capacity() / 2; ++taken) {
    const absl::StatusOr<TableSnapshot> snapshot = table->TakeSnapshot();
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    if (!snapshot.ok()) break;
    EXPECT_GE(snapshot->rows.size(), rows);
    rows = snapshot->rows.size();
    EXPECT_GE(snapshot->modules.size(), modules);
    modules = snapshot->modules.size();
    for (const ModuleInfo& module : snapshot->modules) EXPECT_NE(module.start, 0u) << "not filled yet";
  }
  stop = true;
  program.join();
  EXPECT_GT(taken, 5);
  EXPECT_GT(rows, 100u);
}

}  // namespace
}  // namespace holdfast
