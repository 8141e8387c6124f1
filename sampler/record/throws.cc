#include "sampler/record/throws.h"

#include "sampler/capture/sample_stack.h"
#include "sampler/contract/clock.h"
#include "sampler/contract/poisson_sampler.h"
#include "sampler/hot_path/own_floats.h"
#include "sampler/process/entered.h"
#include "sampler/process/noted_threads.h"
#include "sampler/process/own_table.h"
#include "sampler/process/small_process.h"
#include "sampler/table/thrown_types.h"

namespace holdfast {
namespace {

// How often this thread throws. Not in ThreadState, which has no room left: found by the thread pointer, in one of
// kProbes places. Threads that find no place (too many throw at once) sample every throw at random.
struct alignas(64) ThrowRate {
  std::atomic<uintptr_t> thread;   // 0: free
  std::atomic<int64_t> window_ns;  // its start
  uint32_t epoch;                  // Process::epoch
  uint32_t thrown, taken;          // in this window
  uint32_t interval;
  int64_t gap;  // throws until the next sample, itself included; only where interval > 1
};
// 256 KiB of zeros; only used pages get memory. A thousand threads that throw within a second all find a place.
constexpr uint32_t kRates = 4096, kProbes = 8;
constinit ThrowRate rates[kRates] = {};

constexpr int64_t kWindowNs = 100'000'000, kStaleNs = 10 * kWindowNs;
constexpr uint32_t kWhole = 100;  // of a window
constexpr uint32_t kStep = 8;     // factor by which the interval grows once kWhole were recorded
constexpr uint32_t kMaxInterval = 1 << 20, kIntervalOfOthers = 512;
constexpr uint32_t kLookEvery = 16;  // throws between readings of the clock, when not all are recorded

// A few milliseconds late at most, for a fifth of the price.
int64_t CoarseNs() {
  if (UNLIKELY(no_clock.load(std::memory_order_relaxed))) return 0;
  timespec now{};
  ReadClock(CLOCK_MONOTONIC_COARSE, &now);
  return NsOf(now);
}

ThrowRate* FindRate() {
  const uintptr_t thread = ThreadPointer();
  const uint64_t hash = (thread >> 6) * 0x9e3779b97f4a7c15 >> 32;
  for (uint32_t i = 0; i < kProbes; ++i) {
    ThrowRate& rate = rates[(hash + i) % kRates];
    if (LIKELY(rate.thread.load(std::memory_order_relaxed) == thread)) return &rate;
  }
  const int64_t now = CoarseNs();
  for (uint32_t i = 0; i < kProbes; ++i) {
    ThrowRate& rate = rates[(hash + i) % kRates];
    uintptr_t owner = rate.thread.load(std::memory_order_relaxed);
    if (owner != 0 && now - rate.window_ns.load(std::memory_order_relaxed) < kStaleNs) continue;
    if (!rate.thread.compare_exchange_strong(owner, thread, std::memory_order_relaxed)) continue;
    rate.window_ns.store(0, std::memory_order_relaxed);
    return &rate;
  }
  return nullptr;
}

void DrawNext(ThrowRate* rate) {
  const OwnFloats floats;
  rate->gap = DrawGap(rate->interval, &thread_state.random, kUncutGap).length;
}

void UseInterval(ThrowRate* rate, uint64_t interval) {
  rate->interval = static_cast<uint32_t>(interval < kMaxInterval ? interval : kMaxInterval);
  rate->taken = 0;
  // Draws the gap anew from here: the process has no memory, so the rest of the previous gap may be dropped.
  if (rate->interval > 1) DrawNext(rate);
}

HOLDFAST_COLD void BeginWindow(ThrowRate* rate, int64_t now, uint32_t epoch) {
  const bool goes_on = rate->epoch == epoch && now - rate->window_ns.load(std::memory_order_relaxed) < 2 * kWindowNs;
  const uint32_t before = goes_on ? rate->thrown : 0;
  rate->window_ns.store(now, std::memory_order_relaxed);
  rate->epoch = epoch;
  rate->thrown = 0;
  UseInterval(rate, before <= kWhole ? 1 : before / kWhole);
}

}  // namespace

uint64_t ThrowDue() {
  if ((process.options.profiles & KindBit(ProfileKind::kExceptions)) == 0 ||
      !process.recording.load(std::memory_order_relaxed) || !OwnState())
    return 0;
  ThrowRate* rate = FindRate();
  if (UNLIKELY(rate == nullptr))
    return NextRandom(&thread_state.random) % kIntervalOfOthers == 0 ? kIntervalOfOthers : 0;
  const uint32_t epoch = process.epoch.load(std::memory_order_relaxed);
  if (rate->interval <= 1 || rate->thrown % kLookEvery == 0) {
    const int64_t now = CoarseNs();
    if (now - rate->window_ns.load(std::memory_order_relaxed) >= kWindowNs || rate->epoch != epoch)
      BeginWindow(rate, now, epoch);
  }
  ++rate->thrown;
  const uint32_t interval = rate->interval;
  if (LIKELY(interval > 1) && LIKELY(--rate->gap > 0)) return 0;
  if (++rate->taken >= kWhole) {
    UseInterval(rate, uint64_t{interval} * kStep);
  } else if (interval > 1) {
    DrawNext(rate);
  }
  return interval;
}

void RecordThrow(const CallerRegisters& caller, const char* type, uint8_t thrown, uint64_t interval) {
  ThreadState& thread = thread_state;
  if (LittleStackLeft(kStackForRecord)) {
    if (SharedTable* table = CurrentTable()) table->Count(Loss::kStackMissing);
    return;
  }
  const Entered entered(thread);
  if (entered.way() == Way::kClosed) return;
  const bool open = entered.way() == Way::kOpen;
  // During a sample the table may just be being made.
  SharedTable* table = open ? GetTable() : CurrentTable();
  if (table == nullptr) return;
  const auto add = [&](Stack* stack) {
    Row* row = FindMarkedRow(table, stack, ProfileKind::kExceptions, thrown, NumberOfType(table, type));
    const OwnFloats floats;
    const Weight weight = WeightOf(1, interval);
    AddTo(table, &row->sums[kThrown], weight.count);
    AddDouble(&row->sums[kThrownVariance], weight.count_variance);
    return row;
  };
  if (!open) {
    add(MissingStack(table));
    return;
  }
  const OwnTime own_time(table, thread);
  NoteThread(table, thread, add(SampleStack(table, thread, caller)), own_time.start_ns());
  own_time.Add();
  if (own_time.measured()) AfterSample(table);
}

void NoteOnItsWay() { thread_state.throwing = true; }

bool TakeOnItsWay() {
  if (!thread_state.throwing) return false;
  thread_state.throwing = false;
  return true;
}

}  // namespace holdfast
