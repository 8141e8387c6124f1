// One unwind row: how to get from the registers at one code address to those in its caller, in 64 bits.
//
//     CFA = base + cfa_offset             base: sp or fp; the usual case
//     CFA = *(base + cfa_offset) + add    functions that realign their stack, hand-written code that saved its sp
//     caller's sp = CFA, its pc = *(CFA − 8), its fp = what it was, or *(CFA | fp | sp + fp_offset)
//
// If a call leaves the return address in a register (arm64), the callee saves it with fp, or alone, or not at all:
//
//     caller's pc = *(CFA + fp_offset + add)    usually add = 8; fp unchanged: add = 0, and fp_offset is the place of pc
//     caller's pc = x30                         bit 4: a function that calls nobody, interrupted by a signal
//
//   bits 0..2 kind · 3 base is fp · 4 CFA is loaded, or pc is in a register · 5..6 FpRule · 7 its module may be unloaded · 8..27 cfa_offset/8 · 28..47 fp_offset/8
//        48..58 tag of the module, where a TaggedPc has it · 59..63 add/8
//
// The unwind tables of compilers need no more than that for functions that call others; other code is kCannot.
#ifndef HOLDFAST_SAMPLER_UNWIND_UNWIND_ROW_H_
#define HOLDFAST_SAMPLER_UNWIND_UNWIND_ROW_H_

#include <cstdint>

#include "sampler/arch/processor_facts.h"
#include "sampler/contract/layout.h"

namespace holdfast {

struct UnwindRow {
  enum Kind : uint64_t {
    kNone = 0,
    kStep,
    kEnd,           // the outermost frame of a thread or coroutine: its return address is undefined
    kSignal,        // the kernel's signal frame: sp points at the ucontext
    kFramePointer,  // code without unwind tables: fp may be a frame pointer
    kCannot,        // tables that need registers outside of the walk
  };
  enum FpRule : uint64_t { kSame = 0, kAtCfa, kAtFp, kAtSp };

  static constexpr int kLoadedBit = 4;
  static constexpr uint64_t kUnloadable = 1 << 7;
  static constexpr uint64_t kModuleTagMask = ((uint64_t{1} << kTagBits) - 1) << kPcTagShift;
  static constexpr int64_t kLargestOffset = ((1 << 19) - 1) * 8;  // 4 MiB: the largest frame that a row describes
  static constexpr int kAddShift = kPcTagShift + kTagBits;
  static constexpr int64_t kLargestAdd = 15 * 8;

  uint64_t bits = 0;

  Kind kind() const { return static_cast<Kind>(bits & 7); }
  // A step with a CFA that needs no load, and a return address in memory: one test on the hot path.
  bool IsPlainStep() const { return (bits & (7 | 1 << kLoadedBit)) == kStep; }
  bool from_fp() const { return bits & 8; }
  bool unloadable() const { return bits & kUnloadable; }
  bool loaded() const { return kCallPushesReturn && (bits & 1 << kLoadedBit) != 0; }
  bool returns_by_register() const { return !kCallPushesReturn && (bits & 1 << kLoadedBit) != 0; }
  FpRule fp_rule() const { return static_cast<FpRule>(bits >> 5 & 3); }
  int64_t cfa_offset() const { return static_cast<int64_t>(bits << 36) >> 44 << 3; }
  int64_t fp_offset() const { return static_cast<int64_t>(bits << 16) >> 44 << 3; }
  int64_t add() const { return static_cast<int64_t>(bits) >> kAddShift << 3; }

  // The place of the caller's pc. Not if it is in a register.
  uintptr_t ReturnPlace(uintptr_t cfa) const {
    if (kCallPushesReturn) return cfa - sizeof(uintptr_t);
    return cfa + static_cast<uintptr_t>(fp_offset() + add());
  }

  static constexpr UnwindRow Of(Kind kind) { return {kind}; }
  uint16_t tag() const { return static_cast<uint16_t>((bits & kModuleTagMask) >> kPcTagShift); }
  UnwindRow WithTag(uint16_t tag) const { return {bits | uint64_t{tag} << kPcTagShift}; }

  struct Step {
    bool from_fp = false;
    bool loaded = false;  // or, where calls push nothing, the return address is in a register
    FpRule fp_rule = kSame;
    int64_t cfa_offset = 0;
    int64_t fp_offset = 0;
    int64_t add = 0;
  };
  static constexpr bool Fits(int64_t offset, int64_t largest) {
    return (offset & 7) == 0 && offset <= largest && offset >= -largest;
  }
  // kCannot if an offset does not fit.
  static constexpr UnwindRow Of(const Step& step) {
    if (!Fits(step.cfa_offset, kLargestOffset) || !Fits(step.fp_offset, kLargestOffset) ||
        !Fits(step.add, kLargestAdd)) {
      return Of(kCannot);
    }
    constexpr uint64_t k20Bits = (1 << 20) - 1;
    return {kStep | uint64_t{step.from_fp} << 3 | uint64_t{step.loaded} << kLoadedBit | uint64_t{step.fp_rule} << 5 |
            (static_cast<uint64_t>(step.cfa_offset >> 3) & k20Bits) << 8 |
            (static_cast<uint64_t>(step.fp_offset >> 3) & k20Bits) << 28 |
            static_cast<uint64_t>(step.add >> 3) << kAddShift};
  }
};
static_assert(sizeof(UnwindRow) == 8);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_UNWIND_UNWIND_ROW_H_
