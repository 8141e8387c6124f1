#include "sampler/unwind/unwind_expression.h"

#include "sampler/unwind/unwind_bytes.h"

namespace holdfast {
namespace {

constexpr int kMostValues = 8;  // what compilers and linkers write needs 4

class Folder {
 public:
  explicit Folder(uintptr_t pc) : pc_(pc) {}

  bool Push(FrameValue value) {
    if (depth_ == kMostValues) return false;
    values_[depth_++] = value;
    return true;
  }
  bool PushConstant(uint64_t value) { return Push({FrameValue::kConstant, 0, static_cast<int64_t>(value)}); }

  bool PushRegister(uint64_t number, int64_t offset) {
    switch (number) {
      case 6:
        return Push({FrameValue::kBp, 0, offset});
      case 7:
        return Push({FrameValue::kSp, 0, offset});
      // Only a PLT entry asks for it. It calls nobody, so the address is that of an interrupted instruction.
      case 16:
        return PushConstant(pc_ + static_cast<uint64_t>(offset));
      default:
        return false;
    }
  }

  bool Load() {
    if (depth_ == 0) return false;
    FrameValue& top = values_[depth_ - 1];
    if (top.base != FrameValue::kSp && top.base != FrameValue::kBp) return false;
    top = {top.base == FrameValue::kSp ? FrameValue::kLoadedSp : FrameValue::kLoadedBp, top.offset, 0};
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
    if (op == 0x22 && left.base == FrameValue::kConstant) {  // plus: either may be an address
      left = right;
      left.offset = static_cast<int64_t>(a + b);
      return true;
    }
    if (right.base != FrameValue::kConstant) return false;
    if (op != 0x22 && op != 0x1c && left.base != FrameValue::kConstant) return false;
    uint64_t value = 0;
    switch (op) {
      case 0x1a:
        value = a & b;
        break;
      case 0x1c:
        value = a - b;
        break;
      case 0x1e:
        value = a * b;
        break;
      case 0x21:
        value = a | b;
        break;
      case 0x22:
        value = a + b;
        break;
      case 0x24:
        value = b < 64 ? a << b : 0;
        break;
      case 0x25:
        value = b < 64 ? a >> b : 0;
        break;
      case 0x29:
        value = x == y;
        break;
      case 0x2a:
        value = x >= y;
        break;
      case 0x2b:
        value = x > y;
        break;
      case 0x2c:
        value = x <= y;
        break;
      case 0x2d:
        value = x < y;
        break;
      case 0x2e:
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
  FrameValue values_[kMostValues];
  int depth_ = 0;
  uintptr_t pc_;
};

bool Apply(DwarfBytes* bytes, Folder* folder) {
  const auto op = bytes->Fixed<uint8_t>();
  if (op >= 0x30 && op <= 0x4f) return folder->PushConstant(op - 0x30u);                   // lit0 … lit31
  if (op >= 0x70 && op <= 0x8f) return folder->PushRegister(op - 0x70u, bytes->Signed());  // breg0 … breg31
  switch (op) {
    case 0x06:
      return folder->Load();  // deref
    case 0x08:
      return folder->PushConstant(bytes->Fixed<uint8_t>());  // const1u
    case 0x09:
      return folder->PushConstant(static_cast<uint64_t>(int64_t{bytes->Fixed<int8_t>()}));
    case 0x0a:
      return folder->PushConstant(bytes->Fixed<uint16_t>());
    case 0x0b:
      return folder->PushConstant(static_cast<uint64_t>(int64_t{bytes->Fixed<int16_t>()}));
    case 0x0c:
      return folder->PushConstant(bytes->Fixed<uint32_t>());
    case 0x0d:
      return folder->PushConstant(static_cast<uint64_t>(int64_t{bytes->Fixed<int32_t>()}));
    case 0x0e:
    case 0x0f:
      return folder->PushConstant(bytes->Fixed<uint64_t>());  // const8u, const8s
    case 0x10:
      return folder->PushConstant(bytes->Unsigned());  // constu
    case 0x11:
      return folder->PushConstant(static_cast<uint64_t>(bytes->Signed()));  // consts
    case 0x12:
      return folder->Duplicate();
    case 0x13:
      return folder->Drop();
    case 0x23:
      return folder->Add(bytes->Unsigned());  // plus_uconst
    case 0x96:
      return true;  // nop
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
