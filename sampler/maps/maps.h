// Mappings, as the wrappers (interpose/maps/) see them. Each is recorded: they are rare, and cost a system call of some µs.
//
//     mmap:    block = real.mmap(…); RecordMapped(caller, block, bytes, kind);        before the program learns the address
//     munmap:  ticket = TakeMappingTicket(); real.munmap(…); RecordUnmapped(start, bytes, ticket);     where that succeeded
//
// What was mapped by means that we do not see is not known here, and unmapping it says nothing. A mapping that was unmapped so, and
// whose addresses come back in another, ends there.
//
// Every function here may be called by any thread, also in a signal handler and in a child of fork or vfork; none allocates, waits,
// prints or changes errno. What cannot be recorded is counted.
#ifndef HOLDFAST_SAMPLER_MAPS_MAPS_H_
#define HOLDFAST_SAMPLER_MAPS_MAPS_H_

#include <cstddef>

#include "sampler/arch/processor.h"
#include "sampler/process/process.h"
#include "sampler/ranges/mapping_change.h"

namespace holdfast {

// Whether anything is to be recorded at all.
inline bool RecordsMappings() {
  return process.recording.load(std::memory_order_relaxed) &&
         (process.options.profiles & KindBit(ProfileKind::kMap)) != 0;
}

// `bytes`: whole pages, but for brk.
void RecordMapped(const CallerRegisters& caller, uintptr_t start, size_t bytes, MappingKind kind);
void RecordUnmapped(uintptr_t start, size_t bytes, uint64_t ticket);
// mremap: as realloc, all of it is freed and allocated anew by who calls. `stays`: the old range stays mapped.
struct Moved {
  uintptr_t from;
  size_t from_bytes;
  bool stays;
  uintptr_t to;
  size_t to_bytes;
};
void RecordMoved(const CallerRegisters& caller, const Moved& moved, uint64_t ticket);
void RecordDetached(uintptr_t start, uint64_t ticket);
// A mapping whose length is not to be had.
void CountUnknownMapping();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_MAPS_MAPS_H_
