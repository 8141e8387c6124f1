// Decodes x86-64 instructions: lengths, branches, and the few effects that decide whether code may be moved.
//
//     const Instruction first = DecodeInstruction(code, bytes);
//     if (first.length == 0) …            // not known: the caller leaves this code alone
//
// Knows what compilers generate, including AVX and AVX-512. Refuses the rest (length 0): far branches,
// input and output, xbegin. Reads at most `available` bytes. Any thread; no state.
#ifndef HOLDFAST_SAMPLER_ENTRIES_INSTRUCTION_H_
#define HOLDFAST_SAMPLER_ENTRIES_INSTRUCTION_H_

#include <cstddef>
#include <cstdint>

namespace holdfast {

struct Instruction {
  enum class Flow : uint8_t {
    kNext,
    kConditional,  // a direct branch that may be taken
    kShort,        // loop or jrcxz: conditional, with no form that reaches farther than 127 bytes
    kJump,
    kIndirectJump,
    kCall,
    kIndirectCall,
    kReturn,
    kStop,  // int3, hlt, ud2
  };
  enum class Map : uint8_t { kOneByte, kTwoBytes, kThreeBytes, kVector };

  uint8_t length = 0;  // 0: unknown
  Flow flow = Flow::kNext;
  Map map = Map::kOneByte;
  uint8_t opcode = 0;  // its last byte
  uint8_t rex = 0;     // 0: none
  bool has_modrm = false, is_16_bit = false, has_short_address = false;
  uint8_t modrm = 0, sib = 0;
  int8_t target_at = -1;    // offset of a direct branch's displacement, or −1
  int8_t target_bytes = 0;  // 1 or 4
  int8_t relative_at = -1;  // offset of a displacement from the instruction's end (RIP-relative data), or −1

  // The register fields of the ModRM byte, 0 to 15: rax rcx rdx rbx rsp rbp rsi rdi r8 ….
  int reg() const { return (modrm >> 3 & 7) | (rex & 4) << 1; }
  int rm() const { return (modrm & 7) | (rex & 1) << 3; }
  int extension() const { return modrm >> 3 & 7; }
  bool names_register() const { return has_modrm && modrm >= 0xc0; }
};

inline constexpr int kRax = 0, kRcx = 1, kRdx = 2, kRbx = 3, kRsp = 4, kRbp = 5, kRsi = 6, kRdi = 7, kR8 = 8, kR12 = 12;
inline constexpr uint32_t kCalleeSaved = 1u << kRbx | 1u << kRbp | 0xf000u;

Instruction DecodeInstruction(const uint8_t* code, size_t available);
// The same for loops over much code: fills in `one` where it is. False: unknown, and only its length, 0, is valid.
bool ReadInstruction(const uint8_t* code, size_t available, Instruction* one);

// Returns where the branch at `address` leads. Only if target_at ≥ 0.
uintptr_t TargetOf(const Instruction& instruction, const uint8_t* code, uintptr_t address);

// Whether the instruction has no effect: padding between functions, or a function's own no-operation.
bool IsNop(const Instruction& instruction);

// Returns the general register that a plain move, lea, or `xor r,r` overwrites, or −1.
int OverwrittenRegister(const Instruction& instruction);
// Whether the instruction's operands mention the general register; true also when that is not known.
bool MayMention(const Instruction& instruction, int reg);

enum class Flags : uint8_t { kUntouched, kRead, kSet };
// kSet also for calls and returns, across which the ABI keeps no flags. kRead also when it is not known.
Flags FlagsUse(const Instruction& instruction);

// A function's first instruction, if it can run before a hook looks at the arguments, and run again afterwards.
struct FirstInstruction {
  bool may_stay = false;
  int32_t stack_bytes = 0;  // taken from the stack: to be given back before it runs again
  int pushed = -1;          // the register that a push stored
  int added_to = -1;        // a register to which it adds a constant: to be subtracted before it runs again
  int32_t added = 0;
  int swapped = -1, swapped_with = -1;  // registers that it exchanges: to be exchanged again
  bool undone_at_once = false;          // it changes a register that the hook reads
  bool sets_flags = false;
};
// `needed`: bits of the registers that the hook reads. Another argument may be overwritten: the function itself does not
// need it any more.
FirstInstruction DescribeFirst(const Instruction& instruction, const uint8_t* code, uint32_t needed);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_ENTRIES_INSTRUCTION_H_
