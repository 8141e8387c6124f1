// operator new and delete, every form.
//
// If the program's operators are libstdc++'s or libc++'s, ours call the next allocator directly and skip that library's
// call. On failure its operator is called after all, for the new_handler and bad_alloc. Otherwise the operator that the
// caller would have reached is called (operators.h), muted, and the block counted once.
//
// Exceptions pass through these frames: only the mute needs cleanup, and a personality routine does that.
#include <errno.h>
#include <stdint.h>

#include "interpose/arch/entry_points.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "interpose/heap/early_arena.h"
#include "interpose/heap/operators.h"
#include "interpose/heap/perhaps_sampled.h"
#include "interpose/heap/sampled_block.h"
#include "sampler/record/heap.h"

// By the Itanium C++ ABI's rules for personality routines: 2 = _UA_CLEANUP_PHASE, 8 = _URC_CONTINUE_UNWIND.
extern "C" HOLDFAST_HIDDEN int HoldfastMutedPersonality(int, int actions, uint64_t, void*, void*) {
  if ((actions & 2) != 0) holdfast::UnmuteForOperator();
  return 8;
}

namespace holdfast {
namespace {

inline bool MayBeSampled(size_t bytes) { return bytes <= kHotSizeLimit && ChargeHeap(bytes) && HeapEventDue(bytes); }

// Calls another library's form of new, muted, and counts it here.
template <typename Form>
inline void* CallOperator(const CallerRegisters& caller, Form form, size_t bytes, size_t second, const void* third) {
  if (IsMuted()) {  // inside another operator, or a signal handler inside a sample: only forward
    using Plain = void* (*)(size_t, size_t, const void*);
    return reinterpret_cast<Plain>(reinterpret_cast<void*>(form))(bytes, second, third);
  }
  MuteForOperator();
  void* block = HoldfastCallMuted(reinterpret_cast<void*>(form), bytes, second, third);
  UnmuteForOperator();
  if (block != nullptr && MayBeSampled(bytes)) RecordAlloc(caller, KeepSampleable(block), bytes);
  return block;
}

// Does what the C++ library's form does, without its call. `bytes` may be 0; the library then asks malloc for 1.
inline void* AllocateForNew(const CallerRegisters& caller, size_t bytes) {
  const size_t asked = bytes == 0 ? 1 : bytes;
  const bool ran_out = bytes <= kHotSizeLimit && ChargeHeap(bytes);
  if (ran_out && ExactBegun()) {
    const int64_t charged = TakeCharge();
    return RecordExact(caller, real.malloc(asked), bytes, charged);
  }
  const bool due = ran_out && HeapEventDue(bytes);
  void* block = due ? AllocateSampled(asked) : real.malloc(asked);
  if (due) RecordAlloc(caller, block, bytes);
  return block;
}

inline void* AllocateAlignedForNew(const CallerRegisters& caller, size_t bytes, size_t alignment) {
  const bool due = MayBeSampled(bytes);
  const auto allocate = [asked = bytes == 0 ? 1 : bytes](size_t with) { return real.memalign(with, asked); };
  void* block = due ? AllocateAlignedSampled(alignment, bytes, true, allocate) : allocate(alignment);
  if (due) RecordAlloc(caller, block, bytes);
  return block;
}

// ---- Slow paths of the plain forms ----

// Not known yet whether the operators may be skipped, or they may not. Nothing is charged yet.
template <auto kForm>
HOLDFAST_COLD void* NewElsewhereSlow(size_t bytes, const CallerRegisters& caller) {
  Operators room;
  const Operators& operators = OperatorsFor(caller.pc, &room);
  const auto form = operators.*kForm;
  if (!operators.skippable && form != nullptr) return CallOperator(caller, form, bytes, 0, nullptr);
  void* block = AllocateForNew(caller, bytes);
  return block != nullptr || form == nullptr ? block : form(bytes);
}

template <auto kForm>
HOLDFAST_COLD void* NewSlow(size_t bytes) {
  if (hot_size_limit == 0 && !ReadyAfterCharge(bytes)) return AllocateEarly(bytes, 1);
  if (!operators_skipped) {
    UndoCharge(bytes);
    return NewElsewhereSlow<kForm>(bytes, HOLDFAST_CALLER());
  }
  if (!MayBeDue(bytes) || !HeapEventDue(bytes)) {
    if (void* block = real.malloc(bytes)) return block;
  } else if (void* block = AllocateSampled(bytes)) {
    RecordAlloc(HOLDFAST_CALLER(), block, bytes);
    return block;
  }
  Operators room;
  return (OperatorsFor(0, &room).*kForm)(bytes);  // calls the new_handler, or throws
}

// When every allocation is recorded. Hot, although out of line.
template <auto kForm>
HOLDFAST_WARM void* NewExact(size_t bytes) {
  const int64_t charged = TakeCharge();
  if (void* block = RecordExact(HOLDFAST_CALLER(), real.malloc(bytes), bytes, charged); LIKELY(block != nullptr))
    return block;
  Operators room;
  return (OperatorsFor(0, &room).*kForm)(bytes);
}

// The countdown has run out; or the shim is not ready yet.
template <auto kForm>
inline void* NewDue(size_t bytes) {
  return LIKELY(IsDueExact(bytes) && operators_skipped) ? NewExact<kForm>(bytes) : NewSlow<kForm>(bytes);
}

// The hot path got no block. An operator that is not skipped has handled that itself: its result is final.
template <auto kForm>
inline void* NewFailed(size_t bytes) {
  if (!operators_skipped) return nullptr;
  Operators room;
  return (OperatorsFor(0, &room).*kForm)(bytes);
}

template <auto kForm>
HOLDFAST_COLD void* NothrowNewSlow(size_t bytes, const void* nothrow) {
  if (!Ready()) return AllocateEarly(bytes, 1);
  const CallerRegisters caller = HOLDFAST_CALLER();
  Operators room;
  const Operators& operators = OperatorsFor(caller.pc, &room);
  const auto form = operators.*kForm;
  if (!operators.skippable && form != nullptr) {
    return CallOperator(caller, form, bytes, reinterpret_cast<size_t>(nothrow), nullptr);
  }
  void* block = AllocateForNew(caller, bytes);
  return block != nullptr || form == nullptr ? block : form(bytes, nothrow);
}

template <auto kForm, typename... Nothrow>
HOLDFAST_COLD void* AlignedNewSlow(size_t bytes, size_t alignment, Nothrow... nothrow) {
  if (!Ready()) return AllocateEarly(bytes, alignment);
  const CallerRegisters caller = HOLDFAST_CALLER();
  Operators room;
  const Operators& operators = OperatorsFor(caller.pc, &room);
  const auto form = operators.*kForm;
  if (!operators.skippable && form != nullptr) {
    const void* third = nullptr;
    ((third = nothrow), ...);
    return CallOperator(caller, form, bytes, alignment, third);
  }
  void* block = AllocateAlignedForNew(caller, bytes, alignment);
  return block != nullptr || form == nullptr ? block : form(bytes, alignment, nothrow...);
}

// Every form of delete: removes the sample, then calls the caller's own.
template <auto kForm, typename... Rest>
__attribute__((noinline)) void DeleteSlow(void* block, Rest... rest) {
  if (LIKELY(operators_skipped)) return FreePerhapsSampled(block);
  if (PassesFilter(block)) RecordFree(block);
  if (block == nullptr || IsEarly(block) || !Ready()) return;
  Operators room;
  const Operators& operators = OperatorsFor(reinterpret_cast<uintptr_t>(__builtin_return_address(0)), &room);
  const auto form = operators.*kForm;
  if (operators.skippable || form == nullptr) return real.free(block);
  form(block, rest...);
}

// The nothrow and the aligned forms: like the plain ones, but compiled. They charge only if the operators may be
// skipped; a call that cannot be finished here is uncharged, and starts again out of line.
template <auto kForm>
HOLDFAST_HOT inline void* NothrowNew(size_t bytes, const void* nothrow) {
  if (LIKELY(operators_skipped)) {
    if (LIKELY(!ChargeHeap(bytes))) {
      if (void* block = real.malloc(bytes); LIKELY(block != nullptr)) return block;
    }
    UndoCharge(bytes);
  }
  return NothrowNewSlow<kForm>(bytes, nothrow);
}

template <auto kForm, typename... Nothrow>
HOLDFAST_HOT inline void* AlignedNew(size_t bytes, size_t alignment, Nothrow... nothrow) {
  if (LIKELY(operators_skipped)) {
    if (LIKELY(!ChargeHeap(bytes))) {
      if (void* block = real.memalign(alignment, bytes); LIKELY(block != nullptr)) return block;
    }
    UndoCharge(bytes);
  }
  return AlignedNewSlow<kForm>(bytes, alignment, nothrow...);
}

// If the operators may be skipped, delete only tests for a tagged address; if not, every delete is slow.
HOLDFAST_HOT inline bool MayDeleteAtOnce(const void* block) { return !PassesTag(block, sampled_filter.delete_mask); }

}  // namespace
}  // namespace holdfast

