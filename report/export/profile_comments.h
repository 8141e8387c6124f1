// The comments of a profile: `key: value` lines that say whose it is, how it was sampled, what is exact, how sure the
// totals are, and what was lost. Called by BuildProfile once the samples stand.
//
//   kind: heap                                     heap, mutex, block, map, threads, exceptions, peak, lifetimes, resident
//   process: box/4026531836/4242/777/0000000000000abc    see ProcessId in profile_builder.h
//   program, executable, command, pid, version, started (UTC), elapsed; forked from pid: only in forked children
//   interval: 524288 bytes                         (ns for locks) in force now; 0 = off
//   interval since 2023-11-14T22:13:20.000Z: 524288 bytes    one for each, once it was changed
//   snapshot-when: inuse>2GiB at 2.01GiB           one for each condition that asked for this snapshot; memory limit: what was left
//   heap     alloc_bytes, and alloc_calls, free_calls, free_bytes: with `sampled_` before those that count samples only
//   block    contentions, delay_ns: every wait; lock_samples; then for each kind that was waited for
//            `rwlock-read contentions`, `rwlock-read acquired` (the others gave up), `rwlock-read delay_ns`
//   mutex    contentions, delay_ns: every hold during which others waited, and how long they did; gap_ns: how long they
//            waited while nobody held it; lock_samples; then `mutex contentions`, `mutex delay_ns`, `mutex gap_ns` …
//   heap, peak: 123456789 bytes at 2023-11-14T22:13:20.000Z     the most that was in use, and when
//   peak stacks: 123456700 bytes at 2023-11-14T22:13:20.004Z    peak: which state that is, of those that were looked at
//   exact: alloc_bytes, …                          which of these are the program's own figures
//   total inuse_space: 123456 ± 789                estimate and 95 % interval: 1.96·√Σ s²(1−p)/p² over the samples (for
//                                                  what is in use: without those that were freed)
//   lifetimes: ages known: of each block that was sampled        or of one in 384, at interval 1
//   resident, swapped_bytes: 123456 ± 789          of blocks and mappings, which is not resident
//   resident, huge_bytes: 123456 ± 789             of these, resident on huge pages; or why it is not known
//   resident, stacks left out: 2 (threads that …)   of which it is not known where their stacks lie
//   resident, mappings left out: why               it has blocks alone
//   heap, resident left out: why                   it was asked for, and there is no such file
//   lost stack-table-full: 312                     one for each cause that is not 0 (kLossNames), else `losses: none`
//   own time_ns, own table_bytes                   what we cost: estimated time in slow paths, memory of the tables
//   own table_steps, own memory_probes             the system calls of that: growth of the tables, pages asked about
//   resident_bytes                                 of the process, all of it, where it still ran
//   no names: /path: why                           added by the symbolizer
#ifndef HOLDFAST_REPORT_EXPORT_PROFILE_COMMENTS_H_
#define HOLDFAST_REPORT_EXPORT_PROFILE_COMMENTS_H_

#include <span>

#include "report/peak/peak_state.h"
#include "report/pprof/profile.h"
#include "report/table/snapshot.h"

namespace holdfast {

// `file`: index into kFileKindNames. `variances`: of the total of each sample type.
// `full_sums`: how many values had to be cut, so that their column can be added up (kMostValue).
// `peak`: of a profile of what was in use then; else null.
void AddComments(const Snapshot& snapshot, int file, const PeakState* peak, std::span<const double> variances,
                 uint64_t full_sums, Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORT_PROFILE_COMMENTS_H_
