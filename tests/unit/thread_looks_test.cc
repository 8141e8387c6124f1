// Looks at the threads of a process that is made of files. Its truth is known to the nanosecond, and 60 s take no time.
#include "report/observe/outside/thread_looks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/base/thread_name.h"
#include "report/base/time_budget.h"
#include "report/builder/written_threads.h"
#include "report/observe/outside/thread_lives.h"
#include "report/observe/table/thread_status.h"
#include "report/profile/typed_records.h"
#include "sampler/contract/attach_call.h"
#include "tests/unit/fake_target.h"

namespace holdfast {
namespace {

using testing::MadeTable;
using testing::MappedTable;
using testing::TablesFolder;

constexpr pid_t kPid = 5'000'000;  // no process has so high a number
constexpr uint64_t kLock = 0x7f0000001000;

const std::string kRuns = "running\n";
std::string InCall(int64_t number) { return fmt::format("{} 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffc0000 0x401000\n", number); }

class ThreadLooksTest : public ::testing::Test {
 protected:
  ThreadLooksTest() {
    std::filesystem::create_directory(tasks());
    MadeTable made;
    while (made.size() % alignof(OngoingWait) != 0) made.Allocate(kUnit);
    made.head().ongoing_segments[0] = made.Allocate(kOngoingSlots0 * sizeof(OngoingWait));
    made.head().pid = static_cast<uint32_t>(getpid());
    made.head().uid = geteuid();
    made.head().start_ticks = testing::StartTicksOf(getpid());
    struct stat info;
    if (stat("/proc/self/ns/pid", &info) == 0) made.head().pid_ns = info.st_ino;
    const std::string name =
        fmt::format("holdfast.{}.{}.{}.0000000000000001.table", geteuid(), getpid(), made.head().start_ticks);
    made.WriteTo(folder_.File(name));
    mapped_.emplace(folder_.File(name));
    absl::StatusOr<TableFile> table = TableFile::Open(*OpenFolder(folder_.path()), name);
    table_.emplace(*std::move(table));
    Begin(kPid, "main");
    Set(kPid, 0, 0, 1, InCall(SYS_futex));
  }

  std::string tasks() const { return folder_.File("task"); }
  std::string FileOf(pid_t id, const char* name) const { return fmt::format("{}/{}/{}", tasks(), id, name); }
  static void Write(const std::string& path, const std::string& text) {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) abort();
    close(fd);
  }
  void SetStat(pid_t id, char letter) {
    Write(FileOf(id, "stat"),
          fmt::format("{} (a b) c) {} 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0\n", id, letter, began_ticks_[id]));
  }

  // These write what the kernel would show of a thread.
  void Begin(pid_t id, const std::string& name) {
    timespec since_boot, monotonic;
    clock_gettime(CLOCK_BOOTTIME, &since_boot);
    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    const int64_t asleep_ns = (since_boot.tv_sec - monotonic.tv_sec) * kSecond + since_boot.tv_nsec - monotonic.tv_nsec;
    began_ticks_[id] = (now_ns_ + asleep_ns) / (kSecond / sysconf(_SC_CLK_TCK));
    std::filesystem::create_directory(fmt::format("{}/{}", tasks(), id));
    Write(FileOf(id, "comm"), name + "\n");
    SetStat(id, 'S');
    Write(FileOf(id, "schedstat"), "0 0 0\n");
    Write(FileOf(id, "syscall"), kRuns);
  }
  void Set(pid_t id, int64_t cpu_ns, int64_t waited_ns, int64_t turns, const std::string& call) {
    cpu_of_[id] = cpu_ns;
    Write(FileOf(id, "schedstat"), fmt::format("{} {} {}\n", cpu_ns, waited_ns, turns));
    Write(FileOf(id, "syscall"), call);
  }
  // The open files of a thread that has ended have nothing.
  void End(pid_t id) {
    ended_cpu_ns_ += std::exchange(cpu_of_[id], 0);
    for (const char* name : {"schedstat", "syscall", "stat", "comm"}) Write(FileOf(id, name), "");
    std::filesystem::remove_all(fmt::format("{}/{}", tasks(), id));
  }
  // Notes a wait in the table, as the library would.
  void Waits(uint32_t slot, uint32_t thread, WaitKind kind, uint64_t lock) {
    auto* slots = reinterpret_cast<OngoingWait*>(reinterpret_cast<char*>(mapped_->header()) +
                                                 uint64_t{mapped_->header()->ongoing_segments[0]} * kUnit);
    slots[slot].lock = lock;
    slots[slot].kind = static_cast<uint8_t>(kind);
    slots[slot].start_ns = now_ns_;
    slots[slot].owner = uint64_t{thread} << kOngoingThreadShift | (thread != 0 ? kWaiting : kNobodys);
  }

