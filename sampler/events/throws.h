// Exceptions, by the stack that throws them and by their type. At a rate of some 1,000 a second and thread all of them; above, so many
// by chance, each of which stands for those that were left out. A throw that is left out costs some 160 instructions, of the 12,000 that libstdc++ and
// libgcc take for the least one.
//
// Any thread, signal handlers, children of fork and vfork; nothing allocates, throws or changes errno.
#ifndef HOLDFAST_SAMPLER_EVENTS_THROWS_H_
#define HOLDFAST_SAMPLER_EVENTS_THROWS_H_

#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/contract/records.h"

namespace holdfast {

// For how many throws this one stands, as a mean interval; 0: it is left out. To be asked once of each.
uint64_t ThrowDue();

// `type`: the mangled name, which is copied; null: none. `thrown`: ThrownBits. `interval`: what ThrowDue said.
void RecordThrow(const CallerRegisters& caller, const char* type, uint8_t thrown, uint64_t interval);

// Whether this thread is on its way from the C++ runtime's entry point to the unwinder's, which is no exception of its own.
void NoteOnItsWay();
bool TakeOnItsWay();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_EVENTS_THROWS_H_
