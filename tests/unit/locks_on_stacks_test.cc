#include <gtest/gtest.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "report/observe/outside/modules_of_process.h"
#include "report/observe/outside/outside_stack.h"

namespace holdfast {
namespace {

#define KEPT __attribute__((noinline, noclone))

struct Sleeper {
  std::atomic<pid_t> thread = 0;
  std::atomic<uint64_t> local = 0;
  std::atomic<int> word = 0;
};

// Its frame begins with what a frame begins with: addresses above, each beside the address that its caller goes on at.
KEPT void SleepAmongPairs(Sleeper* sleeper) {
  volatile uint64_t pairs[16];
  for (size_t i = 0; i < std::size(pairs); i += 2) {
    pairs[i] = static_cast<uint64_t>(pthread_self());  // above all frames
    pairs[i + 1] = reinterpret_cast<uint64_t>(__builtin_return_address(0));
  }
  sleeper->thread = static_cast<pid_t>(syscall(SYS_gettid));
  while (sleeper->word == 0) syscall(SYS_futex, &sleeper->word, FUTEX_WAIT, 0, nullptr);
  EXPECT_NE(pairs[0], 0u);
}
KEPT void HasALocal(Sleeper* sleeper) {
  volatile uint64_t local = 1;
  sleeper->local = reinterpret_cast<uint64_t>(&local);
  SleepAmongPairs(sleeper);
  EXPECT_EQ(local, 1u);
}

TEST(OutsideStacks, FalseFramesAreNotAccepted) {
  Sleeper sleeper;
  std::thread thread([&] { HasALocal(&sleeper); });
  std::optional<BlockedCall> call;
  while (!call.has_value() || call->number != SYS_futex) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (sleeper.thread != 0) call = BlockedCallOf(getpid(), sleeper.thread);
  }
  const ProcessMemory memory(getpid());
  std::vector<ModuleInfo> modules;
  AddModulesOf(getpid(), memory, &modules);
  OutsideStacks stacks;
  std::vector<uint64_t> ends;
  const StackInfo stack = stacks.Walk(memory, modules, call->pc, call->sp, &ends);
  sleeper.word = 1;
  syscall(SYS_futex, &sleeper.word, FUTEX_WAKE, 1);
  thread.join();

  EXPECT_FALSE(stack.truncated);
  const std::optional<FrameAt> place = FrameHolding(sleeper.local, call->sp, ends);
  ASSERT_TRUE(place.has_value());
  const uint64_t pc = stack.frames[place->frame] & kPcMask, start = reinterpret_cast<uint64_t>(&HasALocal);
  EXPECT_GT(pc, start);
  EXPECT_LT(pc - start, 500u);
}

TEST(FrameHolding, IsTheOneThatEndsAboveTheAddress) {
  const std::vector<uint64_t> ends = {0x1010, 0x1080, 0x1100};
  const auto at = [&](uint64_t address) {
    const std::optional<FrameAt> place = FrameHolding(address, 0x1000, ends);
    return place.has_value() ? static_cast<int64_t>(place->frame * 1000 + place->offset) : -1;
  };
  EXPECT_EQ(at(0xfff), -1);  // below what is in use
  EXPECT_EQ(at(0x1000), 0);
  EXPECT_EQ(at(0x100f), 15);
  EXPECT_EQ(at(0x1010), 1000);
  EXPECT_EQ(at(0x107f), 1111);
  EXPECT_EQ(at(0x1080), 2000);
  EXPECT_EQ(at(0x10ff), 2127);
  EXPECT_EQ(at(0x1100), -1);  // of an outer one that the walk did not reach, or of nobody
  EXPECT_FALSE(FrameHolding(0x1000, 0x1000, {}).has_value());
}

}  // namespace
}  // namespace holdfast
