// Slots that nobody needs any more: while one is taken, every unlock of the program goes a longer way.
#include "tests/unit/single_steps.h"
#include "tests/unit/waits_fixture.h"

namespace holdfast {
namespace {

class IdleSlots : public Waits {
 protected:
  // The lock had a waiter, which got it so long ago and has added its sums.
  LockSlot* WaitedFor(int64_t ago_ns) {
    LockWait wait;
    Begin(&wait);
    EnterWait(false, &wait);
    EndWait(&wait, true);
    AfterUnlock(&lock_);
    LockSlot* slot = FindSlot(&lock_, kHeldTable);
    slot->settled_ns = MonotonicNs() - ago_ns;
    return slot;
  }
  static void TendAll() {
    for (uint32_t turn = 0; turn < kLockSets; ++turn) TendSlots(turn);
  }
};

TEST_F(IdleSlots, AreGivenUpAfterASecond) {
  WaitedFor(kIdleNs - 100 * kMs);
  TendAll();
  EXPECT_FALSE(NoneWatched());
  WaitedFor(kIdleNs);
  TendAll();
  EXPECT_TRUE(NoneWatched());
  EXPECT_EQ(FindSlot(&lock_, kHeldTable), nullptr);
  EXPECT_EQ(Sum(&LockCounters::gap_ns) + Sum(&LockCounters::hold_ns), Sum(&LockCounters::wait_ns));
}

TEST_F(IdleSlots, AreGivenUpByUnlocksOfOtherLocks) {
  WaitedFor(2 * kIdleNs);
  int other = 0;
  for (uint32_t i = 0; i < kLockSets * kOneVisitIn; ++i) {
    if (!Calm()) AfterUnlock(&other);
  }
  EXPECT_TRUE(NoneWatched());
}

// Its unlock has the sums of its wait to add, and would not look if no lock had a slot.
TEST_F(IdleSlots, AreKeptForHoldersThatHaveSumsToAdd) {
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  EndWait(&wait, true);
  LockSlot* slot = FindSlot(&lock_, kHeldTable);
  slot->settled_ns = MonotonicNs() - kIdleHeldNs + kSecond;
  TendAll();
  EXPECT_FALSE(NoneWatched());
  EXPECT_FALSE(Calm());
  AfterUnlock(&lock_);
  EXPECT_EQ(Sum(&LockCounters::waits), 1u);
  TendAll();
  EXPECT_TRUE(NoneWatched());
}

TEST_F(IdleSlots, AreKeptWhileSomebodyWaits) {
  WaitedFor(2 * kIdleNs);
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  TendAll();
  EXPECT_FALSE(NoneWatched());
  EndWait(&wait, false);
}

// A waiter gave up: its holder is charged when it lets go, however long that takes.
TEST_F(IdleSlots, AreKeptWhileSomethingIsLeftToBeCharged) {
  WaitedFor(2 * kIdleNs);
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  Backdate(&wait, 5 * kSecond);
  EndWait(&wait, false);
  FindSlot(&lock_, kHeldTable)->settled_ns = 0;
  TendAll();
  EXPECT_FALSE(NoneWatched());
  Unlock();
  EXPECT_GE(Sum(&LockCounters::hold_ns), 5u * kSecond);
}

TEST_F(IdleSlots, AJumpOutOfTendingLeavesTheirLocksNothingInTheWay) {
  for (SingleSteps steps;; steps.Next()) {
    ForgetLockSlots();
    WaitedFor(2 * kIdleNs);
    if (sigsetjmp(steps.out, 1) == 0) {
      steps.Run([&] { TendSlots(LockSetOf(&lock_)); }, [&] { siglongjmp(steps.out, 1); });
    }
    if (steps.WorkIsOver()) break;
    ASSERT_NE(ClaimSlotAndCount(table_, thread_state, &lock_, kHeldTable), nullptr) << "instruction " << steps.step();
    ASSERT_EQ(lock_watch[kHeldTable].taken, 1u);
  }
}

// Another thread may begin to wait at any moment.
TEST_F(IdleSlots, AWaiterThatComesMeanwhileIsSeenByItsHolder) {
  for (SingleSteps steps;; steps.Next()) {
    ForgetLockSlots();
    WaitedFor(2 * kIdleNs);
    bool came = false;
    LockSlot* slot = nullptr;
    steps.Run([&] { TendSlots(LockSetOf(&lock_)); }, [&] {
      came = true;
      do slot = ClaimSlotAndCount(table_, thread_state, &lock_, kHeldTable);
      while (!AddWaiters(slot, &lock_, MonotonicNs()));
    });
    if (steps.WorkIsOver()) break;
    ASSERT_TRUE(came);
    ASSERT_EQ(FindSlot(&lock_, kHeldTable), slot) << "instruction " << steps.step();
    ASSERT_EQ(lock_watch[kHeldTable].taken, 1u) << "instruction " << steps.step();
    ASSERT_EQ(WaitersOf(*slot), 1u);
  }
}

// And may have given up a moment later.
TEST_F(IdleSlots, AWaiterThatComesAndGoesMeanwhileIsStillCharged) {
  for (SingleSteps steps;; steps.Next()) {
    ForgetLockSlots();
    WaitedFor(2 * kIdleNs);
    steps.Run([&] { TendSlots(LockSetOf(&lock_)); }, [&] {
      LockSlot* slot;
      const int64_t now_ns = MonotonicNs();
      do slot = ClaimSlotAndCount(table_, thread_state, &lock_, kHeldTable);
      while (!AddWaiters(slot, &lock_, now_ns - 5 * kSecond));
      RemoveWaiter(slot, now_ns);
    });
    if (steps.WorkIsOver()) break;
    LockSlot* slot = FindSlot(&lock_, kHeldTable);
    ASSERT_NE(slot, nullptr) << "instruction " << steps.step();
    int64_t no_time = 0;
    ASSERT_EQ(Settle(slot, &no_time), 5 * kSecond) << "instruction " << steps.step();
  }
}

// At most as many unlocks go the longer way as are said.
TEST_F(IdleSlots, CalmUnlocksLookOnceInSoMany) {
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  int closer = 0;
  for (int i = 0; i < 10 * kOneVisitIn; ++i) {
    if (Calm()) continue;
    ++closer;
    AfterUnlock(&lock_);
  }
  EXPECT_EQ(closer, 10);
  EXPECT_FALSE(Calm());
  AfterUnlock(&lock_);
  EXPECT_TRUE(Calm());
  EndWait(&wait, true);
  EXPECT_FALSE(Calm());  // its sums are due
  EXPECT_EQ(Sum(&LockCounters::waits), 0u);
  AfterUnlock(&lock_);
  EXPECT_EQ(Sum(&LockCounters::waits), 1u);
}

}  // namespace
}  // namespace holdfast
