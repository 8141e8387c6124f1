#include "interpose/process/call_end.h"

#include <cstddef>

#include "sampler/contract/attach_call.h"

#if defined(__x86_64__)

static_assert(offsetof(holdfast::CallEnd, memory) == 0 && offsetof(holdfast::CallEnd, done) == 32 &&
              offsetof(holdfast::CallEnd, patience) == 40 && offsetof(holdfast::CallEnd, frame) == 56);

// rbx: a CallEnd on the thread's own stack. The frame is the stack from here on: a handler may run as soon as the tool has
// restored the signal mask. munmap twice, done = 1, ppoll, rt_sigreturn.
asm(R"(
  .pushsection .text
  .hidden holdfast_call_end
  .globl holdfast_call_end
  .type holdfast_call_end, @function
holdfast_call_end:
  mov 56(%rbx), %rsp
  add $8, %rsp
  mov 0(%rbx), %rdi
  mov 8(%rbx), %rsi
  mov $11, %eax
  syscall
  mov 16(%rbx), %rdi
  mov 24(%rbx), %rsi
  mov $11, %eax
  syscall
  movq $1, 32(%rbx)
  xor %edi, %edi
  xor %esi, %esi
  lea 40(%rbx), %rdx
  xor %r10d, %r10d
  mov $8, %r8d
  mov $271, %eax
  syscall
  mov $15, %eax
  syscall
  hlt
  .size holdfast_call_end, . - holdfast_call_end
  .popsection
)");
extern "C" __attribute__((visibility("hidden"))) void holdfast_call_end();

namespace holdfast {
CallEndFunction CallEndCode() { return holdfast_call_end; }
}  // namespace holdfast

#else

namespace holdfast {
CallEndFunction CallEndCode() { return nullptr; }
}  // namespace holdfast

#endif
