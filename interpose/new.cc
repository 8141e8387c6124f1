// operator new and delete, every form.
//
// Where the program's operators are libstdc++'s or libc++'s, ours go straight to the next allocator and skip that
// library's own hop; on failure its operator is called after all, for the new_handler and bad_alloc. Elsewhere the
// operator that the caller would have reached is called (operators.h), muted, and the block counted once.
//
// Exceptions pass through these frames: nothing here needs a destructor but the mute, which a personality routine lifts.
#include <errno.h>
#include <stdint.h>

#include "interpose/early_arena.h"
#include "interpose/operators.h"
#include "interpose/real.h"
#include "interpose/sampled_block.h"

// Calls function(a, b, c). When an exception (or a cancellation) passes, the personality routine of this frame is called
// on the way, and lifts the mute; it needs no landing pad and no C++ runtime.
extern "C" HOLDFAST_HIDDEN void* HoldfastCallMuted(void* function, size_t a, size_t b, const void* c);
asm(R"(
  .text
  .hidden HoldfastCallMuted
  .globl HoldfastCallMuted
  .type HoldfastCallMuted, @function
HoldfastCallMuted:
  .cfi_startproc
  .cfi_personality 0x1b, HoldfastMutedPersonality
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  call *%rax
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
  .size HoldfastCallMuted, .-HoldfastCallMuted
)");

// By the Itanium C++ ABI's rules for personality routines: 2 = _UA_CLEANUP_PHASE, 8 = _URC_CONTINUE_UNWIND.
extern "C" HOLDFAST_HIDDEN int HoldfastMutedPersonality(int, int actions, uint64_t, void*, void*) {
  if ((actions & 2) != 0) holdfast::UnmuteForOperator(holdfast::thread_state);
  return 8;
}

