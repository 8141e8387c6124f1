// The slow path of functions that are redirected at their entry (interpose/entries). A caller that was compiled together
// with its allocator may keep values in registers that a call usually overwrites, because the compiler knows which ones
// that malloc uses (gcc's IPA-RA). So this path saves and restores every register that a call may overwrite.
#ifndef HOLDFAST_INTERPOSE_ARCH_ENTRY_SLOW_H_
#define HOLDFAST_INTERPOSE_ARCH_ENTRY_SLOW_H_

#include <cstdint>

#include "sampler/contract/attributes.h"

namespace holdfast {

// The registers at the entry, as they are on the stack. The function's result goes to rax.
struct EntryRegisters {
  uint64_t r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax, rbp;
  uint64_t number;  // pushed by the stub
  uint64_t caller;  // return address
};

// How vector registers are saved. Set by ChooseEntrySave before the first stub can run.
struct EntrySave {
  uint64_t bytes;  // of the area
  uint32_t parts;  // of the processor's state; 0: fxsave
  uint32_t is_compact;
};

// Asks the processor.
void ChooseEntrySave();

}  // namespace holdfast

extern "C" {
extern HOLDFAST_HIDDEN holdfast::EntrySave holdfast_entry_save;
// Stubs jump here after they have pushed their number.
HOLDFAST_HIDDEN void HoldfastEntrySlow();
// (interpose/entries/entry_calls.cc) Leaves in `number` where to go with the registers restored, or 0: the call is done.
HOLDFAST_HIDDEN void HoldfastEntryCall(holdfast::EntryRegisters* registers);
}

#endif  // HOLDFAST_INTERPOSE_ARCH_ENTRY_SLOW_H_
