// Waiters: our own work during a wait, when a wait is counted, and call sites with a known stack.
#include <vector>

#include "tests/unit/waits_fixture.h"

namespace holdfast {
namespace {

// ---- Our own work in a wait ----

// A wait that began 10 s ago; its capture took from 9 s ago until 1 s ago. When the lock came free meanwhile, what followed
// was our own doing.
class OwnWork : public Waits {
 protected:
  // Lengths of the wait and of the hand-off delay, in seconds, rounded: the rest is what the test itself takes.
  struct Lengths {
    int64_t waited, gap;
    bool operator==(const Lengths&) const = default;
  };
  Lengths After(bool free_now, int64_t released_after_s) {
    LockWait wait;
    Begin(&wait);
    EXPECT_NE(StateOf(&wait)->capture_start_ns, 0);
    Backdate(&wait, 10 * kSecond);
    StateOf(&wait)->capture_start_ns = StateOf(&wait)->start_ns + 1 * kSecond;
    StateOf(&wait)->capture_end_ns = StateOf(&wait)->start_ns + 9 * kSecond;
    if (released_after_s != 0) Release(&wait, StateOf(&wait)->start_ns + released_after_s * kSecond);
    EnterWait(free_now, &wait);
    EXPECT_TRUE(!free_now || thread_state.current_wait.start_ns == StateOf(&wait)->start_ns)
        << "for who takes it out if it is left";
    EndWait(&wait, true);
    Unlock();
    return {Rounded(Sum(&LockCounters::wait_ns)), Rounded(Sum(&LockCounters::gap_ns))};
  }
  static int64_t Rounded(uint64_t ns) { return (static_cast<int64_t>(ns) + kSecond / 2) / kSecond; }
};

// 1 s after the capture is the waiter's, and hand-off delay; what was waited until the release is the holder's.
TEST_F(OwnWork, IsSubtractedIfTheLockCameFreeDuringTheCapture) { EXPECT_EQ(After(true, 4), (Lengths{5, 1})); }
TEST_F(OwnWork, IsSubtractedInFullIfTheLockCameFreeBeforeTheCapture) { EXPECT_EQ(After(true, 1), (Lengths{2, 1})); }
TEST_F(OwnWork, IsHalfSubtractedIfTheLockWasNeverReportedFree) { EXPECT_EQ(After(true, 0), (Lengths{6, 6})); }
TEST_F(OwnWork, OnATakenLockDelaysNoThread) { EXPECT_EQ(After(false, 4), (Lengths{10, 6})); }

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
TEST_F(Waits, WaitsOfHandlersAreCountedAtOnceAndOnlyOnce) {
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

// ---- Call sites with a known stack ----

class CallSites : public Waits {
 protected:
  CallSites() { UseInterval(100'000); }
  // Waits at one call site, whatever for. Begun in the future, a wait has lasted 0 ns, also when the processor was
  // given to others meanwhile.
  __attribute__((noinline)) WaitState At(WaitKind kind, WaitStyle style = WaitStyle::kInParts, int64_t lasts_ns = 0) {
    LockWait wait;
    Begin(&wait, kind, style);
    EnterWait(false, &wait);
    Backdate(&wait, lasts_ns != 0 ? lasts_ns : -kSecond);
    EndWait(&wait, false);
    return *StateOf(&wait);
  }
  // Where this thread would remember a call site, there are others.
  static void AnotherIsKnown() {
    constexpr uint64_t kAnother = 2;
    for (uint64_t place = 0; place < kKnownWaits; ++place) KnownWaitAt(ThreadId(), place)->call_site = kAnother;
  }
};

TEST_F(CallSites, AreCapturedAtTheirFirstWaitAndThenNowAndAgainAndSampledAlways) {
  constexpr int kRounds = 4'000;
  int looks = 0;
  const Row* row = nullptr;
  for (int i = 0; i <= kRounds; ++i) {
    const WaitState wait = At(WaitKind::kMutex);
    EXPECT_EQ(wait.chance, 1);
    EXPECT_TRUE(wait.sampled);
    const bool captured = wait.capture_end_ns != 0;
    EXPECT_TRUE(captured || i > 0);
    looks += captured && i > 0;
    EXPECT_TRUE(row == nullptr || wait.row == row);
    row = wait.row;
    ASSERT_NE(row, nullptr);
  }
  EXPECT_NEAR(looks, kRounds / double{kLookAgain}, 50);  // 125 ± 11
}

TEST_F(CallSites, SitesThatShareASlotAreSampledAndWeighted) {
  int chosen = 0;
  constexpr int kRounds = 1'000;
  for (int i = 0; i < kRounds; ++i) {
    AnotherIsKnown();
    const WaitState wait = At(WaitKind::kMutex);
    EXPECT_EQ(wait.chance, 1.0F / kShare);
    EXPECT_EQ(wait.sampled, wait.capture_end_ns != 0);
    EXPECT_TRUE(wait.in_parts);
    chosen += wait.sampled;
  }
  EXPECT_NEAR(chosen, kRounds / double{kShare}, 80);  // 250 ± 14
}

// One of a hundred waits may be as long as all others together: it is not left to chance, also if it is the first one. (Of
// 10 ms at this interval, each is due a sample but for one in e^100; a short one has hardly a chance.)
TEST_F(CallSites, LoseNoLongWait) {
  const auto samples = [this] {
    uint64_t sum = 0;
    for (const LockCounters& shard : table_->header()->lock_counters) sum += shard.wait_samples;
    return sum;
  };
  int looks = 0;
  for (int i = 0; i < 1'000; ++i) {
    // At one call site: a long one, and a short one that is captured as it comes after that.
    const uint64_t before = samples();
    const WaitState wait = At(WaitKind::kMutex, WaitStyle::kInParts, 10 * kMs);
    looks += wait.capture_end_ns != 0;
    EXPECT_EQ(samples(), before + 1) << "turn " << i << (wait.capture_end_ns != 0 ? ", a look" : "");
    At(WaitKind::kMutex);
  }
  EXPECT_GT(looks, 1);
  EXPECT_LT(looks, 100);  // 31 ± 6
}

// One call of a program, through a pointer, may be for one thing or another.
TEST_F(CallSites, AreOthersForAnotherKindOfWait) {
  for (int i = 0; i < 2'000; ++i) {
    const WaitKind kind = i / 100 % 2 != 0 ? WaitKind::kRwlockRead : WaitKind::kRwlockWrite;
    const WaitState wait = At(kind);
    ASSERT_TRUE(wait.row == nullptr || wait.row->wait == kind) << i;
  }
}

TEST_F(CallSites, AreOthersForAnotherThreadWithTheSameEntry) {
  for (int i = 0; i <= 100; ++i) {
    thread_state.thread_id = 5 + (i == 100 ? static_cast<int>(kWaitingThreads) : 0);
    const WaitState wait = At(WaitKind::kMutex);
    EXPECT_TRUE(i < 100 || wait.row == nullptr || wait.capture_end_ns != 0);
  }
}

TEST_F(CallSites, AreUnknownWhereAThreadMayNotAskForItsId) {
  At(WaitKind::kMutex);  // makes the slots
  no_system_calls = true;
  thread_state.thread_id = 0;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(At(WaitKind::kMutex).chance, 1.0F / kShare);
}

TEST_F(CallSites, WithoutAStackStayUnknown) {
  std::vector<ThreadState> others(2048);
  size_t taken = 0;
  while (taken < others.size() && TakeScratch(others[taken]) != nullptr) ++taken;
  ASSERT_EQ(taken, 64u + 1024u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(At(WaitKind::kMutex).chance, i == 0 ? 1 : 1.0F / kShare);
  for (ThreadState& other : others) ReturnScratch(other);
  // All of them are free again.
  size_t again = 0;
  while (again < others.size() && TakeScratch(others[again]) != nullptr) ++again;
  EXPECT_EQ(again, taken);
  for (ThreadState& other : others) ReturnScratch(other);
}

// Cut in two by a deadline only where nothing is known: a timer makes waking up slower.
TEST_F(CallSites, AreWaitedForInPartsUntilTheyAreKnown) {
  bool was_known = false;
  At(WaitKind::kMutex);  // makes the slots
  AnotherIsKnown();
  for (int i = 0; i < 100; ++i) {
    const WaitState wait = At(WaitKind::kMutex);
    EXPECT_EQ(wait.in_parts, !was_known);
    was_known = was_known || wait.row != nullptr;
  }
  EXPECT_TRUE(was_known);
}

TEST_F(CallSites, AreCapturedAtOnceAfterAWaitThatWasLong) {
  bool was_long = false;
  for (const int64_t lasts_ns : {int64_t{0}, int64_t{0}, kMs, kMs, int64_t{0}, int64_t{0}}) {
    int captured = 0;
    for (int i = 0; i < 100 && !was_long; ++i) captured += At(WaitKind::kMutex).capture_end_ns != 0;  // known
    EXPECT_LT(captured, 50);
    const WaitState wait = At(WaitKind::kMutex, WaitStyle::kInParts, lasts_ns);
    EXPECT_EQ(wait.chance, 1);
    EXPECT_TRUE(wait.sampled);
    EXPECT_TRUE(!was_long || wait.capture_end_ns != 0);
    EXPECT_FALSE(wait.in_parts);
    was_long = lasts_ns == kMs;
  }
}

TEST_F(CallSites, UnknownOnesAreCapturedWhenAWaitOutlastsItsFirstPart) {
  LockWait wait;
  do {
    UseInterval(100'000);
    ForgetLockSlots();
    AnotherIsKnown();
    Begin(&wait);
    EnterWait(false, &wait);
    if (StateOf(&wait)->capture_end_ns != 0) EndWait(&wait, false);
  } while (StateOf(&wait)->capture_end_ns != 0);
  ContinueWait({}, &wait);
  EXPECT_NE(StateOf(&wait)->capture_end_ns, 0);
  EXPECT_EQ(StateOf(&wait)->chance, 1) << "a long wait weighs as one";
  EXPECT_TRUE(StateOf(&wait)->sampled);
  EnterWait(false, &wait);
  EndWait(&wait, false);
}

// It may last for ever, and its stack is to be seen while it does.
TEST_F(CallSites, UnknownOnesAreCapturedAtOnceIfImpossibleLater) {
  for (int i = 0; i < 2; ++i) {
    const WaitState wait = At(WaitKind::kSemaphore, WaitStyle::kWhole);
    EXPECT_EQ(wait.chance, 1);
    EXPECT_NE(wait.capture_end_ns, 0);
    EXPECT_TRUE(wait.sampled);
    EXPECT_FALSE(wait.in_parts);
    AnotherIsKnown();
  }
}

TEST_F(CallSites, DoNotMatterWhereTheLastWaitOfTheKindWasLong) {
  for (int i = 0; i < 100; ++i) At(WaitKind::kSemaphore, WaitStyle::kWhole);
  thread_state.long_waits = 1u << static_cast<int>(WaitKind::kSemaphore);
  const WaitState wait = At(WaitKind::kSemaphore, WaitStyle::kWhole);
  EXPECT_EQ(wait.chance, 1);
  EXPECT_TRUE(wait.sampled);
  EXPECT_NE(wait.capture_end_ns, 0);
  int captured = 0;
  for (int i = 0; i < 100; ++i) captured += At(WaitKind::kSemaphore, WaitStyle::kWhole).capture_end_ns != 0;
  EXPECT_LT(captured, 50) << "that one was short";
}

}  // namespace
}  // namespace holdfast
