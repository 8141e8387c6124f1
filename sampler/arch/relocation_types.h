// The relocations of this processor's objects through which an object reaches functions of other objects. The dynamic
// linker fills in the word of each.
#ifndef HOLDFAST_SAMPLER_ARCH_RELOCATION_TYPES_H_
#define HOLDFAST_SAMPLER_ARCH_RELOCATION_TYPES_H_

#include <elf.h>

#include <cstdint>

namespace holdfast {

// kCallSlot: for a call through the PLT. kGlobalSlot: another entry of the global offset table. kPointer: a pointer in the
// object's own data.
#if defined(__x86_64__)
inline constexpr uint32_t kCallSlot = R_X86_64_JUMP_SLOT, kGlobalSlot = R_X86_64_GLOB_DAT, kPointer = R_X86_64_64;
#else
inline constexpr uint32_t kCallSlot = R_AARCH64_JUMP_SLOT, kGlobalSlot = R_AARCH64_GLOB_DAT, kPointer = R_AARCH64_ABS64;
#endif

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_ARCH_RELOCATION_TYPES_H_
