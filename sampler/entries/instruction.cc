#include "sampler/entries/instruction.h"

#include <string.h>

namespace holdfast {
namespace {

using Flow = Instruction::Flow;
using Map = Instruction::Map;

// The bytes after an opcode, one character each:
//   .  nothing          m  ModRM             b  1 byte            z  2 or 4 bytes       w  2 bytes
//   B  ModRM, 1 byte    Z  ModRM, 2 or 4     v  4 or 8 bytes      3  group 3 (test has an immediate)
//   5  group 5 (calls, jumps)                7  mov of an immediate, or xbegin          8  pop, or XOP
//   c  call             j  near jump         J  short jump        k  short conditional  K  near conditional
//   l  loop, jrcxz      r  return            R  return, 2 bytes   s  stop               x  unknown
constexpr char kOneByte[257] =
    "mmmmbzxxmmmmbzxx"   // 00: add, or
    "mmmmbzxxmmmmbzxx"   // 10: adc, sbb
    "mmmmbzxxmmmmbzxx"   // 20: and, sub
    "mmmmbzxxmmmmbzxx"   // 30: xor, cmp
    "xxxxxxxxxxxxxxxx"   // 40: REX, read as prefixes
    "................"   // 50: push, pop
    "xxxmxxxxzZbBxxxx"   // 60: movsxd, push, imul
    "kkkkkkkkkkkkkkkk"   // 70
    "BZxBmmmmmmmmmmm8"   // 80: test, xchg, mov, lea
    "..........x....."   // 90: nop, xchg, cdq, fwait, pushf
    "xxxx....bz......"   // a0: string operations
    "bbbbbbbbvvvvvvvv"   // b0: mov
    "BBRrxxB7x.xxsxxx"   // c0: shifts, ret, leave
    "mmmmxxx.mmmmmmmm"   // d0: shifts, xlat, x87
    "llllxxxxcjxJxxxx"   // e0
    "xxxxs.33..xx..m5";  // f0
constexpr char kTwoBytes[257] =
    "mmmmx.xxxxxsxmxx"   // 00: syscall, ud2, prefetchw
    "mmmmmmmmmmmmmmmm"   // 10: sse, prefetch, nop
    "xxxxxxxxmmmmmmmm"   // 20
    "x.xxxxxxxxxxxxxx"   // 30: rdtsc
    "mmmmmmmmmmmmmmmm"   // 40: cmov
    "mmmmmmmmmmmmmmmm"   // 50
    "mmmmmmmmmmmmmmmm"   // 60
    "BBBBmmm.xxxxmmmm"   // 70: emms, vzeroupper
    "KKKKKKKKKKKKKKKK"   // 80
    "mmmmmmmmmmmmmmmm"   // 90: setcc
    "...mBmxx..xmBmmm"   // a0: cpuid, bt, shld
    "mmmmmmmmmxBmmmmm"   // b0: cmpxchg, movzx, popcnt, bsf
    "mmBmBBBm........"   // c0: xadd, bswap
    "mmmmmmmmmmmmmmmm"   // d0
    "mmmmmmmmmmmmmmmm"   // e0
    "mmmmmmmmmmmmmmmx";  // f0

// The same tables as bits, for instructions that are no branch: the ModRM byte, and the bytes after it.
constexpr uint8_t kHasModrm = 1, kOneMore = 2, kImmediate = 4, kSpecial = 8;
constexpr uint8_t TraitsOf(char kind) {
  switch (kind) {
    case '.':
      return 0;
    case 'm':
      return kHasModrm;
    case 'b':
      return kOneMore;
    case 'z':
      return kImmediate;
    case 'B':
      return kHasModrm | kOneMore;
    case 'Z':
      return kHasModrm | kImmediate;
    default:
      return kSpecial;
  }
}
constexpr uint8_t kPrefix = 16;
struct TraitsTable {
  uint8_t traits[256] = {};
  constexpr explicit TraitsTable(const char* kinds) {
    for (int i = 0; i < 256; ++i) traits[i] = TraitsOf(kinds[i]);
  }
};
constexpr TraitsTable OneByteTraits() {
  TraitsTable table(kOneByte);
  constexpr uint8_t kPrefixes[] = {0x66, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0x67, 0xf0, 0xf2, 0xf3};
  for (const uint8_t prefix : kPrefixes) table.traits[prefix] = kPrefix;
  return table;
}
constexpr TraitsTable kOneByteTraits = OneByteTraits(), kTwoByteTraits(kTwoBytes);

constexpr size_t kLongest = 15;
// Bytes that are read at most: 14 prefixes, REX, three bytes of opcode, ModRM, SIB.
constexpr size_t kReadBytes = 24;

// Reads one instruction, and what follows it: `at` is its next byte.
struct Reader {
  const uint8_t* const code;
  const uint8_t* at;
  Instruction* const one;

