// Waits for conditions; a signal makes a waiter for the mutex.
#include "tests/unit/single_steps.h"
#include "tests/unit/waits_fixture.h"

namespace holdfast {
namespace {

// Two wait for a condition, the second in a signal handler of the first, and a while after the signal the mutex is let go.
class Conditions : public Waits {
 protected:
  struct Both {
    LockWait second, first;  // as on a stack
  };
  __attribute__((noinline)) void BeginBoth(bool all, Both* both, uint64_t awake = 0) {
    for (LockWait* wait : {&both->first, &both->second})
      BeginConditionWait(HOLDFAST_CALLER(), &condition_, &lock_, wait);
    Signal(all, awake);
    for (const int64_t start_ns = MonotonicNs(); MonotonicNs() < start_ns + kMs;) {
    }
    Unlock();
  }
  // `awake`: the number of waiters that may not be asleep yet.
  void Signal(bool all, uint64_t awake) {
    const ConditionWaiters waiters = WaitersOfCondition(&condition_);
    const uint64_t asleep = waiters.count - awake;
    RecordSignal(&condition_, waiters.mutex, all ? asleep : asleep != 0);
  }
  void End(LockWait* wait, bool woken) { EndConditionWait(wait, &condition_, &lock_, woken); }
  // As another thread.
  void Leave(const LockWait& wait) {
    RemoveWaiter(StateOf(&wait)->slot, StateOf(&wait)->start_ns);
    TidyWokenSlot(StateOf(&wait)->slot, &condition_, StateOf(&wait)->start_ns);
  }
  uint64_t WaitingForMutex() const {
    const LockSlot* slot = FindSlot(&lock_, kHeldTable);
    return slot != nullptr ? WaitersOf(*slot) : 0;
  }
  // Conservation, to the nanosecond.
  void ExpectWaitsForMutex(uint64_t waits) const {
    EXPECT_EQ(WaitingForMutex(), 0u);
    EXPECT_EQ(Sum(&LockCounters::waits), waits);
    EXPECT_EQ(Sum(&LockCounters::hold_ns) + Sum(&LockCounters::gap_ns), Sum(&LockCounters::wait_ns));
    EXPECT_EQ(Sum(&LockCounters::waits, WaitKind::kCondition), 2u);
  }

