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

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_ARCH_PROCESSOR_FACTS_H_