  int8_t Offset() const { return static_cast<int8_t>(at - code); }

  // The ModRM byte with all that it calls for, up to an immediate.
  void ReadModrm() {
    one->has_modrm = true;
    const uint8_t modrm = one->modrm = *at++;
    const int mod = modrm >> 6, rm = modrm & 7;
    if (mod == 3) return;
    if (rm == 4) one->sib = *at++;
    if (mod == 0 && rm == 5) one->relative_at = Offset();
    const bool no_base = mod == 0 && (rm == 5 || (rm == 4 && (one->sib & 7) == 5));
    at += mod == 1 ? 1 : mod == 2 || no_base ? 4 : 0;
  }

  void ReadTarget(int bytes, Flow flow) {
    one->flow = flow;
    one->target_at = Offset();
    one->target_bytes = static_cast<int8_t>(bytes);
    at += bytes;
  }

  // VEX and EVEX: the prefix byte has been read.
  bool ReadVector(uint8_t prefix) {
    int map = 1;
    if (prefix == 0xc5) {
      ++at;
    } else {
      map = *at++ & (prefix == 0x62 ? 7 : 31);
      at += prefix == 0x62 ? 2 : 1;
    }
    one->map = Map::kVector;
    one->opcode = *at++;
    if (map == 1 && one->opcode == 0x77) return true;  // vzeroupper
    if (map == 0 || map > 6 || map == 4) return false;
    ReadModrm();
    const char kind = map == 1 ? kTwoBytes[one->opcode] : 'm';
    if (map == 3 || kind == 'B') ++at;
    return true;
  }

  bool ReadSpecial(char kind) {
    const size_t immediate = one->is_16_bit ? 2 : 4;
    switch (kind) {
      case 'v':
        at += (one->rex & 8) != 0 ? 8 : immediate;
        return true;
      case '3':
        ReadModrm();
        if (one->extension() < 2) at += one->opcode == 0xf6 ? 1 : immediate;
        return true;
      case '5':
        ReadModrm();
        if (one->extension() == 3 || one->extension() == 5) return false;
        if (one->extension() == 2) one->flow = Flow::kIndirectCall;
        if (one->extension() == 4) one->flow = Flow::kIndirectJump;
        return true;
      case '7':
        ReadModrm();
        at += immediate;
        return one->extension() == 0;
      case '8':
        ReadModrm();
        return one->extension() == 0;
      case 'c':
      case 'j':
      case 'K':
        if (one->is_16_bit) return false;
        ReadTarget(4, kind == 'c' ? Flow::kCall : kind == 'j' ? Flow::kJump : Flow::kConditional);
        return true;
      case 'J':
      case 'k':
      case 'l':
        ReadTarget(1, kind == 'J' ? Flow::kJump : kind == 'k' ? Flow::kConditional : Flow::kShort);
        return true;
      case 'R':
        at += 2;
        one->flow = Flow::kReturn;
        return true;
      case 'r':
        one->flow = Flow::kReturn;
        return true;
      case 's':
        one->flow = Flow::kStop;
        return true;
      default:
        return false;
    }
  }

  bool ReadRest(uint8_t traits, const char* kinds) {
    if ((traits & kSpecial) != 0) return ReadSpecial(kinds[one->opcode]);
    if ((traits & kHasModrm) != 0) ReadModrm();
    if ((traits & (kOneMore | kImmediate)) != 0) at += (traits & kOneMore) != 0 ? 1 : one->is_16_bit ? 2 : 4;
    return true;
  }

