#include "report/builder/running_program.h"

#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include "report/base/time_budget.h"
#include "tests/unit/fake_target.h"

namespace holdfast {
namespace {

using testing::MadeTable;
using testing::MappedTable;
using testing::TablesFolder;

constexpr int64_t kSecond = 1'000'000'000;

// This process as a profiled program, with a table that says which of its threads took samples.
class RunningProgramTest : public ::testing::Test {
 protected:
  struct Noted {
    uint32_t id;
    int64_t when_ns;
  };
  Snapshot Look(const std::vector<Noted>& threads) {
    MadeTable made;
    TableHeader& head = made.head();
    head.pid = static_cast<uint32_t>(getpid());
    head.uid = geteuid();
    head.start_ticks = testing::StartTicksOf(getpid());
    struct stat info {};
    if (stat("/proc/self/ns/pid", &info) == 0) head.pid_ns = info.st_ino;
    const Offset row = made.AddHeapRow(made.AddStack({0x1001, 0x2001}), 100, 5, 2);
    for (size_t i = 0; i < threads.size(); ++i) {
      head.noted_threads[i].who = uint64_t{row} << kNotedRowShift | threads[i].id;
      head.noted_threads[i].when_ns = threads[i].when_ns;
    }
    const std::string name = "holdfast." + std::to_string(geteuid()) + "." + std::to_string(getpid()) + "." +
                             std::to_string(head.start_ticks) + ".0000000000000001.table";
    made.WriteTo(folder_.File(name));
    const MappedTable mapped(folder_.File(name));
    const absl::StatusOr<TableFile> table = TableFile::Open(*OpenFolder(folder_.path()), name);
    absl::StatusOr<Snapshot> snapshot = table->TakeSnapshot();
    program_.Look(*table, &*snapshot);
    return *std::move(snapshot);
  }
  TablesFolder folder_;
  RunningProgram program_;
};

// A thread with a name, until it is let go.
class NamedThread {
 public:
  explicit NamedThread(const char* name)
      : thread_([this, name] {
          pthread_setname_np(pthread_self(), name);
          id_ = static_cast<uint32_t>(syscall(SYS_gettid));
          while (!end_) std::this_thread::yield();
        }) {
    while (id_ == 0) std::this_thread::yield();
  }
  ~NamedThread() { End(); }
  void End() {
    end_ = true;
    if (thread_.joinable()) thread_.join();
    // Joined, it may be in /proc for a moment yet.
    while (std::filesystem::exists("/proc/self/task/" + std::to_string(id_))) std::this_thread::yield();
  }
  uint32_t id() const { return id_; }

 private:
  std::atomic<uint32_t> id_{0};
  std::atomic<bool> end_{false};
  std::thread thread_;
};

TEST_F(RunningProgramTest, AThreadThatSampledIsCalledByItsName) {
  NamedThread thread("io-worker");
  const Snapshot snapshot = Look({{thread.id(), NowNs()}, {static_cast<uint32_t>(getpid()), NowNs()}});
  ASSERT_EQ(snapshot.noted_threads.size(), 2u);
  EXPECT_EQ(snapshot.noted_threads[0].name, "io-worker");
  EXPECT_EQ(snapshot.noted_threads[1].name, "");  // main's is the program's
  EXPECT_GT(snapshot.resident_bytes, 100u << 10);
}

TEST_F(RunningProgramTest, AnIdThatAnotherThreadGotSinceHasNoName) {
  NamedThread thread("newcomer");
  EXPECT_EQ(Look({{thread.id(), NowNs() - 5 * kSecond}}).noted_threads[0].name, "");
}

TEST_F(RunningProgramTest, TheNameOfAThreadIsKnownAfterItsEnd) {
  NamedThread thread("brief");
  const int64_t sampled_ns = NowNs();
  EXPECT_EQ(Look({{thread.id(), sampled_ns}}).noted_threads[0].name, "brief");
  thread.End();
  EXPECT_EQ(Look({{thread.id(), sampled_ns}}).noted_threads[0].name, "brief");
  EXPECT_EQ(Look({{thread.id(), sampled_ns}}).noted_threads[0].name, "brief");
  // A sample of that id from when the thread had ended is another thread's.
  EXPECT_EQ(Look({{thread.id(), NowNs()}}).noted_threads[0].name, "");
}

}  // namespace
}  // namespace holdfast
