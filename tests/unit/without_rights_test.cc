#include "report/builder/without_rights.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>

namespace holdfast {
namespace {

constexpr uid_t kNobody = 65534;

class WithoutRights : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to give up its rights";
    shared_ = static_cast<int*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    file_ = memfd_create("test", MFD_CLOEXEC);
  }
  int* shared_ = nullptr;
  int file_ = -1;
};

TEST_F(WithoutRights, TheChildIsThatUserAndHasNothingElse) {
  const int folder = open("/", O_RDONLY | O_DIRECTORY);
  const absl::Status status = RunWithoutRights(kNobody, kNobody, {file_}, 1 << 20, [&] {
    uid_t real, effective, saved;
    getresuid(&real, &effective, &saved);
    shared_[0] = real == kNobody && effective == kNobody && saved == kNobody && getegid() == kNobody &&
                 getgroups(0, nullptr) == 0;
    shared_[1] = setuid(0) != 0 && seteuid(0) != 0;
    shared_[2] = fcntl(folder, F_GETFD) == -1 && fcntl(0, F_GETFD) == -1;
    shared_[3] = fcntl(file_, F_GETFD) != -1;
    shared_[4] = prctl(PR_GET_DUMPABLE) == 0;  // else that user's other processes could trace it
    shared_[5] = open("/etc/shadow", O_RDONLY) == -1;
    return true;
  });
  EXPECT_TRUE(status.ok()) << status;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(shared_[i], 1) << i;
  close(folder);
}

TEST_F(WithoutRights, ItWritesOnlySoMuch) {
  const absl::Status status = RunWithoutRights(kNobody, kNobody, {file_}, 4096, [&] {
    signal(SIGXFSZ, SIG_IGN);
    char page[4096] = {};
    shared_[0] = write(file_, page, sizeof page) == sizeof page;
    shared_[1] = write(file_, page, sizeof page) == -1 && errno == EFBIG;
    return true;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(shared_[0] + shared_[1], 2);
}

TEST_F(WithoutRights, AFailureAndACrashAreReported) {
  EXPECT_FALSE(RunWithoutRights(kNobody, kNobody, {}, 0, [] { return false; }).ok());
  EXPECT_FALSE(RunWithoutRights(kNobody, kNobody, {}, 0, [] { return raise(SIGKILL) == 0; }).ok());
}

TEST(InChild, AKillIsDistinguishedFromAFailure) {
  EXPECT_TRUE(RunInChild([] { return true; }).ok());
  EXPECT_EQ(RunInChild([] { return false; }).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::IsAborted(RunInChild([] { return raise(SIGKILL) == 0; })));
}

// That user may stop it: nobody waits for ever.
TEST_F(WithoutRights, OneThatIsStoppedIsKilledAfterAWhile) {
  const absl::Status status = RunWithoutRights(
      kNobody, kNobody, {}, 0, [] { return raise(SIGSTOP) == 0; }, 50);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

}  // namespace
}  // namespace holdfast
