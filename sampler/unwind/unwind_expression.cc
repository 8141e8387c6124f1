#include "sampler/unwind/unwind_expression.h"

#include "sampler/arch/processor.h"
#include "sampler/unwind/dwarf_numbers.h"
#include "sampler/unwind/unwind_bytes.h"

namespace holdfast {
namespace {

constexpr int kMaxValues = 8;  // compilers and linkers need 4

class Folder {
 public:
  explicit Folder(uintptr_t pc) : pc_(pc) {}

  bool Push(FrameValue value) {
    if (depth_ == kMaxValues) return false;
    values_[depth_++] = value;
    return true;
  }
  bool PushConstant(uint64_t value) { return Push({FrameValue::kConstant, 0, static_cast<int64_t>(value)}); }

  bool PushRegister(uint64_t number, int64_t offset) {
    switch (number) {
      case kDwarfFp:
        return Push({FrameValue::kFp, 0, offset});
      case kDwarfSp:
        return Push({FrameValue::kSp, 0, offset});
      // Only PLT entries of x86-64 use it. They call nobody, so the address is that of an interrupted instruction.
      case kDwarfPc:
        return PushConstant(pc_ + static_cast<uint64_t>(offset));
      default:
        return false;
    }
  }

  bool Load() {
    if (depth_ == 0) return false;
    FrameValue& top = values_[depth_ - 1];
    if (top.base != FrameValue::kSp && top.base != FrameValue::kFp) return false;
    top = {top.base == FrameValue::kSp ? FrameValue::kLoadedSp : FrameValue::kLoadedFp, top.offset, 0};
    return true;
  }

  bool Add(uint64_t constant) {
    if (depth_ == 0) return false;
    values_[depth_ - 1].offset = static_cast<int64_t>(static_cast<uint64_t>(values_[depth_ - 1].offset) + constant);
    return true;
  }

  bool Drop() { return depth_ > 0 && depth_-- > 0; }
  bool Duplicate() { return depth_ > 0 && Push(values_[depth_ - 1]); }

  bool Combine(uint8_t op) {
    if (depth_ < 2) return false;
    const FrameValue right = values_[--depth_];
    FrameValue& left = values_[depth_ - 1];
    const auto a = static_cast<uint64_t>(left.offset), b = static_cast<uint64_t>(right.offset);
    const int64_t x = left.offset, y = right.offset;
    if (op == DW_OP_plus && left.base == FrameValue::kConstant) {  // either may be an address
      left = right;
      left.offset = static_cast<int64_t>(a + b);
      return true;
    }
    if (right.base != FrameValue::kConstant) return false;
    if (op != DW_OP_plus && op != DW_OP_minus && left.base != FrameValue::kConstant) return false;
    uint64_t value = 0;
    switch (op) {
      case DW_OP_and:
        value = a & b;
        break;
      case DW_OP_minus:
        value = a - b;
        break;
      case DW_OP_mul:
        value = a * b;
        break;
      case DW_OP_or:
        value = a | b;
        break;
      case DW_OP_plus:
        value = a + b;
        break;
      case DW_OP_shl:
        value = b < 64 ? a << b : 0;
        break;
      case DW_OP_shr:
        value = b < 64 ? a >> b : 0;
        break;
      case DW_OP_eq:
        value = x == y;
        break;
      case DW_OP_ge:
        value = x >= y;
        break;
      case DW_OP_gt:
        value = x > y;
        break;
      case DW_OP_le:
        value = x <= y;
        break;
      case DW_OP_lt:
        value = x < y;
        break;
      case DW_OP_ne:
        value = x != y;
        break;
      default:
        return false;
    }
    left.offset = static_cast<int64_t>(value);
    return true;
  }

  bool Top(FrameValue* result) const {
    if (depth_ == 0) return false;
    *result = values_[depth_ - 1];
    return true;
  }

 private:
  FrameValue values_[kMaxValues];
  int depth_ = 0;
  uintptr_t pc_;
};

bool Apply(DwarfBytes* bytes, Folder* folder) {
  const auto op = bytes->Fixed<uint8_t>();
  if (op >= DW_OP_lit0 && op <= DW_OP_lit31) return folder->PushConstant(op - uint32_t{DW_OP_lit0});
  if (op >= DW_OP_breg0 && op <= DW_OP_breg31) return folder->PushRegister(op - uint32_t{DW_OP_breg0}, bytes->Signed());
  switch (op) {
    case DW_OP_deref:
      return folder->Load();
    case DW_OP_const1u:
      return folder->PushConstant(bytes->Fixed<uint8_t>());
    case DW_OP_const1s:
      return folder->PushConstant(static_cast<uint64_t>(int64_t{bytes->Fixed<int8_t>()}));
    case DW_OP_const2u:
      return folder->PushConstant(bytes->Fixed<uint16_t>());
    case DW_OP_const2s:
      return folder->PushConstant(static_cast<uint64_t>(int64_t{bytes->Fixed<int16_t>()}));
    case DW_OP_const4u:
      return folder->PushConstant(bytes->Fixed<uint32_t>());
    case DW_OP_const4s:
      return folder->PushConstant(static_cast<uint64_t>(int64_t{bytes->Fixed<int32_t>()}));
    case DW_OP_const8u:
    case DW_OP_const8s:
      return folder->PushConstant(bytes->Fixed<uint64_t>());
    case DW_OP_constu:
      return folder->PushConstant(bytes->Unsigned());
    case DW_OP_consts:
      return folder->PushConstant(static_cast<uint64_t>(bytes->Signed()));
    case DW_OP_dup:
      return folder->Duplicate();
    case DW_OP_drop:
      return folder->Drop();
    case DW_OP_plus_uconst:
      return folder->Add(bytes->Unsigned());
    case DW_OP_nop:
      return true;
    default:
      return folder->Combine(op);
  }
}

}  // namespace

bool FoldExpression(uintptr_t at, AddressRange readable, uintptr_t pc, bool from_cfa, FrameValue* result) {
  DwarfBytes length_first(at, readable.end);
  const uint64_t length = length_first.Unsigned();
  if (length > length_first.left()) return false;
  DwarfBytes bytes(length_first.at(), length_first.at() + length);
  Folder folder(pc);
  if (from_cfa) folder.Push({FrameValue::kCfa, 0, 0});
  while (bytes.more()) {
    if (!Apply(&bytes, &folder)) return false;
  }
  return !bytes.failed() && folder.Top(result);
}

}  // namespace holdfast
