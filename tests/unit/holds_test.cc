// Who holds, and what is attributed to nobody.
#include <sys/wait.h>
#include <unistd.h>

#include "sampler/record/lock_records.h"
#include "tests/unit/waits_fixture.h"

namespace holdfast {
namespace {

class Holds : public Waits {
 protected:
  // Somebody waits for a second, and gives up or gets the lock.
  void Wait(bool acquired, WaitKind kind = WaitKind::kMutex) {
    LockWait wait;
    Begin(&wait, kind);
    EnterWait(false, &wait);
    Backdate(&wait, kSecond);
    // Since when somebody waits, too.
    StateOf(&wait)->slot->signalled.fetch_sub(uint64_t{kSecond} << kWaitersBits);
    EndWait(&wait, acquired);
  }
};

// The lock's word does not show them yet.
TEST_F(Holds, AreChargedForWaitersDuringTheirCapture) {
  LockWait wait;
  Begin(&wait);
  Backdate(&wait, kSecond);
  Unlock(/*sleepers=*/false);
  EXPECT_GE(Sum(&LockCounters::hold_ns), static_cast<uint64_t>(kSecond));
  EnterWait(true, &wait);
  EndWait(&wait, true);
}

TEST_F(Holds, RemainToBeAttributedAfterAFailedUnlock) {
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  Backdate(&wait, kSecond);
  Unlock(true, /*succeeded=*/false);
  EXPECT_EQ(Sum(&LockCounters::hold_ns), 0u);
  Unlock();
  EXPECT_GE(Sum(&LockCounters::hold_ns), static_cast<uint64_t>(kSecond));
  EndWait(&wait, false);
}

TEST_F(Holds, WithoutASeenUnlockAreAGapAtTheEnd) {
  Wait(false);
  EXPECT_EQ(Sum(&LockCounters::gap_ns), 0u);
  SettleLocks();
  EXPECT_EQ(Sum(&LockCounters::gap_ns), Sum(&LockCounters::wait_ns));
  SettleLocks();
  EXPECT_EQ(Sum(&LockCounters::gap_ns), Sum(&LockCounters::wait_ns));
}

// Also when nobody is there to export it.
TEST_F(Holds, WithoutASeenUnlockAreAGapAtAnOrderlyEnd) {
  Wait(false);
  process.pid = getpid();
  AwaitLastProfile();
  EXPECT_EQ(Sum(&LockCounters::gap_ns), Sum(&LockCounters::wait_ns));
}

TEST_F(Holds, FutexesThatWereNotWokenAreAGapAtTheEnd) {
  Wait(false, WaitKind::kFutex);
  EXPECT_EQ(Sum(&LockCounters::gap_ns, WaitKind::kFutex), 0u);
  SettleLocks();
  EXPECT_EQ(Sum(&LockCounters::gap_ns, WaitKind::kFutex), Sum(&LockCounters::wait_ns, WaitKind::kFutex));
}

TEST_F(Holds, WithoutASeenUnlockAreAGapWhenAnotherLockTakesTheirSlot) {
  for (const WaitKind kind : {WaitKind::kMutex, WaitKind::kFutex}) {
    Wait(false, kind);
    for (const void* other : InSetOf(&lock_)) ClaimSlotAndCount(table_, thread_state, other, TableOf(kind));
    EXPECT_EQ(FindSlot(&lock_, TableOf(kind)), nullptr);
    EXPECT_EQ(Sum(&LockCounters::gap_ns, kind), Sum(&LockCounters::wait_ns, kind));
  }
}

TEST_F(Holds, WithoutASeenUnlockAreAGapWhenTheLockIsNoLongerContended) {
  Wait(false);
  EXPECT_NE(FindSlot(&lock_, kHeldTable), nullptr);
  for (int i = 0; i < 10; ++i) Unlock(/*sleepers=*/false);
  EXPECT_EQ(FindSlot(&lock_, kHeldTable), nullptr);
  EXPECT_EQ(lock_watch[kHeldTable].taken, 0u);
  EXPECT_EQ(Sum(&LockCounters::gap_ns), Sum(&LockCounters::wait_ns));
}

TEST_F(Holds, HoldsOfTimedOutWaitersLastAsLongAsTheWaits) {
  Wait(false);
  Unlock();
  const LockRecord& record = *FindLockRecord(table_, &lock_, WaitKind::kMutex);
  EXPECT_EQ(record.holds, 1u);
  EXPECT_EQ(record.held_ns, Sum(&LockCounters::wait_ns));
}

TEST_F(Holds, BeginWithTheFirstSliceOfASlicedWait) {
  for (int i = 0; i < 3; ++i) Wait(false);
  Unlock();
  const LockRecord& record = *FindLockRecord(table_, &lock_, WaitKind::kMutex);
  EXPECT_EQ(record.holds, 1u);
  EXPECT_GE(record.held_ns, static_cast<uint64_t>(kSecond));
  EXPECT_LE(record.held_ns, Sum(&LockCounters::wait_ns));
}

TEST_F(Holds, HoldsOfReadersAreThoseBeforeTheWriter) {
  const auto unlock = [this](uint32_t readers) {
    LockHold hold;
    BeginReaderUnlock(&lock_, &hold);
    SettleReader({}, &lock_, readers, &hold);
    EndUnlock({}, true, &hold);
  };
  LockWait wait;
  Begin(&wait, WaitKind::kRwlockWrite);
  EnterWait(false, &wait);
  Backdate(&wait, kSecond);
  for (const uint32_t readers : {5, 2, 3, 2}) unlock(readers);
  EXPECT_EQ(Sum(&LockCounters::holds, WaitKind::kRwlockRead), 0u);
  unlock(1);
  EXPECT_EQ(Sum(&LockCounters::holds, WaitKind::kRwlockRead), 1u);
  EXPECT_GE(Sum(&LockCounters::hold_ns, WaitKind::kRwlockRead), static_cast<uint64_t>(kSecond));
  EndWait(&wait, true);
  EXPECT_EQ(Sum(&LockCounters::holds, WaitKind::kRwlockRead), 1u);
}

// Both see two readers. Neither knows that the other is not there any more when the lock is let go.
TEST_F(Holds, ReadersThatUnlockAtOnceAreTheLastReaders) {
  LockWait wait;
  Begin(&wait, WaitKind::kRwlockWrite);
  EnterWait(false, &wait);
  Backdate(&wait, kSecond);
  LockHold first, second;
  BeginReaderUnlock(&lock_, &first);
  BeginReaderUnlock(&lock_, &second);
  SettleReader({}, &lock_, 2, &first);
  SettleReader({}, &lock_, 2, &second);
  EndUnlock({}, true, &first);
  EndUnlock({}, true, &second);
  EXPECT_EQ(Sum(&LockCounters::holds, WaitKind::kRwlockRead), 0u);
  EndWait(&wait, true);
  PublishWait();
  EXPECT_EQ(Sum(&LockCounters::holds, WaitKind::kRwlockRead), 1u);
  EXPECT_GE(Sum(&LockCounters::hold_ns, WaitKind::kRwlockRead), static_cast<uint64_t>(kSecond));
  EXPECT_EQ(Sum(&LockCounters::hold_ns, WaitKind::kRwlockRead) + Sum(&LockCounters::gap_ns, WaitKind::kRwlockWrite),
            Sum(&LockCounters::wait_ns, WaitKind::kRwlockWrite));
}

TEST_F(Holds, AreNotAttributedWhatWasWaitedBefore) {
  Wait(true);
  Unlock();
  EXPECT_EQ(Sum(&LockCounters::hold_ns), 0u);
  EXPECT_EQ(Sum(&LockCounters::gap_ns), Sum(&LockCounters::wait_ns));
}

TEST_F(Holds, AHoldThatAVforkChildEndsMarksNoThreadAsDead) {
  process.pid = getpid();
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  Backdate(&wait, kSecond);
  const pid_t child = vfork();
  if (child == 0) {
    Unlock();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_GE(Sum(&LockCounters::hold_ns), static_cast<uint64_t>(kSecond));
  EXPECT_EQ(WaitersOf(*StateOf(&wait)->slot), 1u);
  EndWait(&wait, false);
}

// More than half of what a slot can count: once read as a settling that came late.
TEST_F(Holds, AHoldOfAWeekAndTheNextOneAreAttributed) {
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  constexpr int64_t kWeek = 7 * 86'400 * kSecond;
  for (int weeks = 1; weeks <= 2; ++weeks) {
    Backdate(&wait, kWeek);
    Unlock();
    EXPECT_NEAR(static_cast<double>(Sum(&LockCounters::hold_ns)), static_cast<double>(weeks * kWeek), 1e9);
  }
  EndWait(&wait, false);
}

// A reading of the clock that comes after a later one.
TEST_F(Holds, AttributedByAnotherThreadMeanwhileAreNotAttributedTwice) {
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  int64_t later_ns = MonotonicNs() + 3'600 * kSecond, now_ns = MonotonicNs();
  EXPECT_GE(Settle(StateOf(&wait)->slot, &later_ns), 3'600 * kSecond);
  EXPECT_EQ(Settle(StateOf(&wait)->slot, &now_ns), 0);
  EndWait(&wait, false);
}

// A hold is divided among the waiters with known stacks.
TEST_F(Holds, HoldsAreDividedAmongSeveralWaiters) {
  struct {
    LockWait second, first;
  } waits;
  Begin(&waits.first);
  EnterWait(false, &waits.first);
  Backdate(&waits.first, kSecond);
  thread_state.shard ^= 1;  // as another thread, with a place of its own in the slot
  Begin(&waits.second, WaitKind::kRwlockRead);
  EnterWait(false, &waits.second);
  Unlock();
  uint64_t pairs = 0, delay = 0;
  for (const Offset head : table_->header()->pair_heads) {
    for (Offset at = head; at != 0; at = table_->At<LockPairRecord>(at)->next) {
      const LockPairRecord& pair = *table_->At<LockPairRecord>(at);
      if (pair.holder == 0) continue;
      ++pairs;
      delay += pair.delay >> kAmountFractionBits;
    }
  }
  EXPECT_EQ(pairs, 2u);
  EXPECT_NEAR(static_cast<double>(delay), static_cast<double>(Sum(&LockCounters::hold_ns)), 2);
  EndWait(&waits.second, false);
  EndWait(&waits.first, false);
}

}  // namespace
}  // namespace holdfast
