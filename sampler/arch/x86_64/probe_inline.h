// x86-64: where the arguments of a probe are. Included at the end of sampler/arch/probe.h.
#ifndef HOLDFAST_SAMPLER_ARCH_X86_64_PROBE_INLINE_H_
#define HOLDFAST_SAMPLER_ARCH_X86_64_PROBE_INLINE_H_

#include <cstdint>

#define HOLDFAST_PROBE1(provider, name, a) \
  asm volatile(HOLDFAST_PROBE_TEXT(provider, name, "8@%%rdi") : : "D"(reinterpret_cast<uintptr_t>(a)))
#define HOLDFAST_PROBE3(provider, name, a, b, c)                              \
  asm volatile(HOLDFAST_PROBE_TEXT(provider, name, "8@%%rdi 8@%%rsi 8@%%rdx") \
               :                                                              \
               : "D"(reinterpret_cast<uintptr_t>(a)), "S"(static_cast<uint64_t>(b)), "d"(static_cast<uint64_t>(c)))

#define HOLDFAST_PROBE1_ANYWHERE(provider, name, a) \
  asm volatile(HOLDFAST_PROBE_TEXT(provider, name, "8@%0") : : "r"(reinterpret_cast<uintptr_t>(a)))
#define HOLDFAST_PROBE3_ANYWHERE(provider, name, a, b, c)            \
  asm volatile(HOLDFAST_PROBE_TEXT(provider, name, "8@%0 8@%1 8@%2") \
               :                                                     \
               : "r"(reinterpret_cast<uintptr_t>(a)), "r"(static_cast<uint64_t>(b)), "r"(static_cast<uint64_t>(c)))

#endif  // HOLDFAST_SAMPLER_ARCH_X86_64_PROBE_INLINE_H_
