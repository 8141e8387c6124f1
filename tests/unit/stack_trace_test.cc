// Stacks of every shape, compared with what libgcc's unwinder says of them; and stacks that no unwinder can walk.
#include "sampler/capture/stack_trace.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "sampler/capture/row_cache.h"
#include "sampler/capture/sample_stack.h"
#include "sampler/contract/syscalls.h"
#include "tests/unit/anonymous_table.h"
#include "tests/unit/both_traces.h"
#include "tests/unit/compiled_call.h"

void CallRealigned(void (*inner)(void*), void* argument, size_t bytes);  // realigned.cc

namespace holdfast {
namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

struct StackTraceTest : ::testing::Test {
  StackTraceTest() { UseAnonymousTable(); }
  StackBounds bounds{};
  BothTraces traces{};
  void Capture() { CaptureBoth(&bounds, &traces); }
};

// Keeps a call from becoming a jump, so that its frame stays.
void StayInFrame() { asm volatile("" ::: "memory"); }

[[gnu::noinline]] int Recurse(int depth, StackTraceTest* test) {
  volatile char frame_of_its_own[48];
  frame_of_its_own[depth % 48] = 1;
  if (depth == 0) {
    test->Capture();
  } else {
    Recurse(depth - 1, test);
  }
  return frame_of_its_own[depth % 48] + depth;
}

TEST_F(StackTraceTest, CodeWithoutFramePointersIsWalkedToMain) {
  Recurse(40, this);
  EXPECT_TRUE(SameFrames(traces));
  EXPECT_GT(traces.ours.depth, 40);
  EXPECT_FALSE(traces.ours.truncated);
}

// This program is linked so; all other tests are about such a one too.
TEST_F(StackTraceTest, AProgramWithHolesBetweenItsSegmentsIsWalked) {
  dl_find_object found;
  ASSERT_EQ(_dl_find_object(reinterpret_cast<void*>(&Recurse), &found), 0);
  ASSERT_NE(memcmp(found.dlfo_map_start, "\177ELF", 4), 0) << "no hole: this test has lost its point";
  Recurse(1, this);
  EXPECT_FALSE(traces.ours.truncated);
}

TEST_F(StackTraceTest, DeepStacksKeepBothEnds) {
  for (const int depth : {kMaxDepth - 20, kMaxDepth, kMaxDepth + 20, 5000, kMaxWalkedFrames - 100, kMaxWalkedFrames}) {
    Recurse(depth, this);
    EXPECT_TRUE(SameFrames(traces)) << depth;
  }
  EXPECT_EQ(traces.ours.depth, kMaxDepth);
  EXPECT_TRUE(traces.ours.truncated);
}

TEST_F(StackTraceTest, ASecondWalkByCachedRowsIsTheSame) {
  for (int i = 0; i < 3; ++i) {
    Recurse(30, this);
    EXPECT_TRUE(SameFrames(traces));
  }
  ForgetUnwindRows();
  Recurse(30, this);
  EXPECT_TRUE(SameFrames(traces));
}

TEST_F(StackTraceTest, ErrnoIsPreserved) {
  ForgetUnwindRows();
  errno = 4711;
  Recurse(3, this);
  EXPECT_EQ(errno, 4711);
}

[[gnu::noinline]] void ThrowAndCatch(int depth, StackTraceTest* test) {
  struct Guard {
    StackTraceTest* test;
    ~Guard() { test->Capture(); }  // runs in the middle of unwinding
  };
  try {
    Guard guard{test};
    if (depth > 0) ThrowAndCatch(depth - 1, test);
    throw std::runtime_error("thrown");
  } catch (const std::runtime_error&) {
    EXPECT_TRUE(SameFrames(test->traces));
    test->Capture();
    EXPECT_TRUE(SameFrames(test->traces));
  }
}

TEST_F(StackTraceTest, DestructorsAndHandlersDuringExceptionsAreWalked) { ThrowAndCatch(6, this); }

StackTraceTest* comparing;

TEST_F(StackTraceTest, CallbacksThroughLibcAreWalked) {
  comparing = this;
  int values[] = {5, 3, 9, 1, 7, 2};
  qsort(values, 6, sizeof(int), [](const void* a, const void* b) {
    comparing->Capture();
    EXPECT_TRUE(SameFrames(comparing->traces));
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  });
  EXPECT_EQ(values[0], 1);
}

TEST_F(StackTraceTest, FramesThatRealignTheirStackAreWalked) {
  CallRealigned([](void* test) { static_cast<StackTraceTest*>(test)->Capture(); }, this, 200);
  EXPECT_TRUE(SameFrames(traces));
}

// ---- Signals ----

StackTraceTest* interrupted;

void CaptureInHandler(int) {
  interrupted->Capture();
  StayInFrame();
}

struct AlternateStack {
  explicit AlternateStack(size_t bytes) : memory(bytes) {
    const stack_t stack{.ss_sp = memory.data(), .ss_flags = 0, .ss_size = bytes};
    sigaltstack(&stack, &before);
  }
  ~AlternateStack() { sigaltstack(&before, nullptr); }
  std::vector<char> memory;
  stack_t before{};
};

void OnSignal(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK;
  sigaction(number, &action, nullptr);
}

TEST_F(StackTraceTest, SignalHandlersOnAnAlternateStackAreWalkedToMain) {
  AlternateStack stack(64 << 10);
  interrupted = this;
  OnSignal(SIGUSR1, CaptureInHandler);
  raise(SIGUSR1);
  EXPECT_TRUE(SameFrames(traces));
  EXPECT_GT(traces.ours.depth, 5);
}

TEST_F(StackTraceTest, SignalHandlersInAThreadAreWalkedToItsStart) {
  interrupted = this;
  std::thread([] {
    AlternateStack stack(64 << 10);
    OnSignal(SIGUSR1, CaptureInHandler);
    raise(SIGUSR1);
  }).join();
  EXPECT_TRUE(SameFrames(traces));
}

#if defined(__x86_64__)  // has a trap flag
// Each instruction of what follows: prologues, epilogues, PLT entries, the loader's lazy binding.
struct Stepped {
  int instructions = 0, whole = 0, cut = 0, wrong = 0;
  std::string first_wrong;
} stepped;

void CompareAtInstruction(int) {
  interrupted->Capture();
  const BothTraces& traces = interrupted->traces;
  ++stepped.instructions;
  if (!traces.ours.truncated) {
    ++stepped.whole;
  } else {
    ++stepped.cut;
  }
  // The frames of a cut trace must be right.
  for (int i = 0; i < traces.ours.depth; ++i) {
    if (i < traces.oracle_depth && PcOf(traces.ours, i) == traces.oracle[i]) continue;
    if (stepped.wrong++ == 0) stepped.first_wrong = ::testing::PrintToString(SameFrames(traces).message());
    return;
  }
  if (!traces.ours.truncated && traces.ours.depth != traces.oracle_depth) ++stepped.wrong;
}

[[gnu::noinline]] int CallThings() {
  // Bound at the first call: this file is linked with -z lazy, and nothing else calls these.
  volatile int sum = ffsll(1 << 20) + static_cast<int>(l64a(12345)[0]) + abs(static_cast<int>(a64l("abc")));
  char buffer[64];
  memfrob(buffer, 0);
  CallRealigned([](void* value) { *static_cast<volatile int*>(value) = 1; }, const_cast<int*>(&sum), 100);
  return sum;
}

[[gnu::noinline]] void StepThroughCalls() {
  stepped = {};
  OnSignal(SIGTRAP, CompareAtInstruction);
  asm volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");  // the trap flag
  CallThings();
  asm volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "memory", "cc");
  signal(SIGTRAP, SIG_DFL);
  printf("%d instructions: %d whole traces, %d cut, %d wrong\n", stepped.instructions, stepped.whole, stepped.cut,
         stepped.wrong);
  EXPECT_EQ(stepped.wrong, 0) << stepped.first_wrong;
}

