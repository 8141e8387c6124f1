// Turns the state of a process into a pprof profile of one kind: heap, mutex, block, map, threads, exceptions, cpu, peak,
// lifetimes or resident. Without names: report/names/symbolize/module_symbolizer.h adds them.
//
// Contents of the profile
//   sample types    heap: alloc_objects, alloc_space, inuse_objects, inuse_space; mutex and block: contentions, delay; map: as
//                   heap; threads: created, alive; exceptions: exceptions; peak: peak_objects, peak_space; lifetimes:
//                   freed_objects, freed_space, lifetime, alive_space; resident: inuse_objects, inuse_space, resident_space
//  values          weighted sums, rounded to the nearest only here; 0 ≤ inuse ≤ alloc
//  labels          heap: `bytes`, the upper edge of the size class; on request `held`, what holds the blocks in use, and
//                  `class`, their dynamic class; mutex: `lock`; block: `wait`, and `state`: waiting for an
//                  ongoing wait, with the time so far; both `lock_address` if requested; map: `mapping`; exceptions:
//                  `type`, and `rethrow`: yes; lifetimes: `age`, the upper edge of the AgeBucket, and for freed blocks
//                  `freed`: same thread, other thread, temporary; for live blocks `bytes`
//  addresses       return address − 1. Code of a module that was loaded where another one had been before is at
//                  address + (tag << 48), in mappings and locations, so that addresses are unique. Code in no module has
//                  no mapping; it is at address + (255 << 48) if a module is or was there
//  mappings        each executable segment of the modules loaded now, and of unloaded modules that a stack still contains;
//                  the main program first
//  synthetic frames  at addresses 1, 2, 3, where code is impossible: `[overflow]` (the stack table was full), `[no stack]`
//                  (none could be captured), `[truncated]`, the root of a stack with missing outer frames. So a truncated
//                  stack keeps its self and total, and viewers group all of them under one root that shows how much was
//                  truncated, instead of showing inner functions as roots beside main
//  comments        `key: value`, see report/builder/profile_comments.h
//
// Any thread. Its snapshot must come from ReadSnapshot. Do not write an empty profile (without samples).
#ifndef HOLDFAST_REPORT_BUILDER_PROFILE_BUILDER_H_
#define HOLDFAST_REPORT_BUILDER_PROFILE_BUILDER_H_

#include <string>

#include "report/observe/process_state.h"
#include "report/profile/profile.h"
#include "sampler/contract/layout.h"

namespace holdfast {

Profile BuildProfile(const ProcessState& state, ProfileKind kind);
// Builds what was in use at `state.peak`: the kind `peak`.
Profile BuildPeakProfile(const ProcessState& state);
// Builds the ages of freed blocks and of blocks in use: the kind `lifetimes`.
Profile BuildLifetimesProfile(const ProcessState& state);
// Builds the resident bytes of live blocks: the kind `resident`. Empty if state.residency.rows is empty.
Profile BuildResidentProfile(const ProcessState& state);
// Builds where the time of all threads went: the kind `wall`. Empty if nobody looked at the threads.
Profile BuildWallProfile(const ProcessState& state);
// Builds a block profile of only the ongoing waits: its records have all of them, and no earlier one.
Profile BuildWaitingProfile(const ProcessState& state);

// `host/pid-namespace/pid/start-ticks/image`: equal in all files of one process image, different in all others.
std::string ProcessId(const ProcessIdentity& process);

// The version in the comment `version`, from CMake's project().
const char* HoldfastVersion();

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_PROFILE_BUILDER_H_
