// From a snapshot of the tables to a pprof profile of one kind: heap, mutex, block, map, threads, exceptions, peak, lifetimes or resident. No
// names yet: see report/symbolize/module_symbolizer.h.
//
// What stands in the profile
//   sample types    heap: alloc_objects, alloc_space, inuse_objects, inuse_space; mutex and block: contentions, delay; map: as
//                   heap; threads: created, alive; exceptions: exceptions; peak: peak_objects, peak_space; lifetimes:
//                   freed_objects, freed_space, lifetime, alive_space; resident: inuse_objects, inuse_space, resident_space
//   values          weighted sums, rounded to the nearest here and nowhere else; 0 ≤ inuse ≤ alloc
//   labels          heap: `bytes`, the upper edge of the size class; mutex: `lock`; block: `wait`, and `state`: waiting where the
//                   wait still goes on, with the time so far; both `lock_address` if asked for; map: `mapping`; exceptions:
//                   `type`, and `rethrow`: yes; lifetimes: `age`, the upper edge of the AgeBucket, and of freed blocks `freed`:
//                   same thread, other thread, temporary; of those alive `bytes`
//   addresses       return address − 1; code of a module that was loaded where another one had been before lies at
//                   address + (tag << 48), mapping and locations alike, so that addresses stay unique; code of no
//                   module has no mapping, and lies at address + (255 << 48) if a module lies or lay there, too
//   mappings        each executable segment of the modules loaded now, and of the unloaded ones that a stack still
//                   names; the main program first
//   synthetic frames  addresses 1, 2, 3, where no code can be: `[overflow]` (the stack table was full), `[no stack]`
//                   (none could be taken), `[truncated]`, the root of a stack whose outer frames are missing. So a cut
//                   stack keeps its self and total, and viewers group all of them under one root that shows how much
//                   was cut, instead of showing inner functions as roots beside main.
//   comments        `key: value`, see report/export/profile_comments.h
//
// Any thread; a snapshot that was read by ReadSnapshot. An empty profile (no samples) means: nothing to write.
#ifndef HOLDFAST_REPORT_EXPORT_PROFILE_BUILDER_H_
#define HOLDFAST_REPORT_EXPORT_PROFILE_BUILDER_H_

#include <string>

#include "report/peak/peak_state.h"
#include "report/pprof/profile.h"
#include "report/table/snapshot.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// As in file names and in the comment `kind`: those of ProfileKind, and three more that are made of the heap: at an earlier moment,
// by how old its blocks are, and what of them is resident.
inline constexpr int kFileKinds = kProfileKinds + 3, kPeakFile = kProfileKinds, kLifetimesFile = kProfileKinds + 1,
                     kResidentFile = kProfileKinds + 2;
inline constexpr const char* kFileKindNames[kFileKinds] = {"heap",       "mutex", "block",     "map",     "threads",
                                                           "exceptions", "peak",  "lifetimes", "resident"};

Profile BuildProfile(const Snapshot& snapshot, ProfileKind kind);
// What was in use at an earlier moment, by the stacks of `snapshot`: the kind `peak`.
Profile BuildPeakProfile(const Snapshot& snapshot, const PeakState& peak);
// How long the freed blocks lived, and how long those in use have: the kind `lifetimes`.
Profile BuildLifetimesProfile(const Snapshot& snapshot);
// What of the live blocks is resident: the kind `resident`. Empty where snapshot.resident_rows is.
Profile BuildResidentProfile(const Snapshot& snapshot);
// A block profile of the waits that go on, and nothing else; all of them are in its comments.
Profile BuildWaitingProfile(const Snapshot& snapshot);

// `host/pid-namespace/pid/start-ticks/image`: equal in all files of one process image, and in no others.
std::string ProcessId(const ProcessIdentity& process);

// The version in the comment `version`, from CMake's project().
const char* HoldfastVersion();

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORT_PROFILE_BUILDER_H_
