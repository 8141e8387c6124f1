// Alternate stacks of the program, and its handlers for them: see AlternateStackMask in sampler/process/cpu_timers.h. CPU
// timers of the program.
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "interpose/base/glibc_nodes.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "sampler/process/cpu_timers.h"

using namespace holdfast;

namespace {

// The kernel's part of libc's signal set.
uint64_t KernelMask(const sigset_t& set) {
  uint64_t mask = 0;
  memcpy(&mask, &set, sizeof mask);
  return mask;
}
void SetKernelMask(sigset_t* set, uint64_t mask) { memcpy(set, &mask, sizeof mask); }

// Returns the stack pointer that a jump leads to; 0: not known. glibc hides it with a secret of the thread.
inline uintptr_t StackPointerOf(const struct __jmp_buf_tag* to) {
#if defined(__x86_64__)
  constexpr int kStackPointer = 6;  // in the buffer
  constexpr uintptr_t kUserEnd = uintptr_t{1} << 56;
  auto value = static_cast<uintptr_t>(to->__jmpbuf[kStackPointer]);
  asm("ror $17, %0\n\txor %%fs:0x30, %0" : "+r"(value) : : "cc");
  return value < kUserEnd && value % 8 == 0 ? value : 0;
#else
  (void)to;
  return 0;
#endif
}

// A jump that does not restore the signal mask, perhaps out of a handler.
[[noreturn]] inline void Jump(void (*real_jump)(struct __jmp_buf_tag*, int), struct __jmp_buf_tag* to, int value) {
  if (UNLIKELY(HasCpuTimers()) && to->__mask_was_saved == 0) AlternateStackMask::LeaveByJump(StackPointerOf(to));
  real_jump(to, value);
  __builtin_unreachable();
}

}  // namespace

extern "C" HOLDFAST_EXPORT int sigaction(int number, const struct sigaction* action,
                                         struct sigaction* before) noexcept {
  if (UNLIKELY(!Ready())) {
    errno = EAGAIN;
    return -1;
  }
  if (LIKELY(!HasCpuTimers()) || number < 1 || number > 64) return real.sigaction(number, action, before);
  const bool had_bit = AlternateStackMask::HadBit(number);
  struct sigaction with;
  if (action != nullptr) {
    with = *action;
    SetKernelMask(&with.sa_mask, AlternateStackMask::ForKernel(number, action->sa_flags, KernelMask(action->sa_mask)));
  }
  const int result = real.sigaction(number, action != nullptr ? &with : nullptr, before);
  if (result == 0 && before != nullptr)
    SetKernelMask(&before->sa_mask, AlternateStackMask::ForProgram(had_bit, KernelMask(before->sa_mask)));
  return result;
}

extern "C" HOLDFAST_EXPORT int sigaltstack(const stack_t* stack, stack_t* before) noexcept {
  if (UNLIKELY(!Ready())) {
    errno = EAGAIN;
    return -1;
  }
  if (LIKELY(!HasCpuTimers()) || stack == nullptr) return real.sigaltstack(stack, before);
  const stack_t wanted = *stack;  // `before` may be the same place
  const bool is_small = (wanted.ss_flags & SS_DISABLE) == 0 && !MayHaveTimer(wanted.ss_size);
  if (is_small) LeaveCpuTimer();
  const int result = real.sigaltstack(stack, before);
  const int error = errno;
  if (result == 0) AlternateStackMask::NoteStack(wanted);
  // It has another stack now; or, if the call failed, its previous one.
  if (!is_small || result != 0) AskForCpuTimer();
  errno = error;
  return result;
}

template <typename Timer>
static int MakeTimer(int (*make)(clockid_t, struct sigevent*, Timer*), clockid_t clock, struct sigevent* event,
                     Timer* timer) {
  // Before the call: `timer` may be at the same place.
  const bool is_signal = event == nullptr || event->sigev_notify == SIGEV_SIGNAL;
  const int result = make(clock, event, timer);
  if (result == 0 && is_signal) NoteTimerOfProgram(clock);
  return result;
}
static int NotReady() {
  errno = EAGAIN;
  return -1;
}

extern "C" HOLDFAST_EXPORT int timer_create(clockid_t clock, struct sigevent* event, timer_t* timer) noexcept {
  return LIKELY(Ready()) ? MakeTimer(real.timer_create, clock, event, timer) : NotReady();
}
// As programs from before glibc 2.34 call it.
extern "C" HOLDFAST_EXPORT int holdfast_timer_create_2_3_3(clockid_t clock, struct sigevent* event,
                                                           timer_t* timer) noexcept {
  return LIKELY(Ready()) ? MakeTimer(real.timer_create, clock, event, timer) : NotReady();
}
asm(".symver holdfast_timer_create_2_3_3,timer_create@" HOLDFAST_GLIBC_2_3_3 ",remove");
#if HOLDFAST_HAS_OLDER_TIMERS
extern "C" HOLDFAST_EXPORT int holdfast_timer_create_2_2_5(clockid_t clock, struct sigevent* event,
                                                           int* timer) noexcept {
  return LIKELY(Ready()) ? MakeTimer(real.timer_create_2_2_5, clock, event, timer) : NotReady();
}
asm(".symver holdfast_timer_create_2_2_5,timer_create@" HOLDFAST_GLIBC_2_2_5 ",remove");
#endif

// Not ready: before the library is, nobody has set a place to jump to.
extern "C" HOLDFAST_EXPORT void longjmp(struct __jmp_buf_tag* to, int value) noexcept {
  if (UNLIKELY(!Ready())) __builtin_trap();
  Jump(real.longjmp, to, value);
}
extern "C" HOLDFAST_EXPORT void _longjmp(struct __jmp_buf_tag* to, int value) noexcept {
  if (UNLIKELY(!Ready())) __builtin_trap();
  Jump(real._longjmp, to, value);
}
extern "C" HOLDFAST_EXPORT void siglongjmp(struct __jmp_buf_tag* to, int value) noexcept {
  if (UNLIKELY(!Ready())) __builtin_trap();
  Jump(real.siglongjmp, to, value);
}
// longjmp of programs with _FORTIFY_SOURCE.
extern "C" [[noreturn]] HOLDFAST_EXPORT void __longjmp_chk(struct __jmp_buf_tag* to, int value) {
  if (UNLIKELY(!Ready())) __builtin_trap();
  Jump(real.__longjmp_chk, to, value);
}