  int condition_ = 0;
};

TEST_F(Conditions, ATimedOutWaiterLeavesTheSignalToTheOther) {
  Both both;
  BeginBoth(false, &both);
  End(&both.second, false);
  EXPECT_EQ(WaitingForMutex(), 1u);
  End(&both.first, true);
  ExpectWaitsForMutex(1);
}

TEST_F(Conditions, ABroadcastIsForAll) {
  Both both;
  BeginBoth(true, &both);
  EXPECT_EQ(WaitingForMutex(), 2u);
  End(&both.second, true);
  End(&both.first, true);
  ExpectWaitsForMutex(2);
}

// A third thread holds the mutex: it may be one of them, and not asleep yet.
TEST_F(Conditions, OneMayNotBeAsleepWhileAnotherThreadHoldsTheMutex) {
  Both both;
  BeginBoth(true, &both, 1);
  EXPECT_EQ(WaitingForMutex(), 1u);
  Signal(false, 1);
  EXPECT_EQ(WaitingForMutex(), 1u);
  End(&both.second, true);
  End(&both.first, true);
  ExpectWaitsForMutex(1);
}

// Its mutex was free, or looked at, before it came: it may not sleep yet.
TEST_F(Conditions, ALateWaiterIsNotWoken) {
  Both both;
  BeginConditionWait(HOLDFAST_CALLER(), &condition_, &lock_, &both.first);
  const ConditionWaiters waiters = WaitersOfCondition(&condition_);
  EXPECT_EQ(waiters.mutex, &lock_);
  BeginConditionWait(HOLDFAST_CALLER(), &condition_, &lock_, &both.second);
  RecordSignal(&condition_, waiters.mutex, waiters.count);
  EXPECT_EQ(WaitingForMutex(), 1u);
  End(&both.second, false);
  End(&both.first, true);
  EXPECT_EQ(WaitingForMutex(), 0u);
}

// What a thread needs to wake up is no wait for the mutex.
TEST_F(Conditions, AreWaitedForUntilAWokenThreadCanRun) {
  Both both;
  BeginBoth(true, &both);
  EXPECT_LT(Sum(&LockCounters::hold_ns),
            static_cast<uint64_t>(2 * (MonotonicNs() - StateOf(&both.first)->start_ns)) - 90'000);
  End(&both.second, true);
  End(&both.first, true);
}

// Whoever wakes up first takes the mean of the times of all signals. The early one may have been attributed to the holder, and
// the mean be later than that.
TEST_F(Conditions, EachTakesTheMeanOfTheSignalsAndTheSumIsRight) {
  Both both;
  for (LockWait* wait : {&both.first, &both.second}) BeginConditionWait(HOLDFAST_CALLER(), &condition_, &lock_, wait);
  Signal(false, 0);
  for (const int64_t start_ns = MonotonicNs(); MonotonicNs() < start_ns + kMs / 10;) {
  }
  Unlock();
  EXPECT_GT(Sum(&LockCounters::hold_ns), 0u);
  LockSlot* of_mutex = FindSlot(&lock_, kHeldTable);
  const int64_t late_ns = MonotonicNs() + kMs;
  ASSERT_TRUE(AddWaiters(of_mutex, &lock_, WaitsFor::kLock, late_ns));
  StateOf(&both.first)->slot->signalled += static_cast<uint64_t>(late_ns) << kWaitersBits | 1;
  End(&both.second, true);
  End(&both.first, true);
  EXPECT_EQ(WaitingForMutex(), 0u);
  SettleLocks();
  EXPECT_EQ(Sum(&LockCounters::hold_ns) + Sum(&LockCounters::gap_ns), Sum(&LockCounters::wait_ns));
}

// Each ran out of time just before the signal was there to take.
TEST_F(Conditions, ASignalWithoutWaitersMakesNoThreadWait) {
  Both both;
  BeginBoth(false, &both);
  Leave(both.second);
  EXPECT_EQ(WaitingForMutex(), 1u);
  Leave(both.first);
  EXPECT_EQ(WaitingForMutex(), 0u);
}

TEST_F(Conditions, HaveNoHolder) {
  LockWait wait;
  BeginConditionWait(HOLDFAST_CALLER(), &condition_, &lock_, &wait);
  End(&wait, false);
  SettleLocks();
  for (const void* other : InSetOf(&condition_)) ClaimSlotAndCount(table_, thread_state, other, kWokenTable);
  EXPECT_EQ(FindSlot(&condition_, kWokenTable), nullptr);
  EXPECT_EQ(Sum(&LockCounters::gap_ns, WaitKind::kCondition) + Sum(&LockCounters::gap_ns, WaitKind::kFutex), 0u);
}

// Else every signal of the program would look closely, for ever.
TEST_F(Conditions, SignalsWithoutWaitersReleaseTheSlot) {
  LockWait wait;
  BeginConditionWait(HOLDFAST_CALLER(), &condition_, &lock_, &wait);
  End(&wait, false);
  EXPECT_EQ(lock_watch[kWokenTable].taken, 1u);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(WaitersOfCondition(&condition_).count, 0u);
  EXPECT_EQ(lock_watch[kWokenTable].taken, 0u);
}

// A signal represents a waiter for the mutex until a thread consumes both.
TEST_F(Conditions, KeepTheirSlotAsLongAsASignalIsLeft) {
  Both both;
  BeginBoth(false, &both);
  LockSlot* slot = StateOf(&both.first)->slot;
  for (LockWait* wait : {&both.first, &both.second}) RemoveWaiter(slot, StateOf(wait)->start_ns);
  for (int i = 0; i < 300; ++i) VisitIdleSlot(slot, &condition_, 1);
  EXPECT_EQ(FindSlot(&condition_, kWokenTable), slot);
  DropSignal(slot, MonotonicNs(), 0);
  for (int i = 0; i < 300; ++i) VisitIdleSlot(slot, &condition_, 1);
  EXPECT_EQ(FindSlot(&condition_, kWokenTable), nullptr);
}

// The waiter runs out of time and its slot becomes another condition's, at whatever point of the signal.
TEST_F(Conditions, LosingTheSlotDuringASignalLeavesNobodyWaiting) {
  HOLDFAST_NEEDS_SINGLE_STEPS();
  const std::vector<const void*> others = InSetOf(&condition_);
  int steps_without_slot = 0;
  for (SingleSteps steps(3);; steps.Next()) {
    ForgetLockSlots();
    thread_state = {};
    LockWait wait;
    BeginConditionWait(HOLDFAST_CALLER(), &condition_, &lock_, &wait);
    EnterWait(false, &wait);
    const ConditionWaiters waiters = WaitersOfCondition(&condition_);
    steps.Run([&] { RecordSignal(&condition_, waiters.mutex, waiters.count); },
              [&] {
                Leave(wait);
                for (size_t i = 0; i < kKeysInSet; ++i) ClaimSlotAndCount(table_, thread_state, others[i], kWokenTable);
                steps_without_slot += FindSlot(&condition_, kWokenTable) == nullptr;
              });
    if (steps.WorkIsOver()) break;
    ASSERT_EQ(WaitingForMutex(), 0u) << "instruction " << steps.step();
  }
  EXPECT_GT(steps_without_slot, 10);
}

}  // namespace
}  // namespace holdfast