  bool Read() {
    while (kOneByteTraits.traits[*at] == kPrefix && at < code + kLongest - 1) {
      one->is_16_bit |= *at == 0x66;
      one->has_short_address |= *at == 0x67;
      ++at;
    }
    if ((*at & 0xf0) == 0x40) one->rex = *at++;
    one->opcode = *at++;
    if (one->opcode == 0xc4 || one->opcode == 0xc5 || one->opcode == 0x62) return ReadVector(one->opcode);
    if (one->opcode != 0x0f) {
      const uint8_t traits = kOneByteTraits.traits[one->opcode];
      return traits != kPrefix && ReadRest(traits, kOneByte);
    }
    one->opcode = *at++;
    if (one->opcode != 0x38 && one->opcode != 0x3a) {
      one->map = Map::kTwoBytes;
      return ReadRest(kTwoByteTraits.traits[one->opcode], kTwoBytes);
    }
    one->map = Map::kThreeBytes;
    const uint8_t traits = one->opcode == 0x3a ? kHasModrm | kOneMore : kHasModrm;
    one->opcode = *at++;
    return ReadRest(traits, kTwoBytes);
  }
};

// Returns its length, or 0.
size_t Decode(const uint8_t* code, size_t available, Instruction* one) {
  Reader reader{code, code, one};
  if (!reader.Read()) return 0;
  const auto length = static_cast<size_t>(reader.at - code);
  if (length > available || length > kLongest) return 0;
  if (one->has_short_address && (one->relative_at >= 0 || one->flow != Flow::kNext)) return 0;  // jecxz, for one
  return length;
}

bool IsCompare(const Instruction& one) {
  if (one.map != Map::kOneByte) return false;
  if ((one.opcode >= 0x38 && one.opcode <= 0x3d) || one.opcode == 0x84 || one.opcode == 0x85 || one.opcode == 0xa8 ||
      one.opcode == 0xa9)
    return true;
  if (one.opcode == 0x80 || one.opcode == 0x81 || one.opcode == 0x83) return one.extension() == 7;
  return (one.opcode == 0xf6 || one.opcode == 0xf7) && one.extension() < 2;
}

// Whether a move or lea into the register computes it from itself, so that it gives another result the second time.
bool ReadsItsResult(const Instruction& one, int written) {
  if (!one.has_modrm) return false;  // an immediate
  Instruction source = one;
  if (one.map == Map::kOneByte && (one.opcode == 0x89 || one.opcode == 0xc7))
    return one.reg() == written && one.opcode == 0x89;
  // The register field is the result; a look at the other operand alone.
  source.modrm = static_cast<uint8_t>((source.modrm & ~0x38) | ((written == 0 ? 1 : 0) << 3));
  source.rex = static_cast<uint8_t>(source.rex & ~4);
  return MayMention(source, written);
}

}  // namespace

bool ReadInstruction(const uint8_t* code, size_t available, Instruction* one) {
  *one = {};
  if (available >= kReadBytes) {
    one->length = static_cast<uint8_t>(Decode(code, available, one));
  } else {
    uint8_t copy[kReadBytes] = {};
    memcpy(copy, code, available);
    one->length = static_cast<uint8_t>(Decode(copy, available, one));
  }
  return one->length != 0;
}

Instruction DecodeInstruction(const uint8_t* code, size_t available) {
  Instruction one;
  return ReadInstruction(code, available, &one) ? one : Instruction{};
}

uintptr_t TargetOf(const Instruction& instruction, const uint8_t* code, uintptr_t address) {
  int64_t distance;
  if (instruction.target_bytes == 1) {
    distance = static_cast<int8_t>(code[instruction.target_at]);
  } else {
    int32_t word;
    memcpy(&word, code + instruction.target_at, sizeof word);
    distance = word;
  }
  return address + instruction.length + static_cast<uintptr_t>(distance);
}

bool IsNop(const Instruction& one) {
  if (one.map == Map::kOneByte) return one.opcode == 0x90 && (one.rex & 1) == 0;
  return one.map == Map::kTwoBytes && one.opcode == 0x1f;
}

int OverwrittenRegister(const Instruction& one) {
  if (one.is_16_bit) return -1;
  if (one.map == Map::kTwoBytes) {
    const uint8_t op = one.opcode;
    return op == 0xb6 || op == 0xb7 || op == 0xbe || op == 0xbf ? one.reg() : -1;
  }
  if (one.map != Map::kOneByte) return -1;
  switch (one.opcode) {
    case 0x8b:
    case 0x8d:
    case 0x63:
      return one.reg();
    case 0x89:
    case 0xc7:
      return one.names_register() ? one.rm() : -1;
    case 0x31:
    case 0x33:
      return one.names_register() && one.reg() == one.rm() ? one.rm() : -1;
    default:
      return (one.opcode & 0xf8) == 0xb8 ? (one.opcode & 7) | (one.rex & 1) << 3 : -1;
  }
}

bool MayMention(const Instruction& one, int reg) {
  if (one.map == Map::kVector) return true;
  if (!one.has_modrm) {
    if ((one.opcode & 0xf0) == 0x50) return ((one.opcode & 7) | (one.rex & 1) << 3) == reg;
    return !IsNop(one);
  }
  if (one.reg() == reg || (one.names_register() && one.rm() == reg)) return true;
  if (one.names_register()) return false;
  if ((one.modrm & 7) != 4) return one.rm() == reg && one.relative_at < 0;
  const int index = (one.sib >> 3 & 7) | (one.rex & 2) << 2, base = (one.sib & 7) | (one.rex & 1) << 3;
  return (index == reg && index != kRsp) || base == reg;
}

Flags FlagsUse(const Instruction& one) {
  if (one.flow == Flow::kCall || one.flow == Flow::kIndirectCall || one.flow == Flow::kReturn) return Flags::kSet;
  if (one.flow != Flow::kNext) return Flags::kRead;
  if (one.map == Map::kVector) return Flags::kUntouched;  // at most set
  const uint8_t op = one.opcode;
  if (one.map == Map::kThreeBytes) return op == 0xf6 ? Flags::kRead : Flags::kUntouched;
  if (one.map == Map::kTwoBytes) {
    return (op & 0xf0) == 0x40 || (op & 0xf0) == 0x90 ? Flags::kRead : Flags::kUntouched;
  }
  if (op < 0x40) {
    const int operation = op >> 3;
    return operation == 2 || operation == 3 ? Flags::kRead : Flags::kSet;  // adc, sbb
  }
  if (op == 0x80 || op == 0x81 || op == 0x83)
    return one.extension() == 2 || one.extension() == 3 ? Flags::kRead : Flags::kSet;
  if (op == 0xc0 || op == 0xc1 || (op >= 0xd0 && op <= 0xd3))
    return one.extension() == 2 || one.extension() == 3 ? Flags::kRead : Flags::kUntouched;  // rcl, rcr
  if (op == 0x9c || op == 0x9f || op == 0xf5) return Flags::kRead;                           // pushf, lahf, cmc
  if (op == 0xda || op == 0xdb) return Flags::kRead;                                         // fcmov
  return op == 0x84 || op == 0x85 || op == 0xa8 || op == 0xa9 || IsCompare(one) ? Flags::kSet : Flags::kUntouched;
}

namespace {

int32_t ConstantAtEnd(const Instruction& one, const uint8_t* code, bool is_byte) {
  if (is_byte) return static_cast<int8_t>(code[one.length - 1]);
  int32_t word;
  memcpy(&word, code + one.length - sizeof word, sizeof word);
  return word;
}

}  // namespace

FirstInstruction DescribeFirst(const Instruction& one, const uint8_t* code, uint32_t needed) {
  FirstInstruction first;
  if (one.length == 0 || one.flow != Flow::kNext) return first;
  if (IsNop(one) || IsCompare(one)) {
    first.may_stay = true;
    first.sets_flags = !IsNop(one);
    return first;
  }
  if (one.map == Map::kOneByte && one.opcode >= 0x50 && one.opcode <= 0x57 && !one.is_16_bit) {
    first.pushed = (one.opcode & 7) | (one.rex & 1) << 3;
    first.may_stay = first.pushed != kRsp;
    first.stack_bytes = 8;
    return first;
  }
  const auto add = [&first, needed](int reg, int32_t added) {
    first.added_to = reg;
    first.added = added;
    first.may_stay = (kCalleeSaved >> reg & 1) == 0 && added != INT32_MIN;
    first.undone_at_once = (needed >> reg & 1) != 0;
  };
  // add or sub of a constant
  if (one.map == Map::kOneByte && (one.opcode == 0x83 || one.opcode == 0x81) && one.names_register() &&
      (one.rex & 8) != 0 && (one.extension() == 0 || one.extension() == 5) && one.rm() != kRsp) {
    const int32_t constant = ConstantAtEnd(one, code, one.opcode == 0x83);
    if (constant == INT32_MIN) return first;
    add(one.rm(), one.extension() == 5 ? -constant : constant);
    first.sets_flags = true;
    return first;
  }
  // lea constant(reg), reg
  if (one.map == Map::kOneByte && one.opcode == 0x8d && (one.rex & 8) != 0 && !one.has_short_address &&
      (one.modrm >> 6 == 1 || one.modrm >> 6 == 2) && (one.modrm & 7) != kRsp && one.reg() == one.rm()) {
    add(one.reg(), ConstantAtEnd(one, code, one.modrm >> 6 == 1));
    return first;
  }
  // xchg of two registers
  if (one.map == Map::kOneByte && one.opcode == 0x87 && one.names_register() && (one.rex & 8) != 0 &&
      ((kCalleeSaved | 1u << kRsp) & (1u << one.reg() | 1u << one.rm())) == 0) {
    first.swapped = one.reg();
    first.swapped_with = one.rm();
    first.may_stay = true;
    first.undone_at_once = (needed & (1u << one.reg() | 1u << one.rm())) != 0;
    return first;
  }
  // sub $bytes, %rsp
  if (one.map == Map::kOneByte && (one.opcode == 0x83 || one.opcode == 0x81) && one.modrm == 0xec && one.rex == 0x48) {
    first.stack_bytes = ConstantAtEnd(one, code, one.opcode == 0x83);
    first.may_stay = first.stack_bytes > 0;
    first.sets_flags = true;
    return first;
  }
  const int written = OverwrittenRegister(one);
  if (written < 0 || ((needed | kCalleeSaved | 1u << kRsp) >> written & 1) != 0) return first;
  const bool is_xor = one.map == Map::kOneByte && (one.opcode == 0x31 || one.opcode == 0x33);
  first.may_stay = is_xor || !ReadsItsResult(one, written);
  first.sets_flags = is_xor;
  return first;
}

}  // namespace holdfast
