// What one whole sample costs: the stack's capture, interning it, counting, the live entry; and what its free costs.
//     sample_bench --benchmark_min_time=0.2
//
// Hot: one stack again and again. Known: one of 1,000 stacks by turns, as in a program that runs for a while. New: a stack
// that are unknown so far, 30 frames of it new as well, the worst there is. First: the first sample of a new thread.
#include <benchmark/benchmark.h>
#include <pthread.h>
#include <time.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "sampler/capture/row_cache.h"
#include "sampler/capture/stack_trace.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/process.h"
#include "sampler/record/heap.h"
#include "sampler/table/stack_table.h"
#include "tests/bench/call_paths.h"
#include "tests/unit/anonymous_table.h"

namespace holdfast {
namespace {

// Blocks that exist only for the tables: addresses 1,040 bytes apart, so that they spread as a heap's do.
constexpr uintptr_t kHeap = uintptr_t{1} << 40;
uintptr_t next_block = 0;
constexpr size_t kBytes = 64;

SharedTable* StartSampling(uint64_t table_bytes = 64 << 20) {
  SharedTable* table = UseAnonymousTable(table_bytes);
  MakeSpecialStacks(table);
  table->header()->heap_intervals[0].interval = 512 << 10;
  table->header()->heap_interval_count = 1;
  if (sampled_filter.counters == nullptr) sampled_filter.counters = static_cast<uint8_t*>(MapLazily(kFilterBytes));
  process.recording = true;
  ForgetUnwindRows();
  return table;
}

// What the wrappers do with a block that is due, and with its free. Each block is freed at once, but `live` of them.
struct Sample {
  [[gnu::noinline]] void operator()() {
    auto* block = reinterpret_cast<void*>(kHeap + (next_block++ % 65536) * 1040);
    RecordAlloc(HOLDFAST_CALLER(), block, kBytes);
    RecordFree(block);
  }
};

struct Repeat {
  benchmark::State& state;
  Sample sample{};
  void operator()() {
    for (auto _ : state) sample();
  }
};

struct Timed {
  Sample sample{};
  int64_t ns = 0;
  void operator()() {
    timespec start, end;  // the two readings are about 40 ns of each figure
    clock_gettime(CLOCK_MONOTONIC, &start);
    sample();
    clock_gettime(CLOCK_MONOTONIC, &end);
    ns += (end.tv_sec - start.tv_sec) * int64_t{1'000'000'000} + end.tv_nsec - start.tv_nsec;
  }
  double Take() { return static_cast<double>(std::exchange(ns, 0)) * 1e-9; }
};

constexpr int kDepth = 30;

void Hot(benchmark::State& state) {
  StartSampling();
  Repeat repeat{state};
  Frame<Repeat, 0>(repeat, 1, kDepth - kOtherFrames);
}

void Diverse(benchmark::State& state, uint64_t stacks) {
  SharedTable* table = StartSampling();
  Timed timed;
  uint64_t turn = 0;
  const auto sample = [&] {
    Frame<Timed, 0>(timed, (turn++ % stacks + 1) * 6364136223846793005, kDepth - kOtherFrames);
    return timed.Take();
  };
  for (uint64_t i = 0; i < (stacks < 10'000 ? stacks : 0); ++i) sample();
  for (auto _ : state) state.SetIterationTime(sample());
  uint64_t lost = 0;
  for (const RecordShard& shard : table->header()->record_shards) lost += shard.stack_lost.load();
  state.counters["lost"] = static_cast<double>(lost);
}
void Known(benchmark::State& state) { Diverse(state, 1'000); }
void New(benchmark::State& state) { Diverse(state, ~uint64_t{0}); }

void FirstOfAThread(benchmark::State& state) {
  StartSampling();
  static Timed timed;
  for (auto _ : state) {
    pthread_t thread;
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          timed = {};
          Frame<Timed, 0>(timed, 3, kDepth - kOtherFrames);
          return nullptr;
        },
        nullptr);
    pthread_join(thread, nullptr);
    state.SetIterationTime(timed.Take());
  }
}

// The live table alone, filled with this number of blocks: inserts one and removes one.
void Live(benchmark::State& state) {
  SharedTable* table = StartSampling(uint64_t{256} << 20);
  const auto address = [](uint64_t i) { return kHeap + i * 1040; };
  const auto live = static_cast<uint64_t>(state.range(0));
  for (uint64_t i = 0; i < live; ++i) {
    if (InsertLive(table, address(i), {.size = kBytes, .row = 1}) < 0) state.SkipWithError("the live table is full");
  }
  uint64_t turn = 0;
  for (auto _ : state) {
    const uint64_t in = turn++ % live + live;
    const int level = InsertLive(table, address(in), {.size = kBytes, .row = 1});
    const TakenLive taken = TakeLive(table, address(in), level);
    if (taken.key == nullptr) state.SkipWithError("a live block was not found");
    DropLive(taken);
  }
  state.counters["table_MiB"] = static_cast<double>(table->header()->used) * kUnit / (1 << 20);
}

BENCHMARK(Hot);
BENCHMARK(Known)->UseManualTime();
BENCHMARK(New)->UseManualTime()->Iterations(50'000);
BENCHMARK(FirstOfAThread)->UseManualTime()->Iterations(2'000);
BENCHMARK(Live)->Arg(1'000)->Arg(100'000)->Arg(1'000'000);

}  // namespace
}  // namespace holdfast

BENCHMARK_MAIN();
