// For the signals of CPU timers: whether they are possible, and a call on another stack. The code is in the folder
// of each processor.
#ifndef HOLDFAST_SAMPLER_ARCH_CALL_ON_STACK_H_
#define HOLDFAST_SAMPLER_ARCH_CALL_ON_STACK_H_

namespace holdfast {

// Whether signals of CPU timers were tested here.
#if defined(__x86_64__)
inline constexpr bool kHasCpuSamples = true;
#else
inline constexpr bool kHasCpuSamples = false;
#endif

}  // namespace holdfast

// Calls function(argument) on a stack that ends at `stack_top`, which is aligned to 16 bytes. Any thread, signal
// handlers.
extern "C" __attribute__((visibility("hidden"))) void HoldfastCallOnStack(void (*function)(void*), void* argument,
                                                                          void* stack_top);

#endif  // HOLDFAST_SAMPLER_ARCH_CALL_ON_STACK_H_
