// The recorder of waits and holds, step by step, with times that a test makes up: what no program can do twice alike.
#ifndef HOLDFAST_TESTS_UNIT_WAITS_FIXTURE_H_
#define HOLDFAST_TESTS_UNIT_WAITS_FIXTURE_H_

#include <gtest/gtest.h>

#include <vector>

#include "sampler/capture/sample_stack.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/record/holds.h"
#include "sampler/record/lock_sampling.h"
#include "sampler/record/wait_internal.h"
#include "tests/unit/anonymous_table.h"

namespace holdfast {

inline constexpr int64_t kMs = 1'000'000, kSecond = 1'000 * kMs;

class Waits : public ::testing::Test {
 protected:
  Waits() : table_(UseAnonymousTable()) {
    MakeSpecialStacks(table_);
    UseInterval(1);
    table_->header()->profiles = 7;
    thread_state = {};
    process.recording = true;
    ForgetLockSlots();
    BeginWatchingLocks();
  }
  void TearDown() override {
    no_system_calls = false;
    thread_state = {};
    process.recording = false;
    process.pid = 0;
  }

  void UseInterval(uint64_t ns) {
    TableHeader& head = *table_->header();
    head.lock_intervals[0].interval = ns;
    head.lock_interval_count = 1;
  }
  __attribute__((noinline)) void Begin(LockWait* wait, WaitKind kind = WaitKind::kMutex,
                                       WaitStyle style = WaitStyle::kInParts) {
    CallerRegisters caller = HOLDFAST_CALLER();
    caller.fp = 0;  // whatever the test has in it
    BeginWait(caller, &lock_, kind, style, wait);
  }
  // As if it had begun so long ago.
  static void Backdate(LockWait* wait, int64_t by_ns) {
    StateOf(wait)->start_ns -= by_ns;
    if (StateOf(wait)->slot != nullptr) DelayWaiter(StateOf(wait)->slot, -by_ns);
  }
  static void Release(LockWait* wait, int64_t at_ns) { Settle(StateOf(wait)->slot, &at_ns); }
  // Below the caller's waits on the stack: what lies above it has been left.
  __attribute__((noinline)) void Unlock(bool sleepers = true, bool succeeded = true) {
    LockHold hold;
    BeginUnlock(&lock_, WaitKind::kMutex, sleepers, &hold);
    EndUnlock({}, succeeded, &hold);
  }
  // Enough of them to take all the slots of its set.
  static std::vector<const void*> InSetOf(const void* lock) {
    static int places[1 << 14];
    std::vector<const void*> found;
    for (const int& place : places) {
      if (LockSetOf(&place) == LockSetOf(lock) && found.size() < kKeysInSet) found.push_back(&place);
    }
    EXPECT_EQ(found.size(), kKeysInSet);
    return found;
  }
  uint64_t Sum(std::atomic<uint64_t> (LockCounters::*counters)[kWaitKinds], WaitKind kind = WaitKind::kMutex) const {
    uint64_t sum = 0;
    for (LockCounters& shard : table_->header()->lock_counters) sum += (shard.*counters)[static_cast<int>(kind)];
    return sum;
  }

  SharedTable* table_;
  int lock_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_UNIT_WAITS_FIXTURE_H_
