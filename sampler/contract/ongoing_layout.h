// Waits that go on, as they lie in the table (layout.h), which has segments of them.
#ifndef HOLDFAST_SAMPLER_CONTRACT_ONGOING_LAYOUT_H_
#define HOLDFAST_SAMPLER_CONTRACT_ONGOING_LAYOUT_H_

#include <atomic>
#include <cstdint>

namespace holdfast {

// A wait that goes on: what its thread wrote when it began to wait. It is there for who looks from outside, while the thread
// sleeps and after it was killed. A thread takes a free slot before it sleeps, most often the one that it had before, and
// gives it back when it wakes up; two if a signal handler waits in the midst of a wait.
//
//   turn % 4     0: nobody's. 1: being filled. 2: the thread waits. Only grows, so that a slot that was read twice with one
//                turn was the same wait all the time.
//
// Of locks that do not say who holds them (futexes, spin locks) it also keeps those that its threads got last after waiting
// for them: who got one last most likely has it.
struct alignas(64) OngoingWait {
  std::atomic<uint64_t> owner;  // turn, and the thread's id from bit 32 on; 0: it may not ask
  std::atomic<uint64_t> lock;   // 0: a thread that is to be joined, or several futexes
  std::atomic<int64_t> start_ns;
  std::atomic<uint64_t> caller;  // return address, into who waits: where `row` is 0
  std::atomic<uint64_t> mutex;   // of a condition's waiter: the one that was let go
  std::atomic<uint32_t> row;     // of the block profile; 0: the stack is not known (yet)
  std::atomic<uint32_t>
      holder;                  // thread id that the lock itself named when it was last looked at; 0: none, or not known
  std::atomic<uint32_t> wait;  // lowest bits of where its LockWait lies
  std::atomic<uint8_t> kind;   // WaitKind
  // When the first of the waits began that this one goes on with: a program may wait in slices, each with a deadline.
  // Between two waits `start_ns` says until when a wait for the same lock goes on with the one that timed out.
  std::atomic<int64_t> since_ns;
  struct Got {
    std::atomic<uint64_t> lock;
    std::atomic<int64_t> end_ns;  // of the wait for it
  };
  alignas(64) Got got[4];
};
static_assert(sizeof(OngoingWait) == 128);
inline constexpr uint32_t kTurnStates = 4;
enum OngoingState : uint32_t { kNobodys = 0, kBeingFilled = 1, kWaiting = 2 };
inline constexpr int kOngoingThreadShift = 32;

// In segments that are made when there is no room in those before: 64, 64, 128 … 2,048 slots, 4,096 in all.
inline constexpr int kOngoingSegments = 7;
inline constexpr uint32_t kOngoingSlots0 = 64;
inline constexpr uint32_t OngoingSlotsUpTo(int segments) {
  return segments == 0 ? 0 : kOngoingSlots0 << (segments - 1);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_ONGOING_LAYOUT_H_