using namespace holdfast;

extern "C" {

// ---- The plain forms: their hot paths are in interpose/arch ----
HOLDFAST_HOT_DATA constinit HotNew holdfast_hot_new = {kUnusedWord, nullptr, nullptr};
HOLDFAST_HIDDEN void* HoldfastNewDue(size_t bytes) { return NewDue<&Operators::_Znwm>(bytes); }
HOLDFAST_HIDDEN void* HoldfastNewArrayDue(size_t bytes) { return NewDue<&Operators::_Znam>(bytes); }
HOLDFAST_HIDDEN HOLDFAST_COLD void* HoldfastNewFailed(size_t bytes) { return NewFailed<&Operators::_Znwm>(bytes); }
HOLDFAST_HIDDEN HOLDFAST_COLD void* HoldfastNewArrayFailed(size_t bytes) { return NewFailed<&Operators::_Znam>(bytes); }
HOLDFAST_HIDDEN HOLDFAST_COLD void* HoldfastNewElsewhere(size_t bytes, uintptr_t pc, uintptr_t sp, uintptr_t fp) {
  UndoCharge(bytes);
  return NewElsewhereSlow<&Operators::_Znwm>(bytes, {pc, sp, fp});
}
HOLDFAST_HIDDEN HOLDFAST_COLD void* HoldfastNewArrayElsewhere(size_t bytes, uintptr_t pc, uintptr_t sp, uintptr_t fp) {
  UndoCharge(bytes);
  return NewElsewhereSlow<&Operators::_Znam>(bytes, {pc, sp, fp});
}

HOLDFAST_EXPORT void* _ZnwmRKSt9nothrow_t(size_t bytes, const void* nothrow) noexcept {
  return NothrowNew<&Operators::_ZnwmRKSt9nothrow_t>(bytes, nothrow);
}
HOLDFAST_EXPORT void* _ZnamRKSt9nothrow_t(size_t bytes, const void* nothrow) noexcept {
  return NothrowNew<&Operators::_ZnamRKSt9nothrow_t>(bytes, nothrow);
}

HOLDFAST_EXPORT void* _ZnwmSt11align_val_t(size_t bytes, size_t alignment) {
  return AlignedNew<&Operators::_ZnwmSt11align_val_t>(bytes, alignment);
}
HOLDFAST_EXPORT void* _ZnamSt11align_val_t(size_t bytes, size_t alignment) {
  return AlignedNew<&Operators::_ZnamSt11align_val_t>(bytes, alignment);
}
HOLDFAST_EXPORT void* _ZnwmSt11align_val_tRKSt9nothrow_t(size_t bytes, size_t alignment, const void* nothrow) noexcept {
  return AlignedNew<&Operators::_ZnwmSt11align_val_tRKSt9nothrow_t>(bytes, alignment, nothrow);
}
HOLDFAST_EXPORT void* _ZnamSt11align_val_tRKSt9nothrow_t(size_t bytes, size_t alignment, const void* nothrow) noexcept {
  return AlignedNew<&Operators::_ZnamSt11align_val_tRKSt9nothrow_t>(bytes, alignment, nothrow);
}

HOLDFAST_EXPORT void _ZdlPv(void* block) noexcept {
  if (LIKELY(MayDeleteAtOnce(block))) return untagged.free(block);
  return DeleteSlow<&Operators::_ZdlPv>(block);
}
HOLDFAST_EXPORT void _ZdaPv(void* block) noexcept {
  if (LIKELY(MayDeleteAtOnce(block))) return untagged.free(block);
  return DeleteSlow<&Operators::_ZdaPv>(block);
}
HOLDFAST_EXPORT void _ZdlPvm(void* block, size_t bytes) noexcept {
  if (LIKELY(MayDeleteAtOnce(block))) return untagged.free(block);
  return DeleteSlow<&Operators::_ZdlPvm>(block, bytes);
}
HOLDFAST_EXPORT void _ZdaPvm(void* block, size_t bytes) noexcept {
  if (LIKELY(MayDeleteAtOnce(block))) return untagged.free(block);
  return DeleteSlow<&Operators::_ZdaPvm>(block, bytes);
}

#define HOLDFAST_OTHER_DELETE(name, types, names)                    \
  HOLDFAST_EXPORT void name types noexcept {                         \
    if (LIKELY(MayDeleteAtOnce(block))) return untagged.free(block); \
    return DeleteSlow<&Operators::name> names;                       \
  }
#define P(...) (__VA_ARGS__)
HOLDFAST_OTHER_DELETE(_ZdlPvRKSt9nothrow_t, P(void* block, const void* nothrow), (block, nothrow))
HOLDFAST_OTHER_DELETE(_ZdaPvRKSt9nothrow_t, P(void* block, const void* nothrow), (block, nothrow))
HOLDFAST_OTHER_DELETE(_ZdlPvSt11align_val_t, P(void* block, size_t alignment), (block, alignment))
HOLDFAST_OTHER_DELETE(_ZdaPvSt11align_val_t, P(void* block, size_t alignment), (block, alignment))
HOLDFAST_OTHER_DELETE(_ZdlPvmSt11align_val_t, P(void* block, size_t bytes, size_t alignment), (block, bytes, alignment))
HOLDFAST_OTHER_DELETE(_ZdaPvmSt11align_val_t, P(void* block, size_t bytes, size_t alignment), (block, bytes, alignment))
HOLDFAST_OTHER_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, P(void* block, size_t alignment, const void* nothrow),
                      (block, alignment, nothrow))
HOLDFAST_OTHER_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, P(void* block, size_t alignment, const void* nothrow),
                      (block, alignment, nothrow))
#undef P

}  // extern "C"

namespace holdfast {

void StartHotNew() {
  holdfast_hot_new.allocate = HoldfastCallNewElsewhere;
  holdfast_hot_new.allocate_array = HoldfastCallNewArrayElsewhere;
  holdfast_hot_new.countdown_offset = OffsetOfCountdown();
}

void SkipOperators() {
  holdfast_hot_new.allocate = holdfast_hot_new.allocate_array = real.malloc;
  operators_skipped = true;
}

}  // namespace holdfast

// Their hidden names, see operators.cc. Those of the plain forms are defined above.
#define HOLDFAST_PLAIN_NEW(name, parameters)
#define HOLDFAST_NEW(name, parameters) \
  extern "C" HOLDFAST_HIDDEN __attribute__((alias(#name), copy(name))) void* holdfast_own##name parameters;
#define HOLDFAST_DELETE(name, parameters) \
  extern "C" HOLDFAST_HIDDEN __attribute__((alias(#name), copy(name))) void holdfast_own##name parameters;
#include "interpose/heap/operators.inc"
