#include "sampler/unwind/unwind_entry.h"

#include "sampler/unwind/dwarf_numbers.h"
#include "sampler/unwind/unwind_bytes.h"

namespace holdfast {
namespace {

constexpr uint8_t kTableOfOffsets = DW_EH_PE_datarel | DW_EH_PE_sdata4;  // what every linker writes

// Returns the body of a CIE or FDE at `at`: its bytes after the length. Empty at the terminator and for the 64-bit
// format, which .eh_frame does not use.
DwarfBytes Body(uintptr_t at, AddressRange readable) {
  if (at < readable.start || at > readable.end) return DwarfBytes(1, 0);
  DwarfBytes bytes(at, readable.end);
  const auto length = bytes.Fixed<uint32_t>();
  if (bytes.failed() || length == 0 || length == 0xffffffff || length > bytes.left()) return DwarfBytes(1, 0);
  return DwarfBytes(bytes.at(), bytes.at() + length);
}

bool ParseCie(uintptr_t at, AddressRange readable, UnwindEntry* entry) {
  DwarfBytes bytes = Body(at, readable);
  entry->initial_program.end = bytes.at() + bytes.left();
  if (bytes.Fixed<uint32_t>() != 0) return false;  // a CIE has the id 0
  const auto version = bytes.Fixed<uint8_t>();
  if (version != 1 && version != 3) return false;
  const uintptr_t augmentation = bytes.at();
  while (bytes.Fixed<char>() != '\0') {
    if (bytes.failed()) return false;
  }
  entry->code_alignment = bytes.Unsigned();
  entry->data_alignment = bytes.Signed();
  entry->return_column = version == 1 ? bytes.Fixed<uint8_t>() : bytes.Unsigned();

  DwarfBytes letters(augmentation, readable.end);
  char letter = letters.Fixed<char>();
  uintptr_t program = bytes.at();
  if (letter == 'z') {
    entry->augmented = true;
    const uint64_t length = bytes.Unsigned();
    if (length > bytes.left()) return false;
    program = bytes.at() + length;
    while ((letter = letters.Fixed<char>()) != '\0') {
      if (letter == 'R') {
        entry->pointer_encoding = bytes.Fixed<uint8_t>();
      } else if (letter == 'L') {
        bytes.Skip(1);
      } else if (letter == 'P') {
        bytes.Pointer(bytes.Fixed<uint8_t>() & kPointerFormat);      // the personality: only its size matters
      } else if (letter != 'S' && letter != 'B' && letter != 'G') {  // B, G: arm64, how it signs and tags addresses
        return false;
      }
    }
  } else if (letter != '\0') {
    return false;
  }
  entry->initial_program.start = program;
  return !bytes.failed() && program <= entry->initial_program.end;
}

}  // namespace

bool FindUnwindEntry(uintptr_t header, AddressRange readable, AddressRange elsewhere, uintptr_t pc,
                     UnwindEntry* entry) {
  if (!readable.Contains(header)) return false;
  DwarfBytes bytes(header, readable.end);
  const auto version = bytes.Fixed<uint8_t>();
  const auto frame_encoding = bytes.Fixed<uint8_t>();
  const auto count_encoding = bytes.Fixed<uint8_t>();
  const auto table_encoding = bytes.Fixed<uint8_t>();
  if (version != 1 || count_encoding == DW_EH_PE_omit || table_encoding != kTableOfOffsets) return false;
  if (frame_encoding != DW_EH_PE_omit) bytes.Pointer(frame_encoding, header);
  const uint64_t count = bytes.Pointer(count_encoding, header);
  struct TableRow {
    int32_t start, fde;
  };
  if (bytes.failed() || count == 0 || count > bytes.left() / sizeof(TableRow)) return false;
  const auto* table = reinterpret_cast<const TableRow*>(bytes.at());
  const auto wanted = static_cast<int64_t>(pc - header);
  uint64_t low = 0;  // the last row that starts at or below `wanted` is in [low − 1, high)
  for (uint64_t high = count; low < high;) {
    const uint64_t middle = low + (high - low) / 2;
    if (table[middle].start <= wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return false;
  const uintptr_t fde = header + static_cast<int64_t>(table[low - 1].fde);
  entry->readable = readable.Contains(fde) ? readable : elsewhere;

  DwarfBytes body = Body(fde, entry->readable);
  entry->program.end = body.at() + body.left();
  const uintptr_t cie_field = body.at();
  const auto distance = body.Fixed<uint32_t>();
  if (body.failed() || distance == 0 || !ParseCie(cie_field - distance, entry->readable, entry)) return false;
  entry->start = body.Pointer(entry->pointer_encoding);
  const uintptr_t length = body.Pointer(entry->pointer_encoding & kPointerFormat);
  if (entry->augmented) body.Skip(body.Unsigned());
  entry->program.start = body.at();
  return !body.failed() && pc - entry->start < length;
}

}  // namespace holdfast
