// `holdfast collect` as a command line.
#include <gmock/gmock.h>

#include "report/cmd/commands.h"
#include "report/daemon/exporter_lock.h"
#include "tests/unit/fake_target.h"
#include "tests/unit/pprof_fixture.h"

namespace holdfast {
namespace {

using testing::FakeTarget;
using testing::Folder;
using ::testing::HasSubstr;
using testing::MadeTable;
using testing::TablesFolder;

class Collect : public ::testing::Test {
 protected:
  struct Result {
    int exit_code = -1;
    std::string out, err;
  };

  // Runs `holdfast collect` with its tables here.
  Result Run(const std::string& arguments) {
    Result result;
    CLI::App app{"", "holdfast"};
    Invocation invocation{.exit_code = -1};
    AddCollectCommand(app, &invocation);
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    app.parse("collect --tables " + tables_.path() + " " + arguments);
    result.exit_code = invocation.exit_code;
    fflush(stdout);
    result.out = ::testing::internal::GetCapturedStdout();
    result.err = ::testing::internal::GetCapturedStderr();
    return result;
  }
  std::string File(pid_t pid, int seq) const {
    char name[64];
    snprintf(name, sizeof name, "/made.%d.%04d.heap.pb.gz", pid, seq);
    return out_ + name;
  }

  Folder folder_;
  TablesFolder tables_;
  const std::string out_ = folder_.File("out");
};

TEST_F(Collect, WritesTheProfilesOfDeadProcessesAndRemovesTheirTables) {
  FakeTarget target(tables_.path(), out_), other(tables_.path(), folder_.File("elsewhere"));
  const pid_t pid = target.pid();
  target.Kill();
  other.Kill();
  const Result result = Run(out_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, File(pid, 1) + "\n");
  EXPECT_THAT(result.err, HasSubstr("1 profile from 1 process"));
  EXPECT_TRUE(ReadPprofFile(File(pid, 1)).ok());
  EXPECT_FALSE(std::filesystem::exists(target.path()));
  EXPECT_TRUE(std::filesystem::exists(other.path()));
}

TEST_F(Collect, LeavesRunningProcessesAlone) {
  const FakeTarget target(tables_.path(), out_);
  const Result result = Run(out_);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("1 still running"));
  EXPECT_FALSE(std::filesystem::exists(out_));
  EXPECT_TRUE(std::filesystem::exists(target.path()));
}

TEST_F(Collect, LiveTakesASnapshotOfRunningProcessesToo) {
  const FakeTarget target(tables_.path(), out_);
  EXPECT_EQ(Run("--live " + out_).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(File(target.pid(), 1)));
  EXPECT_TRUE(std::filesystem::exists(target.path()));
}

TEST_F(Collect, LeavesToAnExporterWhatItServes) {
  FakeTarget target(tables_.path(), out_);
  target.Kill();
  ExporterLock lock(tables_.path(), out_);
  ASSERT_TRUE(lock.Take());
  const Result result = Run(out_);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("left 1 table to the running exporter"));
  EXPECT_TRUE(std::filesystem::exists(target.path()));
}

TEST_F(Collect, AFolderThatDoesNotExistIsAnErrorUnlessATableNamesIt) {
  const Result result = Run("/nonexistent");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.err,
            "holdfast: /nonexistent: no such folder, and no table names it. holdfast ls shows the folders.\n");
  folder_.Write("file", "");
  EXPECT_EQ(Run(folder_.File("file")).exit_code, 3);
}

TEST_F(Collect, TakesAFolderOfTablesToo) {
  FakeTarget target(tables_.path(), out_);
  const pid_t pid = target.pid();
  target.Kill();
  tables_.Write("holdfast." + std::to_string(geteuid()) + ".1.1.00000000000000ab.table", "garbage");
  const Result result = Run(tables_.path());
  EXPECT_EQ(result.exit_code, 3);  // for the garbage, which is named
  EXPECT_THAT(result.err, HasSubstr("00000000000000ab.table"));
  EXPECT_TRUE(std::filesystem::exists(File(pid, 1)));
}

TEST_F(Collect, ATableThatCannotBeReadIsNamedAndStays) {
  FakeTarget target(tables_.path(), out_, [](MadeTable& table) { table.head().modules = 0xffffff; });
  target.Kill();
  const Result result = Run(out_);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("bad module at byte"));
  EXPECT_THAT(result.err, HasSubstr("left in place"));
  EXPECT_TRUE(std::filesystem::exists(target.path()));
}

TEST_F(Collect, WritesElsewhereWhenAsked) {
  folder_.Write("out", "precious");
  FakeTarget target(tables_.path(), out_);
  const pid_t pid = target.pid();
  target.Kill();
  const Result failed = Run(out_);
  EXPECT_EQ(failed.exit_code, 3);
  EXPECT_THAT(failed.err, HasSubstr("-o writes elsewhere, --discard deletes it"));
  const std::string other = folder_.File("other");
  const Result result = Run("-o " + other + " " + out_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(other + "/made." + std::to_string(pid)));
  EXPECT_FALSE(std::filesystem::exists(target.path()));
}

TEST_F(Collect, DeletesTablesOfExitedProcesses) {
  FakeTarget target(tables_.path(), out_), live(tables_.path(), out_);
  target.Kill();
  const Result result = Run("--discard " + out_);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("deleted 1 table of exited processes; 1 still running"));
  EXPECT_FALSE(std::filesystem::exists(target.path()));
  EXPECT_TRUE(std::filesystem::exists(live.path()));
  EXPECT_FALSE(std::filesystem::exists(out_));
}

// Two containers may share /dev/shm and each have a folder of that path.
TEST_F(Collect, TakesNoTableOfAnotherFolderOfThatPath) {
  std::filesystem::create_directory(out_);
  FakeTarget target(tables_.path(), out_, [](MadeTable& table) {
    FakeTarget::AddOneRow(table);
    table.head().out_id = {1, 2};
    table.head().pid_ns = 12345;
  });
  target.Kill();
  const Result result = Run(out_);
  EXPECT_THAT(result.err, HasSubstr("0 profiles from 0 processes"));
  EXPECT_TRUE(std::filesystem::exists(target.path()));
}

TEST_F(Collect, AnOutputFolderThatCannotBeMadeKeepsTheTable) {
  folder_.Write("out", "precious");
  FakeTarget target(tables_.path(), out_);
  target.Kill();
  const Result result = Run(out_);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr(out_));
  EXPECT_TRUE(std::filesystem::exists(target.path()));
}

TEST_F(Collect, ATablesFolderThatIsNotThereIsNamed) {
  const Result result = Run("--tables /nonexistent " + out_);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("/nonexistent"));
}

}  // namespace
}  // namespace holdfast
