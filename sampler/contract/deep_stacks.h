// What is kept of a stack with more than kMaxDepth frames:
//
//     frames[0 … 191]   kInnermostKept frames, from the leaf on
//     frames[192]       kOmittedFrames, "[…]" in profiles
//     frames[193 … 256] kOutermostKept frames: main, or the thread's first function, is the last
//
// A walk that does not reach the outermost frame within kMaxWalkedFrames frames keeps the innermost kMaxDepth, truncated.
#ifndef HOLDFAST_SAMPLER_CONTRACT_DEEP_STACKS_H_
#define HOLDFAST_SAMPLER_CONTRACT_DEEP_STACKS_H_

#include "sampler/contract/records.h"

namespace holdfast {

inline constexpr int kInnermostKept = 192, kOutermostKept = 64;
static_assert(kInnermostKept + kOutermostKept == kMaxDepth);
inline constexpr int kMaxWalkedFrames = 16384;
// Room for all frames of a kept stack.
inline constexpr int kMaxKeptFrames = kMaxDepth + 1;

// Replaces frames that were left out. An address without code.
inline constexpr TaggedPc kOmittedFrames = kPcMask;

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_DEEP_STACKS_H_
