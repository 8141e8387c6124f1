// x86-64 Linux. Included at the end of sampler/arch/interrupted_call.h, which describes each of these.
//
// The instruction `syscall` (0f 05) leaves the address after it in rcx. To start a call again, the kernel puts the number
// back into rax and sets the pc to the instruction. Code that was interrupted just before its first `syscall` looks the
// same except for rcx.
#ifndef HOLDFAST_SAMPLER_ARCH_X86_64_INTERRUPTED_CALL_INLINE_H_
#define HOLDFAST_SAMPLER_ARCH_X86_64_INTERRUPTED_CALL_INLINE_H_

#include <errno.h>
#include <ucontext.h>

namespace holdfast {

inline constexpr uint64_t kSystemCallBytes = 2;

HOLDFAST_ARCH bool SystemCallKeepsAllRegisters() {
  uint64_t rcx = 0;
  long rax = SYS_getpid;
  asm volatile("syscall" : "+a"(rax), "+c"(rcx) : : "r11", "memory");
  return rcx == 0;
}

HOLDFAST_ARCH bool MayFollowCall(const ucontext_t& context, bool keeps_all_registers) {
  const greg_t* const registers = context.uc_mcontext.gregs;
  const auto pc = static_cast<uint64_t>(registers[REG_RIP]), rcx = static_cast<uint64_t>(registers[REG_RCX]);
  if (registers[REG_RAX] == -EINTR) return keeps_all_registers || rcx == pc;
  constexpr greg_t kNumbers = 1024;
  return registers[REG_RAX] >= 0 && registers[REG_RAX] < kNumbers &&
         (keeps_all_registers || rcx == pc + kSystemCallBytes);
}

inline InterruptedCall CallIn(const ucontext_t& context) {
  const greg_t* const registers = context.uc_mcontext.gregs;
  InterruptedCall call;
  const bool failed = registers[REG_RAX] == -EINTR;
  const auto* code = reinterpret_cast<const uint8_t*>(registers[REG_RIP]) - (failed ? kSystemCallBytes : 0);
  if (code[0] != 0x0f || code[1] != 0x05) return call;
  call.fate = failed ? InterruptedCall::kFailed : InterruptedCall::kRestarts;
  if (!failed) {
    call.number = registers[REG_RAX];
  } else if (code[-5] == 0xb8) {  // mov $number, %eax
    int32_t number;
    __builtin_memcpy(&number, code - 4, sizeof number);
    call.number = number;
  }
  constexpr int kArguments[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
  for (int i = 0; i < 6; ++i) call.arguments[i] = static_cast<uint64_t>(registers[kArguments[i]]);
  return call;
}

inline void FailInterruptedCall(ucontext_t* context, int error) {
  context->uc_mcontext.gregs[REG_RAX] = -error;
  context->uc_mcontext.gregs[REG_RIP] += kSystemCallBytes;
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_ARCH_X86_64_INTERRUPTED_CALL_INLINE_H_
