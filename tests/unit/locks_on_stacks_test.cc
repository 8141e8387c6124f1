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

// Walks the stack of a thread once it sleeps, and wakes it. `innermost`: its stack pointer.
StackInfo StackOf(Sleeper* sleeper, std::vector<uint64_t>* ends = nullptr, uint64_t* innermost = nullptr) {
  std::optional<BlockedCall> call;
  while (!call.has_value() || call->number != SYS_futex) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (sleeper->thread != 0) call = BlockedCallOf(getpid(), sleeper->thread);
  }
  const ProcessMemory memory(getpid());
  std::vector<ModuleInfo> modules;
  AddModulesOf(getpid(), memory, &modules);
  OutsideStacks stacks;
  StackInfo stack = stacks.Walk(memory, modules, call->pc, call->sp, ends);
  sleeper->word = 1;
  syscall(SYS_futex, &sleeper->word, FUTEX_WAKE, 1);
  if (innermost != nullptr) *innermost = call->sp;
  return stack;
}

TEST(OutsideStacks, FalseFramesAreNotAccepted) {
  Sleeper sleeper;
  std::thread thread([&] { HasALocal(&sleeper); });
  std::vector<uint64_t> ends;
  uint64_t sp = 0;
  const StackInfo stack = StackOf(&sleeper, &ends, &sp);
  thread.join();

  EXPECT_FALSE(stack.truncated);
  const std::optional<FrameAt> place = FrameHolding(sleeper.local, sp, ends);
  ASSERT_TRUE(place.has_value());
  const uint64_t pc = stack.frames[place->frame] & kPcMask, start = reinterpret_cast<uint64_t>(&HasALocal);
  EXPECT_GT(pc, start);
  EXPECT_LT(pc - start, 500u);
}

#if defined(__x86_64__)
extern "C" {
using Sleeps = void(std::atomic<int>* word, int operation, int value);
using FramePointer = void(std::atomic<int>* word, int operation, int value, Sleeps* sleeps);
using NoFramePointer = void(std::atomic<int>* word, int operation, int value, Sleeps* sleeps, FramePointer* by);
NoFramePointer calls_by_register, calls_by_memory;
void waits_by_futex(std::atomic<int>* word, int operation, int value);
}

// Functions with HAS_FRAME_POINTER call the function in their fourth argument.
#define ASSEMBLY(NAME, CODE)                                                             \
  asm(".text\n.p2align 7\n.type " #NAME ", @function\n" #NAME ":\n.cfi_startproc\n" CODE \
      "\n.cfi_endproc\n.size " #NAME ", . - " #NAME)
#define PUSH_RBP "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset 6, -16\n"
#define POP_RBP "\npop %rbp\n.cfi_def_cfa 7, 8\nret"
#define HAS_FRAME_POINTER(NAME, BEFORE, AFTER)                                     \
  extern "C" FramePointer NAME;                                                    \
  ASSEMBLY(NAME, PUSH_RBP BEFORE "mov %rsp, %rbp\n.cfi_def_cfa_register 6\n" AFTER \
                                 "\ncall *%rcx\nlea -8(%rbp), %rsp\npop %rbx" POP_RBP)

// As gcc begins functions: gcc 12, gcc 16 -O1 with a small and a large frame, -O2, -fstack-clash-protection.
HAS_FRAME_POINTER(pushes_and_subtracts, "", "push %rbx\nsub $0x48, %rsp");
HAS_FRAME_POINTER(adds_minus_128, "", "push %rbx\nadd $-0x80, %rsp\npush %rax");
HAS_FRAME_POINTER(begins_with_lea, "", "lea -0x30(%rsp), %rsp\nmov %rbx, -8(%rbp)");
HAS_FRAME_POINTER(begins_with_far_lea, "", "lea -0x13a0(%rsp), %rsp\nmov %rbx, -8(%rbp)");
HAS_FRAME_POINTER(mixes, "mov %edi, %eax\n", "push %rbx\nmov %rdi, %rbx\npush %r12\nxor %eax, %eax\nsub $0x40, %rsp");
HAS_FRAME_POINTER(probes, "", "push %rbx\nsub $0x1000, %rsp\norq $0, (%rsp)\nsub $0x48, %rsp");
// As libc's functions that call main, before glibc 2.43 and since. They use the register of the frame pointer for something else.
ASSEMBLY(calls_by_register, PUSH_RBP "mov $1, %ebp\nmov %r8, %rax\ncall *%rax" POP_RBP);
ASSEMBLY(calls_by_memory, PUSH_RBP
         "mov $1, %ebp\nsub $0x10, %rsp\n.cfi_def_cfa_offset 32\nmov %r8, 8(%rsp)\n"
         "call *8(%rsp)\nadd $0x10, %rsp\n.cfi_def_cfa_offset 16" POP_RBP);
ASSEMBLY(waits_by_futex, "xor %r10d, %r10d\nmov $202, %eax\nsyscall\nret");

TEST(OutsideStacks, FramesAreFoundIfTheCallerHasNoFramePointer) {
  const auto is_in = [](TaggedPc frame, auto* function) {
    return (frame & kPcMask) - reinterpret_cast<uint64_t>(function) < 128;
  };
  for (const auto& caller : {calls_by_register, calls_by_memory}) {
    for (const auto& function :
         {pushes_and_subtracts, adds_minus_128, begins_with_lea, begins_with_far_lea, mixes, probes}) {
      Sleeper sleeper;
      std::thread thread([&] {
        sleeper.thread = static_cast<pid_t>(syscall(SYS_gettid));
        caller(&sleeper.word, FUTEX_WAIT, 0, waits_by_futex, function);
      });
      const StackInfo stack = StackOf(&sleeper);
      thread.join();
      EXPECT_FALSE(stack.truncated);
      ASSERT_GE(stack.frames.size(), 3u);
      EXPECT_TRUE(is_in(stack.frames[1], function) && is_in(stack.frames[2], caller));
    }
  }
}
#endif

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
