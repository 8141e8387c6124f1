#include "report/names/symbolize/instructions.h"

#include <cstring>

namespace holdfast {
namespace {

// Consumes bytes from the front. Past the end it returns zeros and ok() is false.
class Bytes {
 public:
  explicit Bytes(std::string_view code) : code_(code) {}

  uint8_t Next() { return at_ < code_.size() ? static_cast<uint8_t>(code_[at_++]) : (ok_ = false, uint8_t{0}); }
  uint8_t Peek() const { return at_ < code_.size() ? static_cast<uint8_t>(code_[at_]) : uint8_t{0}; }
  // Reads a signed number of 1 or 4 bytes.
  int64_t Signed(size_t size) {
    if (size == 1) return static_cast<int8_t>(Next());
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value |= uint32_t{Next()} << (8 * i);
    return static_cast<int32_t>(value);
  }
  void Skip(size_t count) {
    ok_ = ok_ && count <= code_.size() - at_;
    at_ = ok_ ? at_ + count : code_.size();
  }
  bool ok() const { return ok_; }
  size_t at() const { return at_; }

 private:
  std::string_view code_;
  size_t at_ = 0;
  bool ok_ = true;
};

bool IsPrefix(uint8_t byte) {
  return byte == 0x66 || byte == 0x67 || byte == 0xf0 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e || byte == 0x36 ||
         byte == 0x3e || byte == 0x26 || byte == 0x64 || byte == 0x65;
}

// The bytes after an opcode: possibly a ModRM byte, and the size of the immediate value.
struct Operands {
  bool modrm = false;
  size_t immediate = 0;
};

Operands OfOneByte(uint8_t opcode, bool wide, bool narrow, bool short_addresses, uint8_t modrm) {
  const size_t word = narrow ? 2 : 4;  // never 8, except for moves to registers
  if (opcode < 0x40) {
    const uint8_t low = opcode & 7;
    return {low < 4, low == 4 ? size_t{1} : low == 5 ? word : 0};
  }
  if (opcode >= 0x70 && opcode <= 0x7f) return {false, 1};
  if (opcode >= 0x84 && opcode <= 0x8f) return {true, 0};
  if (opcode >= 0xa0 && opcode <= 0xa3) return {false, short_addresses ? size_t{4} : size_t{8}};
  if (opcode >= 0xb0 && opcode <= 0xb7) return {false, 1};
  if (opcode >= 0xb8 && opcode <= 0xbf) return {false, wide ? 8 : word};
  if (opcode >= 0xd8 && opcode <= 0xdf) return {true, 0};
  if (opcode >= 0xe0 && opcode <= 0xe7) return {false, 1};
  const bool has_value = (modrm >> 3 & 7) < 2;  // test, in the groups f6 and f7
  switch (opcode) {
    case 0x63:
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
    case 0xfe:
    case 0xff:
      return {true, 0};
    case 0x69:
    case 0x81:
    case 0xc7:
      return {true, word};
    case 0x6b:
    case 0x80:
    case 0x83:
    case 0xc0:
    case 0xc1:
    case 0xc6:
      return {true, 1};
    case 0xf6:
      return {true, has_value ? size_t{1} : 0};
    case 0xf7:
      return {true, has_value ? word : 0};
    case 0x68:
    case 0xa9:
      return {false, word};
    case 0x6a:
    case 0xa8:
    case 0xcd:
    case 0xeb:
      return {false, 1};
    case 0xe8:
    case 0xe9:
      return {false, 4};
    case 0xc2:
    case 0xca:
      return {false, 2};
    case 0xc8:
      return {false, 3};
    default:
      return {};
  }
}

// Opcodes after 0f, and in the first map of VEX and EVEX.
Operands OfTwoBytes(uint8_t opcode) {
  if (opcode >= 0x80 && opcode <= 0x8f) return {false, 4};
  if ((opcode >= 0x30 && opcode <= 0x37) || (opcode >= 0xc8 && opcode <= 0xcf)) return {};
  switch (opcode) {
    case 0x05:
    case 0x06:
    case 0x07:
    case 0x08:
    case 0x09:
    case 0x0b:
    case 0x0e:
    case 0x77:
    case 0xa0:
    case 0xa1:
    case 0xa2:
    case 0xa8:
    case 0xa9:
    case 0xaa:
      return {};
    case 0x0f:
    case 0x70:
    case 0x71:
    case 0x72:
    case 0x73:
    case 0xa4:
    case 0xac:
    case 0xba:
    case 0xc2:
    case 0xc4:
    case 0xc5:
    case 0xc6:
      return {true, 1};
    default:
      return {true, 0};
  }
}

Operands OfMap(unsigned map, uint8_t opcode) {
  if (map == 1) return OfTwoBytes(opcode);
  return {true, map == 3 ? size_t{1} : 0};
}

}  // namespace

MachineInstruction DecodeInstruction(std::string_view code, uint64_t address) {
  Bytes bytes(code.substr(0, 15));
  bool narrow = false, short_addresses = false, wide = false, high_index = false;
  uint8_t opcode = bytes.Next();
  while (IsPrefix(opcode) && bytes.ok()) {
    narrow = narrow || opcode == 0x66;
    short_addresses = short_addresses || opcode == 0x67;
    opcode = bytes.Next();
  }
  if ((opcode & 0xf0) == 0x40) {
    wide = (opcode & 8) != 0;
    high_index = (opcode & 2) != 0;  // r12 is a valid index, unlike rsp
    opcode = bytes.Next();
  }
  unsigned map = 0;
  Operands operands;
  if (opcode == 0x0f) {
    map = 1;
    opcode = bytes.Next();
    if (opcode == 0x38 || opcode == 0x3a) {
      map = opcode == 0x38 ? 2 : 3;
      opcode = bytes.Next();
    }
    operands = OfMap(map, opcode);
  } else if (opcode == 0xc5 || opcode == 0xc4 || opcode == 0x62) {  // 2-byte VEX, 3-byte VEX, EVEX
    const uint8_t first = bytes.Next();
    map = opcode == 0xc5 ? 1 : first & (opcode == 0xc4 ? 0x1fu : 7u);
    bytes.Skip(opcode == 0xc5 ? 0 : opcode == 0xc4 ? 1 : 2);
    opcode = bytes.Next();
    operands = OfMap(map, opcode);
  } else {
    operands = OfOneByte(opcode, wide, narrow, short_addresses, bytes.Peek());
  }
  uint8_t modrm = 0;
  bool from_here = false;   // the operand is relative to the next instruction
  bool by_pointer = false;  // the operand is in memory, without an index
  int64_t distance = 0;
  if (operands.modrm) {
    modrm = bytes.Next();
    const uint8_t mod = modrm >> 6, rm = modrm & 7;
    const bool has_index = mod != 3 && rm == 4;
    const uint8_t index = has_index ? bytes.Next() : uint8_t{0x20};
    const uint8_t base = has_index ? index & 7 : rm;
    by_pointer = mod != 3 && (index & 0x38) == 0x20 && !(has_index && high_index);
    from_here = mod == 0 && rm == 5;
    if (mod == 2 || (mod == 0 && base == 5)) {
      distance = bytes.Signed(4);
    } else if (mod == 1) {
      bytes.Skip(1);
    }
  }
  const bool is_jump = map == 0 && (opcode == 0xe8 || opcode == 0xe9 || opcode == 0xeb || (opcode & 0xf0) == 0x70);
  const bool is_branch = map == 1 && (opcode & 0xf0) == 0x80 && !operands.modrm;
  if (is_jump || is_branch) {
    distance = bytes.Signed(operands.immediate);
  } else {
    bytes.Skip(operands.immediate);
  }
  if (!bytes.ok()) return {};
  MachineInstruction made{.length = static_cast<uint8_t>(bytes.at())};
  const uint64_t next = address + made.length;
  if (is_jump || is_branch) {
    made.flow = is_branch || (opcode & 0xf0) == 0x70 ? MachineInstruction::kBranch
                : opcode == 0xe8                     ? MachineInstruction::kCall
                                                     : MachineInstruction::kJump;
    made.target = next + static_cast<uint64_t>(distance);
  } else if (map == 0 && opcode == 0xff && operands.modrm) {
    const uint8_t what = modrm >> 3 & 7;
    if (what == 2) made.flow = from_here ? MachineInstruction::kCallSlot : MachineInstruction::kCallAnywhere;
    if (what == 4) made.flow = from_here ? MachineInstruction::kJumpSlot : MachineInstruction::kJumpAnywhere;
    made.by_pointer = by_pointer;
    if (from_here && made.flow != MachineInstruction::kNext) made.target = next + static_cast<uint64_t>(distance);
  }
  return made;
}

MachineInstruction CallBefore(std::string_view code, uint64_t address) {
  // 5: direct; 6 and 7: through a slot, or a register with displacement; others: through registers.
  for (const size_t length : {5, 6, 2, 3, 4, 7, 8}) {
    if (length > code.size()) continue;
    const MachineInstruction made = DecodeInstruction(code.substr(code.size() - length), address - length);
    const bool is_call = made.flow == MachineInstruction::kCall || made.flow == MachineInstruction::kCallSlot ||
                         made.flow == MachineInstruction::kCallAnywhere;
    if (is_call && made.length == length) return made;
  }
  return {};
}

}  // namespace holdfast
