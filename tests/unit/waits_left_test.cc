// Waits, and steps of ours, that a handler jumped out of. They would be attributed to holders, and each unlock of the program
// would look closely, for ever.
#include "sampler/record/lock_records.h"
#include "tests/unit/single_steps.h"
#include "tests/unit/waits_fixture.h"

namespace holdfast {
namespace {

class LeftWaits : public Waits {
 protected:
  struct Frames {  // as on a stack
    LockWait inner, left;
    char between[64];
    LockWait next;
  };
  void WaitAgain(Frames* frames) {
    Begin(&frames->next);
    EnterWait(false, &frames->next);
    EndWait(&frames->next, false);
  }
  uint64_t Waiting(WaitKind kind = WaitKind::kMutex) const {
    const LockSlot* slot = FindSlot(&lock_, TableOf(kind));
    return slot != nullptr ? WaitersOf(*slot) : 0;
  }
};

TEST_F(LeftWaits, AreOverWhenTheirThreadNextWaits) {
  Frames frames;
  Begin(&frames.left);
  EXPECT_EQ(lock_preparing, 1u);
  Begin(&frames.next);
  EXPECT_EQ(lock_preparing, 1u);
  EXPECT_EQ(Waiting(), 1u);
  EXPECT_EQ(Sum(&LockCounters::waits), 1u);
  EnterWait(false, &frames.next);
  EXPECT_EQ(lock_preparing, 0u);
  EndWait(&frames.next, false);
  const LockRecord* record = FindLockRecord(table_, &lock_, WaitKind::kMutex);
  EXPECT_EQ(record->waits, 2u);
  EXPECT_EQ(record->wait_ns, Sum(&LockCounters::wait_ns));
}

TEST_F(LeftWaits, AreOverWhenTheirThreadNextUnlocks) {
  struct {
    LockWait inner, left;
    LockHold hold;
  } frames;
  Begin(&frames.left);
  EnterWait(false, &frames.left);
  Begin(&frames.inner, WaitKind::kRwlockRead);  // in a handler, which jumps out of both
  EXPECT_EQ(Waiting(), 2u);
  EXPECT_EQ(lock_preparing, 1u);
  BeginUnlock(&lock_, WaitKind::kMutex, true, &frames.hold);
  EXPECT_EQ(Waiting(), 0u);
  EXPECT_EQ(lock_preparing, 0u);
  EXPECT_EQ(Sum(&LockCounters::waits), 1u);
  EXPECT_EQ(Sum(&LockCounters::waits, WaitKind::kRwlockRead), 1u);
  for (const Offset row : StateOf(&frames.left)->slot->waiters) EXPECT_EQ(row, 0u);
}

// The handler goes on, in the midst of the wait that it interrupted.
TEST_F(LeftWaits, LeaveTheOnesThatTheyInterruptedWhereTheyAre) {
  struct {
    LockWait inner;
    LockHold hold;
    LockWait outer;
  } frames;
  Begin(&frames.outer);
  EnterWait(false, &frames.outer);
  Begin(&frames.inner);
  EnterWait(false, &frames.inner);
  BeginUnlock(&lock_, WaitKind::kMutex, false, &frames.hold);
  EXPECT_EQ(Waiting(), 1u);
  EndWait(&frames.outer, false);
  EXPECT_EQ(Waiting(), 0u);
  EXPECT_EQ(Sum(&LockCounters::waits), 2u);
}

TEST_F(LeftWaits, ForConditionsGiveUpTheirSlot) {
  struct {
    LockWait left;
    LockHold hold;
  } frames;
  BeginConditionWait(HOLDFAST_CALLER(), &lock_, &lock_, &frames.left);
  EnterWait(false, &frames.left);
  VisitIdleSlot(StateOf(&frames.left)->slot, &lock_, 1'000);
  BeginUnlock(&lock_, WaitKind::kMutex, false, &frames.hold);
  EXPECT_EQ(lock_watch[kWokenTable].taken, 0u);
}

TEST_F(LeftWaits, AreNotCapturedInAChildOfFork) {
  LockWait wait;
  UseInterval(100'000);
  do {
    Begin(&wait);
    EnterWait(false, &wait);
    if (StateOf(&wait)->capture_end_ns != 0) EndWait(&wait, false);
  } while (StateOf(&wait)->capture_end_ns != 0);
  current_table = nullptr;  // by a handler
  ContinueWait({}, &wait);
  EXPECT_EQ(lock_preparing, 0u);
}

// But for a few instructions around the moments when a wait is registered and when that ends: where these are not one.
class LeftAnywhere : public LeftWaits {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_SINGLE_STEPS(); }
  // How often something stayed.
  template <typename Prepare, typename Work>
  int LeaveAndWaitAgain(int stride, Prepare prepare, Work work) {
    volatile int stayed = 0;
    for (SingleSteps steps(stride);; steps.Next()) {
      ForgetLockSlots();
      thread_state.preparing = 0;
      Frames frames;
      prepare(&frames.left);
      if (sigsetjmp(steps.out, 1) == 0) steps.Run([&] { work(&frames.left); }, [&] { siglongjmp(steps.out, 1); });
      if (steps.WorkIsOver()) return stayed;
      WaitAgain(&frames);
      EXPECT_LE(Waiting(), 1u) << "instruction " << steps.step();
      stayed = stayed + (Waiting() != 0 || lock_preparing != 0);
    }
  }
};

TEST_F(LeftAnywhere, InTheirBeginningLeaveNothingBehind) {
  table_->header()->profiles = 1u << static_cast<int>(ProfileKind::kMutex);
  EXPECT_LE(LeaveAndWaitAgain(
                5, [](LockWait*) {}, [this](LockWait* wait) { Begin(wait); }),
            10);
}

TEST_F(LeftAnywhere, InTheirCaptureLeaveNothingBehind) {
  EXPECT_LE(LeaveAndWaitAgain(
                101, [](LockWait*) {}, [this](LockWait* wait) { Begin(wait); }),
            2);
}

TEST_F(LeftAnywhere, AtTheirEndLeaveNothingBehind) {
  const auto begin = [this](LockWait* wait) {
    Begin(wait);
    EnterWait(false, wait);
  };
  EXPECT_LE(LeaveAndWaitAgain(2, begin, [](LockWait* wait) { EndWait(wait, true); }), 6);
}

// ---- Slots ----

// No lock would get a slot any more, or this one would not.
TEST_F(Waits, AJumpOutOfTheClaimOfASlotLeavesItsLocksNothingInTheWay) {
  HOLDFAST_NEEDS_SINGLE_STEPS();
  const std::vector<const void*> others = InSetOf(&lock_);
  for (SingleSteps steps(3);; steps.Next()) {
    ForgetLockSlots();
    for (const void* other : others) ClaimSlotAndCount(table_, thread_state, other, kHeldTable);
    if (sigsetjmp(steps.out, 1) == 0) {
      steps.Run([&] { ClaimSlotAndCount(table_, thread_state, &lock_, kHeldTable); },
                [&] { siglongjmp(steps.out, 1); });
    }
    if (steps.WorkIsOver()) break;
    ASSERT_NE(ClaimSlotAndCount(table_, thread_state, &lock_, kHeldTable), nullptr) << "instruction " << steps.step();
    ASSERT_EQ(lock_watch[kHeldTable].taken, kKeysInSet);
  }
}

TEST_F(Waits, AJumpOutOfTheEndOfASlotLeavesItsLockNothingInTheWay) {
  HOLDFAST_NEEDS_SINGLE_STEPS();
  for (SingleSteps steps;; steps.Next()) {
    ForgetLockSlots();
    LockSlot* slot = ClaimSlotAndCount(table_, thread_state, &lock_, kHeldTable);
    VisitIdleSlot(slot, &lock_, 1'000);
    if (sigsetjmp(steps.out, 1) == 0) {
      steps.Run([&] { VisitIdleSlot(slot, &lock_, 1); }, [&] { siglongjmp(steps.out, 1); });
    }
    if (steps.WorkIsOver()) break;
    ASSERT_NE(ClaimSlotAndCount(table_, thread_state, &lock_, kHeldTable), nullptr) << "instruction " << steps.step();
    ASSERT_EQ(lock_watch[kHeldTable].taken, 1u);
  }
}

}  // namespace
}  // namespace holdfast
