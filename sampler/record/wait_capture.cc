// Chooses the waits with captured stacks, and remembers their call sites: see wait_state.h.
#include "sampler/capture/sample_stack.h"
#include "sampler/contract/poisson_sampler.h"
#include "sampler/process/noted_threads.h"
#include "sampler/process/small_process.h"
#include "sampler/record/lock_records.h"
#include "sampler/record/lock_sampling.h"
#include "sampler/record/ongoing_waits.h"
#include "sampler/record/wait_internal.h"

namespace holdfast {

namespace {

// Whether every such wait is chosen: because that was requested, because they are few, or because this thread's last
// one was long and they cannot be captured later.
bool IsAlwaysCaptured(const ThreadState& thread, WaitKind kind, WaitStyle style, uint64_t interval) {
  if (interval <= kShareAllBelowNs || style == WaitStyle::kRare) return true;
  return style == WaitStyle::kWhole && (thread.long_waits & (1u << static_cast<int>(kind))) != 0;
}

// Hash of this thread and its labels, the lock, the lock kind (one call may lead to several functions), the caller and
// the stack height, never 0. Code without frame pointers has other values in that register.
uint64_t CallSiteOf(const CallerRegisters& caller, const ThreadState& thread, const void* lock, WaitKind kind) {
  constexpr uintptr_t kLargestFrame = 65536;
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  uint64_t hash = reinterpret_cast<uintptr_t>(lock) * kFactor ^ static_cast<uint64_t>(ThreadId());
  hash ^= uint64_t{thread.labels} << 32;
  hash = (hash ^ hash >> 32 ^ caller.pc ^ static_cast<uint64_t>(kind) << 56) * kFactor;
  hash = (hash ^ hash >> 32 ^ caller.sp) * kFactor;
  if (caller.fp - caller.sp < kLargestFrame) hash = (hash ^ hash >> 32 ^ caller.fp) * kFactor;
  return (hash ^ hash >> 32) | 1u << 31;
}

// Copies what is known about the call site into `wait`. False: nothing.
bool Recall(SharedTable* table, const KnownWait& known, uint64_t call_site, WaitState* wait) {
  if (known.call_site.load(std::memory_order_acquire) != call_site) return false;
  const Offset stack = known.stack.load(std::memory_order_relaxed), row = known.row.load(std::memory_order_relaxed);
  const Offset pair = known.pair.load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (known.call_site.load(std::memory_order_relaxed) != call_site) return false;  // another thread's by now
  wait->stack = table->At<Stack>(stack);
  wait->row = table->At<Row>(row);
  if (pair != 0) wait->pair = table->At<LockPairRecord>(pair);
  return true;
}

void Remember(SharedTable* table, const WaitState& wait, uint64_t call_site, KnownWait* known) {
  known->call_site.store(kNoCallSite, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  if (table->OffsetOf(wait.stack) == table->header()->missing_stack) return;  // try again next time
  known->stack.store(table->OffsetOf(wait.stack), std::memory_order_relaxed);
  known->row.store(table->OffsetOf(wait.row), std::memory_order_relaxed);
  known->pair.store(wait.pair != nullptr ? table->OffsetOf(wait.pair) : 0, std::memory_order_relaxed);
  known->call_site.store(call_site, std::memory_order_release);
}

}  // namespace

void CaptureWait(const CallerRegisters& caller, WaitState* wait) {
  SharedTable* table = CurrentTable();
  if (table == nullptr) return;  // forked meanwhile, in a signal handler
  ThreadState& thread = thread_state;
  ++thread.preparing;
  __atomic_fetch_add(&lock_preparing, 1, __ATOMIC_RELAXED);
  wait->capture_start_ns = MonotonicNs();
  Mute(thread);
  const OwnTime own_time(table, thread);
  Stack* stack = SampleStack(table, thread, caller);
  wait->stack = stack;
  wait->row = FindLockRow(table, stack, ProfileKind::kBlock, wait->kind, wait->record);
  if (wait->slot != nullptr)
    RowOfWaiter(wait->slot, thread).store(table->OffsetOf(wait->row), std::memory_order_relaxed);
  if (wait->record != nullptr) wait->pair = FindLockPair(table, 0, table->OffsetOf(wait->row), wait->record);
  NoteOngoing(table, *wait);
  NoteThread(table, thread, wait->row, own_time.start_ns());
  own_time.Add();
  if (own_time.measured()) AfterSample(table);
  Unmute(thread);
  wait->capture_end_ns = MonotonicNs();
}

void CaptureIfChosen(const CallerRegisters& caller, SharedTable* table, ThreadState& thread, WaitStyle style,
                     WaitState* wait) {
  if (!Wanted(table, ProfileKind::kBlock)) return;
  wait->budget_ns = thread.lock_countdown;
  if (IsAlwaysCaptured(thread, wait->kind, style, wait->interval)) {
    wait->chance = 1;
    wait->sampled = true;
    return CaptureWait(caller, wait);
  }
  SeeThreadNameIfWanted(thread);
  const uint64_t call_site = CallSiteOf(caller, thread, wait->holder, wait->kind);
  KnownWait* known = KnownWaitAt(ThreadId(), call_site);
  const bool is_known = known != nullptr && Recall(table, *known, call_site, wait);
  wait->known = known != nullptr ? static_cast<uint8_t>(1 + call_site % kKnownWaits) : 0;
  const bool was_long = is_known && known->outlasted.load(std::memory_order_relaxed) != 0;
  // The first wait there, or one that cannot be captured later and may last for ever.
  const bool is_new = known != nullptr && known->call_site.load(std::memory_order_relaxed) == 0;
  const bool always = was_long || (!is_known && (is_new || style == WaitStyle::kWhole));
  const bool looks = always || NextRandom(&thread.random) % (is_known ? kLookAgain : kShare) == 0;
  wait->in_parts = style == WaitStyle::kInParts && !is_known && !always;
  wait->chance = always || is_known ? 1 : 1.0F / kShare;
  wait->sampled = is_known || looks;
  if (looks) {
    CaptureWait(caller, wait);
    if (known != nullptr) Remember(table, *wait, call_site, known);
  } else if (is_known) {
    NoteRow(table, *wait);
    if (wait->slot != nullptr)
      RowOfWaiter(wait->slot, thread).store(table->OffsetOf(wait->row), std::memory_order_relaxed);
  }
}

}  // namespace holdfast