TEST_F(StackTraceTest, EachInstructionOfACallIsWalked) {
  AlternateStack stack(256 << 10);
  interrupted = this;
  Capture();  // what the oracle binds lazily is bound now
  StepThroughCalls();
  // The loader's resolver counts its frame from rbx, which a walk does not follow: below it traces are cut.
  EXPECT_GT(stepped.cut, 0) << "nothing was bound lazily";
  StepThroughCalls();
  EXPECT_GT(stepped.instructions, 100);
  // The start and the end of a function that realigns its stack count from r10: 14 instructions here.
  EXPECT_LE(stepped.cut, 20);
}
#endif

// ---- Strange stacks ----

struct Mapping {
  explicit Mapping(size_t bytes)
      : size(bytes),
        start(static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Mapping() { munmap(start, size); }
  void Guard(size_t offset) { mprotect(start + offset, kPage, PROT_NONE); }
  size_t size;
  char* start;
};

StackTraceTest* in_coroutine;
int coroutine_depth;
ucontext_t back;

void Coroutine() {
  Recurse(coroutine_depth, in_coroutine);
  StayInFrame();
}

void RunOn(char* stack, size_t bytes, void (*function)() = Coroutine) {
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = bytes;
  context.uc_link = &back;
  makecontext(&context, function, 0);
  swapcontext(&back, &context);
}

TEST_F(StackTraceTest, CoroutineStacksBetweenGuardPagesAreWalkedToTheirStart) {
  Mapping mapping(64 * kPage);
  mapping.Guard(15 * kPage);
  mapping.Guard(48 * kPage);
  in_coroutine = this;
  for (const int depth : {0, 10, 100, 200}) {
    coroutine_depth = depth;
    RunOn(mapping.start + 16 * kPage, 32 * kPage);
    EXPECT_TRUE(SameFrames(traces));
    EXPECT_FALSE(traces.ours.truncated);
  }
  EXPECT_EQ(bounds.high, 0u) << "the stack of a coroutine may be unmapped any time: nothing may be remembered";
}

// Of what a walk remembers, a signal handler may find the lower bound without the upper one.
bool little_in_coroutine;
void AsksForRoom() { little_in_coroutine = LittleStackLeft(kStackForCapture); }

TEST_F(StackTraceTest, AGuardPageIsSeenWhateverIsKnownOfTheThreadsOwnStack) {
  Mapping mapping(3 * kPage);
  mapping.Guard(kPage);
  const auto start = reinterpret_cast<uintptr_t>(mapping.start);
  const StackBounds found[] = {{}, {start, 0}, {start - 2 * kPage, start}, {start + 8 * kPage, start + 9 * kPage}};
  for (const StackBounds& known : found) {
    thread_state.stack_bounds = known;
    little_in_coroutine = false;
    RunOn(mapping.start + 2 * kPage, kStackForCapture, AsksForRoom);
    EXPECT_TRUE(little_in_coroutine) << known.low - start << " " << known.high - start;
  }
  thread_state.stack_bounds = {};
}

TEST_F(StackTraceTest, AStackThatIsGoneIsNotBelievedReadable) {
  in_coroutine = this;
  coroutine_depth = 30;
  Mapping around(64 * kPage);
  for (int i = 0; i < 20; ++i) {
    // The same addresses each time, with the end of the stack in another place.
    const size_t end = (20 + i) * kPage;
    mprotect(around.start, around.size, PROT_READ | PROT_WRITE);
    around.Guard(end);
    RunOn(around.start + 4 * kPage, end - 4 * kPage);
    EXPECT_TRUE(SameFrames(traces));
  }
}

void* RecurseInThread(void* test) {
  Recurse(20, static_cast<StackTraceTest*>(test));
  Recurse(20, static_cast<StackTraceTest*>(test));
  return nullptr;
}

#if defined(__aarch64__)
// As a function with pointer authentication saves it; without such a processor it is not signed. Kernels differ in the bits
// that they leave for signatures (39 to 48 are the address); bit 55 is none of these.
TEST(WithoutSignature, LeavesTheAddress) {
  const uint64_t address_bits = WithoutSignature((uint64_t{1} << 55) - 1) & kPcMask;
  for (const uint64_t bits : {0x5555aaaa1230u, 0x7ffff7fe0018u, 0xaaaaec123450u, 0xfffff7fe0018u}) {
    const uint64_t address = bits & address_bits;
    register uint64_t x17 asm("x17") = address;
    register uint64_t x16 asm("x16") = 0x1234;
    asm("hint #8" : "+r"(x17) : "r"(x16));  // pacia1716
    EXPECT_EQ(WithoutSignature(x17), address);
  }
}
#endif

TEST_F(StackTraceTest, ThreadsWithTheSmallestStackAreWalked) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
#if defined(__aarch64__)
  constexpr size_t kSmallest = 128 << 10;
#else
  constexpr size_t kSmallest = 16 << 10;
#endif
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kSmallest), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, RecurseInThread, this), 0);
  pthread_join(thread, nullptr);
  EXPECT_TRUE(SameFrames(traces));
  EXPECT_NE(bounds.high, 0u) << "a thread remembers its own stack";
}

