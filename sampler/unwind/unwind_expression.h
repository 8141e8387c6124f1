// Folds DWARF expressions of call frame information into what an unwind row can hold, without a frame.
//
//     breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus     →  sp + 8 or sp + 16: a PLT entry
//     breg6 −16; deref                                              →  *(fp − 16)
//
// Internal to unwind_cfi.cc.
#ifndef HOLDFAST_SAMPLER_UNWIND_UNWIND_EXPRESSION_H_
#define HOLDFAST_SAMPLER_UNWIND_UNWIND_EXPRESSION_H_

#include <cstdint>

#include "sampler/unwind/address_range.h"

namespace holdfast {

// base + offset, or *(register + inner) + offset for loaded values.
struct FrameValue {
  enum Base : uint8_t { kConstant, kSp, kFp, kCfa, kLoadedSp, kLoadedFp };
  Base base = kConstant;
  int64_t inner = 0;
  int64_t offset = 0;
  bool operator==(const FrameValue&) const = default;
};

// Folds the block at `at` (its length, then its operations). `from_cfa`: the CFA is on the expression stack at first,
// as for the places of registers. False: an operation that cannot be folded.
bool FoldExpression(uintptr_t at, AddressRange readable, uintptr_t pc, bool from_cfa, FrameValue* result);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_UNWIND_UNWIND_EXPRESSION_H_
