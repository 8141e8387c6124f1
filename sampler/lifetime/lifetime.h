// The process from its first moment to its last, as the wrappers (interpose/) tell of it: start, fork, libraries that go,
// filters, other users, snapshots, the end.
//
// Every function here may be called by any thread, also in a signal handler and in a child of fork or vfork, if it does not say
// otherwise; none allocates, prints but at the start, or changes errno.
#ifndef HOLDFAST_SAMPLER_LIFETIME_LIFETIME_H_
#define HOLDFAST_SAMPLER_LIFETIME_LIFETIME_H_

#include <cstdint>

#include "sampler/contract/layout.h"

namespace holdfast {

// Reads the options and decides whether to sample at all. `environment` as the kernel gave it. Called once, before any
// other function here. `dormant`: pass everything through (a sanitizer is there, say).
// False: nothing is recorded, and no system call is made.
// `modules_stay`: no module has been loaded by the program itself yet.
bool StartRecording(const char* const* environment, const char* library_path, bool dormant, bool modules_stay = true);
// Whether calls that reach the library are recorded. False after an attach that found no place for a table, and in a forked
// child that HOLDFAST_CHILDREN=no excludes.
bool IsRecording();
// For an attach: if nothing is recorded, reads the options anew, and lets recording begin. Call after StartRecording returned
// true, if no call has reached the library since recording ended. False: recording cannot begin, because of a filter.
bool StartAgain(const char* const* environment);
// The library is about to be reached, in a program that already runs: makes the table, or, if there is one from an earlier
// time, forgets the blocks and mappings in it, because their frees were not seen meanwhile. False: there is no table.
// All signals are blocked.
bool BeginAttached();
// No call reaches the library any more: notes that in the table.
void EndAttached();
// Names the output folder of an attached process, which may not see that folder. A process that has a table keeps its folder;
// a forked child of a program that was detached has none. `id`: unknown if both see the same folder. Call before BeginAttached.
void GiveOutFolder(const char* const* environment, FolderId id);
// Gives the calling thread its CPU timer, and other threads theirs later, if CPU samples are requested. Call once, when the
// library is ready.
void BeginCpuSamples();
// Makes the table if looks at threads are requested (HOLDFAST_WALL): whoever looks needs a table, and a program that only
// computes or waits has no sample that makes one. Call once, when the library is ready.
void BeginLooks();
// Whether free may rely on sampled blocks lying at tagged addresses: the allocator below has an aligned entry point of its
// own, and the interval is large enough for it to be worth it.
void AllowTag(bool allocator_can_align);
// Looks for modules that call another free than the library's, from now on: nobody sees what they free (sampler/capture/free_calls.h). The
// program's own calls reach the library, and this is the library's code.
void WatchFreeCalls(const char* start, const char* end);
// An orderly end is near: waits until the exporter has written the last profile, at most 2 s, a forked child at most 0.1 s.
// Nothing sampled, or BeforeExitHandlers has waited: returns at once. In a vfork child: does nothing.
void AwaitLastProfile();
// main has returned, or the program called exit. The exit handlers that run next free what the program held: the first
// sample that they add or remove waits, at most 50 ms, until the exporter has copied the table. If every allocation is
// recorded, this call waits. If other threads run, it waits for the last profile instead, and what changes after that is
// written after the process's end. Only the first call of a process does anything. Nothing sampled, or no exporter: returns
// at once. In a vfork child: does nothing. `process_ends`: false if perhaps only the main thread ends.
void BeforeExitHandlers(bool process_ends);
// The program is about to forbid itself files (Landlock): makes the table and starts the exporter now.
void BeforeLandlock();
// The program is about to forbid itself system calls: makes the table and starts the exporter now, then makes none.
// `strict`: SECCOMP_MODE_STRICT, which also forbids to read the time.
bool BeforeSeccomp(bool strict);
// Call after it with its result. If no filter was installed (programs ask for one that cannot be, to see whether there
// are filters), and none before, system calls are made again.
void AfterSeccomp(bool was_counted, bool is_installed);
// PR_SET_TSC: the program forbids, or allows again, to read the time without a system call. Returns what was in force.
bool ForbidClock(bool forbidden);
// Children are about to be born into another pid namespace: makes the table and starts the exporter now, if there are none yet.
void BeforeNewNamespace();
// The program is about to become a subreaper, or no longer to be one: makes the table and starts the exporter now, which would
// later be a child of the program's, and says so in the table. In a vfork child: does nothing.
void SetSubreaper(bool takes_orphans);
// Around a fork, in the parent. The child goes on with the gap that is drawn before, the parent with another: what is
// sampled in a child depends neither on its parent nor on its siblings. Also right where no child comes of it, or where
// AfterFork is not called (then parent and child share that one gap).
void BeforeFork();
void AfterFork();
// In the child: notes its pid, as a vfork child of its own may call us first, and that it is a child, which not every kernel says.
// One system call.
void InForkedChild();
// The program is about to change its user ids to these (kSameUser: not this one), and did so. Where root gives up its rights,
// what needs them is done before: see table_owner.h. Any thread, also in a vfork child and in a signal handler.
inline constexpr uint32_t kSameUser = UINT32_MAX;
void BeforeUserChange(uint32_t real, uint32_t effective, uint32_t saved);
void AfterUserChange();
// Another root is on its way, from where no table can be made.
void BeforeNewRoot();
// dlclose is called; it returned. Any thread, balanced.
void BeforeUnload();
void AfterUnload();
// HOLDFAST_SIGNAL, 0 = none; and what its handler does: asks for a snapshot.
int SnapshotSignal();
void RequestSnapshot();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_LIFETIME_LIFETIME_H_
