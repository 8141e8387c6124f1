// Which waits are idle, in what order `top` shows them, and the calls that `holdfast stuck` tells.
#include "report/analysis/locks/wait_rank.h"

#include <gtest/gtest.h>

#include "report/analysis/locks/calls_text.h"
#include "report/analysis/locks/idle_waits.h"
#include "report/show/top.h"
#include "tests/unit/view_fixture.h"

namespace holdfast::testing {
namespace {

// One sample: a stack, the thread's start first, as "a;b;c".
struct OneStack {
  explicit OneStack(const std::string& stack)
      : profile(StackProfile({{stack, 1}})), plumbing(Plumbing::Make(profile, {}).value()) {
    const auto of_it = profile.FramesOf(profile.samples[0]);
    frames.assign(of_it.begin(), of_it.end());
  }
  Profile profile;
  Plumbing plumbing;
  std::vector<uint32_t> frames;
};

bool IsIdle(const std::string& stack, bool since_start = false) {
  OneStack one(stack);
  return IsInOwnLoop(one.profile, one.frames, since_start, &one.plumbing);
}

std::string Way(const std::string& stack) {
  OneStack one(stack);
  return WayText(one.profile, one.frames, &one.plumbing);
}

TEST(WaitRank, AThreadIsIdleThatWaitsInItsOwnLoop) {
  EXPECT_TRUE(IsIdle("std::thread::run;Pool::Run();Pool::Next();std::condition_variable::wait(L&);pthread_cond_wait"));
  EXPECT_TRUE(IsIdle("a;b;c;d;pthread_cond_wait"));
  EXPECT_FALSE(IsIdle("a;b;c;d;e;pthread_cond_wait"));       // in the midst of work
  EXPECT_TRUE(IsIdle("a;b;c;d;e;pthread_cond_wait", true));  // which it never began
  EXPECT_FALSE(IsIdle("a;b;c;d;e;f;g;h;i;j;k;pthread_cond_wait", true));
  EXPECT_FALSE(IsIdle("[truncated];d;pthread_cond_wait"));  // nobody knows how deep
}

TEST(WaitRank, AMonitorOfJavaIsALock) {
  const auto rank = [](const std::string& stack) {
    OneStack one(stack);
    return RankOfUnheld(one.profile, one.frames, false, &one.plumbing);
  };
  EXPECT_EQ(
      rank("start;JavaThread::run();ObjectMonitor::enter(JavaThread*);os::PlatformEvent::park();pthread_cond_wait"),
      WaitRank::kLock);
  EXPECT_EQ(rank("start;JavaThread::run();ObjectMonitor::wait(long);os::PlatformEvent::park();pthread_cond_wait"),
            WaitRank::kIdle);
}

// Readers wait for one futex and writers for another, so no function both waits for a futex and wakes it.
TEST(WaitRank, RustsContendedLocksAreLocks) {
  const auto rank = [](const std::string& stack) {
    OneStack one("start;app::find;" + stack + ";std::sys::pal::unix::futex::futex_wait");
    return RankOfUnheld(one.profile, one.frames, false, &one.plumbing);
  };
  EXPECT_EQ(rank("std::sys::sync::rwlock::futex::RwLock::read_contended"), WaitRank::kLock);
  EXPECT_EQ(rank("<std::sys::sync::rwlock::futex::RwLock>::write_contended"), WaitRank::kLock);
  EXPECT_EQ(rank("std::sys::sync::mutex::futex::Mutex::lock_contended"), WaitRank::kLock);
  EXPECT_EQ(rank("parking_lot::raw_rwlock::RawRwLock::lock_exclusive_slow"), WaitRank::kLock);
  EXPECT_EQ(rank("std::thread::park"), WaitRank::kIdle);
  EXPECT_EQ(rank("app::FairRwLock::read_contended"), WaitRank::kIdle);
}

// Whoever wakes these held nothing. The innermost known function decides: after the event, the thread takes the lock.
TEST(WaitRank, RustsConditionsAndParkedThreadsWaitForAnEvent) {
  const auto is_event = [](const std::string& stack) {
    OneStack one("start;app::serve;" + stack + ";std::sys::pal::unix::futex::futex_wait");
    return WaitsForAnEvent(one.profile, one.frames);
  };
  EXPECT_TRUE(is_event("std::sync::poison::condvar::Condvar::wait"));
  EXPECT_TRUE(is_event("<std::sys::sync::condvar::futex::Condvar>::wait_optional_timeout"));
  EXPECT_TRUE(is_event("parking_lot::condvar::Condvar::wait_until_internal"));
  EXPECT_TRUE(is_event("std::thread::park"));
  EXPECT_FALSE(
      is_event("std::sync::poison::condvar::Condvar::wait;std::sys::sync::mutex::futex::Mutex::lock_contended"));
  EXPECT_FALSE(is_event("std::sys::sync::mutex::futex::Mutex::lock_contended"));
  EXPECT_FALSE(is_event("app::Condvar::waiters"));
}

TEST(WaitRank, ThreadsOfRuntimesAreKnownByTheirNames) {
  for (const char* name : {"Finalizer", "Reference Handl", "GC Thread#12", "G1 Conc#0", "C2 CompilerThre"})
    EXPECT_TRUE(IsRuntimeThread(name)) << name;
  for (const char* name : {"", "Finalizer2", "worker", "GC", "VM Thread pool"})
    EXPECT_FALSE(IsRuntimeThread(name)) << name;
}

TEST(WaitRank, WaitsOfWorkComeBeforeIdleOnesInTop) {
  Profile p = StackProfile({{"main;loop;pthread_cond_wait", 300},
                            {"main;serve;handle;query;acquire;wait_for_connection", 200},
                            {"main;update", 100}});
  std::erase(p.comments, p.strings.Intern("kind: heap"));
  p.AddComment("kind: block");
  const char* kinds[] = {"condition", "condition", "mutex"};
  for (size_t i = 0; i < std::size(kinds); ++i) {
    const Profile::Label label = {.key = p.strings.Intern("wait"), .text = p.strings.Intern(kinds[i])};
    const auto frames = p.FramesOf(p.samples[i]);
    const auto values = p.ValuesOf(i);
    p.AddSample(std::vector<uint32_t>(frames.begin(), frames.end()), std::vector<int64_t>(values.begin(), values.end()),
                {&label, 1});
    for (int64_t& value : p.ValuesOf(i)) value = 0;
  }
  const Folder folder;
  TopOptions options{.files = {folder.Write("app.1.0001.block.pb.gz", EncodePprof(p))}, .color = "never"};
  const Result r = Catch([&](std::ostream& out, std::ostream& err) { return RunTop(options, out, err); });
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_NE(r.out.find("events   200B of it"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("idle     300B of it"), std::string::npos) << r.out;
  EXPECT_LT(r.out.find("  update"), r.out.find("  wait_for_connection")) << r.out;
  EXPECT_LT(r.out.find("  wait_for_connection"), r.out.find("  pthread_cond_wait")) << r.out;
}

TEST(CallsText, TheWayGoesFromTheWaitToTheThreadsStartWithoutPlumbing) {
  EXPECT_EQ(Way("main;serve;std::mutex::lock();pthread_mutex_lock"), "serve ← main");
  // Code without a name counts where it waits.
  EXPECT_EQ(Way("db!db!0x10;db!do_command;db!db!0x20;db!db!0x30"), "db!0x30 ← do_command");
  EXPECT_EQ(Way("db!db!0x10;db!db!0x20"), "db!0x20 ← db!0x10");
  EXPECT_EQ(Way("pthread_cond_wait"), "pthread_cond_wait");
  std::string deep = "f0";
  for (int i = 1; i < 20; ++i) deep += ";f" + std::to_string(i);
  EXPECT_EQ(Way(deep), "f19 ← f18 ← f17 ← f16 ← f15 ← f14 ← f13 ← f12 ← f11 ← f10 ← … ← f5 ← f4 ← f3 ← f2 ← f1 ← f0");
}

TEST(CallsText, ALongWayGoesOverLinesOfSomeWidth) {
  EXPECT_EQ(WrappedCalls("aaaa ← bbbb ← cccc", "  ", 14), "  aaaa ← bbbb\n    ← cccc\n");
  EXPECT_EQ(WrappedCalls("longer_than_the_line", "  ", 5), "  longer_than_the_line\n");
  EXPECT_EQ(WrappedCalls("", "  ", 5), "");
}

}  // namespace
}  // namespace holdfast::testing
