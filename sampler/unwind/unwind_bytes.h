// A bounded cursor over DWARF data in memory. Reading past the end returns zeros and sets `failed`.
#ifndef HOLDFAST_SAMPLER_UNWIND_UNWIND_BYTES_H_
#define HOLDFAST_SAMPLER_UNWIND_UNWIND_BYTES_H_

#include <cstdint>
#include <cstring>

#include "sampler/contract/attributes.h"
#include "sampler/unwind/dwarf_numbers.h"

namespace holdfast {

class DwarfBytes {
 public:
  DwarfBytes(uintptr_t at, uintptr_t end) : at_(at), end_(end) {
    if (at > end) Fail();
  }

  bool failed() const { return failed_; }
  bool more() const { return at_ < end_; }
  uintptr_t at() const { return at_; }
  uintptr_t left() const { return end_ - at_; }

  uint8_t Byte() {
    if (UNLIKELY(at_ >= end_)) {
      Fail();
      return 0;
    }
    return *reinterpret_cast<const uint8_t*>(at_++);
  }

  // Skips this byte if it is the next one.
  bool TakeIf(uint8_t byte) {
    if (at_ >= end_ || *reinterpret_cast<const uint8_t*>(at_) != byte) return false;
    ++at_;
    return true;
  }

  template <typename T>
  T Fixed() {
    T value{};
    if (end_ - at_ < sizeof(T)) {
      Fail();
      return value;
    }
    memcpy(&value, reinterpret_cast<const void*>(at_), sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  void Skip(uint64_t bytes) {
    if (bytes > end_ - at_) {
      Fail();
    } else {
      at_ += bytes;
    }
  }

  // Most numbers are one byte.
  uint64_t Unsigned() {
    const uint8_t first = Byte();
    return LIKELY(first < 0x80) ? first : UnsignedFrom(first);
  }

  int64_t Signed() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      const uint8_t byte = Byte();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) {
        if (shift + 7 < 64 && (byte & 0x40)) value |= ~uint64_t{0} << (shift + 7);
        return static_cast<int64_t>(value);
      }
    }
    Fail();
    return 0;
  }

  // Reads a pointer in one of the DW_EH_PE_ encodings; `data_base` is the base for DW_EH_PE_datarel. Indirect,
  // function- and text-relative pointers, which unwind tables do not use, fail.
  uintptr_t Pointer(uint8_t encoding, uintptr_t data_base = 0) {
    const uintptr_t here = at_;
    uint64_t value = 0;
    switch (encoding & kPointerFormat) {
      case DW_EH_PE_absptr:
      case DW_EH_PE_udata8:
      case DW_EH_PE_sdata8:
        value = Fixed<uint64_t>();
        break;
      case DW_EH_PE_uleb128:
        value = Unsigned();
        break;
      case DW_EH_PE_udata2:
        value = Fixed<uint16_t>();
        break;
      case DW_EH_PE_udata4:
        value = Fixed<uint32_t>();
        break;
      case DW_EH_PE_sleb128:
        value = static_cast<uint64_t>(Signed());
        break;
      case DW_EH_PE_sdata2:
        value = static_cast<uint64_t>(int64_t{Fixed<int16_t>()});
        break;
      case DW_EH_PE_sdata4:
        value = static_cast<uint64_t>(int64_t{Fixed<int32_t>()});
        break;
      default:
        Fail();
        break;
    }
    switch (encoding & kPointerBase) {
      case DW_EH_PE_absptr:
        return value;
      case DW_EH_PE_pcrel:
        return value + here;
      case DW_EH_PE_datarel:
        return value + data_base;
      default:
        Fail();
        return 0;
    }
  }

 private:
  void Fail() {
    failed_ = true;
    end_ = at_;
  }
  uint64_t UnsignedFrom(uint8_t byte) {
    uint64_t value = byte & 0x7fu;
    for (int shift = 7; shift < 70; shift += 7) {
      byte = Byte();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    Fail();
    return 0;
  }

  uintptr_t at_;
  uintptr_t end_;  // at_, once it has failed
  bool failed_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_UNWIND_UNWIND_BYTES_H_
