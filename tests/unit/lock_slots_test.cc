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
  static void FreeAllIdleSlots() {
    for (uint32_t turn = 0; turn < kLockSets; ++turn) FreeIdleSlots(turn);
  }
};

TEST_F(IdleSlots, AreGivenUpAfterASecond) {
  WaitedFor(kIdleNs - 100 * kMs);
  FreeAllIdleSlots();
  EXPECT_FALSE(NoLockWatched());
  WaitedFor(kIdleNs);
  FreeAllIdleSlots();
  EXPECT_TRUE(NoLockWatched());
  EXPECT_EQ(FindSlot(&lock_, kHeldTable), nullptr);
  EXPECT_EQ(Sum(&LockCounters::gap_ns) + Sum(&LockCounters::hold_ns), Sum(&LockCounters::wait_ns));
}

TEST_F(IdleSlots, AreNotTakenForTheLockAtNull) {
  WaitedFor(0);
  Leftover left;
  for (const SlotTable table : {kHeldTable, kWokenTable}) {
    EXPECT_EQ(FindSlot(nullptr, table), nullptr);
    EXPECT_EQ(ClaimSlot(nullptr, table, &left), nullptr);
  }
}

TEST_F(IdleSlots, AreGivenUpByUnlocksOfOtherLocks) {
  WaitedFor(2 * kIdleNs);
  int other = 0;
  for (uint32_t i = 0; i < kLockSets * kOneVisitIn; ++i) {
    if (!MayUnlockFast()) AfterUnlock(&other);
  }
  EXPECT_TRUE(NoLockWatched());
}

// Its unlock has the sums of its wait to add, and would not look if no lock had a slot.
TEST_F(IdleSlots, AreKeptForHoldersThatHaveSumsToAdd) {
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  EndWait(&wait, true);
  LockSlot* slot = FindSlot(&lock_, kHeldTable);
  slot->settled_ns = MonotonicNs() - kIdleHeldNs + kSecond;
  FreeAllIdleSlots();
  EXPECT_FALSE(NoLockWatched());
  EXPECT_FALSE(MayUnlockFast());
  AfterUnlock(&lock_);
  EXPECT_EQ(Sum(&LockCounters::waits), 1u);
  FreeAllIdleSlots();
  EXPECT_TRUE(NoLockWatched());
}

TEST_F(IdleSlots, AreKeptWhileAThreadWaits) {
  WaitedFor(2 * kIdleNs);
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  FreeAllIdleSlots();
  EXPECT_FALSE(NoLockWatched());
  EndWait(&wait, false);
}

// A waiter gave up: that is attributed to its holder when it lets go, however long that takes.
TEST_F(IdleSlots, AreKeptWhileSomethingIsLeftToBeAttributed) {
  WaitedFor(2 * kIdleNs);
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  Backdate(&wait, 5 * kSecond);
  EndWait(&wait, false);
  FindSlot(&lock_, kHeldTable)->settled_ns = 0;
  FreeAllIdleSlots();
  EXPECT_FALSE(NoLockWatched());
  Unlock();
  EXPECT_GE(Sum(&LockCounters::hold_ns), 5u * kSecond);
}

TEST_F(IdleSlots, AJumpOutOfAVisitLeavesTheSlotsUsable) {
  HOLDFAST_NEEDS_SINGLE_STEPS();
  for (SingleSteps steps;; steps.Next()) {
    ForgetLockSlots();
    WaitedFor(2 * kIdleNs);
    if (sigsetjmp(steps.out, 1) == 0) {
      steps.Run([&] { FreeIdleSlots(LockSetOf(&lock_)); }, [&] { siglongjmp(steps.out, 1); });
    }
    if (steps.WorkIsOver()) break;
    ASSERT_NE(ClaimSlotAndCount(table_, thread_state, &lock_, kHeldTable), nullptr) << "instruction " << steps.step();
    ASSERT_EQ(lock_watch[kHeldTable].taken, 1u);
  }
}

// Another thread may begin to wait at any moment.
TEST_F(IdleSlots, AWaiterThatComesMeanwhileIsSeenByItsHolder) {
  HOLDFAST_NEEDS_SINGLE_STEPS();
  for (SingleSteps steps;; steps.Next()) {
    ForgetLockSlots();
    WaitedFor(2 * kIdleNs);
    bool came = false;
    LockSlot* slot = nullptr;
    steps.Run([&] { FreeIdleSlots(LockSetOf(&lock_)); },
              [&] {
                came = true;
                do slot = ClaimSlotAndCount(table_, thread_state, &lock_, kHeldTable);
                while (!AddWaiters(slot, &lock_, WaitsFor::kLock, MonotonicNs()));
              });
    if (steps.WorkIsOver()) break;
    ASSERT_TRUE(came);
    ASSERT_EQ(FindSlot(&lock_, kHeldTable), slot) << "instruction " << steps.step();
    ASSERT_EQ(lock_watch[kHeldTable].taken, 1u) << "instruction " << steps.step();
    ASSERT_EQ(WaitersOf(*slot), 1u);
  }
}

