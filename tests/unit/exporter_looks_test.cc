#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "report/daemon/exporter_lock.h"
#include "report/observe/table/process_info.h"
#include "sampler/contract/exporter_progress.h"
#include "sampler/contract/exporter_service.h"

namespace holdfast {
namespace {

// Until `condition`; false after 30 s.
template <typename Condition>
bool Comes(Condition condition) {
  for (int i = 0; i < 30'000 && !condition(); ++i) usleep(1000);
  return condition();
}

class ExporterProgressTest : public ::testing::Test {
 protected:
  ExporterProgressTest() {
    char folder[] = "/tmp/holdfast-progress-XXXXXX";
    folder_ = mkdtemp(folder);
    char path[kLongestLockPath];
    ExporterLockPath(folder_.c_str(), "/out", {}, geteuid(), path, sizeof path);
    lock_ = path;
  }
  ~ExporterProgressTest() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    unlink(lock_.c_str());
    rmdir(folder_.c_str());
  }
  void Write(const ExporterRecord& record) const {
    std::ofstream(lock_, std::ios::binary).write(reinterpret_cast<const char*>(&record), sizeof record);
  }
  // The holder of the lock does this.
  template <typename Work>
  void StartHolder(Work work) {
    child_ = fork();
    if (child_ == 0) {
      work();
      _exit(0);
    }
    Write({.pid_ns = 1, .pid = static_cast<uint64_t>(child_), .start_ticks = StartTicksOf(child_).value_or(0)});
  }
  void AwaitState(char state) const {
    ASSERT_TRUE(Comes([&] {
      std::ifstream file("/proc/" + std::to_string(child_) + "/stat");
      std::string text;
      std::getline(file, text);
      return text.find(std::string(") ") + state) != std::string::npos;
    }));
  }
  // How many looks it takes; 0: more than `most`.
  int LooksUntilStalled(int most = 1000) {
    for (int i = 1; i <= most; ++i) {
      if (progress_.IsStalled(folder_.c_str(), "/out", {})) return i;
    }
    return 0;
  }

  std::string folder_, lock_;
  pid_t child_ = 0;
  ExporterProgress progress_;
};

TEST_F(ExporterProgressTest, AStoppedExporterIsStalledAtTheThirdLook) {
  StartHolder([] { raise(SIGSTOP); });
  AwaitState('T');
  EXPECT_EQ(LooksUntilStalled(), 3);
  EXPECT_EQ(progress_.pid(), child_);
  EXPECT_EQ(progress_.state(), 'T');
}

// A thread of it may still be ending, and then give up the lock.
TEST_F(ExporterProgressTest, AnExitedExporterIsStalledAfterAWhile) {
  StartHolder([] {});
  AwaitState('Z');
  EXPECT_GT(LooksUntilStalled(), 60);
}

// Frozen with a container, or in a file system that does not answer.
TEST_F(ExporterProgressTest, AnExporterThatSleepsBeyondItsTickIsStalled) {
  StartHolder([] { pause(); });
  AwaitState('S');
  EXPECT_GT(LooksUntilStalled(), 30);
}

TEST_F(ExporterProgressTest, AnExporterThatWantsToRunIsNeverStalled) {
  StartHolder([] {
    for (std::atomic<int> turn{0};; ++turn) {
    }
  });
  EXPECT_EQ(LooksUntilStalled(), 0);
}

TEST_F(ExporterProgressTest, AnExporterWithABusyChildIsNotStalled) {
  StartHolder([] {
    if (fork() == 0) {
      for (const pid_t parent = getppid(); getppid() == parent;) {
      }
      _exit(0);
    }
    pause();
  });
  AwaitState('S');
  ASSERT_TRUE(Comes([&] {
    std::ifstream file("/proc/" + std::to_string(child_) + "/task/" + std::to_string(child_) + "/children");
    return file.peek() != EOF;
  }));
  EXPECT_EQ(LooksUntilStalled(), 0);
}

// Its number is another process's here, or nobody's.
TEST_F(ExporterProgressTest, OneThatIsOutOfSightIsJudgedByItsBeat) {
  ExporterRecord record = {.pid_ns = 1, .pid = static_cast<uint64_t>(getpid()), .start_ticks = 1, .beat = 1};
  Write(record);
  EXPECT_GT(LooksUntilStalled(), 30);
  EXPECT_EQ(progress_.pid(), 0);
  for (int i = 0; i < 200; ++i) {
    ++record.beat;
    Write(record);
    EXPECT_EQ(LooksUntilStalled(1), 0);
  }
}

TEST_F(ExporterProgressTest, OneThatSaysNothingOfItselfIsWaitedFor) {
  EXPECT_EQ(LooksUntilStalled(), 0) << "no file";
  Write({.pid_ns = 1});
  EXPECT_EQ(LooksUntilStalled(), 0) << "no pid and no beat";
}

TEST_F(ExporterProgressTest, TheHolderOfALockWritesWhoItIs) {
  ExporterLock lock(folder_, "/out", FolderId{});
  ASSERT_TRUE(lock.Take());
  ASSERT_NE(lock.beat(), nullptr);
  lock.beat()->store(7);
  ExporterRecord record;
  std::ifstream(lock_, std::ios::binary).read(reinterpret_cast<char*>(&record), sizeof record);
  EXPECT_EQ(record.pid, static_cast<uint64_t>(getpid()));
  EXPECT_EQ(record.start_ticks, StartTicksOf(getpid()).value_or(0));
  EXPECT_EQ(record.beat, 7u);
}

}  // namespace
}  // namespace holdfast
