// arm64: where the arguments of a probe are. Included at the end of sampler/arch/probe.h.
#ifndef HOLDFAST_SAMPLER_ARCH_AARCH64_PROBE_INLINE_H_
#define HOLDFAST_SAMPLER_ARCH_AARCH64_PROBE_INLINE_H_

#include <cstdint>

#define HOLDFAST_PROBE1(provider, name, a)                                          \
  do {                                                                              \
    register uintptr_t holdfast_x0 asm("x0") = reinterpret_cast<uintptr_t>(a);      \
    asm volatile(HOLDFAST_PROBE_TEXT(provider, name, "8@x0") : : "r"(holdfast_x0)); \
  } while (false)
#define HOLDFAST_PROBE3(provider, name, a, b, c)                                                 \
  do {                                                                                           \
    const uint64_t holdfast_b = static_cast<uint64_t>(b), holdfast_c = static_cast<uint64_t>(c); \
    register uintptr_t holdfast_x0 asm("x0") = reinterpret_cast<uintptr_t>(a);                   \
    register uint64_t holdfast_x1 asm("x1") = holdfast_b;                                        \
    register uint64_t holdfast_x2 asm("x2") = holdfast_c;                                        \
    asm volatile(HOLDFAST_PROBE_TEXT(provider, name, "8@x0 8@x1 8@x2")                           \
                 :                                                                               \
                 : "r"(holdfast_x0), "r"(holdfast_x1), "r"(holdfast_x2));                        \
  } while (false)

#define HOLDFAST_PROBE1_ANYWHERE(provider, name, a) \
  asm volatile(HOLDFAST_PROBE_TEXT(provider, name, "8@%0") : : "r"(reinterpret_cast<uintptr_t>(a)))
#define HOLDFAST_PROBE3_ANYWHERE(provider, name, a, b, c)            \
  asm volatile(HOLDFAST_PROBE_TEXT(provider, name, "8@%0 8@%1 8@%2") \
               :                                                     \
               : "r"(reinterpret_cast<uintptr_t>(a)), "r"(static_cast<uint64_t>(b)), "r"(static_cast<uint64_t>(c)))

#endif  // HOLDFAST_SAMPLER_ARCH_AARCH64_PROBE_INLINE_H_
