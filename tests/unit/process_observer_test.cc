#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include "report/base/time_budget.h"
#include "report/observe/observe.h"
#include "tests/unit/fake_target.h"

namespace holdfast {
namespace {

using testing::MadeTable;
using testing::MappedTable;
using testing::TablesFolder;

constexpr int64_t kSecond = 1'000'000'000;

// This process as a profiled program, with a table that says which of its threads took samples.
class ProcessObserverTest : public ::testing::Test {
 protected:
  struct Noted {
    uint32_t id;
    int64_t when_ns;
  };
  ProcessState Observe(const std::vector<Noted>& threads) {
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
    return *observer_.Observe(*table, {.threads = ThreadsWanted::kYes});
  }
  TablesFolder folder_;
  ProcessObserver observer_;
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

TEST_F(ProcessObserverTest, AThreadThatSampledIsCalledByItsName) {
  NamedThread thread("io-worker");
  const ProcessState state = Observe({{thread.id(), NowNs()}, {static_cast<uint32_t>(getpid()), NowNs()}});
  ASSERT_EQ(state.thread_names.size(), 2u);
  EXPECT_EQ(state.thread_names[0], "io-worker");
  EXPECT_EQ(state.thread_names[1], "");  // main's is the program's
  EXPECT_GT(state.resident_bytes, 100u << 10);
}

TEST_F(ProcessObserverTest, AnIdThatAnotherThreadGotSinceHasNoName) {
  NamedThread thread("newcomer");
  EXPECT_EQ(Observe({{thread.id(), NowNs() - 5 * kSecond}}).thread_names[0], "");
}

TEST_F(ProcessObserverTest, TheNameOfAThreadIsKnownAfterItsEnd) {
  NamedThread thread("brief");
  const int64_t sampled_ns = NowNs();
  EXPECT_EQ(Observe({{thread.id(), sampled_ns}}).thread_names[0], "brief");
  thread.End();
  EXPECT_EQ(Observe({{thread.id(), sampled_ns}}).thread_names[0], "brief");
  EXPECT_EQ(Observe({{thread.id(), sampled_ns}}).thread_names[0], "brief");
  // A sample of that id from when the thread had ended is another thread's.
  EXPECT_EQ(Observe({{thread.id(), NowNs()}}).thread_names[0], "");
}

}  // namespace
}  // namespace holdfast
