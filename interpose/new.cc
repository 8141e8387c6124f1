// operator new and delete, every form.
//
// Where the program's operators are libstdc++'s or libc++'s, the plain forms go straight to the next malloc and free and
// skip that library's own hop; on failure its operator is called after all, for the new_handler and bad_alloc. Elsewhere
// the operator that the caller would have reached is called (operators.h), and the block counted once.
//
// Exceptions pass through these frames: nothing here needs a destructor.
#include <stdint.h>

#include "interpose/early_arena.h"
#include "interpose/operators.h"
#include "interpose/real.h"
#include "interpose/sampled_block.h"

namespace holdfast {
namespace {

// Calls an operator that may or may not come to our malloc. If it did, the thread's countdown has moved and the block is
// counted; if not, it is counted here.
template <typename Call>
inline void* CallOperator(const CallerRegisters& caller, size_t bytes, Call call) {
  const int64_t before = thread_state.heap_countdown;
  void* block = call();
  if (thread_state.heap_countdown != before || block == nullptr || bytes > kHotSizeLimit) return block;
  if ((bytes == 0 || ChargeHeap(bytes)) && HeapEventDue(bytes)) RecordAlloc(caller, KeepSampleable(block), bytes);
  return block;
}

using New = void* (*)(size_t);
using NothrowNew = void* (*)(size_t, const void*);

// ---- Slow halves of the plain forms ----

// The countdown has run out; the operators may be skipped.
template <auto kForm>
HOLDFAST_COLD void* NewSampledSlow(size_t bytes) {
  if (!HeapEventDue(bytes)) {
    if (void* block = real.malloc(bytes)) return block;
  } else if (void* block = AllocateSampled(bytes)) {
    RecordAlloc(HOLDFAST_CALLER(), block, bytes);
    return block;
  }
  return (OperatorsFor(0).*kForm)(bytes);  // calls the new_handler, or throws
}

// Out of memory.
template <auto kForm>
HOLDFAST_COLD void* NewFailedSlow(size_t bytes) {
  return (OperatorsFor(0).*kForm)(bytes);
}

// Not known yet whether the operators may be skipped, or they may not; or size 0.
template <auto kForm>
HOLDFAST_COLD void* NewSlow(size_t bytes) {
  if (!Ready()) return AllocateEarly(bytes, 1);
  const CallerRegisters caller = HOLDFAST_CALLER();
  const Operators operators = OperatorsFor(caller.pc);
  const auto form = operators.*kForm;
  if (form == nullptr) return real.malloc(bytes);  // nobody has one: the nearest there is
  if (operators.skippable && bytes == 0) {
    // The C++ library asks malloc for 1 byte; the program asked for none, and that is what counts.
    void* block = HeapEventDue(0) ? AllocateSampled(1) : nullptr;
    if (block != nullptr) {
      RecordAlloc(caller, block, 0);
      return block;
    }
    block = real.malloc(1);
    if (block != nullptr) return block;
  }
  return CallOperator(caller, bytes, [=] { return form(bytes); });
}

template <auto kForm>
HOLDFAST_COLD void* NothrowNewSlow(size_t bytes, const void* nothrow) {
  if (!Ready()) return AllocateEarly(bytes, 1);
  const CallerRegisters caller = HOLDFAST_CALLER();
  const Operators operators = OperatorsFor(caller.pc);
  const auto form = operators.*kForm;
  if (form == nullptr) return real.malloc(bytes);
  return CallOperator(caller, bytes, [=] { return form(bytes, nothrow); });
}

// Every form of delete: takes the sample out, then calls the caller's own.
template <auto kForm, typename... Rest>
__attribute__((noinline)) void DeleteSlow(void* block, Rest... rest) {
  if (LIKELY(hot_new_limit != 0)) return FreePerhapsSampled(block);  // the operators may be skipped
  if (PassesFilter(block)) RecordFree(block);
  if (block == nullptr || IsEarly(block) || !Ready()) return;
  const Operators operators = OperatorsFor(reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
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

#define HOLDFAST_ALIGNED_NEW(name)                                              \
  HOLDFAST_EXPORT void* name(size_t bytes, size_t alignment) {                  \
    if (!Ready()) return AllocateEarly(bytes, alignment);                       \
    const CallerRegisters caller = HOLDFAST_CALLER();                           \
    const Operators operators = OperatorsFor(caller.pc);                        \
    if (operators.name == nullptr) return real.memalign(alignment, bytes);      \
    return CallOperator(caller, bytes, [&] { return operators.name(bytes, alignment); }); \
  }
HOLDFAST_ALIGNED_NEW(_ZnwmSt11align_val_t)
HOLDFAST_ALIGNED_NEW(_ZnamSt11align_val_t)

#define HOLDFAST_ALIGNED_NOTHROW_NEW(name)                                      \
  HOLDFAST_EXPORT void* name(size_t bytes, size_t alignment, const void* nothrow) noexcept { \
    if (!Ready()) return AllocateEarly(bytes, alignment);                       \
    const CallerRegisters caller = HOLDFAST_CALLER();                           \
    const Operators operators = OperatorsFor(caller.pc);                        \
    if (operators.name == nullptr) return real.memalign(alignment, bytes);      \
    return CallOperator(caller, bytes, [&] { return operators.name(bytes, alignment, nothrow); }); \
  }
HOLDFAST_ALIGNED_NOTHROW_NEW(_ZnwmSt11align_val_tRKSt9nothrow_t)
HOLDFAST_ALIGNED_NOTHROW_NEW(_ZnamSt11align_val_tRKSt9nothrow_t)

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
