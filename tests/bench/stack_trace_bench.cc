// What one captured stack costs: hot (the same stack again and again), diverse (a different path through different
// functions each time), the first of a thread, and after all rows were forgotten; beside the unwinders that a program
// could use instead.
//     stack_trace_bench --benchmark_min_time=0.2
#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unwind.h>

#include <cstdint>
#include <utility>

#include "sampler/capture/row_cache.h"
#include "sampler/capture/stack_trace.h"

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "tests/bench/call_paths.h"
#include "tests/unit/anonymous_table.h"

namespace holdfast {
namespace {

StackTrace trace;
void* addresses[kMaxDepth];
int depth;  // of the last capture

struct Ours {
  StackBounds bounds{};
  [[gnu::noinline]] void operator()() {
    CaptureStack(HOLDFAST_CALLER(), &bounds, &trace);
    depth = trace.depth;
  }
};
struct Libgcc {
  [[gnu::noinline]] void operator()() {
    depth = 0;
    _Unwind_Backtrace(
        [](_Unwind_Context* context, void*) {
          if (depth < kMaxDepth) addresses[depth++] = reinterpret_cast<void*>(_Unwind_GetIP(context));
          return _URC_NO_REASON;
        },
        nullptr);
  }
};
struct Libunwind {
  [[gnu::noinline]] void operator()() { depth = unw_backtrace(addresses, kMaxDepth); }
};

// The time of the capture alone: the frames are left standing, and the loop runs at their top.
template <typename Capture>
struct Repeat {
  benchmark::State& state;
  Capture capture{};
  void operator()() {
    for (auto _ : state) capture();
    state.counters["frames"] = depth;
  }
};

template <typename Capture>
void Hot(benchmark::State& state) {
  UseAnonymousTable();
  ForgetUnwindRows();
  Repeat<Capture> repeat{state};
  Frame<Repeat<Capture>, 0>(repeat, 1, static_cast<int>(state.range(0)) - kOtherFrames);
}

// Each iteration is another stack; the clock runs only during the capture.
template <typename Capture>
struct Timed {
  Capture capture{};
  int64_t ns = 0;
  void operator()() {
    timespec start, end;  // the two readings are about 40 ns of each figure
    clock_gettime(CLOCK_MONOTONIC, &start);
    capture();
    clock_gettime(CLOCK_MONOTONIC, &end);
    ns += (end.tv_sec - start.tv_sec) * int64_t{1'000'000'000} + end.tv_nsec - start.tv_nsec;
  }
  double Take() { return static_cast<double>(std::exchange(ns, 0)) * 1e-9; }
};

template <typename Capture>
void Diverse(benchmark::State& state) {
  UseAnonymousTable();
  ForgetUnwindRows();
  Timed<Capture> timed;
  uint64_t path = 7;
  for (auto _ : state) {
    path = path * 6364136223846793005 + 1;
    Frame<Timed<Capture>, 0>(timed, path, static_cast<int>(state.range(0)) - kOtherFrames);
    state.SetIterationTime(timed.Take());
  }
  state.counters["frames"] = depth;
}

// Nothing is known: each frame's row has to be made.
void Forgotten(benchmark::State& state) {
  UseAnonymousTable();
  Timed<Ours> timed;
  uint64_t path = 7;
  for (auto _ : state) {
    ForgetUnwindRows();
    path = path * 6364136223846793005 + 1;
    Frame<Timed<Ours>, 0>(timed, path, static_cast<int>(state.range(0)) - kOtherFrames);
    state.SetIterationTime(timed.Take());
  }
  state.counters["frames"] = depth;
}

template <typename Capture>
void FirstOfAThread(benchmark::State& state) {
  UseAnonymousTable();
  static Timed<Capture> timed;
  for (auto _ : state) {
    pthread_t thread;
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          timed = {};
          Frame<Timed<Capture>, 0>(timed, 3, 27);
          return nullptr;
        },
        nullptr);
    pthread_join(thread, nullptr);
    state.SetIterationTime(timed.Take());
  }
  state.counters["frames"] = depth;
}

// Its stack may be unmapped any time, so it is asked about at each capture.
ucontext_t back;
benchmark::State* coroutine_state;
void Coroutine() {
  Repeat<Ours> repeat{*coroutine_state};
  Frame<Repeat<Ours>, 0>(repeat, 1, 27);
}
void OnACoroutine(benchmark::State& state) {
  UseAnonymousTable();
  constexpr size_t kBytes = 256 << 10;
  void* stack = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = kBytes;
  context.uc_link = &back;
  makecontext(&context, Coroutine, 0);
  coroutine_state = &state;
  swapcontext(&back, &context);
  munmap(stack, kBytes);
}

BENCHMARK(Hot<Ours>)->Arg(kOtherFrames)->Arg(30)->Arg(60);
BENCHMARK(Hot<Libunwind>)->Arg(30);
BENCHMARK(Hot<Libgcc>)->Arg(30);
BENCHMARK(Diverse<Ours>)->Arg(30)->Arg(60)->UseManualTime();
BENCHMARK(Diverse<Libunwind>)->Arg(30)->UseManualTime();
BENCHMARK(Diverse<Libgcc>)->Arg(30)->UseManualTime();
BENCHMARK(Forgotten)->Arg(30)->UseManualTime();
BENCHMARK(FirstOfAThread<Ours>)->UseManualTime()->Iterations(2000);
BENCHMARK(FirstOfAThread<Libunwind>)->UseManualTime()->Iterations(500);
BENCHMARK(FirstOfAThread<Libgcc>)->UseManualTime()->Iterations(2000);
BENCHMARK(OnACoroutine);

}  // namespace
}  // namespace holdfast

BENCHMARK_MAIN();
