#include "sampler/unwind_cfi.h"

#include "sampler/unwind_bytes.h"
#include "sampler/unwind_expression.h"

namespace holdfast {
namespace {

// DWARF's numbers of the registers that a walk follows.
constexpr uint64_t kBp = 6, kSp = 7, kPc = 16;
// gcc and clang nest remember_state once or twice.
constexpr int kMostRemembered = 8;

constexpr uint8_t kOmitted = 0xff;
constexpr uint8_t kTableOfOffsets = 0x3b;  // DW_EH_PE_datarel | DW_EH_PE_sdata4: what every linker writes

enum class How : uint8_t { kSame, kAtCfa, kUndefined, kExpression, kOther };

struct Rule {
  How how = How::kSame;
  int64_t value = 0;             // kAtCfa: offset; kExpression: address of the block, its length first
};

struct State {
  bool cfa_is_expression = false;
  uint64_t cfa_register = 0;
  int64_t cfa_value = 0;         // offset, or address of the block
  Rule bp, sp, pc;

  Rule* RuleOf(uint64_t number) {
    switch (number) {
      case kBp: return &bp;
      case kSp: return &sp;
      case kPc: return &pc;
      default: return nullptr;
    }
  }
};

struct Entry {                   // a CIE and one FDE that refers to it
  uint64_t code_alignment = 0;
  int64_t data_alignment = 0;
  uint64_t return_column = 0;
  uint8_t pointer_encoding = 0;  // DW_EH_PE_absptr
  bool augmented = false;
  uintptr_t cie_program = 0, cie_end = 0;
  uintptr_t start = 0;           // first address that the FDE covers
  uintptr_t fde_program = 0, fde_end = 0;
};

// The body of a CIE or FDE at `at`: its bytes after the length. Empty at the terminator and for the 64-bit format, which
// .eh_frame does not use.
DwarfBytes Body(uintptr_t at, AddressRange readable) {
  if (at < readable.start || at > readable.end) return DwarfBytes(1, 0);
  DwarfBytes bytes(at, readable.end);
  const auto length = bytes.Fixed<uint32_t>();
  if (bytes.failed() || length == 0 || length == 0xffffffff || length > bytes.left()) return DwarfBytes(1, 0);
  return DwarfBytes(bytes.at(), bytes.at() + length);
}

bool ParseCie(uintptr_t at, AddressRange readable, Entry* entry) {
  DwarfBytes bytes = Body(at, readable);
  entry->cie_end = bytes.at() + bytes.left();
  if (bytes.Fixed<uint32_t>() != 0) return false;  // a CIE has the id 0
  const auto version = bytes.Fixed<uint8_t>();
  if (version != 1 && version != 3) return false;
  const uintptr_t augmentation = bytes.at();
  while (bytes.Fixed<char>() != '\0') {
    if (bytes.failed()) return false;
  }
  entry->code_alignment = bytes.Unsigned();
  entry->data_alignment = bytes.Signed();
  entry->return_column = version == 1 ? bytes.Fixed<uint8_t>() : bytes.Unsigned();

  DwarfBytes letters(augmentation, readable.end);
  char letter = letters.Fixed<char>();
  uintptr_t program = bytes.at();
  if (letter == 'z') {
    entry->augmented = true;
    const uint64_t length = bytes.Unsigned();
    if (length > bytes.left()) return false;
    program = bytes.at() + length;
    while ((letter = letters.Fixed<char>()) != '\0') {
      if (letter == 'R') {
        entry->pointer_encoding = bytes.Fixed<uint8_t>();
      } else if (letter == 'L') {
        bytes.Skip(1);
      } else if (letter == 'P') {
        bytes.Pointer(bytes.Fixed<uint8_t>() & 0x0f);  // the personality: only its size matters
      } else if (letter != 'S') {
        return false;
      }
    }
  } else if (letter != '\0') {
    return false;
  }
  entry->cie_program = program;
  return !bytes.failed() && program <= entry->cie_end;
}

// Binary search in .eh_frame_hdr, then the FDE and its CIE. False when no FDE covers `pc`.
bool FindEntry(uintptr_t header, AddressRange readable, uintptr_t pc, Entry* entry) {
  if (header < readable.start || header >= readable.end) return false;
  DwarfBytes bytes(header, readable.end);
  const auto version = bytes.Fixed<uint8_t>();
  const auto frame_encoding = bytes.Fixed<uint8_t>();
  const auto count_encoding = bytes.Fixed<uint8_t>();
  const auto table_encoding = bytes.Fixed<uint8_t>();
  if (version != 1 || count_encoding == kOmitted || table_encoding != kTableOfOffsets) return false;
  if (frame_encoding != kOmitted) bytes.Pointer(frame_encoding, header);
  const uint64_t count = bytes.Pointer(count_encoding, header);
  struct TableRow {
    int32_t start, fde;
  };
  if (bytes.failed() || count == 0 || count > bytes.left() / sizeof(TableRow)) return false;
  const auto* table = reinterpret_cast<const TableRow*>(bytes.at());
  const auto wanted = static_cast<int64_t>(pc - header);
  uint64_t low = 0;              // the last row whose start is not above `wanted` lies in [low − 1, high)
  for (uint64_t high = count; low < high;) {
    const uint64_t middle = low + (high - low) / 2;
    if (table[middle].start <= wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return false;
  const uintptr_t fde = header + static_cast<int64_t>(table[low - 1].fde);

  DwarfBytes body = Body(fde, readable);
  entry->fde_end = body.at() + body.left();
  const uintptr_t cie_field = body.at();
  const auto distance = body.Fixed<uint32_t>();
  if (body.failed() || distance == 0 || !ParseCie(cie_field - distance, readable, entry)) return false;
  entry->start = body.Pointer(entry->pointer_encoding);
  const uintptr_t length = body.Pointer(entry->pointer_encoding & 0x0f);
  if (entry->augmented) body.Skip(body.Unsigned());
  entry->fde_program = body.at();
  return !body.failed() && pc - entry->start < length;
}

// Runs one program until it leaves `pc` behind. False: something that is not understood.
bool Run(DwarfBytes bytes, const Entry& entry, uintptr_t pc, const State* initial, State* state) {
  State remembered[kMostRemembered];
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
    if (rule != nullptr) *rule = initial != nullptr ? *const_cast<State*>(initial)->RuleOf(number) : Rule{};
  };
  const auto block = [&bytes] {
    const auto at = static_cast<int64_t>(bytes.at());
    bytes.Skip(bytes.Unsigned());
    return at;
  };
  while (bytes.more()) {
    const auto op = bytes.Fixed<uint8_t>();
    const uint8_t low6 = op & 0x3f;
    uint64_t advance = 0;
    switch (op & 0xc0) {
      case 0x40: advance = low6; break;
      case 0x80: at_cfa(low6, static_cast<int64_t>(bytes.Unsigned())); break;
      case 0xc0: restore(low6); break;
      default:
        switch (op) {
          case 0x00: break;                                           // nop
          case 0x01: {                                                // set_loc
            const uintptr_t to = bytes.Pointer(entry.pointer_encoding);
            if (to > pc) return !bytes.failed();
            location = to;
            break;
          }
          case 0x02: advance = bytes.Fixed<uint8_t>(); break;         // advance_loc1
          case 0x03: advance = bytes.Fixed<uint16_t>(); break;        // advance_loc2
          case 0x04: advance = bytes.Fixed<uint32_t>(); break;        // advance_loc4
          case 0x05: case 0x11: case 0x2f: {                          // offset_extended, …_sf, GNU_negative_…
            const uint64_t number = bytes.Unsigned();
            if (op == 0x11) {
              at_cfa(number, bytes.Signed());
            } else {
              const auto factored = static_cast<int64_t>(bytes.Unsigned());
              at_cfa(number, op == 0x2f ? -factored : factored);
            }
            break;
          }
          case 0x06: restore(bytes.Unsigned()); break;                // restore_extended
          case 0x07: set(bytes.Unsigned(), How::kUndefined, 0); break;
          case 0x08: set(bytes.Unsigned(), How::kSame, 0); break;
          case 0x09: {                                                // register
            const uint64_t number = bytes.Unsigned();
            bytes.Unsigned();
            set(number, How::kOther, 0);
            break;
          }
          case 0x0a:                                                  // remember_state
            if (depth == kMostRemembered) return false;
            remembered[depth++] = *state;
            break;
          case 0x0b:                                                  // restore_state
            if (depth == 0) return false;
            *state = remembered[--depth];
            break;
          case 0x0c:                                                  // def_cfa
            state->cfa_is_expression = false;
            state->cfa_register = bytes.Unsigned();
            state->cfa_value = static_cast<int64_t>(bytes.Unsigned());
            break;
          case 0x12:                                                  // def_cfa_sf
            state->cfa_is_expression = false;
            state->cfa_register = bytes.Unsigned();
            state->cfa_value = bytes.Signed() * entry.data_alignment;
            break;
          case 0x0d:                                                  // def_cfa_register
            if (state->cfa_is_expression) return false;
            state->cfa_register = bytes.Unsigned();
            break;
          case 0x0e: case 0x13:                                       // def_cfa_offset, …_sf
            if (state->cfa_is_expression) return false;
            state->cfa_value =
                op == 0x0e ? static_cast<int64_t>(bytes.Unsigned()) : bytes.Signed() * entry.data_alignment;
            break;
          case 0x0f:                                                  // def_cfa_expression
            state->cfa_is_expression = true;
            state->cfa_value = block();
            break;
          case 0x10: case 0x16: {                                     // expression, val_expression
            const uint64_t number = bytes.Unsigned();
            set(number, op == 0x10 ? How::kExpression : How::kOther, block());
            break;
          }
          case 0x14: case 0x15: {                                     // val_offset, …_sf
            const uint64_t number = bytes.Unsigned();
            bytes.Unsigned();
            set(number, How::kOther, 0);
            break;
          }
          case 0x2e: bytes.Unsigned(); break;                         // GNU_args_size
          default: return false;
        }
    }
    location += advance * entry.code_alignment;
    if (location > pc) break;
  }
  return !bytes.failed();
}

// How a register's place follows from an expression.
bool PlaceFrom(const Rule& rule, AddressRange readable, uintptr_t pc, FrameValue* place) {
  return FoldExpression(static_cast<uintptr_t>(rule.value), readable, pc, true, place);
}

bool IsSignalFrame(const State& state, AddressRange readable, uintptr_t pc) {
  if (!state.cfa_is_expression || state.sp.how != How::kExpression || state.pc.how != How::kExpression ||
      state.bp.how != How::kExpression) {
    return false;
  }
  FrameValue cfa, sp, bp, ra;
  return FoldExpression(static_cast<uintptr_t>(state.cfa_value), readable, pc, false, &cfa) &&
         cfa == FrameValue{FrameValue::kLoadedSp, kSignalSpOffset, 0} && PlaceFrom(state.sp, readable, pc, &sp) &&
         sp == FrameValue{FrameValue::kSp, 0, kSignalSpOffset} && PlaceFrom(state.bp, readable, pc, &bp) &&
         bp == FrameValue{FrameValue::kSp, 0, kSignalBpOffset} && PlaceFrom(state.pc, readable, pc, &ra) &&
         ra == FrameValue{FrameValue::kSp, 0, kSignalPcOffset};
}

UnwindRow RowOf(const State& state, AddressRange readable, uintptr_t pc) {
  constexpr UnwindRow kCannot = UnwindRow::Of(UnwindRow::kCannot);
  if (state.pc.how == How::kUndefined) return UnwindRow::Of(UnwindRow::kEnd);
  if (IsSignalFrame(state, readable, pc)) return UnwindRow::Of(UnwindRow::kSignal);

  UnwindRow::Step step;
  if (state.cfa_is_expression) {
    FrameValue cfa;
    if (!FoldExpression(static_cast<uintptr_t>(state.cfa_value), readable, pc, false, &cfa)) return kCannot;
    step.loaded = cfa.base == FrameValue::kLoadedSp || cfa.base == FrameValue::kLoadedBp;
    step.from_bp = cfa.base == FrameValue::kBp || cfa.base == FrameValue::kLoadedBp;
    if (cfa.base == FrameValue::kConstant) return kCannot;
    step.cfa_offset = step.loaded ? cfa.inner : cfa.offset;
    step.add = step.loaded ? cfa.offset : 0;
  } else {
    if (state.cfa_register != kSp && state.cfa_register != kBp) return kCannot;
    step.from_bp = state.cfa_register == kBp;
    step.cfa_offset = state.cfa_value;
  }

  // The caller's rsp is the CFA and its pc lies just below: everything else is an oddity of hand-written code.
  if (state.sp.how != How::kSame) return kCannot;
  if (state.pc.how != How::kAtCfa || state.pc.value != -8) return kCannot;

  switch (state.bp.how) {
    case How::kSame: case How::kUndefined: break;  // undefined: nobody above uses it
    case How::kAtCfa:
      step.bp_rule = UnwindRow::kAtCfa;
      step.bp_offset = state.bp.value;
      break;
    case How::kExpression: {
      FrameValue place;
      if (!PlaceFrom(state.bp, readable, pc, &place)) return kCannot;
      step.bp_offset = place.offset;
      switch (place.base) {
        case FrameValue::kCfa: step.bp_rule = UnwindRow::kAtCfa; break;
        case FrameValue::kBp: step.bp_rule = UnwindRow::kAtBp; break;
        case FrameValue::kSp: step.bp_rule = UnwindRow::kAtSp; break;
        default: return kCannot;
      }
      break;
    }
    case How::kOther: return kCannot;
  }
  return UnwindRow::Of(step);
}

}  // namespace

UnwindRow BuildUnwindRow(const void* eh_frame_hdr, AddressRange readable, uintptr_t pc) {
  Entry entry;
  if (eh_frame_hdr == nullptr || !FindEntry(reinterpret_cast<uintptr_t>(eh_frame_hdr), readable, pc, &entry)) {
    return UnwindRow::Of(UnwindRow::kFramePointer);
  }
  State initial;
  if (entry.return_column != kPc ||
      !Run(DwarfBytes(entry.cie_program, entry.cie_end), entry, ~uintptr_t{0}, nullptr, &initial)) {
    return UnwindRow::Of(UnwindRow::kCannot);
  }
  State state = initial;
  if (!Run(DwarfBytes(entry.fde_program, entry.fde_end), entry, pc, &initial, &state)) {
    return UnwindRow::Of(UnwindRow::kCannot);
  }
  return RowOf(state, readable, pc);
}

}  // namespace holdfast
