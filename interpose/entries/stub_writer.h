// Writes the code beside the executable that a redirected function is led through. For each function:
//
//     hot:         [undo the first instruction, if it changes an argument that is read here]
//                  charge the size, or look at the filter; jump to slow if a sample is due or the block may be one
//                  [the first instruction again, if it was undone or its flags are needed]
//                  the moved instructions
//                  jump back to the instruction after them
//     slow:        undo the first instruction; push the number; jump to HoldfastEntrySlow
//     trampoline:  the first and the moved instructions, jump back: the function as it was
//
// For each short jump: the instructions before it, and a jump to the trampoline.
//
// The hot part changes flags, the countdown, and one register that the function overwrites itself.
#ifndef HOLDFAST_INTERPOSE_ENTRIES_STUB_WRITER_H_
#define HOLDFAST_INTERPOSE_ENTRIES_STUB_WRITER_H_

#include <cstddef>
#include <cstdint>

#include "sampler/entries/entry_plan.h"

namespace holdfast {

struct StubSettings {
  int32_t countdown = 0;     // from the thread pointer
  uint32_t filter = 0;       // address of the counters of the sampled filter, below 2 GiB
  uintptr_t slow_path = 0;   // HoldfastEntrySlow
  bool asks_always = false;  // each free and realloc takes the slow path
};

struct Stub {
  uintptr_t hot = 0, trampoline = 0;
};

struct WrittenStubs {
  size_t bytes = 0;  // 0: something is too far away, or there is no room
  // After the code: the instruction of the executable for each piece (added_code.h).
  size_t code_bytes = 0;
  uint32_t piece_count = 0;
};

// Writes the stubs of all sites into `page`, which will be at `address`.
WrittenStubs WriteStubs(const EntryPlan& plan, const StubSettings& settings, uint8_t* page, size_t capacity,
                        uintptr_t address, Stub* stubs, uintptr_t* short_jumps);

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_ENTRIES_STUB_WRITER_H_
