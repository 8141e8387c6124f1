// Mappings, for the wrappers (interpose/maps/). Every mapping is recorded: they are rare, and their system call costs
// some µs.
//
//     mmap:    block = real.mmap(…); RecordMapped(caller, block, bytes, kind);        before the program learns the address
//     munmap:  ticket = TakeMappingTicket(); real.munmap(…); RecordUnmapped(start, bytes, ticket);     where that succeeded
//
// Mappings made by means that we do not see are not known here, and unmapping them is ignored. A known mapping that was
// unmapped unseen ends when another one gets its addresses.
//
// Every function here may be called by any thread, also in a signal handler and in a child of fork or vfork; none
// allocates, waits, prints or changes errno. What cannot be recorded is counted.
#ifndef HOLDFAST_SAMPLER_RECORD_MAPS_H_
#define HOLDFAST_SAMPLER_RECORD_MAPS_H_

#include <cstddef>

#include "sampler/arch/processor.h"
#include "sampler/process/process.h"
#include "sampler/table/mapping_change.h"

namespace holdfast {

// Whether anything is to be recorded at all.
inline bool RecordsMappings() {
  return process.recording.load(std::memory_order_relaxed) && !process.detached.load(std::memory_order_relaxed) &&
         (process.options.profiles & KindBit(ProfileKind::kMap)) != 0;
}

// `bytes`: whole pages, except for brk.
void RecordMapped(const CallerRegisters& caller, uintptr_t start, size_t bytes, MappingKind kind);
void RecordUnmapped(uintptr_t start, size_t bytes, uint64_t ticket);
// mremap, counted like realloc: everything is freed, and allocated anew by the caller. `stays`: the old range stays
// mapped.
struct Moved {
  uintptr_t from;
  size_t from_bytes;
  bool stays;
  uintptr_t to;
  size_t to_bytes;
};
void RecordMoved(const CallerRegisters& caller, const Moved& moved, uint64_t ticket);
void RecordDetached(uintptr_t start, uint64_t ticket);
// A mapping of unknown length.
void CountUnknownMapping();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_MAPS_H_