// And may have given up a moment later.
TEST_F(IdleSlots, AWaiterThatComesAndGoesMeanwhileIsAttributed) {
  HOLDFAST_NEEDS_SINGLE_STEPS();
  for (SingleSteps steps;; steps.Next()) {
    ForgetLockSlots();
    WaitedFor(2 * kIdleNs);
    steps.Run([&] { FreeIdleSlots(LockSetOf(&lock_)); },
              [&] {
                LockSlot* slot;
                const int64_t now_ns = MonotonicNs();
                do slot = ClaimSlotAndCount(table_, thread_state, &lock_, kHeldTable);
                while (!AddWaiters(slot, &lock_, WaitsFor::kLock, now_ns - 5 * kSecond));
                RemoveWaiter(slot, now_ns);
              });
    if (steps.WorkIsOver()) break;
    LockSlot* slot = FindSlot(&lock_, kHeldTable);
    ASSERT_NE(slot, nullptr) << "instruction " << steps.step();
    int64_t no_time = 0;
    ASSERT_EQ(Settle(slot, &no_time), 5 * kSecond) << "instruction " << steps.step();
  }
}

// It had found the slot before that was given up, and takes itself out again once it sees that. Meanwhile it may be in the sum of what
// is left: as if it had waited since the machine was started.
TEST_F(IdleSlots, AWaiterThatComesTooLateIsInNoSum) {
  LockSlot* slot = WaitedFor(0);
  const uint64_t waiter = static_cast<uint64_t>(MonotonicNs()) << kWaitersBits | 1;
  slot->waiting.fetch_add(waiter);
  EXPECT_EQ(LeftoverOf(slot).ns, 0);
  slot->waiting.fetch_sub(waiter);
  EXPECT_EQ(LeftoverOf(slot).ns, 0);
  // What is left nevertheless is not lost.
  slot->waiting.fetch_add(static_cast<uint64_t>(-kMs) << kWaitersBits);
  slot->waiting.fetch_add(waiter);
  EXPECT_EQ(LeftoverOf(slot).ns, 0);
  slot->waiting.fetch_sub(waiter);
  EXPECT_EQ(LeftoverOf(slot).ns, kMs);
}

// At most as many unlocks go the longer way as are said.
TEST_F(IdleSlots, UncontendedUnlocksVisitTheSlotsRarely) {
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  int closer = 0;
  for (int i = 0; i < 10 * kOneVisitIn; ++i) {
    if (MayUnlockFast()) continue;
    ++closer;
    AfterUnlock(&lock_);
  }
  EXPECT_EQ(closer, 10);
  EXPECT_FALSE(MayUnlockFast());
  AfterUnlock(&lock_);
  EXPECT_TRUE(MayUnlockFast());
  EndWait(&wait, true);
  EXPECT_FALSE(MayUnlockFast());  // its sums are due
  EXPECT_EQ(Sum(&LockCounters::waits), 0u);
  AfterUnlock(&lock_);
  EXPECT_EQ(Sum(&LockCounters::waits), 1u);
}

// Their number must never be carried into the times beside it.
TEST_F(Waits, MoreWaitersThanASlotCountsAreReportedAndKeptApart) {
  struct {
    LockWait late, wait;  // as on a stack
  } of;
  LockWait& wait = of.wait;
  LockWait& late = of.late;
  Begin(&wait);
  EnterWait(false, &wait);
  LockSlot* slot = FindSlot(&lock_, kHeldTable);
  const int64_t start_ns = StateOf(&wait)->start_ns;
  uint64_t counted = 1;
  while (AddWaiters(slot, &lock_, WaitsFor::kLock, start_ns)) ++counted;
  EXPECT_EQ(counted, kMaxWaiters);
  EXPECT_FALSE(AddWaiters(slot, &lock_, WaitsFor::kLock, start_ns));
  EXPECT_EQ(WaitersOf(*slot), kMaxWaiters);

  // One more: all of its wait is hand-off delay, and it is said.
  Begin(&late);
  EXPECT_EQ(StateOf(&late)->slot, nullptr);
  EXPECT_EQ(table_->header()->losses[static_cast<int>(Loss::kLockSlotTaken)], 1u);
  EnterWait(false, &late);
  EndWait(&late, false);
  EXPECT_EQ(Sum(&LockCounters::gap_ns), Sum(&LockCounters::wait_ns));

  for (uint64_t i = 1; i < counted; ++i) RemoveWaiter(slot, start_ns);
  int64_t end_ns = start_ns + kMs;
  EXPECT_EQ(Settle(slot, &end_ns), kMs);
  EndWait(&wait, false);
}

// Its holder reads the clock after the end of the wait.
TEST_F(Waits, TheLastOneLastsUntilItsHolderReadTheClock) {
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  LockSlot* slot = StateOf(&wait)->slot;
  int64_t attributed_to_ns = StateOf(&wait)->start_ns + 3 * kSecond;
  const auto held = static_cast<uint64_t>(Settle(slot, &attributed_to_ns));
  EndWait(&wait, false);
  EXPECT_EQ(Sum(&LockCounters::wait_ns), held);
  EXPECT_EQ(LeftoverOf(slot).ns, 0);
}

// Attributed up to a moment, and then the waiter says that it had gone before: the next wait makes up for it, or the end.
TEST_F(Waits, ChargedButUnfinishedWaitsAreAddedAtTheEnd) {
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  int64_t attributed_to_ns = StateOf(&wait)->start_ns + 3 * kMs;
  const auto held = static_cast<uint64_t>(Settle(StateOf(&wait)->slot, &attributed_to_ns));
  EXPECT_EQ(held, 3u * kMs);
  RemoveWaiter(StateOf(&wait)->slot, StateOf(&wait)->start_ns + kMs);
  EXPECT_EQ(LeftoverOf(StateOf(&wait)->slot).ns, -2 * kMs);
  EXPECT_EQ(LeftoverOf(StateOf(&wait)->slot).ns, 0);
}

}  // namespace
}  // namespace holdfast
