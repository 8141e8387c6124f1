// x86-64 instructions as far as calls and jumps are concerned: how long each is, and where it leads. All that knows this
// processor's code outside of the target.
//
//     e8 10 00 00 00           call 0x15              kCall
//     ff 15 92 2f 00 00        call *0x2f98(%rip)     kCallSlot: the target stands in memory at `target`
//     e9 d1 fe ff ff           jmp …                  kJump
//     0f 84 9b 00 00 00        je …                   kBranch
//     ff 25 8a 2f 00 00        jmp *0x2f90(%rip)      kJumpSlot
//     ff e0                    jmp *%rax              kJumpAnywhere: a tail call, or a table of a switch
#ifndef HOLDFAST_REPORT_SYMBOLIZE_INSTRUCTIONS_H_
#define HOLDFAST_REPORT_SYMBOLIZE_INSTRUCTIONS_H_

#include <cstdint>
#include <string_view>

namespace holdfast {

struct Instruction {
  enum Flow : uint8_t { kNext, kCall, kCallSlot, kCallAnywhere, kJump, kBranch, kJumpSlot, kJumpAnywhere };
  uint8_t length = 0;  // 0: no instruction, or it is cut off
  Flow flow = kNext;
  bool by_pointer = false;  // anywhere, as a pointer in memory says: a virtual function; never a table of a switch
  uint64_t target = 0;      // of code; of the slot in memory that holds it; 0 where only registers say
};

// The instruction at the beginning of `code`, which lies at `address`. Any bytes may be given: what is none of the
// processor's has some length, and compilers put no data between instructions.
Instruction DecodeInstruction(std::string_view code, uint64_t address);

// The call that ends where `code` ends, at `address`: what a return address tells of. Nothing is known of what stands
// before a call, so that two readings may fit; a direct call is taken first. Length 0: none fits.
constexpr size_t kLongestCall = 8;
Instruction CallBefore(std::string_view code, uint64_t address);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SYMBOLIZE_INSTRUCTIONS_H_
