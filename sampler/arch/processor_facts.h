// What readers of tables and stacks need to know of the processor. The rest is in sampler/arch/processor.h, which is for code
// in the profiled program.
#ifndef HOLDFAST_SAMPLER_ARCH_PROCESSOR_FACTS_H_
#define HOLDFAST_SAMPLER_ARCH_PROCESSOR_FACTS_H_

#include <cstdint>

namespace holdfast {

#if defined(__x86_64__)
inline constexpr bool kCallPushesReturn = true;
inline constexpr uintptr_t kLargestPageBytes = 4096;
#else
inline constexpr bool kCallPushesReturn = false;
inline constexpr uintptr_t kLargestPageBytes = 65536;  // kernels are built with pages of 4, 16 or 64 KiB
#endif

// Returns a return address without the signature that a function of arm64 may have saved it with (pointer authentication).
// xpaclri knows how many bits the kernel leaves for signatures, and is a nop on processors that sign nothing.
__attribute__((always_inline)) inline uint64_t WithoutSignature(uint64_t return_address) {
#if defined(__aarch64__)
  register uint64_t x30 asm("x30") = return_address;
  asm("hint #7" : "+r"(x30));  // xpaclri, which older assemblers do not know
  return x30;
#else
  return return_address;
#endif
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_ARCH_PROCESSOR_FACTS_H_
