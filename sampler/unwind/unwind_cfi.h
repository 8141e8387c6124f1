// Makes unwind rows from a module's own call frame information (.eh_frame, found through .eh_frame_hdr), as described
// in the System V ABI and DWARF 5, section 6.4.
//
// The call frame program is run up to one address. Expressions are folded symbolically until they fit a row: PLT
// entries (CFA = sp + 8 or 16, by the address), functions that realign their stack (CFA = *(fp − n)), hand-written code
// that saved its sp, and the kernel's signal frame. Walks evaluate no expression.
//
// Reads only within the ranges given; the data's own length bounds every loop. No state, no lock, about 700 bytes of
// stack.
#ifndef HOLDFAST_SAMPLER_UNWIND_UNWIND_CFI_H_
#define HOLDFAST_SAMPLER_UNWIND_UNWIND_CFI_H_

#include <cstdint>

#include "sampler/unwind/address_range.h"
#include "sampler/unwind/unwind_row.h"

namespace holdfast {

// Returns the row (without a tag) for `pc`, an address inside the instruction in progress: for a call, the return
// address − 1. `eh_frame_hdr` may be null. kFramePointer if no entry covers the address. `elsewhere`: memory with entries
// outside of `readable`, which has the header.
UnwindRow BuildUnwindRow(const void* eh_frame_hdr, AddressRange readable, uintptr_t pc, AddressRange elsewhere = {});

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_UNWIND_UNWIND_CFI_H_
