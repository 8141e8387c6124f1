// Decodes arm64 instructions for calls and jumps only; instructions.h has the fields. Each instruction has 4 bytes.
//
//     94000060   bl   0x1180           kCall
//     d63f0100   blr  x8               kCallAnywhere
//     14000010   b    0x1190           kJump
//     54000060   b.eq …                kBranch; also cbz, cbnz, tbz, tbnz
//     d61f0220   br   x17              kJumpAnywhere: a tail call, a switch table, or the end of a stub of the PLT
#ifndef HOLDFAST_REPORT_NAMES_SYMBOLIZE_ARM64_INSTRUCTIONS_H_
#define HOLDFAST_REPORT_NAMES_SYMBOLIZE_ARM64_INSTRUCTIONS_H_

#include <cstdint>
#include <cstring>
#include <string_view>

#include "report/names/symbolize/instructions.h"

namespace holdfast {

inline constexpr size_t kArm64Bytes = 4;

inline uint32_t Arm64Word(std::string_view code, size_t at) {
  uint32_t word;
  memcpy(&word, code.data() + at, sizeof word);
  return word;
}

// Decodes the instruction at the start of `code`, which is at `address`. Length 0: `code` is too short.
inline MachineInstruction DecodeArm64(std::string_view code, uint64_t address) {
  MachineInstruction made;
  if (code.size() < kArm64Bytes) return made;
  const uint32_t word = Arm64Word(code, 0);
  made.length = kArm64Bytes;
  // The signed number in `bits` bits from `low` on counts instructions.
  const auto leads_to = [&](int low, int bits) {
    const auto distance = static_cast<int64_t>(uint64_t{word} << (64 - low - bits)) >> (64 - bits);
    made.target = address + static_cast<uint64_t>(distance) * kArm64Bytes;
  };
  if ((word & 0xfc000000) == 0x94000000) {
    made.flow = MachineInstruction::kCall;
    leads_to(0, 26);
  } else if ((word & 0xfc000000) == 0x14000000) {
    made.flow = MachineInstruction::kJump;
    leads_to(0, 26);
  } else if ((word & 0xff000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000) {  // b.cond; cbz, cbnz
    made.flow = MachineInstruction::kBranch;
    leads_to(5, 19);
  } else if ((word & 0x7e000000) == 0x36000000) {  // tbz, tbnz
    made.flow = MachineInstruction::kBranch;
    leads_to(5, 14);
  } else if ((word & 0xfffffc1f) == 0xd63f0000 || (word & 0xfefff800) == 0xd63f0800) {  // the latter with a signature
    made.flow = MachineInstruction::kCallAnywhere;
  } else if ((word & 0xfffffc1f) == 0xd61f0000 || (word & 0xfefff800) == 0xd61f0800) {
    made.flow = MachineInstruction::kJumpAnywhere;
  }
  return made;
}

// Where the address in the register of a `br` or `blr` comes from.
//
//     adrp x16, 0x11000; ldr x17, [x16, #24]; add x16, x16, #24; br x17       slot 0x11018
//     ldr x1, [x0]; ldr x1, [x1, #16]; br x1                                  by_pointer: a virtual function
//     ldr x1, [x0]; ldr x1, [x1, #16]; mov x16, x1; br x16                    the same, with landing pads
//     adr x1, …; add x0, x1, w0, sxtw #2; br x0                               neither: a switch table
struct Arm64Source {
  uint64_t slot = 0;  // address of the word, such as an entry of the GOT; 0: unknown
  bool by_pointer = false;
};

// `code` ends with the branch, and `end` is the address after it.
inline Arm64Source SourceOfArm64Branch(std::string_view code, uint64_t end) {
  constexpr size_t kReach = 8 * kArm64Bytes;
  Arm64Source source;
  if (code.size() < kArm64Bytes) return source;
  uint32_t wanted = Arm64Word(code, code.size() - kArm64Bytes) >> 5 & 31;  // the register
  uint64_t offset = 0;
  for (size_t back = 2 * kArm64Bytes; back <= code.size() && back <= kReach; back += kArm64Bytes) {
    const uint32_t word = Arm64Word(code, code.size() - back);
    if (DecodeArm64(code.substr(code.size() - back), 0).flow != MachineInstruction::kNext) return source;
    if ((word & 31) != wanted) continue;
    if (!source.by_pointer && (word & 0xffe0ffe0) == 0xaa0003e0) {  // mov x, x
      wanted = word >> 16 & 31;
      continue;
    }
    if (!source.by_pointer && (word & 0xffc00000) == 0xf9400000) {  // ldr x, [x, #offset]
      source.by_pointer = true;
      wanted = word >> 5 & 31;
      offset = uint64_t{word >> 10 & 0xfff} * 8;
      continue;
    }
    if (source.by_pointer && (word & 0x9f000000) == 0x90000000) {  // adrp
      const uint64_t pages = uint64_t{word >> 5 & 0x7ffff} << 2 | (word >> 29 & 3);
      const auto distance = static_cast<uint64_t>(static_cast<int64_t>(pages << 43) >> 43) << 12;
      source.slot = ((end - back) & ~uint64_t{0xfff}) + distance + offset;
    }
    return source;
  }
  return source;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_SYMBOLIZE_ARM64_INSTRUCTIONS_H_
