// DWARF expressions of call frame information, folded to what an unwind row can say, without any frame at hand.
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

// base + offset, or for the loaded ones *(register + inner) + offset.
struct FrameValue {
  enum Base : uint8_t { kConstant, kSp, kFp, kCfa, kLoadedSp, kLoadedFp };
  Base base = kConstant;
  int64_t inner = 0;
  int64_t offset = 0;
  bool operator==(const FrameValue&) const = default;
};

// Folds the block at `at` (its length, then its operations). `from_cfa`: the CFA lies on the stack at first, as it does
// for the places of registers. False: an operation that cannot be folded.
bool FoldExpression(uintptr_t at, AddressRange readable, uintptr_t pc, bool from_cfa, FrameValue* result);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_UNWIND_UNWIND_EXPRESSION_H_
