// A stack, captured by us and by libgcc's unwinder at the same place: the oracle of the tests of stack capture.
#ifndef HOLDFAST_TESTS_UNIT_BOTH_TRACES_H_
#define HOLDFAST_TESTS_UNIT_BOTH_TRACES_H_

#include <gtest/gtest.h>
#include <unwind.h>

#include <cstdint>
#include <string>

#include "sampler/stacks/stack_trace.h"

namespace holdfast {

struct BothTraces {
  StackTrace ours;
  uintptr_t oracle[kMaxDepth + 1];
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
  return walk->traces->oracle_depth <= kMaxDepth ? _URC_NO_REASON : _URC_END_OF_STACK;
}

// Captures the caller's stack, twice.
[[gnu::noinline]] inline void CaptureBoth(StackBounds* bounds, BothTraces* traces) {
  CaptureStack(HOLDFAST_CALLER(), bounds, &traces->ours);
  traces->oracle_depth = 0;
  OracleWalk walk{traces, reinterpret_cast<uintptr_t>(__builtin_return_address(0)), false};
  _Unwind_Backtrace(OracleFrame, &walk);
}

inline uintptr_t PcOf(const StackTrace& trace, int i) { return trace.frames[i] & kPcMask; }

// The same frames, all of them.
inline ::testing::AssertionResult SameFrames(const BothTraces& traces) {
  const int depth = traces.ours.depth;
  for (int i = 0; i < depth && i < traces.oracle_depth; ++i) {
    if (PcOf(traces.ours, i) != traces.oracle[i]) {
      return ::testing::AssertionFailure() << "frame " << i << " of " << depth << ": " << std::hex
                                           << PcOf(traces.ours, i) << " instead of " << traces.oracle[i];
    }
  }
  const int expected = traces.oracle_depth < kMaxDepth ? traces.oracle_depth : kMaxDepth;
  if (depth != expected) return ::testing::AssertionFailure() << depth << " frames instead of " << expected;
  if (traces.ours.truncated != (traces.oracle_depth > kMaxDepth)) {
    return ::testing::AssertionFailure() << "truncated is " << traces.ours.truncated << " at depth " << depth;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_UNIT_BOTH_TRACES_H_
