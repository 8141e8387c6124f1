#include "report/builder/output_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <malloc.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "report/builder/ended_files.h"
#include "tests/unit/pprof_fixture.h"

namespace holdfast {
namespace {

using testing::Folder;
using ::testing::IsEmpty;
using testing::ReadWhole;

class OutputFolderTest : public ::testing::Test {
 protected:
  static absl::Status WriteText(int fd) {
    return write(fd, "text", 4) == 4 ? absl::OkStatus() : absl::ErrnoToStatus(errno, "write");
  }
  std::string Put(const ProfileName& name) {
    const absl::StatusOr<ProfileName> got = output_->Write(name, WriteText);
    EXPECT_TRUE(got.ok()) << got.status();
    return got.ok() ? got->ToString() : "";
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  Folder folder_;
  absl::StatusOr<OutputFolder> output_ = OutputFolder::Open(folder_.path());
};

TEST(ProfileNameTest, IsReadAsItIsWritten) {
  for (const ProfileName& name :
       {ProfileName{"redis-server", 4242, 3, "heap"}, ProfileName{"a.b.c", 1, 12345, "mutex"}}) {
    const auto parsed = ParseProfileName(name.ToString());
    ASSERT_TRUE(parsed.has_value()) << name.ToString();
    EXPECT_EQ(parsed->program, name.program);
    EXPECT_EQ(parsed->pid, name.pid);
    EXPECT_EQ(parsed->seq, name.seq);
    EXPECT_EQ(parsed->kind, name.kind);
  }
  EXPECT_EQ((ProfileName{"redis-server", 4242, 3, "heap"}).ToString(), "redis-server.4242.0003.heap.pb.gz");
}

TEST(ProfileNameTest, OtherFilesAreNotOurs) {
  for (const char* name : {"", ".pb.gz", "notes.txt", "a.1.0001.heap.pb", "a.1.001.heap.pb.gz", "a.x.0001.heap.pb.gz",
                           ".1.0001.heap.pb.gz", ".holdfast.77.a.1.0001.heap.pb.gz.new", "a.1.0001..pb.gz",
                           "a.99999999999.0001.heap.pb.gz", ".hidden.1.0001.heap.pb.gz", "a.-1.0001.heap.pb.gz"}) {
    EXPECT_FALSE(ParseProfileName(name).has_value()) << name;
  }
}

TEST(ProfileNameTest, AProgramsNameBecomesAFileName) {
  EXPECT_EQ(ProgramForFileName("redis-server"), "redis-server");
  EXPECT_EQ(ProgramForFileName("../../etc/passwd"), "%2E.%2F..%2Fetc%2Fpasswd");
  EXPECT_EQ(ProgramForFileName("a b\n\x1b[2J"), "a%20b%0A%1B[2J");
  EXPECT_EQ(ProgramForFileName(".hidden"), "%2Ehidden");
  EXPECT_EQ(ProgramForFileName(""), "program");
}

TEST(ProfileNameTest, AFileNameLeadsBackToTheProgram) {
  for (const std::string program : {"redis-server", "../../etc/passwd", "a b\n\x1b[2J", ".hidden", "100%", "%41", "é"})
    EXPECT_EQ(ProgramOfFileName(ProgramForFileName(program)), program);
  for (const std::string other : {"50%", "%", "%4", "%zz", "%-1", "% 1"}) EXPECT_EQ(ProgramOfFileName(other), other);
}

TEST_F(OutputFolderTest, IsMadeWithItsParents) {
  EXPECT_TRUE(OutputFolder::Open(folder_.File("a/b/c")).ok());
  EXPECT_TRUE(std::filesystem::is_directory(folder_.File("a/b/c")));
}

TEST_F(OutputFolderTest, AFileInItsPlaceIsAnErrorThatNamesIt) {
  const std::string file = folder_.Write("file", "precious");
  const absl::Status status = OutputFolder::Open(file).status();
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(file));
  EXPECT_FALSE(OutputFolder::Open(file + "/below").ok());
  EXPECT_EQ(ReadWhole(file), "precious");
}

TEST_F(OutputFolderTest, WritesAFileThatOnlyItsUserReads) {
  EXPECT_EQ(Put({"a", 1, 1, "heap"}), "a.1.0001.heap.pb.gz");
  EXPECT_EQ(ReadWhole(folder_.File("a.1.0001.heap.pb.gz")), "text");
  struct stat info;
  ASSERT_EQ(stat(folder_.File("a.1.0001.heap.pb.gz").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(Names().size(), 1u);
}

TEST_F(OutputFolderTest, NeverOverwritesNorFollowsALink) {
  folder_.Write("a.1.0001.heap.pb.gz", "theirs");
  const std::string victim = folder_.Write("victim", "precious");
  std::filesystem::create_symlink(victim, folder_.File("a.1.0002.heap.pb.gz"));
  EXPECT_EQ(Put({"a", 1, 1, "heap"}), "a.1.0003.heap.pb.gz");
  EXPECT_EQ(ReadWhole(folder_.File("a.1.0001.heap.pb.gz")), "theirs");
  EXPECT_EQ(ReadWhole(victim), "precious");
}

TEST_F(OutputFolderTest, AFailedWriteLeavesNothing) {
  const auto fail = [](int fd) { return write(fd, "half", 4) == 4 ? absl::DataLossError("no") : absl::OkStatus(); };
  EXPECT_FALSE(output_->Write({"a", 1, 1, "heap"}, fail).ok());
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(OutputFolderTest, StaysInTheFolderThatItOpened) {
  const std::string inside = folder_.File("inside"), moved = folder_.File("moved");
  const absl::StatusOr<OutputFolder> output = OutputFolder::Open(inside);
  std::filesystem::rename(inside, moved);
  std::filesystem::create_directory(inside);
  ASSERT_TRUE(output->Write({"a", 1, 1, "heap"}, WriteText).ok());
  EXPECT_TRUE(std::filesystem::exists(moved + "/a.1.0001.heap.pb.gz"));
  EXPECT_EQ(ReadWhole(output->PathOf({"a", 1, 1, "heap"})), "text");
}

TEST_F(OutputFolderTest, SeqGoesOnAboveTheHighestOfAnyKind) {
  EXPECT_EQ(output_->NextSeq("a", 1), 1u);
  Put({"a", 1, 7, "mutex"});
  Put({"a", 2, 9, "heap"});
  Put({"b", 1, 11, "heap"});
  EXPECT_EQ(output_->NextSeq("a", 1), 8u);
  std::filesystem::create_symlink("nowhere", folder_.File("a.1.0020.heap.pb.gz"));
  EXPECT_EQ(output_->NextSeq("a", 1), 21u);
}

TEST_F(OutputFolderTest, ShrinkRemovesTheOldestOwnFilesAndNothingElse) {
  folder_.Write("other.txt", std::string(100, 'x'));
  folder_.Write("notes.7.0001.heap.pb.gz", std::string(100, 'x'));  // named as ours, and somebody's
  const std::vector<ProfileName> own = {{"a", 2, 1, "heap"}, {"a", 2, 2, "heap"}};
  Put({"old", 1, 1, "heap"});  // another program's
  for (const ProfileName& name : own) Put(name);
  Put({"a", 2, 3, "heap"});
  EXPECT_THAT(output_->Shrink(0, own), IsEmpty());
  // Five profiles of one block each.
  EXPECT_THAT(output_->Shrink(5 * OutputFolder::kDiskBlock, own), IsEmpty());
  EXPECT_EQ(output_->Shrink(5 * OutputFolder::kDiskBlock - 1, own).size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder_.File("a.2.0001.heap.pb.gz")));
  EXPECT_EQ(output_->Shrink(1, own).size(), 1u);
  EXPECT_THAT(Names(), ::testing::UnorderedElementsAre("a.2.0003.heap.pb.gz", "notes.7.0001.heap.pb.gz",
                                                       "old.1.0001.heap.pb.gz", "other.txt"));
}

TEST_F(OutputFolderTest, IsMadeForItsUserAloneWhateverTheUmask) {
  const mode_t before = umask(0);
  EXPECT_TRUE(OutputFolder::Open(folder_.File("open/to/nobody")).ok());
  umask(before);
  for (const char* path : {"open", "open/to", "open/to/nobody"}) {
    struct stat info;
    ASSERT_EQ(stat(folder_.File(path).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700u) << path;
  }
}

// Of processes that have ended the oldest files go, of one user those that its own processes wrote.
TEST_F(OutputFolderTest, ShrinkKeepsTheLimitOverManyProcesses) {
  EndedFiles ended;
  for (uint32_t pid = 1; pid <= 5; ++pid) {
    const ProfileName name = {"a", pid, 1, "heap"};
    Put(name);
    ended.Add(pid == 1 ? 33 : 0, name);
  }
  Put({"a", 6, 1, "heap"});          // runs
  Put({"somebodys", 7, 1, "heap"});  // another exporter's, or nobody's
  const uint64_t each = output_->bytes() / 7;
  EXPECT_EQ(ended.Shrink(*output_, 0, 0), 0u);
  EXPECT_EQ(ended.Shrink(*output_, 7 * each, 0), 0u);
  EXPECT_EQ(ended.Shrink(*output_, 5 * each, 0), 2u);
  EXPECT_THAT(Names(),
              ::testing::UnorderedElementsAre("a.1.0001.heap.pb.gz", "a.4.0001.heap.pb.gz", "a.5.0001.heap.pb.gz",
                                              "a.6.0001.heap.pb.gz", "somebodys.7.0001.heap.pb.gz"));
  EXPECT_EQ(ended.Shrink(*output_, 1, 0), 2u);
  EXPECT_EQ(ended.Shrink(*output_, 1, 0), 0u);
  EXPECT_TRUE(std::filesystem::exists(folder_.File("a.1.0001.heap.pb.gz")));
  EXPECT_EQ(ended.Shrink(*output_, 1, 33), 1u);
  EXPECT_EQ(output_->List().size(), 2u);
}

// A server that forks for each request, with `--max-disk` and with somebody who removes its files.
TEST_F(OutputFolderTest, MemoryGrowsOnlyWithTheFilesThatExist) {
  constexpr uint32_t kFiles = 20'000;
  const auto in_use = [] { return static_cast<int64_t>(mallinfo2().uordblks); };
  output_->ForgetListing();
  const int64_t before = in_use();
  for (uint32_t pid = 1; pid <= kFiles; ++pid) folder_.Write(ProfileName{"server", pid, 1, "heap"}.ToString(), "");
  EXPECT_EQ(output_->NextSeq("server", kFiles), 2u);
  EXPECT_LE(in_use() - before, int64_t{kFiles} * 55);

  EndedFiles ended;
  for (uint32_t pid = kFiles + 1; pid <= 4 * kFiles; ++pid) {
    ended.Add(0, {"server", pid, 1, "heap"});  // removed meanwhile
    ended.Shrink(*output_, 1 << 30, 0);
  }
  EXPECT_LE(in_use() - before, int64_t{kFiles} * 55 + 1024 * 100);
}

// The kernel tells who reads the list of a folder.
TEST_F(OutputFolderTest, IsListedOnceHoweverManyFilesCome) {
  Put({"a", 1, 1, "heap"});
  EXPECT_EQ(output_->NextSeq("a", 1), 2u);
  const int readings = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  ASSERT_GE(inotify_add_watch(readings, folder_.path().c_str(), IN_ACCESS | IN_ONLYDIR), 0);
  for (uint32_t pid = 2; pid < 50; ++pid) {
    EXPECT_EQ(output_->NextSeq("a", pid), 1u);
    Put({"a", pid, 1, "heap"});
    output_->ListOf("a", pid);
    output_->Shrink(1 << 30, {{"a", pid, 1, "heap"}});
  }
  char event[4096];
  EXPECT_EQ(read(readings, event, sizeof event), -1) << "listed again";
  EXPECT_EQ(output_->List().size(), 49u);
  // Proof that a listing would have been seen.
  EXPECT_TRUE(OutputFolder::Open(folder_.path())->List().size() == 49u);
  EXPECT_GT(read(readings, event, sizeof event), 0);
  close(readings);
}

TEST_F(OutputFolderTest, KnowsWhatOthersDoInTheFolder) {
  Put({"a", 1, 1, "heap"});
  EXPECT_EQ(output_->NextSeq("a", 1), 2u);
  folder_.Write("a.1.0005.heap.pb.gz", "theirs");
  EXPECT_EQ(output_->NextSeq("a", 1), 6u);
  std::filesystem::rename(folder_.File("a.1.0005.heap.pb.gz"), folder_.File("b.1.0009.heap.pb.gz"));
  EXPECT_EQ(output_->NextSeq("a", 1), 2u);
  EXPECT_EQ(output_->NextSeq("b", 1), 10u);
  std::filesystem::remove(folder_.File("a.1.0001.heap.pb.gz"));
  EXPECT_EQ(output_->List().size(), 1u);
}

TEST_F(OutputFolderTest, LeftoversOfKilledWritersAreRemovedAfterAnHour) {
  const std::string old = folder_.Write(".holdfast.1.a.1.0001.heap.pb.gz.new", "half");
  const std::string young = folder_.Write(".holdfast.2.a.1.0001.heap.pb.gz.new", "half");
  const std::string other = folder_.Write(".other.new", "theirs");
  const timespec times[2] = {{1000000, 0}, {1000000, 0}};
  utimensat(AT_FDCWD, old.c_str(), times, 0);
  utimensat(AT_FDCWD, other.c_str(), times, 0);
  output_->RemoveStaleTemporaries();
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(young));
  EXPECT_TRUE(std::filesystem::exists(other));
}

}  // namespace
}  // namespace holdfast
