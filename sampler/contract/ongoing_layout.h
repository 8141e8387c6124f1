// Waits in progress: segments in the table (layout.h).
#ifndef HOLDFAST_SAMPLER_CONTRACT_ONGOING_LAYOUT_H_
#define HOLDFAST_SAMPLER_CONTRACT_ONGOING_LAYOUT_H_

#include <atomic>
#include <cstdint>

namespace holdfast {

// A wait in progress, written by its thread when it begins to wait. Readers find it while the thread sleeps, and after
// a kill. A thread takes a free slot before it sleeps, usually its previous one, and frees it when it wakes up. It
// takes two if a signal handler waits during a wait.
//
//   turn % 4     0: free. 1: being filled. 2: the thread waits. Only grows, so a slot that was read twice with the same
//                turn was the same wait all the time.
//
// For locks that do not name their holder (futexes, spin locks) a slot also keeps the last thread that got the lock
// after waiting: most likely the holder.
struct alignas(64) OngoingWait {
  std::atomic<uint64_t> owner;  // turn, and the thread's id from bit 32 on; 0: the thread may not ask for its id
  std::atomic<uint64_t> lock;   // 0: joining a thread, or several futexes
  std::atomic<int64_t> start_ns;
  std::atomic<uint64_t> caller;  // return address into the waiting function, if `row` is 0
  std::atomic<uint64_t> mutex;   // for a waiter of a condition: the mutex that it released
  std::atomic<uint32_t> row;     // of the block profile; 0: the stack is not known (yet)
  std::atomic<uint32_t> holder;  // thread id that the lock named at the last look; 0: none, or not known
  std::atomic<uint32_t> wait;    // lowest bits of the address of its LockWait
  std::atomic<uint8_t> kind;     // WaitKind
  // Start of the first wait that this one continues: a program may wait in slices, each with a deadline. Between two
  // waits `start_ns` says until when a wait for the same lock continues the one that timed out.
  std::atomic<int64_t> since_ns;
  struct Got {
    std::atomic<uint64_t> lock;
    std::atomic<int64_t> end_ns;  // end of the wait for it
  };
  alignas(64) Got got[4];
};
static_assert(sizeof(OngoingWait) == 128);
inline constexpr uint32_t kTurnStates = 4;
enum OngoingState : uint32_t { kNobodys = 0, kBeingFilled = 1, kWaiting = 2 };
inline constexpr int kOngoingThreadShift = 32;

// Segments are made when the earlier ones are full: 64, 64, 128 … 2,048 slots, 4,096 in all.
inline constexpr int kOngoingSegments = 7;
inline constexpr uint32_t kOngoingSlots0 = 64;
inline constexpr uint32_t OngoingSlotsUpTo(int segments) {
  return segments == 0 ? 0 : kOngoingSlots0 << (segments - 1);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_ONGOING_LAYOUT_H_