TEST_F(StackTraceTest, DeeperAndShallowerStacksOfAThreadAreWalked) {
  std::thread([this] {
    for (const int depth : {10, 100, 5, 220, 40, 2000, 60}) {
      Recurse(depth, this);
      EXPECT_TRUE(SameFrames(traces)) << depth;
    }
  }).join();
}

[[gnu::noinline]] void WithLargeFrame(StackTraceTest* test) {
  volatile char large[1 << 20];
  large[0] = 1;
  large[sizeof(large) - 1] = 1;
  test->Capture();
  StayInFrame();
}

TEST_F(StackTraceTest, LargeFramesInAThreadAreSteppedOver) {
  std::thread([this] {
    WithLargeFrame(this);
    EXPECT_TRUE(SameFrames(traces));
    WithLargeFrame(this);
    EXPECT_TRUE(SameFrames(traces));
  }).join();
}

[[gnu::noinline]] void CaptureHere(StackTraceTest* test) {
  CaptureStack(HOLDFAST_CALLER(), &test->bounds, &test->traces.ours);
  StayInFrame();
}

// The frame pointer and the return address of this function are overwritten while the stack is captured.
[[gnu::noinline]] void CaptureSmashed(StackTraceTest* test, uintptr_t garbage) {
  auto* frame = static_cast<volatile uintptr_t*>(__builtin_frame_address(0));
  const uintptr_t fp = frame[0], pc = frame[1];
  frame[0] = garbage;
  frame[1] = garbage;
  CaptureHere(test);
  frame[0] = fp;
  frame[1] = pc;
}

