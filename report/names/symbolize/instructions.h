// Decodes x86-64 instructions for calls and jumps only: the instruction's length and its target. For
// arm64, see arm64_instructions.h.
//
//     e8 10 00 00 00           call 0x15              kCall
//     ff 15 92 2f 00 00        call *0x2f98(%rip)     kCallSlot: the target's address is in memory at `target`
//     e9 d1 fe ff ff           jmp …                  kJump
//     0f 84 9b 00 00 00        je …                   kBranch
//     ff 25 8a 2f 00 00        jmp *0x2f90(%rip)      kJumpSlot
//     ff e0                    jmp *%rax              kJumpAnywhere: a tail call, or a switch table
#ifndef HOLDFAST_REPORT_NAMES_SYMBOLIZE_INSTRUCTIONS_H_
#define HOLDFAST_REPORT_NAMES_SYMBOLIZE_INSTRUCTIONS_H_

#include <cstdint>
#include <string_view>

namespace holdfast {

struct MachineInstruction {
  enum Flow : uint8_t { kNext, kCall, kCallSlot, kCallAnywhere, kJump, kBranch, kJumpSlot, kJumpAnywhere };
  uint8_t length = 0;  // 0: no instruction, or a truncated one
  Flow flow = kNext;
  // kJumpAnywhere and kCallAnywhere: through a pointer in memory, as for a virtual function; never a switch table.
  bool by_pointer = false;
  // Address of the code, or of the memory slot that holds its address; 0: only registers have it.
  uint64_t target = 0;
};

// Decodes the instruction at the start of `code`, which is at `address`. Accepts any bytes: an invalid instruction gets
// some length. Compilers put no data between instructions.
MachineInstruction DecodeInstruction(std::string_view code, uint64_t address);

// Decodes the call that ends at the end of `code`, at `address`: the call before a return address. The bytes before the
// call are unknown, so two readings may fit; a direct call is preferred. Length 0: none fits.
constexpr size_t kLongestCall = 8;
MachineInstruction CallBefore(std::string_view code, uint64_t address);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_SYMBOLIZE_INSTRUCTIONS_H_
