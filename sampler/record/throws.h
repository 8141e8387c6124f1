// Exceptions, by the stack that throws them and by their type. Records all throws up to about 1,000 a second and thread, and
// above that a random part, weighted for the skipped ones. A skipped throw costs about 160 instructions;
// libstdc++ and libgcc take at least 12,000 for a throw.
//
// Any thread, signal handlers, children of fork and vfork; nothing allocates, throws or changes errno.
#ifndef HOLDFAST_SAMPLER_RECORD_THROWS_H_
#define HOLDFAST_SAMPLER_RECORD_THROWS_H_

#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/contract/records.h"

namespace holdfast {

// Returns how many throws this one represents, as a mean interval; 0: it is skipped. Call once for each throw.
uint64_t ThrowDue();

// `type`: the mangled name, which is copied; null: none. `thrown`: ThrownBits. `interval`: the result of ThrowDue.
void RecordThrow(const CallerRegisters& caller, const char* type, uint8_t thrown, uint64_t interval);

// Marks this thread as between the C++ runtime's entry point and the unwinder's, which is not another exception.
void NoteOnItsWay();
bool TakeOnItsWay();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_THROWS_H_
