// A stack, captured by us and by libgcc's unwinder at the same place: the oracle of the tests of stack capture.
#ifndef HOLDFAST_TESTS_UNIT_BOTH_TRACES_H_
#define HOLDFAST_TESTS_UNIT_BOTH_TRACES_H_

#include <gtest/gtest.h>
#include <unwind.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sampler/capture/stack_trace.h"

namespace holdfast {

struct BothTraces {
  StackTrace ours;
  uintptr_t oracle[kMaxWalkedFrames + 1];
  int oracle_depth;
};

struct OracleWalk {
  BothTraces* traces;
  uintptr_t first;  // frames before this one are the oracle's own
  bool begun;
};

inline _Unwind_Reason_Code OracleFrame(_Unwind_Context* context, void* argument) {
  auto* walk = static_cast<OracleWalk*>(argument);
  int before_instruction = 0;
  const uintptr_t ip = _Unwind_GetIPInfo(context, &before_instruction);
  if (ip == walk->first) walk->begun = true;
  if (!walk->begun || ip == 0) return _URC_NO_REASON;
  walk->traces->oracle[walk->traces->oracle_depth++] = ip + static_cast<uintptr_t>(before_instruction);
  return walk->traces->oracle_depth <= kMaxWalkedFrames ? _URC_NO_REASON : _URC_END_OF_STACK;
}

// Captures the caller's stack, twice.
[[gnu::noinline]] inline void CaptureBoth(StackBounds* bounds, BothTraces* traces) {
  CaptureStack(HOLDFAST_CALLER(), bounds, &traces->ours);
  traces->oracle_depth = 0;
  OracleWalk walk{traces, reinterpret_cast<uintptr_t>(__builtin_return_address(0)), false};
  _Unwind_Backtrace(OracleFrame, &walk);
}

inline uintptr_t PcOf(const StackTrace& trace, int i) { return trace.frames[i] & kPcMask; }

// What is kept of the oracle's frames (sampler/contract/deep_stacks.h).
inline std::vector<uintptr_t> KeptOf(const BothTraces& traces) {
  const uintptr_t* end = traces.oracle + traces.oracle_depth;
  if (traces.oracle_depth <= kMaxDepth) return {traces.oracle, end};
  if (traces.oracle_depth > kMaxWalkedFrames) return {traces.oracle, traces.oracle + kMaxDepth};
  std::vector<uintptr_t> kept(traces.oracle, traces.oracle + kInnermostKept);
  kept.push_back(kOmittedFrames);
  kept.insert(kept.end(), end - kOutermostKept, end);
  return kept;
}

// The same frames, all of them.
inline ::testing::AssertionResult SameFrames(const BothTraces& traces) {
  const int depth = traces.ours.depth;
  const std::vector<uintptr_t> kept = KeptOf(traces);
  const auto expected = static_cast<int>(kept.size());
  for (int i = 0; i < depth && i < expected; ++i) {
    if (PcOf(traces.ours, i) != kept[static_cast<size_t>(i)]) {
      return ::testing::AssertionFailure() << "frame " << i << " of " << depth << ": " << std::hex
                                           << PcOf(traces.ours, i) << " instead of " << kept[static_cast<size_t>(i)];
    }
  }
  if (depth != expected) return ::testing::AssertionFailure() << depth << " frames instead of " << expected;
  if (traces.ours.truncated != (traces.oracle_depth > kMaxWalkedFrames)) {
    return ::testing::AssertionFailure() << "truncated is " << traces.ours.truncated << " at depth " << depth;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_UNIT_BOTH_TRACES_H_
