// The comments of a profile: `key: value` lines that identify the process, and say how it was sampled, which figures
// are exact, how precise the totals are, and what was lost. BuildProfile calls this after it has added the samples.
//
//   kind: heap                                     heap, mutex, block, map, threads, exceptions, peak, lifetimes, resident
//   process: box/4026531836/4242/777/0000000000000abc    see ProcessId in profile_builder.h
//   program, executable, command, pid, version, started (UTC), elapsed; forked from pid: only in forked children
//  interval: 524288 bytes                         (ns for locks) now in force; 0 = off
//  interval since 2023-11-14T22:13:20.000Z: 524288 bytes    one for each, if it was changed
//  snapshot-when: inuse>2GiB at 2.01GiB           one for each condition that caused this snapshot; memory limit: what was left
//  heap     alloc_bytes, and alloc_calls, free_calls, free_bytes: prefixed with `sampled_` if they count only samples
//  block    contentions, delay_ns: every wait; lock_samples; then for each kind that was waited for
//           `rwlock-read contentions`, `rwlock-read acquired` (the others gave up), `rwlock-read delay_ns`
//  mutex    contentions, delay_ns: every hold during which others waited, and how long they did; gap_ns: how long they
//           waited while nobody held it; lock_samples; then `mutex contentions`, `mutex delay_ns`, `mutex gap_ns` …
//  heap, peak: 123456789 bytes at 2023-11-14T22:13:20.000Z     peak use, and when
//  peak stacks: 123456700 bytes at 2023-11-14T22:13:20.004Z    peak: the captured state
//  exact: alloc_bytes, …                          which of these are the program's own figures
//  total inuse_space: 123456 ± 789                estimate and 95 % interval: 1.96·√Σ s²(1−p)/p² over the samples (for
//                                                 what is in use: without freed samples)
//  lifetimes: ages known: of each block that was sampled        or of one in 384, at interval 1
//  resident, swapped_bytes: 123456 ± 789          of blocks and mappings, not resident
//  resident, huge_bytes: 123456 ± 789             the resident bytes on huge pages; or why they are unknown
//  resident, stacks left out: 2 (threads that …)  thread stacks with unknown addresses
//  resident, mappings left out: why               the profile has only blocks
//  heap, resident left out: why                   it was requested, and there is no such file
//  lost stack-table-full: 312                     one for each nonzero cause (kLossNames), otherwise `losses: none`
//  own time_ns, own table_bytes                   our cost: estimated time in slow paths, memory of the tables
//  own table_steps, own memory_probes             our system calls: growth of the tables, pages probed
//  resident_bytes                                 of the whole process, if it was still running
//  no names: /path: why                           added by the symbolizer
#ifndef HOLDFAST_REPORT_EXPORT_PROFILE_COMMENTS_H_
#define HOLDFAST_REPORT_EXPORT_PROFILE_COMMENTS_H_

#include <span>

#include "report/peak/peak_state.h"
#include "report/pprof/profile.h"
#include "report/table/snapshot.h"

namespace holdfast {

// `file`: index into kFileKindNames. `variances`: of the total of each sample type. `full_sums`: how many values had to be
// limited so that their column can be added up (kMostValue). `peak`: for a peak profile; otherwise null.
void AddComments(const Snapshot& snapshot, int file, const PeakState* peak, std::span<const double> variances,
                 uint64_t full_sums, Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORT_PROFILE_COMMENTS_H_
