// Chooses the samples of a thread that are timed: one in each window of 64, at random, so that no loop of the program keeps in
// step with it. Each has the same chance, 1/64.
//
//     samples   0 … 63 | 64 … 127 | 128 …      one in each window
//     timed         ▲      ▲            ▲      24, 75, 160: from one to the next 1 … 127
//
//     ThreadState::samples    bits 0–7   how many come before the next one that is timed: 0 is that one
//                             bits 8–13  its place in its window
//                             bits 14–15 a turn, so that the whole word changes with each sample
//
// For the calling thread only.
#ifndef HOLDFAST_SAMPLER_HOT_PATH_TIMED_SAMPLES_H_
#define HOLDFAST_SAMPLER_HOT_PATH_TIMED_SAMPLES_H_

#include <cstdint>

#include "sampler/contract/poisson_sampler.h"
#include "sampler/hot_path/thread_state.h"

namespace holdfast {

inline constexpr uint32_t kTimedOneIn = 64;
inline constexpr int kTurnShift = 14;
static_assert(kTimedOneIn << 8 == 1 << kTurnShift && 2 * kTimedOneIn <= 256);

inline constexpr uint16_t FirstSamples(uint64_t random) {
  const uint64_t place = random % kTimedOneIn;
  return static_cast<uint16_t>(place << 8 | place);
}

// False: this sample is timed, and the next one is not yet drawn.
HOLDFAST_HOT inline bool IsUntimed(const ThreadState& thread) { return static_cast<uint8_t>(thread.samples) != 0; }
HOLDFAST_HOT inline void CountUntimed(ThreadState& thread) { --thread.samples; }

// Call after a timed sample. Returns further random bits.
inline uint64_t DrawTimed(ThreadState& thread) {
  const uint64_t random = NextRandom(&thread.random);
  const uint32_t place = thread.samples >> 8 & (kTimedOneIn - 1), next = random % kTimedOneIn;
  const uint32_t turn = thread.samples >> kTurnShift;
  thread.samples = static_cast<uint16_t>((turn + 1) << kTurnShift | next << 8 | (kTimedOneIn - place + next - 1));
  return random / kTimedOneIn;
}

// Call when an unsampled block was allocated.
inline void NoteOtherAllocation(ThreadState& thread) {
  thread.samples = static_cast<uint16_t>(thread.samples + (1 << kTurnShift));
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HOT_PATH_TIMED_SAMPLES_H_
