// The recorder of waits and holds, step by step, with times that a test makes up: what no program can do twice alike.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "sampler/lock_records.h"
#include "sampler/lock_sampling.h"
#include "sampler/sample_stack.h"
#include "sampler/wait_steps.h"
#include "tests/unit/anonymous_table.h"
#include "tests/unit/single_steps.h"

namespace holdfast {
namespace {

constexpr int64_t kMs = 1'000'000, kSecond = 1'000 * kMs;

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
  __attribute__((noinline)) void Begin(LockWait* wait, WaitKind kind = WaitKind::kMutex, WaitStyle style = WaitStyle::kInParts) {
    CallerRegisters caller = HOLDFAST_CALLER();
    caller.bp = 0;  // whatever the test has in it
    BeginWait(caller, &lock_, kind, style, wait);
  }
  // As if it had begun so long ago.
  static void Backdate(LockWait* wait, int64_t by_ns) {
    wait->start_ns -= by_ns;
    DelayWaiter(wait->slot, -by_ns);
  }
  static void Release(LockWait* wait, int64_t at_ns) { Settle(wait->slot, &at_ns); }
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

  Table* table_;
  int lock_ = 0;
};

// ---- Our own work in a wait ----

// A wait that began 10 s ago; its capture took from 9 s ago until 1 s ago. When the lock came free meanwhile, what followed
// was our own doing.
class OwnWork : public Waits {
 protected:
  // Lengths of the wait and of the gap, in seconds, rounded: the rest is what the test itself takes.
  struct Lengths {
    int64_t waited, gap;
    bool operator==(const Lengths&) const = default;
  };
  Lengths After(bool free_now, int64_t released_after_s) {
    LockWait wait;
    Begin(&wait);
    EXPECT_NE(wait.capture_start_ns, 0);
    Backdate(&wait, 10 * kSecond);
    wait.capture_start_ns = wait.start_ns + 1 * kSecond;
    wait.capture_end_ns = wait.start_ns + 9 * kSecond;
    if (released_after_s != 0) Release(&wait, wait.start_ns + released_after_s * kSecond);
    EnterWait(free_now, &wait);
    EXPECT_TRUE(!free_now || thread_state.current_wait.start_ns == wait.start_ns) << "for who takes it out if it is left";
    EndWait(&wait, true);
    Unlock();
    return {Rounded(Sum(&LockCounters::wait_ns)), Rounded(Sum(&LockCounters::gap_ns))};
  }
  static int64_t Rounded(uint64_t ns) { return (static_cast<int64_t>(ns) + kSecond / 2) / kSecond; }
};

// 1 s after the capture is the waiter's, and gap; what was waited until the release is the holder's.
TEST_F(OwnWork, OfALockThatCameFreeDuringTheCaptureIsTakenOff) { EXPECT_EQ(After(true, 4), (Lengths{5, 1})); }
TEST_F(OwnWork, OfALockThatCameFreeBeforeTheCaptureIsAllTakenOff) { EXPECT_EQ(After(true, 1), (Lengths{2, 1})); }
TEST_F(OwnWork, OfALockThatNobodySaidWasFreeIsHalfTakenOff) { EXPECT_EQ(After(true, 0), (Lengths{6, 6})); }
TEST_F(OwnWork, OfALockThatStillIsTakenDelaysNobody) { EXPECT_EQ(After(false, 4), (Lengths{10, 6})); }

// ---- Sums that are added after the unlock ----

TEST_F(Waits, AreCountedWhenTheLockIsLetGo) {
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  EndWait(&wait, true);
  EXPECT_EQ(Sum(&LockCounters::waits), 0u);
  Unlock();
  EXPECT_EQ(Sum(&LockCounters::waits), 1u);
  EXPECT_EQ(Sum(&LockCounters::acquired), 1u);
  Unlock();
  EXPECT_EQ(Sum(&LockCounters::waits), 1u);
}

TEST_F(Waits, AreCountedAtOnceIfTheyWereLongOrGotNothing) {
  for (const bool acquired : {false, true}) {
    LockWait wait;
    Begin(&wait);
    EnterWait(false, &wait);
    if (acquired) Backdate(&wait, 11 * kMs);
    EndWait(&wait, acquired);
    EXPECT_EQ(Sum(&LockCounters::waits), acquired ? 2u : 1u);
  }
}

// The lock was let go by another thread, or in a way that we do not see.
TEST_F(Waits, AreCountedWhenTheirThreadNextWaits) {
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  EndWait(&wait, true);
  Begin(&wait);
  EXPECT_EQ(Sum(&LockCounters::waits), 1u);
  EnterWait(false, &wait);
  EndWait(&wait, false);
  EXPECT_EQ(Sum(&LockCounters::waits), 2u);
}

// A signal handler that waits while its thread is about to note, or to publish, a wait.
TEST_F(Waits, OfHandlersAreCountedAtOnceAndNothingTwice) {
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  EndWait(&wait, true);
  thread_state.ended_wait.publishing = Publishing::kBusy;
  LockWait in_handler;
  Begin(&in_handler);
  EnterWait(false, &in_handler);
  EndWait(&in_handler, true);
  EXPECT_EQ(Sum(&LockCounters::waits), 1u);
  Unlock();
  EXPECT_EQ(Sum(&LockCounters::waits), 1u) << "the other one is still being noted";
  thread_state.ended_wait.publishing = Publishing::kDue;
  Unlock();
  EXPECT_EQ(Sum(&LockCounters::waits), 2u);
}

// ---- Waits that a handler jumped out of ----

// Holders would be charged, and each unlock of the program would look closely, for ever.
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
  for (const Offset row : frames.left.slot->waiters) EXPECT_EQ(row, 0u);
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
  VisitIdleSlot(frames.left.slot, &lock_, 1'000);
  BeginUnlock(&lock_, WaitKind::kMutex, false, &frames.hold);
  EXPECT_EQ(lock_watch[kWokenTable].taken, 0u);
}

TEST_F(LeftWaits, AreNotCapturedInAChildOfFork) {
  LockWait wait;
  UseInterval(100'000);
  do {
    Begin(&wait);
    EnterWait(false, &wait);
    if (wait.capture_end_ns != 0) EndWait(&wait, false);
  } while (wait.capture_end_ns != 0);
  current_table = nullptr;  // by a handler
  StillWaiting({}, &wait);
  EXPECT_EQ(lock_preparing, 0u);
}

// But for a few instructions around the moments when a wait is registered and when that ends: where these are not one.
class LeftAnywhere : public LeftWaits {
 protected:
  // How often something stayed.
  template <typename Prepare, typename Work>
  int LeaveAndWaitAgain(int stride, Prepare prepare, Work work) {
    int stayed = 0;
    for (SingleSteps steps(stride);; steps.Next()) {
      ForgetLockSlots();
      thread_state.preparing = 0;
      Frames frames;
      prepare(&frames.left);
      if (sigsetjmp(steps.out, 1) == 0) steps.Run([&] { work(&frames.left); }, [&] { siglongjmp(steps.out, 1); });
      if (steps.WorkIsOver()) return stayed;
      WaitAgain(&frames);
      EXPECT_LE(Waiting(), 1u) << "instruction " << steps.step();
      stayed += Waiting() != 0 || lock_preparing != 0;
    }
  }
};

TEST_F(LeftAnywhere, InTheirBeginningLeaveNothingBehind) {
  table_->header()->profiles = 1u << static_cast<int>(ProfileKind::kMutex);
  EXPECT_LE(LeaveAndWaitAgain(5, [](LockWait*) {}, [this](LockWait* wait) { Begin(wait); }), 6);
}

TEST_F(LeftAnywhere, InTheirCaptureLeaveNothingBehind) {
  EXPECT_LE(LeaveAndWaitAgain(101, [](LockWait*) {}, [this](LockWait* wait) { Begin(wait); }), 2);
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
  const std::vector<const void*> others = InSetOf(&lock_);
  for (SingleSteps steps(3);; steps.Next()) {
    ForgetLockSlots();
    for (const void* other : others) ClaimSlotAndCount(table_, thread_state, other, kHeldTable);
    if (sigsetjmp(steps.out, 1) == 0) {
      steps.Run([&] { ClaimSlotAndCount(table_, thread_state, &lock_, kHeldTable); }, [&] { siglongjmp(steps.out, 1); });
    }
    if (steps.WorkIsOver()) break;
    ASSERT_NE(ClaimSlotAndCount(table_, thread_state, &lock_, kHeldTable), nullptr) << "instruction " << steps.step();
    ASSERT_EQ(lock_watch[kHeldTable].taken, kKeysInSet);
  }
}

TEST_F(Waits, AJumpOutOfTheEndOfASlotLeavesItsLockNothingInTheWay) {
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

// ---- Holders ----

class Holds : public Waits {
 protected:
  // Somebody waits for a second, and gives up or gets the lock.
  void Wait(bool acquired, WaitKind kind = WaitKind::kMutex) {
    LockWait wait;
    Begin(&wait, kind);
    EnterWait(false, &wait);
    Backdate(&wait, kSecond);
    EndWait(&wait, acquired);
  }
};

// The lock's word does not show them yet.
TEST_F(Holds, AreChargedWithWaitersWhoseStackIsBeingCaptured) {
  LockWait wait;
  Begin(&wait);
  Backdate(&wait, kSecond);
  Unlock(/*sleepers=*/false);
  EXPECT_GE(Sum(&LockCounters::hold_ns), static_cast<uint64_t>(kSecond));
  EnterWait(true, &wait);
  EndWait(&wait, true);
}

TEST_F(Holds, AreStillToBeChargedAfterAnUnlockThatFailed) {
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

TEST_F(Holds, ThatNoUnlockWasSeenOfAreAGapAtTheEnd) {
  Wait(false);
  EXPECT_EQ(Sum(&LockCounters::gap_ns), 0u);
  SettleLocks();
  EXPECT_EQ(Sum(&LockCounters::gap_ns), Sum(&LockCounters::wait_ns));
  SettleLocks();
  EXPECT_EQ(Sum(&LockCounters::gap_ns), Sum(&LockCounters::wait_ns));
}

// Also when nobody is there to export it.
TEST_F(Holds, ThatNoUnlockWasSeenOfAreAGapAtAnOrderlyEnd) {
  Wait(false);
  process.pid = getpid();
  AwaitLastProfile();
  EXPECT_EQ(Sum(&LockCounters::gap_ns), Sum(&LockCounters::wait_ns));
}

TEST_F(Holds, OfFutexesThatNobodyWokeAreAGapAtTheEnd) {
  Wait(false, WaitKind::kFutex);
  EXPECT_EQ(Sum(&LockCounters::gap_ns, WaitKind::kFutex), 0u);
  SettleLocks();
  EXPECT_EQ(Sum(&LockCounters::gap_ns, WaitKind::kFutex), Sum(&LockCounters::wait_ns, WaitKind::kFutex));
}

TEST_F(Holds, ThatNoUnlockWasSeenOfAreAGapWhenAnotherLockTakesTheirSlot) {
  for (const WaitKind kind : {WaitKind::kMutex, WaitKind::kFutex}) {
    Wait(false, kind);
    for (const void* other : InSetOf(&lock_)) ClaimSlotAndCount(table_, thread_state, other, TableOf(kind));
    EXPECT_EQ(FindSlot(&lock_, TableOf(kind)), nullptr);
    EXPECT_EQ(Sum(&LockCounters::gap_ns, kind), Sum(&LockCounters::wait_ns, kind));
  }
}

TEST_F(Holds, ThatNoUnlockWasSeenOfAreAGapWhenTheirLockIsFoughtForNoMore) {
  Wait(false);
  EXPECT_NE(FindSlot(&lock_, kHeldTable), nullptr);
  for (int i = 0; i < 10; ++i) Unlock(/*sleepers=*/false);
  EXPECT_EQ(FindSlot(&lock_, kHeldTable), nullptr);
  EXPECT_EQ(lock_watch[kHeldTable].taken, 0u);
  EXPECT_EQ(Sum(&LockCounters::gap_ns), Sum(&LockCounters::wait_ns));
}

TEST_F(Holds, AreNotChargedWithWhatWasWaitedBefore) {
  Wait(true);
  Unlock();
  EXPECT_EQ(Sum(&LockCounters::hold_ns), 0u);
  EXPECT_EQ(Sum(&LockCounters::gap_ns), Sum(&LockCounters::wait_ns));
}

TEST_F(Holds, ThatAVforkChildEndsTakeNobodyForDead) {
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
  EXPECT_EQ(WaitersOf(*wait.slot), 1u);
  EndWait(&wait, false);
}

// More than half of what a slot can count: once read as a charge that came late.
TEST_F(Holds, OfAWeekAreChargedAndSoIsTheNext) {
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
TEST_F(Holds, ThatWereChargedByOthersMeanwhileAreNotChargedTwice) {
  LockWait wait;
  Begin(&wait);
  EnterWait(false, &wait);
  int64_t later_ns = MonotonicNs() + 3'600 * kSecond, now_ns = MonotonicNs();
  EXPECT_GE(Settle(wait.slot, &later_ns), 3'600 * kSecond);
  EXPECT_EQ(Settle(wait.slot, &now_ns), 0);
  EndWait(&wait, false);
}

// Divided among those who wait, as far as their stacks are known.
TEST_F(Holds, OfSeveralWaitersAreEachOnesInPart) {
  struct {
    LockWait second, first;
  } waits;
  Begin(&waits.first);
  EnterWait(false, &waits.first);
  Backdate(&waits.first, kSecond);
  thread_state.shard = 1;  // as another thread, with a place of its own in the slot
  Begin(&waits.second, WaitKind::kRwlockRead);
  EnterWait(false, &waits.second);
  Unlock();
  uint64_t pairs = 0, delay = 0;
  for (const Offset head : table_->header()->pair_heads) {
    for (Offset at = head; at != 0; at = table_->At<LockPair>(at)->next) {
      const LockPair& pair = *table_->At<LockPair>(at);
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

// ---- Conditions ----

// Two wait for a condition, the second in a signal handler of the first, and a while after the signal the mutex is let go.
class Conditions : public Waits {
 protected:
  struct Both {
    LockWait second, first;  // as on a stack
  };
  __attribute__((noinline)) void BeginBoth(bool all, Both* both, uint64_t awake = 0) {
    for (LockWait* wait : {&both->first, &both->second}) BeginConditionWait(HOLDFAST_CALLER(), &condition_, &lock_, wait);
    Signal(all, awake);
    for (const int64_t start_ns = MonotonicNs(); MonotonicNs() < start_ns + kMs;) {
    }
    Unlock();
  }
  // `awake`: so many may not be asleep yet.
  void Signal(bool all, uint64_t awake) {
    const ConditionWaiters waiters = WaitersOfCondition(&condition_);
    const uint64_t asleep = waiters.count - awake;
    RecordSignal(&condition_, waiters.mutex, all ? asleep : asleep != 0);
  }
  void End(LockWait* wait, bool woken) { EndConditionWait(wait, &condition_, &lock_, woken); }
  // As another thread.
  void Leave(const LockWait& wait) {
    RemoveWaiter(wait.slot, wait.start_ns);
    TidyWokenSlot(wait.slot, &condition_, wait.start_ns);
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

TEST_F(Conditions, WhoRanOutOfTimeLeavesTheSignalToTheOther) {
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
TEST_F(Conditions, WhoComesAfterTheOthersWereCountedIsNotWoken) {
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
  EXPECT_LT(Sum(&LockCounters::hold_ns), static_cast<uint64_t>(2 * (MonotonicNs() - both.first.start_ns)) - 90'000);
  End(&both.second, true);
  End(&both.first, true);
}

// Each ran out of time just before the signal was there to take.
TEST_F(Conditions, ASignalForNobodyLetsNobodyWait) {
  Both both;
  BeginBoth(false, &both);
  Leave(both.second);
  EXPECT_EQ(WaitingForMutex(), 1u);
  Leave(both.first);
  EXPECT_EQ(WaitingForMutex(), 0u);
}

TEST_F(Conditions, AreHeldByNobody) {
  LockWait wait;
  BeginConditionWait(HOLDFAST_CALLER(), &condition_, &lock_, &wait);
  End(&wait, false);
  SettleLocks();
  for (const void* other : InSetOf(&condition_)) ClaimSlotAndCount(table_, thread_state, other, kWokenTable);
  EXPECT_EQ(FindSlot(&condition_, kWokenTable), nullptr);
  EXPECT_EQ(Sum(&LockCounters::gap_ns, WaitKind::kCondition) + Sum(&LockCounters::gap_ns, WaitKind::kFutex), 0u);
}

// Else every signal of the program would look closely, for ever.
TEST_F(Conditions, ThatAreSignalledForNobodyGiveUpTheirSlot) {
  LockWait wait;
  BeginConditionWait(HOLDFAST_CALLER(), &condition_, &lock_, &wait);
  End(&wait, false);
  EXPECT_EQ(lock_watch[kWokenTable].taken, 1u);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(WaitersOfCondition(&condition_).count, 0u);
  EXPECT_EQ(lock_watch[kWokenTable].taken, 0u);
}

// A signal stands for a waiter of the mutex: somebody is about to take both away.
TEST_F(Conditions, KeepTheirSlotAsLongAsASignalIsLeft) {
  Both both;
  BeginBoth(false, &both);
  LockSlot* slot = both.first.slot;
  for (LockWait* wait : {&both.first, &both.second}) RemoveWaiter(slot, wait->start_ns);
  for (int i = 0; i < 300; ++i) VisitIdleSlot(slot, &condition_, 1);
  EXPECT_EQ(FindSlot(&condition_, kWokenTable), slot);
  DropSignal(slot, MonotonicNs(), 0);
  for (int i = 0; i < 300; ++i) VisitIdleSlot(slot, &condition_, 1);
  EXPECT_EQ(FindSlot(&condition_, kWokenTable), nullptr);
}

// The waiter runs out of time and its slot becomes another condition's, at whatever point of the signal.
TEST_F(Conditions, ThatLoseTheirSlotWhileTheyAreSignalledLeaveNobodyWaiting) {
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

// ---- Places whose stack is known ----

class Places : public Waits {
 protected:
  Places() { UseInterval(100'000); }
  // Waits at one place of the program, whatever for.
  __attribute__((noinline)) LockWait At(WaitKind kind, WaitStyle style = WaitStyle::kInParts) {
    LockWait wait;
    Begin(&wait, kind, style);
    EnterWait(false, &wait);
    EndWait(&wait, false);
    return wait;
  }
};

TEST_F(Places, ThatAreKnownAreSampledWithoutACaptureAndCapturedWithoutASample) {
  int known = 0, looks = 0;
  const Row* row = nullptr;
  for (int i = 0; i < 4'000; ++i) {
    const LockWait wait = At(WaitKind::kMutex);
    const bool captured = wait.capture_end_ns != 0;
    if (wait.chance == 1.0F / kShare) {
      EXPECT_EQ(known, 0) << "once known, it stays known";
      EXPECT_EQ(wait.sampled, captured);
    } else {
      EXPECT_EQ(wait.chance, 1 - 1.0F / kLookAgain);
      EXPECT_EQ(wait.sampled, !captured);
      ++known;
      looks += captured;
      EXPECT_TRUE(row == nullptr || wait.row == row);
      row = wait.row;
      ASSERT_NE(row, nullptr);
    }
  }
  EXPECT_GT(known, 3'900);
  EXPECT_NEAR(looks, known / double{kLookAgain}, 50);  // 125 ± 11
}

// One call of a program, through a pointer, may be for one thing or another.
TEST_F(Places, AreOthersForAnotherKindOfWait) {
  for (int i = 0; i < 2'000; ++i) {
    const WaitKind kind = i / 100 % 2 != 0 ? WaitKind::kRwlockRead : WaitKind::kRwlockWrite;
    const LockWait wait = At(kind);
    ASSERT_TRUE(wait.row == nullptr || wait.row->wait == kind) << i;
  }
}

TEST_F(Places, AreOthersForAnotherThreadWithTheSameEntry) {
  for (int i = 0; i <= 100; ++i) {
    thread_state.thread_id = 5 + (i == 100 ? static_cast<int>(kWaitingThreads) : 0);
    const float chance = At(WaitKind::kMutex).chance;
    EXPECT_TRUE(i < 99 || chance == (i == 99 ? 1 - 1.0F / kLookAgain : 1.0F / kShare)) << i << ": " << chance;
  }
}

TEST_F(Places, AreUnknownWhereAThreadMayNotAskForItsId) {
  At(WaitKind::kMutex);  // makes the slots
  no_system_calls = true;
  thread_state.thread_id = 0;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(At(WaitKind::kMutex).chance, 1.0F / kShare);
}

TEST_F(Places, WhereNoStackCouldBeTakenAreNotKnown) {
  ThreadState others[64] = {};
  for (ThreadState& other : others) ASSERT_NE(TakeScratch(other), nullptr);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(At(WaitKind::kMutex).chance, 1.0F / kShare);
  for (ThreadState& other : others) ReturnScratch(other);
}

TEST_F(Places, AreCapturedAgainWhenAWaitOutlastsItsFirstPart) {
  for (int i = 0; i < 100; ++i) At(WaitKind::kMutex);
  LockWait wait;
  do {
    Begin(&wait);
    EnterWait(false, &wait);
    EndWait(&wait, false);
  } while (wait.capture_end_ns != 0);
  Begin(&wait);
  EnterWait(false, &wait);
  StillWaiting({}, &wait);
  EXPECT_NE(wait.capture_end_ns, 0);
  EXPECT_EQ(wait.chance, 1);
  EXPECT_TRUE(wait.sampled);
  EnterWait(false, &wait);
  EndWait(&wait, false);
}

TEST_F(Places, DoNotMatterWhereTheLastWaitOfTheKindWasLong) {
  for (int i = 0; i < 100; ++i) At(WaitKind::kSemaphore, WaitStyle::kWhole);
  thread_state.long_waits = 1u << static_cast<int>(WaitKind::kSemaphore);
  const LockWait wait = At(WaitKind::kSemaphore, WaitStyle::kWhole);
  EXPECT_EQ(wait.chance, 1);
  EXPECT_TRUE(wait.sampled);
  EXPECT_NE(wait.capture_end_ns, 0);
  EXPECT_NE(At(WaitKind::kSemaphore, WaitStyle::kWhole).chance, 1) << "that one was short";
}

}  // namespace
}  // namespace holdfast