TEST_F(StackTraceTest, SmashedStacksEndTheTrace) {
  int on_this_stack = 0;
  const uintptr_t here = reinterpret_cast<uintptr_t>(&on_this_stack);
  for (const uintptr_t garbage :
       {uintptr_t{0x4141414141414141}, uintptr_t{0x414141414141}, uintptr_t{1}, here, ~uintptr_t{0}}) {
    CaptureSmashed(this, garbage);
    EXPECT_LE(traces.ours.depth, 4);
    EXPECT_TRUE(traces.ours.truncated);
  }
}

// Stacks of noise, with code addresses of ours and of libc among it, at the end of a mapping.
TEST_F(StackTraceTest, NoiseIsSurvived) {
  Mapping mapping(8 * kPage);
  mapping.Guard(7 * kPage);
  std::mt19937_64 random(20261121);
  const uintptr_t codes[] = {reinterpret_cast<uintptr_t>(&Recurse), reinterpret_cast<uintptr_t>(&qsort),
                             reinterpret_cast<uintptr_t>(&abort), reinterpret_cast<uintptr_t>(&CallRealigned)};
  const auto low = reinterpret_cast<uintptr_t>(mapping.start);
  const auto noise = [&]() -> uintptr_t {
    switch (random() % 4) {
      case 0:
        return codes[random() % 4] + random() % 2000;
      case 1:
        return low + random() % (9 * kPage) / 8 * 8;
      case 2:
        return random() % 3 == 0 ? 0 : random();
      default:
        return low + random() % (8 * kPage);
    }
  };
  uint64_t frames = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto* words = reinterpret_cast<uintptr_t*>(mapping.start);
    for (int i = 0; i < 64; ++i) words[random() % (7 * kPage / 8)] = noise();
    // A capture is always called on its stack, so this much of it is there.
    const uintptr_t sp = low + 8 + random() % (7 * kPage - 16) / 8 * 8;
    StackBounds none{};
    CaptureStack({codes[random() % 4] + random() % 2000, sp, noise()}, &none, &traces.ours);
    ASSERT_LE(static_cast<int>(traces.ours.depth), kMaxDepth);
    frames += traces.ours.depth;
  }
  EXPECT_GE(frames, 20'000u) << "is it walked at all?";
  printf("%.2f frames in each\n", static_cast<double>(frames) / 20'000);
}

TEST_F(StackTraceTest, CodeOutsideOfModulesIsSteppedOverByItsFramePointer) {
  Mapping mapping(kPage);
  WriteCompiledCall(mapping.start);
  mprotect(mapping.start, kPage, PROT_READ | PROT_EXEC);
  using Compiled = void (*)(void (*)(void*), void*);
  reinterpret_cast<Compiled>(mapping.start)([](void* test) { static_cast<StackTraceTest*>(test)->Capture(); }, this);
  const StackTrace ours = traces.ours;
  EXPECT_FALSE(ours.truncated);
  int at = 0;
  while (at < ours.depth && PcOf(ours, at) - reinterpret_cast<uintptr_t>(mapping.start) >= kPage) ++at;
  EXPECT_LE(at, 3) << "the code, below what it calls";
  EXPECT_GT(ours.depth, at + 8) << "and above it all that leads to main";
}

// A JIT compiler's code that calls itself.
TEST_F(StackTraceTest, APageOfCodeOutsideOfModulesIsProbedOnceInAWalk) {
  Mapping mapping(kPage);
  WriteCompiledCall(mapping.start);
  mprotect(mapping.start, kPage, PROT_READ | PROT_EXEC);
  struct Nested {
    StackTraceTest* test;
    void (*compiled)(void (*)(void*), void*);
    int left;
    uint64_t probes;
    void Call() {
      compiled([](void* nested) { static_cast<Nested*>(nested)->Inside(); }, this);
    }
    void Inside() {
      if (--left > 0) return Call();
      // The first one records modules.
      test->Capture();
      const uint64_t before = Probes();
      test->Capture();
      probes = Probes() - before;
    }
    static uint64_t Probes() {
      uint64_t sum = 0;
      for (const CounterShard& shard : CurrentTable()->header()->counters) sum += shard.memory_probes;
      return sum;
    }
  } nested{this, reinterpret_cast<void (*)(void (*)(void*), void*)>(mapping.start), 60, 0};
  nested.Call();
  EXPECT_FALSE(traces.ours.truncated);
  EXPECT_GT(traces.ours.depth, 60);
  EXPECT_LE(nested.probes, 10u);
}

TEST_F(StackTraceTest, WithoutSystemCallsAThreadIsWalked) {
  no_system_calls = true;
  std::thread([this] { Recurse(20, this); }).join();
  no_system_calls = false;
  EXPECT_TRUE(SameFrames(traces));
}

TEST_F(StackTraceTest, WithoutSystemCallsAStrangeStackIsCut) {
  Mapping mapping(256 * kPage);  // its lower end is far from any thread's own block
  mapping.Guard(12 * kPage);
  in_coroutine = this;
  coroutine_depth = 200;
  no_system_calls = true;
  RunOn(mapping.start, 12 * kPage);
  no_system_calls = false;
  EXPECT_TRUE(traces.ours.truncated);
  EXPECT_GE(traces.ours.depth, 1);
}

TEST_F(StackTraceTest, ThreadsCaptureWhileRowsAreForgotten) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      auto test = std::make_unique<BothTraces>();
      StackBounds own{};
      while (!stop) {
        CaptureBoth(&own, test.get());
        if (!SameFrames(*test)) ++wrong;
      }
    });
  }
  for (int i = 0; i < 3000; ++i) {
    ForgetUnwindRows();
    Recurse(i % 50, this);
    ASSERT_TRUE(SameFrames(traces));
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// A walk may wait for memory, or for what it has to look up, a thousand times as long as usual.
TEST_F(StackTraceTest, ALongSampleIsCountedAsLongAsItWas) {
  constexpr int64_t kLongNs = 2'000'000;
  const auto processor_ns = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
  };
  ThreadState thread{};
  const OwnTime own_time(CurrentTable(), thread);
  for (const int64_t start = processor_ns(); processor_ns() - start < kLongNs;) {
  }
  own_time.Add();
  EXPECT_GE(CurrentTable()->header()->counters[0].sample_ns, static_cast<uint64_t>(kLongNs) * OwnTime::kOneIn);
}

}  // namespace
}  // namespace holdfast
