// The DWARF constants of call frame information, from elfutils: call frame instructions and expressions (DWARF 5,
// sections 7.24 and 7.7.1), GNU's extensions, and the pointer encodings of .eh_frame (Linux Standard Base, 10.5).
#ifndef HOLDFAST_SAMPLER_UNWIND_DWARF_NUMBERS_H_
#define HOLDFAST_SAMPLER_UNWIND_DWARF_NUMBERS_H_

#include <dwarf.h>

#include <cstdint>

namespace holdfast {

// The first three call frame instructions have their operand, a register or a distance, in their low six bits.
inline constexpr uint8_t kCallFrameHighBits = 0xc0;

// DW_CFA_AARCH64_negate_ra_state_with_pc ("DWARF for the Arm 64-bit Architecture", 2024).
inline constexpr uint8_t kNegateReturnStateWithPc = 0x2c;

// Pointers: the low half gives the format, the high half the base.
inline constexpr uint8_t kPointerFormat = 0x0f, kPointerBase = 0xf0;

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_UNWIND_DWARF_NUMBERS_H_