namespace holdfast {
namespace {

inline bool MayBeSampled(size_t bytes) {
  return bytes <= kHotSizeLimit && (bytes == 0 || ChargeHeap(bytes)) && HeapEventDue(bytes);
}

// A form of new of somebody's own: called muted, counted here.
template <typename Form>
inline void* CallOperator(const CallerRegisters& caller, Form form, size_t bytes, size_t second, const void* third) {
  ThreadState& thread = thread_state;
  if (thread.muted) {  // inside another operator, or a signal handler inside a sample: a plain forward
    using Plain = void* (*)(size_t, size_t, const void*);
    return reinterpret_cast<Plain>(reinterpret_cast<void*>(form))(bytes, second, third);
  }
  MuteForOperator(thread);
  void* block = HoldfastCallMuted(reinterpret_cast<void*>(form), bytes, second, third);
  UnmuteForOperator(thread);
  if (block != nullptr && MayBeSampled(bytes)) RecordAlloc(caller, KeepSampleable(block), bytes);
  return block;
}

// What the C++ library's form would have done, without its hop. `bytes` may be 0, for which it asks malloc for 1.
inline void* AllocateForNew(const CallerRegisters& caller, size_t bytes) {
  const bool due = MayBeSampled(bytes);
  const size_t asked = bytes == 0 ? 1 : bytes;
  void* block = due ? AllocateSampled(asked) : real.malloc(asked);
  if (due) RecordAlloc(caller, block, bytes);
  return block;
}

inline void* AllocateAlignedForNew(const CallerRegisters& caller, size_t bytes, size_t alignment) {
  const bool due = MayBeSampled(bytes);
  void* block = real.memalign(due && TagInUse() && alignment < kTagAlignment ? kTagAlignment : alignment, bytes == 0 ? 1 : bytes);
  if (due) RecordAlloc(caller, KeepSampleable(block), bytes);
  return block;
}

// ---- Slow halves of the plain forms ----

// The countdown has run out; the operators may be skipped.
template <auto kForm>
HOLDFAST_COLD void* NewSampledSlow(size_t bytes) {
  Operators room;
  if (!HeapEventDue(bytes)) {
    if (void* block = real.malloc(bytes)) return block;
  } else if (void* block = AllocateSampled(bytes)) {
    RecordAlloc(HOLDFAST_CALLER(), block, bytes);
    return block;
  }
  return (OperatorsFor(0, &room).*kForm)(bytes);  // calls the new_handler, or throws
}

// Out of memory.
template <auto kForm>
HOLDFAST_COLD void* NewFailedSlow(size_t bytes) {
  Operators room;
  return (OperatorsFor(0, &room).*kForm)(bytes);
}

// Not known yet whether the operators may be skipped, or they may not; or size 0.
template <auto kForm>
HOLDFAST_COLD void* NewSlow(size_t bytes) {
  if (!Ready()) return AllocateEarly(bytes, 1);
  const CallerRegisters caller = HOLDFAST_CALLER();
  Operators room;
  const Operators& operators = OperatorsFor(caller.pc, &room);
  const auto form = operators.*kForm;
  if (!operators.skippable && form != nullptr) return CallOperator(caller, form, bytes, 0, nullptr);
  void* block = AllocateForNew(caller, bytes);
  return block != nullptr || form == nullptr ? block : form(bytes);
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

// Every form of delete: takes the sample out, then calls the caller's own.
template <auto kForm, typename... Rest>
__attribute__((noinline)) void DeleteSlow(void* block, Rest... rest) {
  if (LIKELY(hot_new_limit != 0)) return FreePerhapsSampled(block);  // the operators may be skipped
  if (PassesFilter(block)) RecordFree(block);
  if (block == nullptr || IsEarly(block) || !Ready()) return;
  Operators room;
  const Operators& operators = OperatorsFor(reinterpret_cast<uintptr_t>(__builtin_return_address(0)), &room);
  const auto form = operators.*kForm;
  if (operators.skippable || form == nullptr) return real.free(block);
  form(block, rest...);
}

template <auto kForm>
HOLDFAST_HOT inline void* NewHot(size_t bytes) {
  if (LIKELY(bytes - 1 < hot_new_limit)) {
    if (UNLIKELY(ChargeHeap(bytes))) return NewSampledSlow<kForm>(bytes);
    void* block = real.malloc(bytes);
    if (LIKELY(block != nullptr)) return block;
    return NewFailedSlow<kForm>(bytes);
  }
  return NewSlow<kForm>(bytes);
}

// A tagged place is all that a delete looks at when the operators may be skipped; when not, every delete is slow.
HOLDFAST_HOT inline bool MayDeleteAtOnce(const void* block) { return !PassesTag(block, sampled_filter.delete_mask); }

}  // namespace
}  // namespace holdfast

using namespace holdfast;

extern "C" {

HOLDFAST_EXPORT void* _Znwm(size_t bytes) { return NewHot<&Operators::_Znwm>(bytes); }
HOLDFAST_EXPORT void* _Znam(size_t bytes) { return NewHot<&Operators::_Znam>(bytes); }

HOLDFAST_EXPORT void* _ZnwmRKSt9nothrow_t(size_t bytes, const void* nothrow) noexcept {
  return NothrowNewSlow<&Operators::_ZnwmRKSt9nothrow_t>(bytes, nothrow);
}
HOLDFAST_EXPORT void* _ZnamRKSt9nothrow_t(size_t bytes, const void* nothrow) noexcept {
  return NothrowNewSlow<&Operators::_ZnamRKSt9nothrow_t>(bytes, nothrow);
}

HOLDFAST_EXPORT void* _ZnwmSt11align_val_t(size_t bytes, size_t alignment) {
  return AlignedNewSlow<&Operators::_ZnwmSt11align_val_t>(bytes, alignment);
}
HOLDFAST_EXPORT void* _ZnamSt11align_val_t(size_t bytes, size_t alignment) {
  return AlignedNewSlow<&Operators::_ZnamSt11align_val_t>(bytes, alignment);
}
HOLDFAST_EXPORT void* _ZnwmSt11align_val_tRKSt9nothrow_t(size_t bytes, size_t alignment, const void* nothrow) noexcept {
  return AlignedNewSlow<&Operators::_ZnwmSt11align_val_tRKSt9nothrow_t>(bytes, alignment, nothrow);
}
HOLDFAST_EXPORT void* _ZnamSt11align_val_tRKSt9nothrow_t(size_t bytes, size_t alignment, const void* nothrow) noexcept {
  return AlignedNewSlow<&Operators::_ZnamSt11align_val_tRKSt9nothrow_t>(bytes, alignment, nothrow);
}

HOLDFAST_EXPORT void _ZdlPv(void* block) noexcept {
  if (LIKELY(MayDeleteAtOnce(block))) return real.free(block);
  return DeleteSlow<&Operators::_ZdlPv>(block);
}
HOLDFAST_EXPORT void _ZdaPv(void* block) noexcept {
  if (LIKELY(MayDeleteAtOnce(block))) return real.free(block);
  return DeleteSlow<&Operators::_ZdaPv>(block);
}
HOLDFAST_EXPORT void _ZdlPvm(void* block, size_t bytes) noexcept {
  if (LIKELY(MayDeleteAtOnce(block))) return real.free(block);
  return DeleteSlow<&Operators::_ZdlPvm>(block, bytes);
}
HOLDFAST_EXPORT void _ZdaPvm(void* block, size_t bytes) noexcept {
  if (LIKELY(MayDeleteAtOnce(block))) return real.free(block);
  return DeleteSlow<&Operators::_ZdaPvm>(block, bytes);
}

#define HOLDFAST_OTHER_DELETE(name, types, names) \
  HOLDFAST_EXPORT void name types noexcept { return DeleteSlow<&Operators::name> names; }
#define P(...) (__VA_ARGS__)
HOLDFAST_OTHER_DELETE(_ZdlPvRKSt9nothrow_t, P(void* block, const void* nothrow), (block, nothrow))
HOLDFAST_OTHER_DELETE(_ZdaPvRKSt9nothrow_t, P(void* block, const void* nothrow), (block, nothrow))
HOLDFAST_OTHER_DELETE(_ZdlPvSt11align_val_t, P(void* block, size_t alignment), (block, alignment))
HOLDFAST_OTHER_DELETE(_ZdaPvSt11align_val_t, P(void* block, size_t alignment), (block, alignment))
HOLDFAST_OTHER_DELETE(_ZdlPvmSt11align_val_t, P(void* block, size_t bytes, size_t alignment), (block, bytes, alignment))
HOLDFAST_OTHER_DELETE(_ZdaPvmSt11align_val_t, P(void* block, size_t bytes, size_t alignment), (block, bytes, alignment))
HOLDFAST_OTHER_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, P(void* block, size_t alignment, const void* nothrow), (block, alignment, nothrow))
HOLDFAST_OTHER_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, P(void* block, size_t alignment, const void* nothrow), (block, alignment, nothrow))
#undef P

}  // extern "C"

// Their hidden names, see operators.cc.
#define HOLDFAST_NEW(name, parameters) extern "C" HOLDFAST_HIDDEN __attribute__((alias(#name), copy(name))) void* holdfast_own##name parameters;
#define HOLDFAST_DELETE(name, parameters) extern "C" HOLDFAST_HIDDEN __attribute__((alias(#name), copy(name))) void holdfast_own##name parameters;
#include "interpose/operators.inc"
