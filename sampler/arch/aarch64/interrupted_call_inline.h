// AArch64 Linux, which has no CPU samples (kHasCpuSamples). Included at the end of sampler/arch/interrupted_call.h, which
// describes each of these.
#ifndef HOLDFAST_SAMPLER_ARCH_AARCH64_INTERRUPTED_CALL_INLINE_H_
#define HOLDFAST_SAMPLER_ARCH_AARCH64_INTERRUPTED_CALL_INLINE_H_

namespace holdfast {

HOLDFAST_ARCH bool SystemCallKeepsAllRegisters() { return false; }
HOLDFAST_ARCH bool MayFollowCall(const ucontext_t&, bool) { return false; }
inline InterruptedCall CallIn(const ucontext_t&) { return {}; }
inline void FailInterruptedCall(ucontext_t*, int) {}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_ARCH_AARCH64_INTERRUPTED_CALL_INLINE_H_