  LookedAtProcess Process() {
    LookedAtProcess process;
    process.pid = kPid;
    process.tasks = FileDescriptor(open(tasks().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    process.memory.emplace([this](uint64_t address, void* to, size_t bytes) {
      ++memory_reads_;
      if (at_memory_read_) at_memory_read_();
      if (address != kLock || owners_.empty()) return false;
      pthread_mutex_t mutex = {};
      mutex.__data.__owner = owners_[memory_reads_ % owners_.size()];
      mutex.__data.__lock = mutex.__data.__owner != 0 ? 2 : 0;
      memset(to, 0, bytes);
      memcpy(to, &mutex, std::min(bytes, sizeof mutex));
      return true;
    });
    process.now_ns = [this] { return now_ns_; };
    process.cpu_ns = [this]() -> std::optional<int64_t> {
      int64_t sum = ended_cpu_ns_;
      for (const auto& [id, cpu_ns] : cpu_of_) sum += cpu_ns;
      return sum;
    };
    return process;
  }
  void MakeLooks(std::optional<uid_t> of_user = {}) {
    LookedAtProcess process = Process();
    process.of_user = of_user;
    if (of_user.has_value()) process.memory.reset();
    looks_.emplace(std::move(process));
  }
  // Goes on to the next look. `before`: sets the files to that time.
  template <typename Before>
  void LookAt(const Before& before) {
    now_ns_ = std::max(now_ns_ + kMs, looks_->next_ns() != INT64_MAX ? looks_->next_ns() : 0);
    before();
    looks_->Look(*table_);
  }
  void Look() {
    LookAt([] {});
  }
  const ThreadTimes& Times() {
    looks_->ClosePeriod(*table_);
    const TableSnapshot snapshot{};
    WaitGraph state(snapshot);
    times_ = looks_->Times({}, &state);
    return *times_;
  }
  // The sum of the threads with such a name.
  static ThreadTime SumOf(const ThreadTimes& times, const std::string& name) {
    ThreadTime sum{.threads = 0};
    for (const ThreadTime& one : times.threads) {
      if (times.names[one.name].starts_with(name)) sum.Add(one);
    }
    return sum;
  }
  static double Of(const ThreadTime& one, ThreadDoes does) { return one.ns[static_cast<int>(does)]; }
  static double AllOf(const ThreadTime& one) {
    double sum = 0;
    for (const double ns : one.ns) sum += ns;
    return sum;
  }
  static double RowsOf(const ThreadTimes& times, const std::string& name) {
    double sum = 0;
    for (const ThreadTimeRow& row : times.rows) sum += times.names[row.name].starts_with(name) ? row.ns : 0;
    return sum;
  }

  TablesFolder folder_;
  std::optional<MappedTable> mapped_;
  std::optional<TableFile> table_;
  int64_t now_ns_ = 1000 * kSecond;
  std::map<pid_t, int64_t> began_ticks_, cpu_of_;
  int64_t ended_cpu_ns_ = 0;
  size_t memory_reads_ = 0;
  std::function<void()> at_memory_read_;  // time may pass during a look
  std::vector<int> owners_;               // that one read of the lock after the other finds
  std::optional<ThreadLooks> looks_;
  std::shared_ptr<const ThreadTimes> times_;
};

// A thread that computes for 30 % of its time, wants a CPU for 5, reads for 20, waits for a lock for 35 and sleeps for 10.
class KnownThread {
 public:
  enum Part { kCompute, kWant, kRead, kWaitForLock, kSleep };
  static constexpr std::array<double, 5> kShares = {0.30, 0.05, 0.20, 0.35, 0.10};

  KnownThread(pid_t id, uint32_t seed, int64_t now_ns) : id_(id), random_(seed), until_ns_(now_ns) {}

  void GoTo(int64_t now_ns) {
    for (; at_ns_ < now_ns; at_ns_ = std::min(until_ns_, now_ns)) {
      if (at_ns_ == 0) at_ns_ = until_ns_;
      if (at_ns_ == until_ns_) {
        part_ = static_cast<Part>((part_ + 1) % 5);
        turns_ += part_ != kWant;  // between two calls the thread runs, if only for a moment
        // Half to one and a half of the mean, as known_wall has it.
        until_ns_ += static_cast<int64_t>(120e6 * kShares[part_] * std::uniform_real_distribution<>(0.5, 1.5)(random_));
      }
      ns_[part_] += std::min(until_ns_, now_ns) - at_ns_;
    }
  }
  pid_t id() const { return id_; }
  Part part() const { return part_; }
  int64_t ns(Part part) const { return ns_[part]; }
  int64_t turns() const { return turns_; }

 private:
  const pid_t id_;
  std::minstd_rand random_;
  Part part_ = kSleep;
  std::array<int64_t, 5> ns_ = {};
  int64_t until_ns_, at_ns_ = 0, turns_ = 1;
};

TEST_F(ThreadLooksTest, PartsOfKnownThreadsAreWithinTheErrorOfTheLooks) {
  constexpr int kThreads = 10;
  MakeLooks();
  Look();
  const int64_t start_ns = now_ns_;
  std::vector<KnownThread> threads;
  for (int i = 0; i < kThreads; ++i) {
    Begin(kPid + 1 + i, fmt::format("worker-{}", i + 1));
    threads.emplace_back(kPid + 1 + i, 1 + i, now_ns_);
  }
  owners_ = {kPid};
  const auto go = [&] {
    for (size_t i = 0; i < threads.size(); ++i) {
      KnownThread& one = threads[i];
      one.GoTo(now_ns_);
      const std::array<std::string, 5> texts = {kRuns, kRuns, InCall(SYS_read), InCall(SYS_futex),
                                                InCall(SYS_clock_nanosleep)};
      Set(one.id(), one.ns(KnownThread::kCompute), one.ns(KnownThread::kWant), one.turns(), texts[one.part()]);
      SetStat(one.id(), one.part() <= KnownThread::kWant ? 'R' : 'S');
      const bool waits = one.part() == KnownThread::kWaitForLock;
      Waits(static_cast<uint32_t>(i), waits ? static_cast<uint32_t>(one.id()) : 0, WaitKind::kMutex, kLock);
    }
  };
  while (now_ns_ < start_ns + 60 * kSecond) LookAt(go);
  const ThreadTimes& times = Times();
  const ThreadTime sum = SumOf(times, "worker-");
  EXPECT_EQ(sum.threads, kThreads);
  // The start of a thread is known to a hundredth of a second.
  const auto lived = static_cast<double>(kThreads * (now_ns_ - start_ns));
  EXPECT_NEAR(sum.lived_ns, lived, kThreads * 10e6);
  EXPECT_NEAR(AllOf(sum), sum.lived_ns, 1e3);
  EXPECT_NEAR(RowsOf(times, "worker-"), sum.lived_ns, 1e3);
  std::array<double, 5> truth = {};
  for (const KnownThread& one : threads) {
    for (int i = 0; i < 5; ++i) truth[i] += static_cast<double>(one.ns(static_cast<KnownThread::Part>(i)));
  }
  EXPECT_NEAR(Of(sum, ThreadDoes::kCpu), truth[KnownThread::kCompute], 1e3);
  EXPECT_NEAR(Of(sum, ThreadDoes::kRunnable), truth[KnownThread::kWant], 1e3);
  const double looks = 20.0 * 60 * kThreads;
  const std::pair<ThreadDoes, KnownThread::Part> parts[] = {{ThreadDoes::kIo, KnownThread::kRead},
                                                            {ThreadDoes::kLock, KnownThread::kWaitForLock},
                                                            {ThreadDoes::kSleep, KnownThread::kSleep}};
  for (const auto& [does, part] : parts) {
    const double share = truth[part] / lived;
    // Four standard errors of the looks; the seeds are fixed.
    EXPECT_NEAR(Of(sum, does) / lived, share, 4 * std::sqrt(share * (1 - share) / looks))
        << kThreadDoesNames[int(does)];
  }
  // The holder of the lock is the first thread, in a call all the time.
  for (const ThreadTimeRow& row : times.rows) {
    if (row.does != ThreadDoes::kLock) continue;
    EXPECT_EQ(row.lock, kLock);
    EXPECT_EQ(row.holder_does, ThreadDoes::kCall);
    EXPECT_EQ(row.holder_call, SYS_futex);
  }
}

// Threads that wait for a page may be frozen. To ask opens files.
TEST_F(ThreadLooksTest, AsksOnceInALookWhetherTheProgramIsFrozen) {
  int asked = 0;
  LookedAtProcess process = Process();
  process.is_frozen = [&] { return ++asked, false; };
  looks_.emplace(std::move(process));
  for (pid_t id = kPid + 1; id <= kPid + 5; ++id) {
    Begin(id, "swaps");
    SetStat(id, 'D');
  }
  const int64_t start_ns = now_ns_;
  int64_t turns = 1;
  int looks = 0;
  const auto go = [&] {
    ++looks, ++turns;
    for (pid_t id = kPid + 1; id <= kPid + 5; ++id) Set(id, turns, 0, turns, "-1 0x7ffc0000 0x401000\n");
  };
  while (now_ns_ < start_ns + 10 * kSecond) LookAt(go);
  EXPECT_GE(looks, 100);
  EXPECT_LE(asked, looks + 1);
  EXPECT_GT(Of(SumOf(Times(), "swaps"), ThreadDoes::kIo), 0);
}

TEST_F(ThreadLooksTest, AWaitForACustomLockMaySleep) {
  MakeLooks();
  Begin(kPid + 1, "backs off");
  Begin(kPid + 2, "sleeps");
  Begin(kPid + 3, "locks");
  Waits(0, kPid + 1, WaitKind::kCustom, kLock);
  Waits(1, kPid + 3, WaitKind::kMutex, kLock + 64);  // sleeps in a signal handler
  int64_t turns = 1;
  for (int i = 0; i < 100; ++i) {
    LookAt([&] {
      ++turns;
      for (pid_t id = kPid + 1; id <= kPid + 3; ++id) Set(id, turns, 0, turns, InCall(SYS_clock_nanosleep));
    });
  }
  const ThreadTimes& times = Times();
  const ThreadTime backs_off = SumOf(times, "backs off");
  EXPECT_NEAR(Of(backs_off, ThreadDoes::kLock), backs_off.lived_ns, 1e3);
  EXPECT_EQ(Of(SumOf(times, "sleeps"), ThreadDoes::kLock), 0);
  EXPECT_EQ(Of(SumOf(times, "locks"), ThreadDoes::kLock), 0);
  for (const ThreadTimeRow& row : times.rows) {
    if (row.does != ThreadDoes::kLock) continue;
    EXPECT_EQ(row.lock, kLock);
  }
}

// Nothing in /proc/PID tells a frozen thread from one that waits for a CPU, or that sleeps.
TEST_F(ThreadLooksTest, AFrozenProgramIsStopped) {
  bool is_frozen = false;
  LookedAtProcess process = Process();
  process.is_frozen = [&] { return is_frozen; };
  looks_.emplace(std::move(process));
  Begin(kPid + 1, "computes");
  Begin(kPid + 2, "reads");
  const int64_t start_ns = now_ns_;
  int64_t turns = 1;
  const auto go = [&] {
    Set(kPid + 1, now_ns_ - start_ns, 0, ++turns, kRuns);
    Set(kPid + 2, turns, 0, turns, InCall(SYS_read));
  };
  while (now_ns_ < start_ns + 10 * kSecond) LookAt(go);
  is_frozen = true;
  const int64_t frozen_ns = now_ns_;
  while (now_ns_ < frozen_ns + 20 * kSecond) Look();
  is_frozen = false;
  const int64_t frozen_for_ns = now_ns_ - frozen_ns;
  const auto go_on = [&] {
    Set(kPid + 1, now_ns_ - start_ns - frozen_for_ns, 0, ++turns, kRuns);
    Set(kPid + 2, turns, 0, turns, InCall(SYS_read));
  };
  const int64_t thawed_ns = now_ns_;
  while (now_ns_ < thawed_ns + 5 * kSecond) LookAt(go_on);
  const ThreadTimes& times = Times();
  for (const char* name : {"computes", "reads"}) {
    const ThreadTime one = SumOf(times, name);
    EXPECT_NEAR(Of(one, ThreadDoes::kStopped), static_cast<double>(frozen_for_ns), 1.5e9) << name;
    EXPECT_NEAR(AllOf(one), one.lived_ns, 1e3) << name;
  }
  EXPECT_EQ(Of(SumOf(times, "computes"), ThreadDoes::kRunnable), 0);
}

// `set wall=off` and then `wall=on`: what was known stays, what nobody looked at is not seen, and lifetimes add up.
TEST_F(ThreadLooksTest, WhatWasKnownStaysWhileNobodyLooks) {
  MakeLooks();
  Begin(kPid + 1, "reader");
  Begin(kPid + 2, "sleeper");
  Begin(kPid + 3, "ends");
  const int64_t start_ns = now_ns_;
  int64_t turns = 0, cpu_ns = 0;
  const auto go = [&] {
    ++turns;
    cpu_ns += 1000;
    Set(kPid + 1, cpu_ns, 0, turns, InCall(SYS_read));
    Set(kPid + 2, 500, 0, 1, InCall(SYS_clock_nanosleep));
    if (cpu_of_.contains(kPid + 3)) Set(kPid + 3, 700, 0, 1, InCall(SYS_ppoll));
  };
  cpu_of_[kPid + 3] = 0;
  while (now_ns_ < start_ns + 10 * kSecond) LookAt(go);
  looks_->Pause(*table_);
  EXPECT_EQ(looks_->next_ns(), INT64_MAX);
  const double read_ns = Of(SumOf(Times(), "reader"), ThreadDoes::kIo);
  EXPECT_NEAR(read_ns, 10e9, 0.2e9);
  // Meanwhile one thread ends and one begins.
  now_ns_ += 20 * kSecond;
  End(kPid + 3);
  cpu_of_.erase(kPid + 3);
  Begin(kPid + 4, "late");
  Set(kPid + 4, 300, 0, 1, InCall(SYS_fsync));
  now_ns_ += 10 * kSecond;
  cpu_ns += 5 * kSecond;
  go();
  looks_->Look(*table_);
  EXPECT_NEAR(Of(SumOf(Times(), "reader"), ThreadDoes::kIo), read_ns, 1);
  looks_->Resume();
  const int64_t resumed_ns = now_ns_;
  while (now_ns_ < resumed_ns + 10 * kSecond) LookAt(go);
  const ThreadTimes& times = Times();
  const ThreadTime reader = SumOf(times, "reader"), sleeper = SumOf(times, "sleeper"), late = SumOf(times, "late");
  EXPECT_NEAR(reader.lived_ns, static_cast<double>(now_ns_ - start_ns), 20e6);
  EXPECT_NEAR(Of(reader, ThreadDoes::kCpu), static_cast<double>(cpu_ns), 1);
  EXPECT_NEAR(Of(reader, ThreadDoes::kUnknown), 25e9, 0.2e9);
  EXPECT_NEAR(Of(reader, ThreadDoes::kIo), 20e9, 0.3e9);
  // It has not run, so it is known where it was.
  EXPECT_NEAR(Of(sleeper, ThreadDoes::kSleep), 50e9, 0.2e9);
  EXPECT_NEAR(Of(late, ThreadDoes::kUnknown), 10e9, 0.2e9);
  for (const char* name : {"reader", "sleeper", "ends", "late"}) {
    const ThreadTime one = SumOf(times, name);
    EXPECT_NEAR(AllOf(one), one.lived_ns, 1e3) << name;
    EXPECT_NEAR(RowsOf(times, name), one.lived_ns, 1e3) << name;
  }
}

// Threads that wait for a CPU nearly always, on a saturated machine. Of what a snapshot closes too early, most would be time
// of whatever the last looks happened to find: longer waits more often than short sleeps.
TEST_F(ThreadLooksTest, RareShortSleepsAreNotLostToLongWaits) {
  constexpr int kThreads = 20;
  constexpr int64_t kSeconds = 120;
  MakeLooks();
  Look();
  const int64_t start_ns = now_ns_;
  std::minstd_rand random(1);
  // In turn: 400 ms in the queue, 30 ms in read, 400 ms in the queue, 6 ms of sleep; each half to one and a half of that.
  struct One {
    int part = 0;
    int64_t until_ns = 0, turns = 1, entered_ns = 0;
    std::array<int64_t, 4> ns = {};
  };
  constexpr std::array<double, 4> kMeans = {400e6, 30e6, 400e6, 6e6};
  std::vector<One> threads(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    Begin(kPid + 1 + i, fmt::format("worker-{}", i + 1));
    threads[i].until_ns = threads[i].entered_ns = start_ns;
    threads[i].part = i % 4;
  }
  const auto go = [&] {
    for (int i = 0; i < kThreads; ++i) {
      One& one = threads[i];
      while (one.until_ns <= now_ns_) {
        one.ns[one.part] += one.until_ns - one.entered_ns;
        one.entered_ns = one.until_ns;
        one.part = (one.part + 1) % 4;
        ++one.turns;
        one.until_ns += static_cast<int64_t>(kMeans[one.part] * std::uniform_real_distribution<>(0.5, 1.5)(random));
      }
      // The kernel counts a wait for a CPU when it ends.
      Set(kPid + 1 + i, 1000 * one.turns, one.ns[0] + one.ns[2], one.turns,
          one.part == 1   ? InCall(SYS_read)
          : one.part == 3 ? InCall(SYS_clock_nanosleep)
                          : kRuns);
      SetStat(kPid + 1 + i, one.part % 2 == 0 ? 'R' : 'S');
    }
  };
  for (int second = 1; second <= kSeconds; ++second) {
    while (now_ns_ < start_ns + second * kSecond) LookAt(go);
    Times();
  }
  std::array<double, 4> truth = {};
  for (const One& one : threads) {
    for (int i = 0; i < 4; ++i) truth[i] += static_cast<double>(one.ns[i]);
  }
  for (int i = 0; i < kThreads; ++i) End(kPid + 1 + i);
  LookAt([] {});
  const ThreadTime sum = SumOf(Times(), "worker-");
  const auto lived = static_cast<double>(kThreads * (now_ns_ - start_ns));
  const double looks = 20.0 * kSeconds * kThreads;
  const std::pair<ThreadDoes, double> parts[] = {{ThreadDoes::kIo, truth[1]}, {ThreadDoes::kSleep, truth[3]}};
  for (const auto& [does, ns] : parts) {
    const double share = ns / lived;
    EXPECT_NEAR(Of(sum, does) / lived, share, 4 * std::sqrt(share * (1 - share) / looks))
        << kThreadDoesNames[int(does)];
  }
  EXPECT_NEAR(Of(sum, ThreadDoes::kRunnable) / lived, (truth[0] + truth[2]) / lived, 0.002);
  EXPECT_NEAR(AllOf(sum), sum.lived_ns, 1e3);
}

// On a saturated machine, each look takes seconds: this process, too, waits for a CPU between two threads.
TEST_F(ThreadLooksTest, TimesOfALookThatTakesLongAreThoseOfEachThread) {
  constexpr int kThreads = 20;
  constexpr int64_t kStep = 10 * kMs;
  MakeLooks();
  Look();
  const int64_t start_ns = now_ns_;
  for (int i = 0; i < kThreads; ++i) Begin(kPid + 1 + i, fmt::format("worker-{}", i + 1));
  // Each thread computes for 70 % of each 100 ms, and reads for the rest.
  const auto cpu_ns = [&] { return (now_ns_ - start_ns) / 10 * 7; };
  int64_t turns = 1;
  const auto go = [&] {
    ++turns;
    for (int i = 0; i < kThreads; ++i) Set(kPid + 1 + i, cpu_ns(), 0, turns, InCall(SYS_read));
  };
  go();
  at_memory_read_ = [&] {
    now_ns_ += kStep;
    go();
  };
  while (now_ns_ < start_ns + 30 * kSecond) LookAt(go);
  const int64_t before_last_ns = now_ns_;
  const ThreadTimes& times = Times();
  ASSERT_GT(now_ns_ - before_last_ns, kSecond);  // a look takes more than a second
  int workers = 0;
  double first = 1e18, last = 0;
  for (const ThreadTime& one : times.threads) {
    if (!times.names[one.name].starts_with("worker-")) continue;
    ++workers;
    first = std::min(first, one.lived_ns);
    last = std::max(last, one.lived_ns);
    // Both were read at one time, which is that of this thread.
    EXPECT_NEAR(Of(one, ThreadDoes::kCpu) / one.lived_ns, 0.7, 0.001);
    EXPECT_NEAR(AllOf(one), one.lived_ns, 1e3);
  }
  EXPECT_EQ(workers, kThreads);
  EXPECT_GT(first, static_cast<double>(before_last_ns - start_ns) - 10e6);
  EXPECT_GT(last - first, 0.5 * static_cast<double>(now_ns_ - before_last_ns));
  EXPECT_LE(last, static_cast<double>(now_ns_ - start_ns) + 10e6);
  // What the threads ran during the look is not CPU time of threads that nobody saw.
  EXPECT_EQ(times.unseen_cpu_ns, 0);
}

TEST_F(ThreadLooksTest, DuringALookThatTakesLongWaitsAreReadAgain) {
  constexpr int kThreads = 20;
  for (int i = 0; i < kThreads; ++i) {
    Begin(kPid + 1 + i, "waits");
    Set(kPid + 1 + i, 1000, 0, 1, InCall(SYS_futex));
  }
  const auto all_wait_for = [this](uint64_t lock) {
    for (uint32_t i = 0; i < kThreads; ++i) Waits(i, kPid + 1 + i, WaitKind::kMutex, lock);
  };
  all_wait_for(kLock);
  MakeLooks();
  Look();
  Look();
  // Soon after the look has begun, all wait for another lock.
  bool has_changed = false;
  int64_t turns = 1;
  LookAt([&] {
    ++turns;
    for (int i = 0; i < kThreads; ++i) Set(kPid + 1 + i, 1000, 0, turns, InCall(SYS_futex));
    at_memory_read_ = [&] {
      now_ns_ += 20 * kMs;
      if (!std::exchange(has_changed, true)) all_wait_for(kLock + 64);
    };
  });
  at_memory_read_ = nullptr;
  ASSERT_TRUE(has_changed);
  const ThreadTimes& times = Times();
  std::map<uint64_t, double> by_lock;
  for (const ThreadTimeRow& row : times.rows) {
    if (row.does == ThreadDoes::kLock) by_lock[row.lock] += row.ns;
  }
  // The first thread is looked at before the change, and half of the time from the look before belongs to the first lock.
  EXPECT_GT(by_lock[kLock + 64], by_lock[kLock] / 2);
}

// Most waits for a lock are shorter than a look at all threads.
TEST_F(ThreadLooksTest, AWaitThatBeginsDuringALookIsFound) {
  constexpr int kThreads = 20;
  for (int i = 0; i < kThreads; ++i) {
    Begin(kPid + 1 + i, "waits");
    Set(kPid + 1 + i, 1000, 0, 1, InCall(SYS_futex));
  }
  // After the first thread was looked at.
  at_memory_read_ = [&] {
    now_ns_ += kMs / 5;
    for (uint32_t i = 0; i < kThreads; ++i) Waits(i, kPid + 1 + i, WaitKind::kMutex, kLock);
  };
  MakeLooks();
  Look();
  at_memory_read_ = nullptr;
  for (int i = 0; i < 10; ++i) Look();
  int locks = 0;
  for (const ThreadTime& one : Times().threads) locks += Of(one, ThreadDoes::kLock) > 0.9 * one.lived_ns ? 1 : 0;
  EXPECT_GE(locks, kThreads - 1);
}

// Idle threads of a server: looks at them are rare, and their work is short.
TEST_F(ThreadLooksTest, ShortWaitsAfterLongOnesAreNotLost) {
  constexpr int kThreads = 40;
  MakeLooks();
  Look();
  const int64_t start_ns = now_ns_;
  std::minstd_rand random(1);
  struct One {
    bool reads = false;
    int64_t until_ns = 0, entered_ns = 0, turns = 1;
  };
  std::vector<One> threads(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    Begin(kPid + 1 + i, "waits");
    Set(kPid + 1 + i, 1000, 0, 1, InCall(SYS_nanosleep));
    threads[i].entered_ns = start_ns;
    threads[i].until_ns = start_ns + (1 + i) * 50 * kMs;
  }
  double reads_ns = 0;
  const auto go = [&] {
    for (int i = 0; i < kThreads; ++i) {
      One& one = threads[i];
      if (one.until_ns > now_ns_) continue;
      while (one.until_ns <= now_ns_) {
        if (one.reads) reads_ns += static_cast<double>(one.until_ns - one.entered_ns);
        one.reads = !one.reads;
        ++one.turns;
        one.entered_ns = one.until_ns;
        one.until_ns +=
            one.reads ? 50 * kMs : static_cast<int64_t>(std::uniform_real_distribution<>(1.5e9, 2.5e9)(random));
      }
      Set(kPid + 1 + i, 1000 * one.turns, 0, one.turns, InCall(one.reads ? SYS_read : SYS_nanosleep));
    }
  };
  while (now_ns_ < start_ns + 300 * kSecond) LookAt(go);
  // Looks find about a third of 6,000 reads. The seeds are fixed.
  EXPECT_NEAR(Of(SumOf(Times(), "waits"), ThreadDoes::kIo), reads_ns, 0.1 * reads_ns);
}

// Its time ends where it ended.
TEST_F(ThreadLooksTest, AFirstThreadThatEndsBeforeTheOthersLivesNoLonger) {
  Begin(kPid + 1, "other");
  Set(kPid + 1, 1000, 0, 1, InCall(SYS_read));
  MakeLooks();
  for (int i = 0; i < 10; ++i) Look();
  const auto lived = static_cast<double>(now_ns_ - 1000 * kSecond);
  Set(kPid, 5000, 0, 2, "-1 0x0 0x0\n");
  SetStat(kPid, 'Z');
  for (int i = 0; i < 30; ++i) Look();
  const ThreadTimes& times = Times();
  const ThreadTime main = SumOf(times, "main"), other = SumOf(times, "other");
  EXPECT_EQ(main.threads, 1u);
  EXPECT_LE(main.lived_ns, lived + 80e6);
  EXPECT_NEAR(AllOf(main), main.lived_ns, 1e3);
  EXPECT_GT(other.lived_ns, 2 * lived);
  EXPECT_NEAR(RowsOf(times, "main"), main.lived_ns, 1e3);
}

struct Case {
  std::string name, syscall;
  char letter;
  ThreadDoes does;
  int64_t call = -1;
};
std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }
class StateOf : public ThreadLooksTest, public ::testing::WithParamInterface<Case> {};

TEST_P(StateOf, AThread) {
  MakeLooks();
  Begin(kPid + 1, "one");
  SetStat(kPid + 1, GetParam().letter);
  if (GetParam().letter == 'T') SetStat(kPid, 'T');
  Set(kPid + 1, 1000, 1000, 1, GetParam().syscall);
  for (int i = 0; i < 20; ++i) Look();
  const ThreadTimes& times = Times();
  const ThreadTime one = SumOf(times, "one");
  EXPECT_NEAR(Of(one, GetParam().does), one.lived_ns - 2000, 1e3);
  EXPECT_NEAR(AllOf(one), one.lived_ns, 1e3);
  for (const ThreadTimeRow& row : times.rows) {
    if (times.names[row.name] == "one" && row.does == GetParam().does) {
      EXPECT_EQ(row.call, GetParam().call);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    ThreadLooks, StateOf,
    ::testing::Values(Case{"Reads", InCall(SYS_read), 'S', ThreadDoes::kIo},
                      Case{"Sends", InCall(SYS_sendto), 'S', ThreadDoes::kIo},
                      Case{"Synchronizes", InCall(SYS_fsync), 'D', ThreadDoes::kIo},
                      Case{"Sleeps", InCall(SYS_nanosleep), 'S', ThreadDoes::kSleep},
                      Case{"WaitsForEvents", InCall(SYS_epoll_pwait), 'S', ThreadDoes::kCall, SYS_epoll_pwait},
                      Case{"WaitsInAFutexThatIsNoLock", InCall(SYS_futex), 'S', ThreadDoes::kCall, SYS_futex},
                      Case{"WaitsForAPage", "-1 0x7ffc0000 0x401000\n", 'D', ThreadDoes::kIo},
                      Case{"IsStopped", "-1 0x7ffc0000 0x401000\n", 'T', ThreadDoes::kStopped},
                      Case{"IsStoppedInACall", InCall(SYS_read), 'T', ThreadDoes::kStopped},
                      Case{"IsAWorkerOfTheKernel", "426 0x3 0x1 0x0 0x2 0x0 0x0 0x0 0x0\n", 'S', ThreadDoes::kUnknown},
                      Case{"HasEndedBeforeTheOthers", "-1 0x0 0x0\n", 'Z', ThreadDoes::kUnknown}),
    [](const auto& info) { return info.param.name; });

// The kernel continues a sleep in the call restart_syscall.
TEST_F(ThreadLooksTest, ASleepThatGoesOnAfterAStopIsASleep) {
  Begin(kPid + 1, "sleeps");
  Set(kPid + 1, 1000, 0, 1, InCall(SYS_clock_nanosleep));
  MakeLooks();
  for (int i = 0; i < 5; ++i) Look();
  LookAt([&] {
    Set(kPid + 1, 2000, 0, 2, InCall(SYS_clock_nanosleep));
    SetStat(kPid, 'T');
    SetStat(kPid + 1, 'T');
  });
  for (int i = 0; i < 5; ++i) Look();
  LookAt([&] {
    Set(kPid + 1, 3000, 0, 3, InCall(SYS_restart_syscall));
    SetStat(kPid, 'S');
    SetStat(kPid + 1, 'S');
  });
  for (int i = 0; i < 5; ++i) Look();
  const ThreadTime sleeps = SumOf(Times(), "sleeps");
  EXPECT_GT(Of(sleeps, ThreadDoes::kStopped), 0.2 * sleeps.lived_ns);
  EXPECT_EQ(Of(sleeps, ThreadDoes::kCall), 0);
  EXPECT_NEAR(Of(sleeps, ThreadDoes::kSleep) + Of(sleeps, ThreadDoes::kStopped), sleeps.lived_ns - 3000, 1e3);
}

TEST_F(ThreadLooksTest, AnIdThatIsUsedAgainIsAnotherThread) {
  MakeLooks();
  Look();
  const int64_t start_ns = now_ns_;
  Begin(kPid + 1, "first");
  Set(kPid + 1, 2'000'000, 0, 1, InCall(SYS_read));
  for (int i = 0; i < 10; ++i) Look();
  const int64_t last_ns = now_ns_;
  now_ns_ += 10 * kMs;
  End(kPid + 1);
  now_ns_ += 10 * kMs;
  const int64_t again_ns = now_ns_;
  Begin(kPid + 1, "second");
  Set(kPid + 1, 9'000'000, 0, 1, InCall(SYS_nanosleep));  // more than the first one had
  for (int i = 0; i < 10; ++i) Look();
  const ThreadTimes& times = Times();
  const ThreadTime first = SumOf(times, "first"), second = SumOf(times, "second");
  EXPECT_EQ(first.threads, 1u);
  EXPECT_EQ(second.threads, 1u);
  EXPECT_EQ(Of(first, ThreadDoes::kCpu), 2e6);
  EXPECT_EQ(Of(second, ThreadDoes::kCpu), 9e6);
  EXPECT_EQ(Of(first, ThreadDoes::kSleep), 0);
  EXPECT_EQ(Of(second, ThreadDoes::kIo), 0);
  // The end was between two looks, which are at most 75 ms apart.
  EXPECT_GE(first.lived_ns, static_cast<double>(last_ns - start_ns) - 10e6);
  EXPECT_LE(first.lived_ns, static_cast<double>(last_ns - start_ns) + 10e6 + 75e6 / 2);
  EXPECT_NEAR(second.lived_ns, static_cast<double>(now_ns_ - again_ns), 10e6);
}

TEST_F(ThreadLooksTest, AThreadInAnotherNamespaceWaitsForItsId) {
  LookedAtProcess process = Process();
  process.other_namespace = true;
  looks_.emplace(std::move(process));
  Write(FileOf(kPid, "status"), "Name:\tmain\nNSpid:\t5000000\t1\nThreads:\t2\n");
  Begin(kPid + 1, "one");
  Set(kPid + 1, 1'000'000, 0, 1, InCall(SYS_nanosleep));
  Look();
  // Its status cannot be read. An id of 0 would be a sum of ended threads, kPid + 1 possibly another thread.
  ASSERT_EQ(Times().threads.size(), 1u);
  EXPECT_EQ(Times().threads[0].id, 1u);
  Write(FileOf(kPid + 1, "status"),
        fmt::format("Name:\tone\nGroups:\t{}\nNSpid:\t5000001\t7\n", std::string(5000, '1')));
  Look();
  const ThreadTimes& times = Times();
  ASSERT_EQ(times.threads.size(), 2u);
  EXPECT_EQ(times.threads[0].id + times.threads[1].id, 8u);
  EXPECT_EQ(Of(SumOf(times, "one"), ThreadDoes::kCpu), 1e6);
}

TEST(ThreadStatus, AnInnerIdIsTheLastOne) {
  EXPECT_EQ(InnerIdOf("Name:\tx\nNSpid:\t4242\t17\t1\nThreads:\t1\n"), 1u);
  EXPECT_EQ(InnerIdOf("Name:\tx\nNSpid:\t4242\n"), 4242u);
  EXPECT_EQ(InnerIdOf(""), 0u);
  EXPECT_EQ(InnerIdOf("Name:\tx\nPid:\t4242\n"), 0u);
}

TEST(ThreadStatus, ANameIsTheSameInBothFiles) {
  char own[16] = {};
  prctl(PR_GET_NAME, own);
  for (const char* name : {"worker", "a\nb\\c) (d", "(", "x\n", ""}) {
    prctl(PR_SET_NAME, name);
    EXPECT_EQ(NameInStat(ReadOfThread(getpid(), gettid(), "stat")), ThreadName(getpid(), gettid()));
  }
  prctl(PR_SET_NAME, own);
  EXPECT_EQ(NameInStat(""), "");
  EXPECT_EQ(NameInStat("4242 worker S 1"), "");
}

// A process with more threads than we may keep files open for.
TEST_F(ThreadLooksTest, WithoutOpenFilesAnIdThatIsUsedAgainIsKnownByItsTimes) {
  MakeLooks();
  Look();
  Begin(kPid + 1, "first");
  Set(kPid + 1, 9'000'000, 0, 7, InCall(SYS_read));
  for (int i = 0; i < 10; ++i) Look();
  Write(FileOf(kPid + 1, "comm"), "second\n");
  Set(kPid + 1, 2'000'000, 0, 1, InCall(SYS_nanosleep));
  for (int i = 0; i < 10; ++i) Look();
  const ThreadTimes& times = Times();
  EXPECT_EQ(Of(SumOf(times, "first"), ThreadDoes::kCpu), 9e6);
  EXPECT_EQ(Of(SumOf(times, "second"), ThreadDoes::kCpu), 2e6);
}

TEST_F(ThreadLooksTest, HalfOfTheTimeAfterTheLastLookIsAThreadsOwn) {
  MakeLooks();
  Look();
  const int64_t start_ns = now_ns_;
  Begin(kPid + 1, "sleeps");
  Begin(kPid + 2, "runs");
  for (int i = 0; i < 5; ++i) {
    LookAt([&] {
      Set(kPid + 1, 1000, 0, 1, InCall(SYS_nanosleep));
      Set(kPid + 2, now_ns_ - start_ns, 0, 1 + i, kRuns);
      SetStat(kPid + 2, 'R');
    });
  }
  const int64_t last_ns = now_ns_;
  End(kPid + 1);
  End(kPid + 2);
  Look();
  const double tail = static_cast<double>(now_ns_ - last_ns) / 2;
  const ThreadTimes& times = Times();
  const ThreadTime sleeps = SumOf(times, "sleeps"), runs = SumOf(times, "runs");
  EXPECT_NEAR(sleeps.lived_ns, static_cast<double>(last_ns - start_ns) + tail, 10e6);
  EXPECT_NEAR(Of(sleeps, ThreadDoes::kSleep), sleeps.lived_ns - 1000, 1e3);
  // Nobody knows how much of the rest it ran.
  EXPECT_EQ(Of(runs, ThreadDoes::kCpu), static_cast<double>(last_ns - start_ns));
  EXPECT_NEAR(Of(runs, ThreadDoes::kUnknown), tail, 10e6);
  EXPECT_NEAR(AllOf(runs), runs.lived_ns, 1e3);
}

// It keeps its id and its start time, but not the table.
TEST_F(ThreadLooksTest, ThreadsOfAnotherProgramThatTheProcessExecutesAreNotThisOnes) {
  MakeLooks();
  Look();
  const int64_t start_ns = now_ns_;
  for (int i = 0; i < 10; ++i) Look();
  const int64_t last_ns = now_ns_;
  mapped_.reset();
  Begin(kPid + 1, "anothers");
  Set(kPid + 1, 1'000'000, 0, 1, InCall(SYS_read));
  for (int i = 0; i < 10; ++i) Look();
  const ThreadTimes& times = Times();
  EXPECT_EQ(SumOf(times, "anothers").threads, 0u);
  const ThreadTime main = SumOf(times, "main");
  EXPECT_GE(main.lived_ns, static_cast<double>(last_ns - start_ns));
  EXPECT_LE(main.lived_ns, static_cast<double>(last_ns - start_ns) + 80e6);
}

// Before that look, which finds the process in a call again.
TEST_F(ThreadLooksTest, TheFirstLookAfterAnotherProgramIsExecutedHasNothingOfThatOne) {
  MakeLooks();
  for (int turns = 2; turns < 52; ++turns) LookAt([&] { Set(kPid, 1000 * turns, 0, turns, InCall(SYS_futex)); });
  mapped_.reset();
  LookAt([&] { Set(kPid, 60'000, 0, 60, InCall(SYS_read)); });
  EXPECT_EQ(Of(SumOf(Times(), "main"), ThreadDoes::kIo), 0);
}

// The files of its threads are those of the next program already: their names, too.
TEST_F(ThreadLooksTest, ASnapshotAfterAnotherProgramIsExecutedHasNothingOfThatOne) {
  MakeLooks();
  for (int i = 0; i < 50; ++i) Look();
  const int64_t last_ns = now_ns_;
  mapped_.reset();
  Write(FileOf(kPid, "comm"), "another\n");
  now_ns_ += 10 * kMs;
  const ThreadTimes& times = Times();
  EXPECT_EQ(SumOf(times, "another").threads, 0u);
  EXPECT_LE(SumOf(times, "main").lived_ns, static_cast<double>(last_ns - 1000 * kSecond) + 20e6);
}

// An exit waits for the exporter's look, which may be late.
TEST_F(ThreadLooksTest, AThreadThatEndedBeforeTheExitHasLittleOfItsWait) {
  Begin(kPid + 1, "ends");
  Set(kPid + 1, 1000, 0, 1, InCall(SYS_read));
  MakeLooks();
  for (int i = 0; i < 10; ++i) Look();
  const double lived = SumOf(Times(), "ends").lived_ns;
  End(kPid + 1);
  mapped_->header()->exit_request = 1;
  now_ns_ += kSecond;
  EXPECT_LE(SumOf(Times(), "ends").lived_ns, lived + 125e6 / 2);
}

// What the process did before was another program.
TEST_F(ThreadLooksTest, TheLifeOfAProgramBeginsWhenItIsExecuted) {
  for (const int64_t age_ns : {int64_t{0}, 10 * kSecond}) {
    const int64_t earlier_cpu_ns = 5 * kSecond, earlier_waited_ns = 2 * kSecond;
    now_ns_ += 20 * kSecond;
    const int64_t executed_ns = now_ns_;
    mapped_->header()->start_monotonic_ns = executed_ns;
    table_.emplace(*TableFile::Open(*OpenFolder(folder_.path()), table_->name()));
    now_ns_ += age_ns;
    Set(kPid, earlier_cpu_ns, earlier_waited_ns, 100, InCall(SYS_read));
    MakeLooks();
    Look();
    const int64_t start_ns = now_ns_;
    int64_t turns = 101;
    while (now_ns_ < start_ns + 10 * kSecond)
      LookAt(
          [&] { Set(kPid, earlier_cpu_ns + (now_ns_ - start_ns) / 2, earlier_waited_ns, turns++, InCall(SYS_read)); });
    const ThreadTimes& times = Times();
    const ThreadTime main = SumOf(times, "main");
    EXPECT_NEAR(main.lived_ns, static_cast<double>(now_ns_ - executed_ns), 1e3);
    EXPECT_NEAR(AllOf(main), main.lived_ns, 1e3);
    EXPECT_NEAR(RowsOf(times, "main"), main.lived_ns, 1e3);
    EXPECT_NEAR(Of(main, ThreadDoes::kCpu), static_cast<double>(now_ns_ - start_ns) / 2, 100e6);
    EXPECT_EQ(Of(main, ThreadDoes::kRunnable), 0);
    EXPECT_NEAR(Of(main, ThreadDoes::kUnknown), static_cast<double>(age_ns), 100e6);
    EXPECT_EQ(times.unseen_cpu_ns, 0);
  }
}

TEST_F(ThreadLooksTest, AfterADetachNobodyWantsLooks) {
  mapped_->header()->wall = 1;
  EXPECT_TRUE(table_->WantsWall());
  mapped_->header()->profiles |= kDetachedBit;
  EXPECT_FALSE(table_->WantsWall());
}

TEST_F(ThreadLooksTest, CpuTimeOfThreadsBetweenTwoLooksIsCounted) {
  MakeLooks();
  Look();
  Begin(kPid + 1, "unseen");
  Set(kPid + 1, 30'000'000, 0, 1, kRuns);
  End(kPid + 1);
  Look();
  const ThreadTimes& times = Times();
  EXPECT_EQ(SumOf(times, "unseen").threads, 0u);
  EXPECT_NEAR(times.unseen_cpu_ns, 30e6, 1e3);
}

// Each waited for a CPU at its last look, and may have lived until just before the next one.
TEST_F(ThreadLooksTest, CpuTimeAfterTheLastLookIsCounted) {
  constexpr int kThreads = 20;
  MakeLooks();
  Look();
  for (int i = 1; i <= kThreads; ++i) Begin(kPid + i, "burns");
  LookAt([&] {
    for (int i = 1; i <= kThreads; ++i) {
      Set(kPid + i, 1'000'000, 0, 1, kRuns);
      SetStat(kPid + i, 'R');
    }
  });
  LookAt([&] {
    for (int i = 1; i <= kThreads; ++i) {
      cpu_of_[kPid + i] += 2'000'000;
      End(kPid + i);
    }
  });
  const ThreadTimes& times = Times();
  EXPECT_NEAR(Of(SumOf(times, "burns"), ThreadDoes::kCpu), kThreads * 1e6, 1e3);
  EXPECT_NEAR(times.unseen_cpu_ns, kThreads * 2e6, 1e3);
}

TEST_F(ThreadLooksTest, AHolderIsKnownIfTheLockIsTheSameBeforeAndAfterTheLook) {
  struct {
    std::vector<int> owners;
    ThreadDoes does;
    bool is_free;
  } const cases[] = {{{kPid + 2, kPid + 2}, ThreadDoes::kSleep, false},
                     {{kPid + 2, kPid}, ThreadDoes::kUnknown, false},      // changes hands
                     {{kPid + 9, kPid + 9}, ThreadDoes::kUnknown, false},  // a thread that is not there
                     {{0, 0}, ThreadDoes::kUnknown, true},
                     {{}, ThreadDoes::kUnknown, false}};  // cannot be read
  Begin(kPid + 1, "waits");
  Set(kPid + 1, 1000, 0, 1, InCall(SYS_futex));
  Begin(kPid + 2, "holds");
  Set(kPid + 2, 1000, 0, 1, InCall(SYS_nanosleep));
  Waits(0, kPid + 1, WaitKind::kMutex, kLock);
  for (const auto& one : cases) {
    owners_ = one.owners;
    MakeLooks();
    for (int i = 0; i < 10; ++i) Look();
    int rows = 0;
    for (const ThreadTimeRow& row : Times().rows) {
      if (row.does != ThreadDoes::kLock) continue;
      ++rows;
      EXPECT_EQ(row.holder_does, one.does);
      EXPECT_EQ(row.is_free, one.is_free);
      EXPECT_EQ(row.wait, WaitKind::kMutex);
    }
    EXPECT_EQ(rows, 1);
  }
}

// 800 looks at one thread a second, until each thread has 8.
// Twenty a second, and eight from 100 active threads on.
TEST_F(ThreadLooksTest, TheTimesBetweenLooksAreRandomWithAKnownMean) {
  constexpr int kLooks = 4000, kFirst = 100;
  for (const auto& [threads, mean_ms] : {std::pair(1, 50.0), {60, 75.0}, {110, 125.0}}) {
    for (int i = 1; i <= threads; ++i) Begin(kPid + i, "wakes");
    MakeLooks();
    double sum = 0, least = 1e9, most = 0;
    for (int64_t turns = 1; turns <= kFirst + kLooks / threads + 400; ++turns) {
      const int64_t before_ns = now_ns_;
      LookAt([&] {
        for (int i = 1; i <= threads; ++i) Set(kPid + i, 1000 * turns, 0, turns, InCall(SYS_read));
      });
      if (turns <= kFirst) continue;  // until the number of threads is known
      const double ms = static_cast<double>(now_ns_ - before_ns) / 1e6;
      sum += ms;
      least = std::min(least, ms);
      most = std::max(most, ms);
    }
    const double looks = kLooks / threads + 400;
    // Four standard errors of a uniform distribution, and the first thread, which sleeps; the seed is fixed.
    EXPECT_NEAR(sum / looks, mean_ms, 4 * mean_ms / std::sqrt(12 * looks) + 0.02 * mean_ms) << threads;
    EXPECT_GE(least, mean_ms / 2 - 2) << threads;
    EXPECT_LE(most, 1.5 * mean_ms + 3) << threads;
    for (int i = 1; i <= threads; ++i) End(kPid + i);
  }
}

TEST_F(ThreadLooksTest, ManyThreadsAreLookedAtLessOften) {
  constexpr int kSeconds = 20;
  for (const int threads : {20, 100}) {
    for (int i = 1; i <= threads; ++i) Begin(kPid + i, "wakes");
    MakeLooks();
    const int64_t start_ns = now_ns_;
    for (int64_t turns = 1; now_ns_ < start_ns + kSeconds * kSecond; ++turns) {
      LookAt([&] {
        for (int i = 1; i <= threads; ++i) Set(kPid + i, 1000 * turns, 0, turns, InCall(SYS_read));
      });
    }
    const auto looks = static_cast<double>(Times().looks);
    if (threads == 20) {
      EXPECT_NEAR(looks, 20 * kSeconds, 40);
    } else {
      EXPECT_LT(looks, 11 * kSeconds);  // the first ones follow each other faster
    }
    for (int i = 1; i <= threads; ++i) End(kPid + i);
  }
}

// A thread that computes nearly all the time: its few looks that found it blocked do not divide that time yet.
TEST_F(ThreadLooksTest, TheLastSnapshotHasTheWholeLifetime) {
  for (const bool is_found_blocked : {true, false}) {
    for (const bool is_exit : {true, false}) {
      Begin(kPid + 1, "computes");
      MakeLooks();
      Look();
      const int64_t start_ns = now_ns_;
      for (int i = 0; i < 40; ++i) {
        LookAt([&] {
          const bool is_blocked = is_found_blocked && i % 20 == 10;
          Set(kPid + 1, (now_ns_ - start_ns) / 10 * 9, 0, 2 + i, is_blocked ? InCall(SYS_read) : kRuns);
          SetStat(kPid + 1, is_blocked ? 'S' : 'R');
        });
      }
      const ThreadTime open = SumOf(Times(), "computes");
      EXPECT_LT(AllOf(open), 0.95 * open.lived_ns);
      // For a page, which shows it at once, the open period is divided, too.
      const TableSnapshot snapshot{};
      WaitGraph state(snapshot);
      const auto whole = looks_->Times({}, &state, /*with_open=*/true);
      EXPECT_NEAR(AllOf(SumOf(*whole, "computes")), open.lived_ns, 1e3);
      EXPECT_NEAR(RowsOf(*whole, "computes"), open.lived_ns, 1e3);
      // The process ends, or the library was detached.
      if (is_exit) {
        mapped_->header()->exit_request = 1;
      } else {
        mapped_->header()->profiles |= kDetachedBit;
      }
      const ThreadTime last = SumOf(Times(), "computes");
      EXPECT_NEAR(AllOf(last), last.lived_ns, 1e3);
      EXPECT_GT(Of(last, is_found_blocked ? ThreadDoes::kIo : ThreadDoes::kUnknown), 0.05 * last.lived_ns);
      // The process goes on all the same: no time counts twice.
      const ThreadTime again = SumOf(Times(), "computes");
      EXPECT_NEAR(AllOf(again), again.lived_ns, 1e3);
      mapped_->header()->exit_request = 0;
      mapped_->header()->profiles &= ~kDetachedBit;
      End(kPid + 1);
    }
  }
}

// In the last snapshot a wait for a CPU is not over, and the kernel counts it later.
TEST_F(ThreadLooksTest, AWaitForACpuInTheLastSnapshotCountsOnce) {
  Begin(kPid + 1, "waits");
  SetStat(kPid + 1, 'R');
  MakeLooks();
  Look();
  Set(kPid + 1, 1'000'000, 0, 1, kRuns);
  Look();
  const int64_t queued_since_ns = now_ns_;
  for (int i = 0; i < 10; ++i) Look();
  mapped_->header()->profiles |= kDetachedBit;
  const ThreadTime last = SumOf(Times(), "waits");
  EXPECT_NEAR(AllOf(last), last.lived_ns, 1e3);
  EXPECT_GT(Of(last, ThreadDoes::kRunnable), 0.5 * last.lived_ns);
  LookAt([&] { Set(kPid + 1, 1'000'000, now_ns_ - queued_since_ns, 2, InCall(SYS_read)); });
  const ThreadTime later = SumOf(Times(), "waits");
  EXPECT_NEAR(Of(later, ThreadDoes::kRunnable), static_cast<double>(now_ns_ - queued_since_ns), 80e6);
  EXPECT_LE(AllOf(later), later.lived_ns + 1e3);
}

TEST_F(ThreadLooksTest, EveryPartOnlyGrows) {
  std::mt19937 random(44);
  MakeLooks();
  Look();
  Begin(kPid + 1, "one");
  int64_t cpu_ns = 0, waited_ns = 0, turns = 1, last_ns = now_ns_;
  const std::array<int64_t, 4> calls = {SYS_read, SYS_nanosleep, SYS_futex, SYS_epoll_pwait};
  std::map<std::pair<ThreadDoes, int64_t>, double> before;
  for (int i = 0; i < 500; ++i) {
    LookAt([&] {
      const int64_t passed_ns = now_ns_ - std::exchange(last_ns, now_ns_);
      if (random() % 2 == 0) cpu_ns += passed_ns / 4;
      if (random() % 3 == 0) waited_ns += passed_ns / 4;
      Set(kPid + 1, cpu_ns, waited_ns, ++turns, random() % 4 == 0 ? kRuns : InCall(calls[random() % 4]));
    });
    if (i % 7 != 0) continue;
    const ThreadTimes& times = Times();
    std::map<std::pair<ThreadDoes, int64_t>, double> now;
    for (const ThreadTimeRow& row : times.rows) {
      if (times.names[row.name] == "one") now[{row.does, row.call}] += row.ns;
    }
    for (const auto& [what, ns] : before)
      EXPECT_GE(now[what], ns - 1) << kThreadDoesNames[static_cast<int>(what.first)];
    before = std::move(now);
    const ThreadTime one = SumOf(times, "one");
    EXPECT_NEAR(one.lived_ns, static_cast<double>(now_ns_ - 1000 * kSecond), 80e6);
    // The last part of a thread that has only run is divided by the next looks.
    EXPECT_LE(AllOf(one), one.lived_ns + 1e3);
  }
}

TEST_F(ThreadLooksTest, WhatRootSeesOfAnothersProgramNeedsNoMemory) {
  Begin(kPid + 1, "waits");
  Set(kPid + 1, 1000, 0, 1, InCall(SYS_futex));
  Begin(kPid + 2, "reads");
  Set(kPid + 2, 1000, 0, 1, InCall(SYS_read));
  Waits(0, kPid + 1, WaitKind::kMutex, kLock);
  owners_ = {kPid + 2};
  MakeLooks(geteuid());
  for (int i = 0; i < 10; ++i) Look();
  EXPECT_EQ(memory_reads_, 0u);
  EXPECT_GT(Of(SumOf(Times(), "waits"), ThreadDoes::kLock), 0);
  EXPECT_GT(Of(SumOf(Times(), "reads"), ThreadDoes::kIo), 0);
  EXPECT_EQ(Times().unknown, "");
  // Its program has become somebody else.
  looks_->ReadNoMoreMemory(geteuid() + 1);
  const double before = Of(SumOf(Times(), "reads"), ThreadDoes::kIo);
  for (int i = 0; i < 10; ++i) LookAt([&] { Set(kPid + 2, 2000 + i, 0, 2 + i, InCall(SYS_read)); });
  const ThreadTime reads = SumOf(Times(), "reads");
  EXPECT_LT(Of(reads, ThreadDoes::kIo), before + 80e6);  // to the middle of two looks
  EXPECT_GT(Of(reads, ThreadDoes::kUnknown), 10 * 25e6 - 80e6);
  EXPECT_THAT(Times().unknown, ::testing::HasSubstr("no longer the user"));
}

TEST_F(ThreadLooksTest, AThreadThatEndsWhileItIsLookedAtIsNotAnotherUsers) {
  Begin(kPid + 1, "ends");
  Set(kPid + 1, 1000, 0, 1, InCall(SYS_read));
  MakeLooks(geteuid());
  Look();
  // Its time on a CPU is in a file that is still open.
  LookAt([&] {
    Set(kPid + 1, 2000, 0, 2, InCall(SYS_read));
    std::filesystem::remove_all(fmt::format("{}/{}", tasks(), kPid + 1));
  });
  EXPECT_EQ(Times().unknown, "");
}

TEST_F(ThreadLooksTest, NamesAreBoundedAndNoTimeIsLost) {
  constexpr int kThreads = 8500, kAtOnce = 500;
  MakeLooks();
  Look();
  double lived = 0;
  for (int i = 0; i < kThreads; i += kAtOnce) {
    const int64_t start_ns = now_ns_;
    for (int j = 0; j < kAtOnce; ++j) {
      Begin(kPid + 1 + j, fmt::format("job-{}{}", i + j, i + j >= 6000 ? "a" : ""));
      Set(kPid + 1 + j, 1'000'000, 0, 1, InCall(SYS_read));
    }
    Look();
    Look();
    for (int j = 0; j < kAtOnce; ++j) End(kPid + 1 + j);
    const int64_t last_ns = now_ns_;
    Look();
    lived += kAtOnce * (static_cast<double>(last_ns - start_ns) + static_cast<double>(now_ns_ - last_ns) / 2);
  }
  const ThreadTimes& times = Times();
  EXPECT_LE(times.names.size(), 8193u);
  EXPECT_THAT(times.names, ::testing::Contains("job-3999"));
  EXPECT_THAT(times.names, ::testing::Contains("job-*"));  // without their numbers
  const ThreadTime jobs = SumOf(times, "job-");
  EXPECT_EQ(jobs.threads, kThreads);
  EXPECT_NEAR(jobs.lived_ns, lived, kThreads * 10e6);
  EXPECT_NEAR(Of(jobs, ThreadDoes::kCpu), kThreads * 1e6, 1e3);
  EXPECT_NEAR(RowsOf(times, "job-"), jobs.lived_ns, 1e4);

  // In a file, the shortest lives are sums.
  Profile profile;
  AddThreadTimes(times, &profile);
  const std::vector<record::ThreadTime>& written = profile.records().thread_times->thread;
  EXPECT_LE(written.size(), 1024u);
  ThreadTime sum{.threads = 0};
  for (const record::ThreadTime& one : written) {
    if (one.name == "main") continue;
    sum.threads += one.threads;
    sum.lived_ns += static_cast<double>(one.lived_ns);
    sum.ns[0] += static_cast<double>(one.cpu_ns);
    sum.ns[1] += static_cast<double>(one.io_ns);
    const int64_t parts = one.cpu_ns + one.runnable_ns + one.lock_ns + one.io_ns + one.sleep_ns + one.call_ns +
                          one.stopped_ns + one.unknown_ns;
    EXPECT_NEAR(static_cast<double>(one.lived_ns), static_cast<double>(parts), kThreads)
        << one.name;  // each is rounded
  }
  EXPECT_EQ(sum.threads, kThreads);
  EXPECT_NEAR(sum.lived_ns, jobs.lived_ns, 1e5);
  EXPECT_NEAR(sum.ns[0], kThreads * 1e6, 1e5);
  EXPECT_NEAR(sum.ns[1], Of(jobs, ThreadDoes::kIo), 1e5);
}

// The files of this process's only thread, as one that ends while they are read.
TEST(ThreadLives, TimesOfAThreadThatEndsWhileItIsReadRemain) {
  int64_t start_ticks = 1000, cpu_ns = 5 * kSecond;
  int readable = 2;  // further files are empty
  ThreadLives lives([&](pid_t /*pid*/, pid_t /*thread*/, const std::string& name) -> std::string {
    if (readable-- <= 0) return "";
    if (name == "schedstat") return fmt::format("{} 1000000 7", cpu_ns);
    return fmt::format("1 (worker) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0", start_ticks);
  });
  const auto cpu_of_worker = [&lives] {
    double sum = 0;
    for (const ThreadTime& one : lives.times()->threads) {
      if (lives.times()->names[one.name] == "worker") sum += one.ns[static_cast<int>(ThreadDoes::kCpu)];
    }
    return sum;
  };
  ASSERT_EQ(ThreadsOf(getpid(), false).size(), 1u);
  lives.Read(getpid(), false);
  EXPECT_EQ(cpu_of_worker(), 5e9);
  for (int read = 0; read < 2; ++read) {
    readable = read;
    lives.Read(getpid(), false);
    EXPECT_EQ(cpu_of_worker(), 5e9) << read << " files could be read";
  }
  // The next thread has the same id.
  readable = 2;
  start_ticks = 2000;
  cpu_ns = kSecond;
  lives.Read(getpid(), false);
  EXPECT_EQ(cpu_of_worker(), 6e9);
}

// Then every thread seems to have begun earlier than before.
TEST(ThreadLives, AfterTheMachineWasSuspendedThreadsAreTheSame) {
  int64_t asleep_ns = 0;
  ThreadLives lives(
      [](pid_t /*pid*/, pid_t /*thread*/, const std::string& name) -> std::string {
        if (name == "schedstat") return "5000000000 1000000 7";
        return "1 (worker) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1000 0 0";
      },
      [&asleep_ns](std::string_view /*stat*/) { return std::optional(NowNs() - 100 * kSecond - asleep_ns); });
  for (asleep_ns = 0; asleep_ns < 30 * kSecond; asleep_ns += 10 * kSecond) {
    lives.Read(getpid(), false);
    ASSERT_EQ(lives.times()->threads.size(), 1u);
    EXPECT_EQ(lives.times()->threads[0].threads, 1u);
  }
}

TEST(ThreadLives, EachThreadHasLivedUntilItWasRead) {
  std::atomic<bool> ends = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&ends] { ends.wait(false); });
  std::map<pid_t, int64_t> read_at;
  ThreadLives lives([&](pid_t /*pid*/, pid_t thread, const std::string& name) -> std::string {
    if (name == "schedstat") {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));  // a busy machine
      read_at[thread] = NowNs();
      return "1000 0 1";
    }
    return fmt::format("1 (thread-{}) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1000 0 0", thread);
  });
  lives.Read(getpid(), false);
  ends = true;
  ends.notify_all();
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(lives.times()->threads.size(), 4u);
  // All began at the same time.
  double least = 1e18, most = 0;
  for (const ThreadTime& one : lives.times()->threads) {
    least = std::min(least, one.lived_ns);
    most = std::max(most, one.lived_ns);
  }
  int64_t first = INT64_MAX, last = 0;
  for (const auto& [thread, when_ns] : read_at) {
    first = std::min(first, when_ns);
    last = std::max(last, when_ns);
  }
  EXPECT_GE(last - first, 90 * kMs);
  EXPECT_NEAR(most - least, static_cast<double>(last - first), 25e6);
}

// This process lacks descriptors for a moment.
TEST(ThreadLives, CpuTimesDoNotShrinkIfOneFileCannotBeRead) {
  std::string missing;
  ThreadLives lives([&](pid_t /*pid*/, pid_t /*thread*/, const std::string& name) -> std::string {
    if (name == missing) return "";
    if (name == "schedstat") return "5000000000 1000000 7";
    return "1 (worker) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1000 0 0";
  });
  for (const char* name : {"", "schedstat", "stat"}) {
    missing = name;
    lives.Read(getpid(), false);
    ASSERT_EQ(lives.times()->threads.size(), 1u) << name;
    EXPECT_EQ(lives.times()->names[lives.times()->threads[0].name], "worker") << name;
    EXPECT_EQ(lives.times()->threads[0].ns[static_cast<int>(ThreadDoes::kCpu)], 5e9) << name;
  }
}

// A server with a mutex in each connection.
TEST_F(ThreadLooksTest, StatesAreBoundedAndNoTimeIsLost) {
  constexpr int kThreads = 60, kLooks = 1200;
  MakeLooks();
  for (int j = 0; j < kThreads; ++j) {
    Begin(kPid + 1 + j, "waits");
    Set(kPid + 1 + j, 1000, 0, 1, InCall(SYS_futex));
  }
  for (int i = 0; i < kLooks; ++i) {
    LookAt([&] {
      for (int j = 0; j < kThreads; ++j) {
        Write(FileOf(kPid + 1 + j, "schedstat"), fmt::format("{} 0 {}\n", 1000 + i, 1 + i));
        Waits(static_cast<uint32_t>(j), static_cast<uint32_t>(kPid + 1 + j), WaitKind::kMutex,
              kLock + 4096 + 64 * (static_cast<uint64_t>(i) * kThreads + static_cast<uint64_t>(j)));
      }
    });
  }
  const ThreadTimes& times = Times();
  EXPECT_GT(times.rows.size(), 60'000u);
  EXPECT_LT(times.rows.size(), 66'000u);
  const ThreadTime sum = SumOf(times, "waits");
  EXPECT_NEAR(Of(sum, ThreadDoes::kLock), sum.lived_ns - kThreads * (1000 + kLooks), kThreads * 80e6);
  EXPECT_NEAR(RowsOf(times, "waits"), sum.lived_ns, 1e4);
}

// Names of threads times locks.
TEST_F(ThreadLooksTest, SumsAreBoundedAndNoTimeIsLost) {
  constexpr int kThreads = 60, kLocks = 2300;
  MakeLooks();
  for (int j = 0; j < kThreads; ++j) {
    Begin(kPid + 1 + j, fmt::format("waits-{}", j));
    Set(kPid + 1 + j, 1000, 0, 1, InCall(SYS_futex));
  }
  for (int i = 0; i < kLocks; ++i) {
    LookAt([&] {
      for (int j = 0; j < kThreads; ++j) {
        Write(FileOf(kPid + 1 + j, "schedstat"), fmt::format("{} 0 {}\n", 1000 + i, 1 + i));
        Waits(static_cast<uint32_t>(j), static_cast<uint32_t>(kPid + 1 + j), WaitKind::kMutex,
              kLock + 4096 + 64 * static_cast<uint64_t>(i));
      }
    });
  }
  const ThreadTimes& times = Times();
  EXPECT_GT(times.rows.size(), 131'000u);
  EXPECT_LT(times.rows.size(), 133'000u);
  for (const int j : {0, 30, kThreads - 1}) {
    const std::string name = fmt::format("waits-{}", j);
    double rows = 0;
    for (const ThreadTimeRow& row : times.rows) rows += times.names[row.name] == name ? row.ns : 0;
    const auto one =
        std::ranges::find_if(times.threads, [&](const auto& one) { return times.names[one.name] == name; });
    ASSERT_NE(one, times.threads.end());
    EXPECT_NEAR(rows, one->lived_ns, 1e4);
  }
}

// Lowers the limit of open files to those that are open. `before`: the limit to restore.
void LeaveNoDescriptors(rlimit* before) {
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, before), 0);
  const int next = dup(0);
  close(next);
  rlimit none = *before;
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
}

// An exporter of many processes.
TEST_F(ThreadLooksTest, WithoutDescriptorsAProcessHasNotEnded) {
  rlimit limit;
  ASSERT_NO_FATAL_FAILURE(LeaveNoDescriptors(&limit));
  LookedAtProcess process = LookedAtProcess::Of(getpid(), false);
  EXPECT_FALSE(process.tasks.valid());
  process.now_ns = [this] { return now_ns_; };
  now_ns_ = NowNs();
  looks_.emplace(std::move(process));
  Look();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_LT(looks_->next_ns(), now_ns_ + 2 * kSecond);
  Look();
  const ThreadTimes& times = Times();
  ASSERT_EQ(times.threads.size(), 1u);
  EXPECT_EQ(times.threads[0].id, static_cast<uint32_t>(getpid()));
  EXPECT_EQ(times.unknown, "");
}

TEST_F(ThreadLooksTest, ThreadsThatAreNotListedForLackOfDescriptorsAreCounted) {
  MakeLooks();
  Look();
  EXPECT_EQ(Times().most_unlisted, 0u);
  for (int i = 1; i <= 3; ++i) {
    Begin(kPid + i, "late");
    Set(kPid + i, 1000, 0, 1, InCall(SYS_read));
  }
  rlimit limit;
  ASSERT_NO_FATAL_FAILURE(LeaveNoDescriptors(&limit));
  Look();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(SumOf(Times(), "late").threads, 3u);  // now they are
  EXPECT_EQ(Times().most_unlisted, 3u);
}

TEST(WrittenThreads, BeyondManyNamesTheRestHasOne) {
  ThreadTimes times;
  for (uint32_t i = 0; i < 2000; ++i) {
    times.names.push_back(fmt::format("n{}x", i));
    ThreadTime one{.name = i, .id = i + 1, .began_wall_ns = 7000 - i, .lived_ns = 1000.0 + i};
    one.ns[static_cast<int>(ThreadDoes::kLock)] = 400;
    one.ns[static_cast<int>(ThreadDoes::kSleep)] = 600.0 + i;
    one.lane = {1, 2};
    times.threads.push_back(one);
  }
  Profile profile;
  AddThreadTimes(times, &profile);
  const std::vector<record::ThreadTime>& written = profile.records().thread_times->thread;
  ASSERT_EQ(written.size(), 1024u);
  int64_t threads = 0, lived = 0, lock = 0, lanes = 0, others = 0;
  for (const record::ThreadTime& one : written) {
    threads += one.threads;
    lived += one.lived_ns;
    lock += one.lock_ns;
    lanes += one.lane.empty() ? 0 : 1;
    if (one.name == kOtherThreads) others += one.threads;
  }
  EXPECT_EQ(threads, 2000);
  EXPECT_EQ(lived, 2000 * 1000 + 1999 * 1000);
  EXPECT_EQ(lock, 2000 * 400);
  EXPECT_EQ(lanes, 256);
  EXPECT_EQ(others, 2000 - 768 - 255);
  EXPECT_EQ(written[0].name, "n1999x");  // the longest life has a row of its own
}

}  // namespace
}  // namespace holdfast
