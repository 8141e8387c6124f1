#include "sampler/capture/stack_trace.h"

#include <atomic>

#include "sampler/capture/added_code.h"
#include "sampler/capture/find_object.h"
#include "sampler/capture/last_walk.h"
#include "sampler/capture/lasting_modules.h"
#include "sampler/capture/module_reading.h"
#include "sampler/capture/module_table.h"
#include "sampler/capture/raw_memory.h"
#include "sampler/capture/row_cache.h"
#include "sampler/contract/attributes.h"
#include "sampler/contract/loaded_objects.h"
#include "sampler/contract/syscalls.h"
#include "sampler/unwind/unwind_cfi.h"

namespace holdfast {
namespace {

// Code is above the first page, and in user space.
constexpr uintptr_t kLowestPc = 4096;
constexpr uintptr_t kPcEnd = kUserEnd;
constexpr uintptr_t kWordBytes = sizeof(uintptr_t);

// If calls leave the return address in a register: that register in the frame that a signal has interrupted, for the step
// from there.
template <bool kPushed>
struct InterruptedReturn {
  void Set(const CallerRegisters&, uintptr_t) {}
  uintptr_t Take(uintptr_t) { return 0; }
};
template <>
struct InterruptedReturn<false> {
  uintptr_t sp = 0, address = 0;
  void Set(const CallerRegisters& interrupted, uintptr_t return_address) {
    sp = interrupted.sp;
    address = return_address;
  }
  // 0: the frame at `at` was not interrupted, or has been left.
  uintptr_t Take(uintptr_t at) {
    const uintptr_t taken = at == sp ? address : 0;
    address = 0;
    return taken;
  }
};

// The modules that one walk has looked up.
struct Walk {
  // Rows of modules that may be unloaded are checked first: during a dlclose, another module may be there by now. Read
  // before the salts: when a dlclose has ended, the salts are the new ones.
  bool doubts = !ModulesStay();
  RowSalts salts = CurrentRowSalts();
  uint32_t row_mask = row_set_mask.load(std::memory_order_relaxed);
  bool guessing = false;  // has passed code without unwind tables: what follows is uncertain
  bool searched = false;  // for a row that was not in the cache
  bool has_gap = false;
  uint8_t plain_pages = 0;  // a bit for each of `plain_page`
  ModuleReading reading;
  // With `has_gap`: addresses without modules. A search of ours is dear, and code of a JIT compiler often has several
  // frames in a row. A module that another thread loads there meanwhile has no frame in this stack.
  uintptr_t gap_start, gap_bytes;
  // Readable pages without modules, by the last bits of their number. A page takes a system call and a search, and a JIT
  // compiler's code often has hundreds of frames in a few of them.
  static constexpr uintptr_t kPlainPages = 8;
  uintptr_t plain_page[kPlainPages];
  // While there are doubts: the module that was checked last.
  AddressRange sighted;
  ModuleSight sight;
  [[no_unique_address]] InterruptedReturn<kCallPushesReturn> interrupted;
};

constexpr UnwindRow kNoRow = UnwindRow::Of(UnwindRow::kNone);

enum class Found : uint8_t { kNothing, kModule, kMayGo };

// Whether the page at `pc` is known to be readable and in no module. Nothing may be read there.
bool IsPlainPage(uintptr_t pc, const Walk& walk) {
  const uintptr_t at = pc / kPageBytes % Walk::kPlainPages;
  return (walk.plain_pages >> at & 1) != 0 && walk.plain_page[at] == PageOf(pc);
}

// Finds the module at `pc`. kModule: its memory can be read as long as the walk lasts. kMayGo: it may be being
// unloaded.
Found FindModule(uintptr_t pc, Walk* walk, dl_find_object* found, bool* lasting) {
  if (walk->has_gap && pc - walk->gap_start < walk->gap_bytes) return Found::kNothing;
  if (IsPlainPage(pc, *walk)) return Found::kNothing;
  if (!FindObject(pc, found)) {
    if (object_finder == SearchForObject) {
      walk->gap_start = reinterpret_cast<uintptr_t>(found->dlfo_map_start);
      walk->gap_bytes = reinterpret_cast<uintptr_t>(found->dlfo_map_end) - walk->gap_start;
      walk->has_gap = true;
    }
    return Found::kNothing;
  }
  *lasting = IsLasting(found->dlfo_link_map);
  if (*lasting || walk->reading.held()) return Found::kModule;
  // During a dlclose, a frame of the program's own keeps its module loaded.
  if (!walk->reading.Begin()) return walk->guessing ? Found::kMayGo : Found::kModule;
  // Earlier results may be gone.
  return FindObject(pc, found) ? Found::kModule : Found::kMayGo;
}

// Whether there is memory at `pc`, where no module is.
bool IsPlainMemory(uintptr_t pc, Walk* walk) {
  if (IsPlainPage(pc, *walk)) return true;
  if (!PageReadable(pc)) return false;
  const uintptr_t at = pc / kPageBytes % Walk::kPlainPages;
  walk->plain_pages |= static_cast<uint8_t>(1u << at);
  walk->plain_page[at] = PageOf(pc);
  return true;
}

ModuleSight SightForWalk(const dl_find_object& found, bool lasting, uintptr_t pc, Walk* walk) {
  if (!walk->doubts || lasting) return SightModule(found);
  if (pc - walk->sighted.start < walk->sighted.end - walk->sighted.start) return walk->sight;
  walk->sight = SightModule(found);
  walk->sighted = {reinterpret_cast<uintptr_t>(found.dlfo_map_start), reinterpret_cast<uintptr_t>(found.dlfo_map_end)};
  return walk->sight;
}

// Whether a signal handler returns to `pc`, which has no unwind tables.
bool ReturnsFromSignal(uintptr_t pc) {
  return kSignalReturnHasNoTables && PageReadable(pc) && PageReadable(pc + kSignalReturnBytes - 1) &&
         EndsSignal(reinterpret_cast<const uint8_t*>(pc));
}

// kNone: there is no code at `pc`. `doubted`: the row in the cache, if any.
HOLDFAST_COLD UnwindRow FindRowSlow(uintptr_t pc, Walk* walk, UnwindRow doubted) {
  walk->searched = true;
  // A return address follows its call, which may be the last instruction of its function.
  const uintptr_t inside = pc - 1;
  dl_find_object found;
  bool lasting = false;
  const Found module_found = FindModule(inside, walk, &found, &lasting);
  if (module_found == Found::kMayGo) return kNoRow;
  if (module_found == Found::kNothing) {
    // Not cached: a library may be loaded here later, without notice.
    // Not in a page that this walk has met: a compiler's code may have hundreds of frames there, and each check probes.
    if (!IsPlainPage(inside, *walk) && ReturnsFromSignal(pc))
      return UnwindRow::Of(UnwindRow::kSignal).WithTag(kNoModuleTag);
    const bool code = no_system_calls.load(std::memory_order_relaxed) || IsPlainMemory(inside, walk);
    return (code ? UnwindRow::Of(UnwindRow::kFramePointer) : kNoRow).WithTag(kNoModuleTag);
  }
  const ModuleSight module = SightForWalk(found, lasting, inside, walk);
  if (doubted.kind() != UnwindRow::kNone && module.settled && doubted.tag() == module.tag) return doubted;
  UnwindRow row = BuildUnwindRow(found.dlfo_eh_frame, module.readable, inside, module.elsewhere);
  if (row.kind() == UnwindRow::kFramePointer && ReturnsFromSignal(pc)) row = UnwindRow::Of(UnwindRow::kSignal);
  row = row.WithTag(module.tag);
  if (!lasting) row.bits |= UnwindRow::kUnloadable;
  if (module.settled) KeepRow(pc, walk->salts, row);
  return row;
}

__attribute__((noinline)) UnwindRow FindUnloadableRow(uintptr_t pc, Walk* walk) {
  const RowSet& set = RowSetOf(pc, walk->row_mask);
  UnwindRow row;
  if (!Matches(set.slots[0], pc, walk->salts.unloadable, &row) &&
      !Matches(set.slots[1], pc, walk->salts.unloadable, &row)) {
    return FindRowSlow(pc, walk, kNoRow);
  }
  return LIKELY(!walk->doubts) ? row : FindRowSlow(pc, walk, row);
}

HOLDFAST_HOT inline UnwindRow FindRow(uintptr_t pc, Walk* walk) {
  const RowSet& set = RowSetOf(pc, walk->row_mask);
  UnwindRow row;
  if (LIKELY(Matches(set.slots[0], pc, walk->salts.lasting, &row)) ||
      Matches(set.slots[1], pc, walk->salts.lasting, &row))
    return row;
  return FindUnloadableRow(pc, walk);
}

// For walks that are not kept.
struct NoNotes {
  static constexpr bool Joins(uintptr_t, uintptr_t, uintptr_t) { return false; }
  void Reached(uintptr_t, uintptr_t) {}
  void ReadFp(uintptr_t, uintptr_t) {}
  void ReadReturn(uintptr_t, uintptr_t) {}
  void UsesFp() {}
  void GiveUp() {}
};

// ---- Steps: from the registers of one frame to those of its caller; false where the walk ends ----

using Registers = CallerRegisters;

template <typename Notes>
HOLDFAST_HOT inline bool StepTo(uintptr_t cfa, UnwindRow row, StackReader* stack, Registers* at, Notes* notes) {
  // The stack only ever shrinks towards the caller: no loop, and no frame below the previous one.
  if (UNLIKELY(cfa <= at->sp || cfa % kWordBytes != 0)) return false;
  uintptr_t fp = at->fp;
  if (row.fp_rule() != UnwindRow::kSame) {
    const uintptr_t base = row.fp_rule() == UnwindRow::kAtCfa ? cfa : row.fp_rule() == UnwindRow::kAtFp ? fp : at->sp;
    if (row.fp_rule() == UnwindRow::kAtFp) notes->UsesFp();
    const uintptr_t place = base + static_cast<uintptr_t>(row.fp_offset());
    if (UNLIKELY(!stack->Reach(place))) return false;
    fp = StackReader::Word(place);
    notes->ReadFp(place, cfa);
  }
  const uintptr_t return_at = row.ReturnPlace(cfa);
  if (UNLIKELY(!stack->Reach(return_at))) return false;
  notes->ReadReturn(return_at, cfa);
  *at = {CodeAddress(StackReader::Word(return_at)), cfa, fp};
  return true;
}

HOLDFAST_HOT inline uintptr_t Base(UnwindRow row, const Registers& at) {
  return (row.from_fp() ? at.fp : at.sp) + static_cast<uintptr_t>(row.cfa_offset());
}

bool StepLoaded(UnwindRow row, StackReader* stack, Registers* at) {
  const uintptr_t place = Base(row, *at);
  if (!stack->Reach(place)) return false;
  NoNotes none;
  return StepTo(StackReader::Word(place) + static_cast<uintptr_t>(row.add()), row, stack, at, &none);
}

// From a function that had not saved its return address when a signal interrupted it. It may have no frame.
bool StepByRegister(UnwindRow row, StackReader* stack, Registers* at, Walk* walk) {
  const uintptr_t cfa = Base(row, *at);
  const uintptr_t return_address = walk->interrupted.Take(at->sp);
  if (return_address == 0 || cfa < at->sp || cfa % kWordBytes != 0) return false;
  uintptr_t fp = at->fp;
  if (row.fp_rule() == UnwindRow::kAtCfa) {
    const uintptr_t place = cfa + static_cast<uintptr_t>(row.fp_offset());
    if (!stack->Reach(place)) return false;
    fp = StackReader::Word(place);
  }
  *at = {CodeAddress(return_address), cfa, fp};
  return true;
}

// Out of a signal handler. The interrupted code may be on another stack.
bool StepSignal(StackReader* stack, Registers* at, Walk* walk) {
  const uintptr_t context = at->sp;
  if (!stack->Reach(context + kSignalFpOffset) || !stack->Reach(context + kSignalSpOffset) ||
      !stack->Reach(context + kSignalPcOffset)) {
    return false;
  }
  // + 1: the interrupted instruction has not been left, and rows belong to the instruction before a return address.
  *at = {StackReader::Word(context + kSignalPcOffset) + 1, StackReader::Word(context + kSignalSpOffset),
         StackReader::Word(context + kSignalFpOffset)};
  LeaveAddedCode(at);
  if (!kCallPushesReturn) {
    if (!stack->Reach(context + kSignalReturnOffset)) return false;
    walk->interrupted.Set(*at, StackReader::Word(context + kSignalReturnOffset));
  }
  return at->sp % kWordBytes == 0 && stack->StartAt(at->sp, false);
}

// Whether a walk that cannot go on from a frame of code without unwind tables has reached the outermost one. The dynamic
// linker's first frame is at the end of the main stack. musl's start code begins a little further in: the main stack's
// beginning, or the thread's control block, follows its frames.
HOLDFAST_COLD bool IsOutermost(const Registers& at) {
  constexpr uintptr_t kMainStart = 512, kThreadStart = 4096;
  if (at.sp == initial_stack) return true;
  dl_find_object found;
  if (!IsMusl() || !FindObject(at.pc - 1, &found)) return false;
  const void* const in_musl = AddressInMusl();
  return in_musl >= found.dlfo_map_start && in_musl < found.dlfo_map_end &&
         (initial_stack - at.sp < kMainStart || ThreadPointer() - at.sp < kThreadStart);
}

// Whether a call instruction may end at `pc`.
bool FollowsCall(uintptr_t pc) {
  return PageReadable(pc - kLongestCall) && PageReadable(pc - 1) && MayEndCall(reinterpret_cast<const uint8_t*>(pc));
}

// Code without unwind tables: JIT-compiled, or assembly. Guesses that fp is a frame pointer; accepted only if it leads
// to something like a call.
bool StepFramePointer(StackReader* stack, Registers* at, Walk* walk) {
  const uintptr_t frame = at->fp;
  if (frame < at->sp || frame % kWordBytes != 0) return false;
  if (!stack->Reach(frame) || !stack->Reach(frame + kWordBytes)) return false;
  const uintptr_t pc = CodeAddress(StackReader::Word(frame + kWordBytes));
  if (pc - kLowestPc >= kPcEnd - kLowestPc) return false;
  walk->guessing = true;
  dl_find_object found;
  bool lasting;
  const Found module_found = FindModule(pc - 1, walk, &found, &lasting);
  if (module_found == Found::kMayGo) return false;
  // Outside of modules any readable memory may be code: interpreters build return addresses without a call.
  if (module_found == Found::kModule ? !FollowsCall(pc) : !IsPlainMemory(pc - 1, walk)) return false;
  *at = {pc, frame + 2 * kWordBytes, StackReader::Word(frame)};
  return true;
}

HOLDFAST_COLD bool StepSlow(UnwindRow row, StackReader* stack, Registers* at, Walk* walk) {
  switch (row.kind()) {
    case UnwindRow::kStep:
      return row.returns_by_register() ? StepByRegister(row, stack, at, walk) : StepLoaded(row, stack, at);
    case UnwindRow::kSignal:
      return StepSignal(stack, at, walk);
    case UnwindRow::kFramePointer:
      return StepFramePointer(stack, at, walk);
    default:
      return false;
  }
}

// Threads with stacks that are too deep for WalkDeep: it has not reached the end. While a stack is as deep, WalkDeep is
// called once in kTryAgain times only, as it takes half a millisecond. Threads that share an entry call it more often.
struct TooDeep {
  std::atomic<uintptr_t> thread, sp;
  std::atomic<uint32_t> passed;
};
constexpr uintptr_t kTooDeepEntries = 64;
constexpr uint32_t kTryAgain = 64;
constexpr uintptr_t kLargestStack = uintptr_t{64} << 20;
constinit TooDeep too_deep[kTooDeepEntries] = {};

TooDeep& TooDeepOfThread() { return too_deep[(ThreadPointer() * 0x9e3779b97f4a7c15 >> 32) % kTooDeepEntries]; }

bool IsTooDeep(uintptr_t sp) {
  TooDeep& known = TooDeepOfThread();
  const uintptr_t failed_at = known.sp.load(std::memory_order_relaxed);
  if (known.thread.load(std::memory_order_relaxed) != ThreadPointer() || failed_at - sp > kLargestStack) return false;
  return known.passed.fetch_add(1, std::memory_order_relaxed) % kTryAgain != kTryAgain - 1;
}

void NoteDeepWalk(uintptr_t sp, bool whole) {
  TooDeep& known = TooDeepOfThread();
  if (whole) return known.thread.store(0, std::memory_order_relaxed);
  known.sp.store(sp, std::memory_order_relaxed);
  known.passed.store(0, std::memory_order_relaxed);
  known.thread.store(ThreadPointer(), std::memory_order_relaxed);
}

// Walks on from the frame after kMaxDepth others, which are in `trace`. Only the innermost and the outermost frames are
// kept (deep_stacks.h). False: the outermost frame was not reached, and `trace` is unchanged.
HOLDFAST_COLD __attribute__((noinline)) bool WalkDeep(Registers at, Walk* walk, StackReader* stack, StackTrace* trace) {
  // Each guess may take one to three system calls, 0.4 µs.
  constexpr int kMaxGuesses = 1024;
  NoNotes none;
  stack->AllowMoreProbes();
  for (int i = 0; i < kOutermostKept; ++i) trace->outermost[i] = trace->frames[kInnermostKept + i];
  static_assert(kMaxDepth % kOutermostKept == 0);
  int depth = kMaxDepth, guesses = 0;
  for (bool whole = false; !whole;) {
    if (at.pc - kLowestPc >= kPcEnd - kLowestPc) {
      if (at.pc != 0) return false;
      break;
    }
    if (depth == kMaxWalkedFrames) return false;
    const UnwindRow row = FindRow(at.pc, walk);
    if (row.kind() == UnwindRow::kNone) return false;
    trace->outermost[depth++ % kOutermostKept] = at.pc | (row.bits & UnwindRow::kModuleTagMask);
    if (LIKELY(row.IsPlainStep())) {
      if (!StepTo(Base(row, at), row, stack, &at, &none)) return false;
    } else if (row.kind() == UnwindRow::kEnd) {
      whole = true;
    } else {
      if (row.kind() == UnwindRow::kFramePointer && ++guesses > kMaxGuesses) return false;
      const Registers before = at;
      if (!StepSlow(row, stack, &at, walk)) {
        if (!IsOutermost(before)) return false;
        whole = true;
      }
    }
  }
  stack->Remember(at.sp);
  trace->frames[kInnermostKept] = kOmittedFrames;
  for (int i = 0; i < kOutermostKept; ++i)
    trace->frames[kInnermostKept + 1 + i] = trace->outermost[(depth + i) % kOutermostKept];
  return true;
}

// Walks to the outermost frame, or to a frame of the last walk: `trace` has the frames up to there.
template <typename Notes>
HOLDFAST_HOT inline void WalkStack(const CallerRegisters& caller, StackBounds* bounds, StackTrace* trace,
                                   Notes* notes) {
  Registers at{caller.pc, caller.sp, caller.fp};
  StackReader stack(bounds);
  stack.StartAt(at.sp, true);
  Walk walk;
  if (walk.doubts) notes->GiveUp();
  int depth = 0;
  bool whole = false;
  for (;;) {
    if (UNLIKELY(at.pc - kLowestPc >= kPcEnd - kLowestPc)) {
      whole = at.pc == 0;
      break;
    }
    if (UNLIKELY(depth == kMaxDepth)) {
      const uintptr_t sp = at.sp;
      if (!IsTooDeep(sp)) {
        whole = WalkDeep(InMemory(at), &walk, &stack, trace);
        NoteDeepWalk(sp, whole);
      }
      trace->depth = whole ? kMaxKeptFrames : kMaxDepth;
      trace->truncated = !whole;
      notes->GiveUp();
      return notes->Reached(at.pc, at.sp);
    }
    if (notes->Joins(at.pc, at.sp, at.fp)) {
      notes->Reached(at.pc, at.sp);
      if (walk.searched) notes->GiveUp();
      return;
    }
    const UnwindRow row = FindRow(at.pc, &walk);
    if (UNLIKELY(row.kind() == UnwindRow::kNone)) break;
    trace->frames[depth++] = at.pc | (row.bits & UnwindRow::kModuleTagMask);
    if (LIKELY(row.IsPlainStep())) {
      if (row.from_fp()) notes->UsesFp();
      if (UNLIKELY(!StepTo(Base(row, at), row, &stack, &at, notes))) break;
    } else if (row.kind() == UnwindRow::kEnd) {
      whole = true;
      break;
    } else {
      notes->GiveUp();
      Registers stepped = InMemory(at);
      if (!StepSlow(row, &stack, &stepped, &walk)) {
        whole = IsOutermost(InMemory(at));
        break;
      }
      at = InMemory(stepped);
    }
  }
  trace->depth = static_cast<uint16_t>(depth);
  trace->truncated = !whole;
  stack.Remember(at.sp);
  notes->Reached(at.pc, at.sp);
  if (!whole || walk.searched) notes->GiveUp();
}

}  // namespace

void CaptureStack(const CallerRegisters& caller, StackBounds* bounds, StackTrace* trace) {
  NoNotes none;
  WalkStack(caller, bounds, trace, &none);
}

HOLDFAST_WARM bool CaptureStack(const CallerRegisters& caller, StackBounds* bounds, StackTrace* trace, LastWalk* last) {
  LastWalk::Next next(last, caller, *bounds);
  WalkStack(caller, bounds, trace, &next);
  return next.End(*bounds, trace);
}

}  // namespace holdfast
