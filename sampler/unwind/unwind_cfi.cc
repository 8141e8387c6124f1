#include "sampler/unwind/unwind_cfi.h"

#include "sampler/arch/processor.h"
#include "sampler/unwind/dwarf_numbers.h"
#include "sampler/unwind/unwind_bytes.h"
#include "sampler/unwind/unwind_entry.h"
#include "sampler/unwind/unwind_expression.h"

namespace holdfast {
namespace {

// gcc and clang nest remember_state once or twice.
constexpr int kMaxRemembered = 8;

enum class How : uint8_t { kSame, kAtCfa, kUndefined, kExpression, kOther };

struct Rule {
  How how = How::kSame;
  int64_t value = 0;  // kAtCfa: offset; kExpression: address of the block, its length first
};

struct FrameRules {
  bool cfa_is_expression = false;
  uint64_t cfa_register = 0;
  int64_t cfa_value = 0;  // offset, or address of the block
  Rule fp, sp, pc;

  Rule* RuleOf(uint64_t number) {
    switch (number) {
      case kDwarfFp:
        return &fp;
      case kDwarfSp:
        return &sp;
      case kDwarfReturn:
        return &pc;
      default:
        return nullptr;
    }
  }
};

// Runs one program until it has passed `pc`. False: an unknown instruction.
bool Run(AddressRange program, const UnwindEntry& entry, uintptr_t pc, const FrameRules* initial, FrameRules* state) {
  DwarfBytes bytes(program.start, program.end);
  FrameRules remembered[kMaxRemembered];
  int depth = 0;
  uintptr_t location = entry.start;
  const auto set = [state](uint64_t number, How how, int64_t value) {
    if (Rule* rule = state->RuleOf(number)) *rule = {how, value};
  };
  const auto at_cfa = [&](uint64_t number, int64_t factored) {
    set(number, How::kAtCfa, factored * entry.data_alignment);
  };
  const auto restore = [&](uint64_t number) {
    Rule* rule = state->RuleOf(number);
    if (rule != nullptr) *rule = initial != nullptr ? *const_cast<FrameRules*>(initial)->RuleOf(number) : Rule{};
  };
  const auto block = [&bytes] {
    const auto at = static_cast<int64_t>(bytes.at());
    bytes.Skip(bytes.Unsigned());
    return at;
  };
  const auto leaves = [&](uint64_t advance) {
    location += advance * entry.code_alignment;
    return location > pc;
  };
  while (bytes.more()) {
    const uint8_t op = bytes.Byte();
    // Three instructions have their operand in the lower bits, and are the most frequent.
    const uint8_t low6 = op & ~kCallFrameHighBits, high2 = op & kCallFrameHighBits;
    if (high2 == DW_CFA_advance_loc) {
      if (leaves(low6)) return true;
      // Usually follows: something was pushed or popped.
      if (!state->cfa_is_expression && bytes.TakeIf(DW_CFA_def_cfa_offset))
        state->cfa_value = static_cast<int64_t>(bytes.Unsigned());
      continue;
    }
    if (high2 == DW_CFA_offset) {
      at_cfa(low6, static_cast<int64_t>(bytes.Unsigned()));
      continue;
    }
    if (high2 == DW_CFA_restore) {
      restore(low6);
      continue;
    }
    switch (op) {
      case DW_CFA_nop:
        break;
      case DW_CFA_set_loc: {
        const uintptr_t to = bytes.Pointer(entry.pointer_encoding);
        if (to > pc) return !bytes.failed();
        location = to;
        break;
      }
      case DW_CFA_advance_loc1:
        if (leaves(bytes.Byte())) return !bytes.failed();
        break;
      case DW_CFA_advance_loc2:
        if (leaves(bytes.Fixed<uint16_t>())) return !bytes.failed();
        break;
      case DW_CFA_advance_loc4:
        if (leaves(bytes.Fixed<uint32_t>())) return !bytes.failed();
        break;
      case DW_CFA_offset_extended:
      case DW_CFA_offset_extended_sf:
      case DW_CFA_GNU_negative_offset_extended: {
        const uint64_t number = bytes.Unsigned();
        if (op == DW_CFA_offset_extended_sf) {
          at_cfa(number, bytes.Signed());
        } else {
          const auto factored = static_cast<int64_t>(bytes.Unsigned());
          at_cfa(number, op == DW_CFA_GNU_negative_offset_extended ? -factored : factored);
        }
        break;
      }
      case DW_CFA_restore_extended:
        restore(bytes.Unsigned());
        break;
      case DW_CFA_undefined:
        set(bytes.Unsigned(), How::kUndefined, 0);
        break;
      case DW_CFA_same_value:
        set(bytes.Unsigned(), How::kSame, 0);
        break;
      case DW_CFA_register:
      case DW_CFA_val_offset:
      case DW_CFA_val_offset_sf: {
        const uint64_t number = bytes.Unsigned();
        bytes.Unsigned();
        set(number, How::kOther, 0);
        break;
      }
      case DW_CFA_remember_state:
        if (depth == kMaxRemembered) return false;
        remembered[depth++] = *state;
        break;
      case DW_CFA_restore_state:
        if (depth == 0) return false;
        *state = remembered[--depth];
        break;
      case DW_CFA_def_cfa:
        state->cfa_is_expression = false;
        state->cfa_register = bytes.Unsigned();
        state->cfa_value = static_cast<int64_t>(bytes.Unsigned());
        break;
      case DW_CFA_def_cfa_sf:
        state->cfa_is_expression = false;
        state->cfa_register = bytes.Unsigned();
        state->cfa_value = bytes.Signed() * entry.data_alignment;
        break;
      case DW_CFA_def_cfa_register:
        if (state->cfa_is_expression) return false;
        state->cfa_register = bytes.Unsigned();
        break;
      case DW_CFA_def_cfa_offset:
      case DW_CFA_def_cfa_offset_sf:
        if (state->cfa_is_expression) return false;
        state->cfa_value = op == DW_CFA_def_cfa_offset ? static_cast<int64_t>(bytes.Unsigned())
                                                       : bytes.Signed() * entry.data_alignment;
        break;
      case DW_CFA_def_cfa_expression:
        state->cfa_is_expression = true;
        state->cfa_value = block();
        break;
      case DW_CFA_expression:
      case DW_CFA_val_expression: {
        const uint64_t number = bytes.Unsigned();
        set(number, op == DW_CFA_expression ? How::kExpression : How::kOther, block());
        break;
      }
      case DW_CFA_GNU_args_size:
        bytes.Unsigned();
        break;
      // arm64: DW_CFA_AARCH64_negate_ra_state, and its form with the pc. The return address is signed from here on, or no
      // longer: CodeAddress removes any signature.
      case DW_CFA_GNU_window_save:
      case kNegateReturnStateWithPc:
        if (kCallPushesReturn) return false;
        break;
      default:
        return false;
    }
  }
  return !bytes.failed();
}

// Computes a register's place from an expression.
bool PlaceFrom(const Rule& rule, AddressRange readable, uintptr_t pc, FrameValue* place) {
  return FoldExpression(static_cast<uintptr_t>(rule.value), readable, pc, true, place);
}

bool IsSignalFrame(const FrameRules& state, AddressRange readable, uintptr_t pc) {
  if (!state.cfa_is_expression || state.sp.how != How::kExpression || state.pc.how != How::kExpression ||
      state.fp.how != How::kExpression) {
    return false;
  }
  FrameValue cfa, sp, fp, ra;
  return FoldExpression(static_cast<uintptr_t>(state.cfa_value), readable, pc, false, &cfa) &&
         cfa == FrameValue{FrameValue::kLoadedSp, kSignalSpOffset, 0} && PlaceFrom(state.sp, readable, pc, &sp) &&
         sp == FrameValue{FrameValue::kSp, 0, kSignalSpOffset} && PlaceFrom(state.fp, readable, pc, &fp) &&
         fp == FrameValue{FrameValue::kSp, 0, kSignalFpOffset} && PlaceFrom(state.pc, readable, pc, &ra) &&
         ra == FrameValue{FrameValue::kSp, 0, kSignalPcOffset};
}

// Adds where the return address is, and fp, for a processor with calls that leave it in a register.
UnwindRow RowWithReturn(const FrameRules& state, UnwindRow::Step step) {
  constexpr UnwindRow kCannot = UnwindRow::Of(UnwindRow::kCannot);
  if (step.loaded) return kCannot;
  const bool fp_stays = state.fp.how == How::kSame || state.fp.how == How::kUndefined;
  if (!fp_stays && state.fp.how != How::kAtCfa) return kCannot;
  if (!fp_stays) {
    step.fp_rule = UnwindRow::kAtCfa;
    step.fp_offset = state.fp.value;
  }
  if (state.pc.how == How::kSame) {
    step.loaded = true;
    return UnwindRow::Of(step);
  }
  if (state.pc.how != How::kAtCfa) return kCannot;
  if (fp_stays) {
    step.fp_offset = state.pc.value;
  } else {
    step.add = state.pc.value - state.fp.value;
  }
  return UnwindRow::Of(step);
}

UnwindRow RowOf(const FrameRules& state, AddressRange readable, uintptr_t pc) {
  constexpr UnwindRow kCannot = UnwindRow::Of(UnwindRow::kCannot);
  if (state.pc.how == How::kUndefined) return UnwindRow::Of(UnwindRow::kEnd);
  if (IsSignalFrame(state, readable, pc)) return UnwindRow::Of(UnwindRow::kSignal);

  UnwindRow::Step step;
  if (state.cfa_is_expression) {
    FrameValue cfa;
    if (!FoldExpression(static_cast<uintptr_t>(state.cfa_value), readable, pc, false, &cfa)) return kCannot;
    step.loaded = cfa.base == FrameValue::kLoadedSp || cfa.base == FrameValue::kLoadedFp;
    step.from_fp = cfa.base == FrameValue::kFp || cfa.base == FrameValue::kLoadedFp;
    if (cfa.base == FrameValue::kConstant) return kCannot;
    step.cfa_offset = step.loaded ? cfa.inner : cfa.offset;
    step.add = step.loaded ? cfa.offset : 0;
  } else {
    if (state.cfa_register != kDwarfSp && state.cfa_register != kDwarfFp) return kCannot;
    step.from_fp = state.cfa_register == kDwarfFp;
    step.cfa_offset = state.cfa_value;
  }

  // The caller's sp is the CFA; on x86-64 its pc is just below. Anything else is rare hand-written code.
  if (state.sp.how != How::kSame) return kCannot;
  if (kCallPushesReturn) {
    if (state.pc.how != How::kAtCfa || state.pc.value != -int64_t{sizeof(uintptr_t)}) return kCannot;
  } else {
    return RowWithReturn(state, step);
  }

  switch (state.fp.how) {
    case How::kSame:
    case How::kUndefined:
      break;  // undefined: no outer frame uses it
    case How::kAtCfa:
      step.fp_rule = UnwindRow::kAtCfa;
      step.fp_offset = state.fp.value;
      break;
    case How::kExpression: {
      FrameValue place;
      if (!PlaceFrom(state.fp, readable, pc, &place)) return kCannot;
      step.fp_offset = place.offset;
      switch (place.base) {
        case FrameValue::kCfa:
          step.fp_rule = UnwindRow::kAtCfa;
          break;
        case FrameValue::kFp:
          step.fp_rule = UnwindRow::kAtFp;
          break;
        case FrameValue::kSp:
          step.fp_rule = UnwindRow::kAtSp;
          break;
        default:
          return kCannot;
      }
      break;
    }
    case How::kOther:
      return kCannot;
  }
  return UnwindRow::Of(step);
}

}  // namespace

UnwindRow BuildUnwindRow(const void* eh_frame_hdr, AddressRange readable, uintptr_t pc, AddressRange elsewhere) {
  const auto header = reinterpret_cast<uintptr_t>(eh_frame_hdr);
  UnwindEntry entry;
  if (header == 0) return UnwindRow::Of(UnwindRow::kFramePointer);
  if (!FindUnwindEntry(header, readable, elsewhere, pc, &entry)) {
    // A "return address" that is the start of a function was put there by hand, as the first frame of a coroutine:
    // glibc's makecontext does it. No call returns there, so there is no outer frame.
    UnwindEntry next;
    const bool planted = FindUnwindEntry(header, readable, elsewhere, pc + 1, &next) && next.start == pc + 1;
    return UnwindRow::Of(planted ? UnwindRow::kEnd : UnwindRow::kFramePointer);
  }
  FrameRules initial;
  if (entry.return_column != kDwarfReturn || !Run(entry.initial_program, entry, ~uintptr_t{0}, nullptr, &initial)) {
    return UnwindRow::Of(UnwindRow::kCannot);
  }
  FrameRules state = initial;
  if (!Run(entry.program, entry, pc, &initial, &state)) {
    return UnwindRow::Of(UnwindRow::kCannot);
  }
  return RowOf(state, entry.readable, pc);
}

}  // namespace holdfast
