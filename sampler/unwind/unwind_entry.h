// The entry of a module's unwind tables that covers an address: one FDE of .eh_frame and its CIE.
//
// Internal to unwind_cfi.cc. Reads only within the range given.
#ifndef HOLDFAST_SAMPLER_UNWIND_UNWIND_ENTRY_H_
#define HOLDFAST_SAMPLER_UNWIND_UNWIND_ENTRY_H_

#include <cstdint>

#include "sampler/unwind/address_range.h"
#include "sampler/unwind/dwarf_numbers.h"

namespace holdfast {

struct UnwindEntry {
  uint64_t code_alignment = 0;
  int64_t data_alignment = 0;
  uint64_t return_column = 0;
  uint8_t pointer_encoding = DW_EH_PE_absptr;
  bool augmented = false;
  AddressRange initial_program;  // of the CIE
  AddressRange program;          // of the FDE
  uintptr_t start = 0;           // first address that the FDE covers
  AddressRange readable;         // memory that has both
};

// Binary search in .eh_frame_hdr at the address `header`. False if no entry covers `pc`. `readable` has the header;
// `elsewhere` may have further entries.
bool FindUnwindEntry(uintptr_t header, AddressRange readable, AddressRange elsewhere, uintptr_t pc, UnwindEntry* entry);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_UNWIND_UNWIND_ENTRY_H_
