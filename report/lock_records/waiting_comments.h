// Who waits now, and for whom, in a profile's comments: the result of LookAtWaits. BuildProfile writes them into mutex
// and block profiles; report/analysis/waiting_list.h reads them. docs/format.md has the same description.
//
//   waiting: 9 threads, delay_ns 210000000000
//   waiting thread 1: tid 4711 number 2 gone 0 name worker          number: 1 is main, 0 unknown
//   waiting thread 2 waits: since its start                         for something without a holder
//   waiting thread 2 labels: kind=write, tenant=acme                its own (include/holdfast.h), when it began to wait
//   waiting thread 3 does: sleeps in clock_nanosleep (hrtimer_nanosleep)     a holder that does not wait
//   waiting thread 3 stack: 2
//   waiting stack 2: 0x55d2c0901233 0x55d2c0901300                  addresses of locations of this file, leaf first
//   waiting 1: thread 1 mutex 0x55d2c0a81040 lock 2 delay_ns 25100000000 stack 1 holder 3 source now readers 0 died 0
//   waiting 1 slices: age_ns 60200000000                            the wait is one of a series of timed waits; age of the series
//   waiting deadlock 1: 1 2                                         threads, each of which waits for the next
//   waiting not written: 12                                         further waits
//   waiting unknown: why nobody could look into the process
//
// - = unknown. `lock`: number in the comments `lock N`. At most kMostWaitsWritten waits: deadlocks first, then waits
// for holders, the longest first, then waits for things without a holder.
#ifndef HOLDFAST_REPORT_LOCK_RECORDS_WAITING_COMMENTS_H_
#define HOLDFAST_REPORT_LOCK_RECORDS_WAITING_COMMENTS_H_

#include "report/lock_records/lock_comments.h"
#include "report/pprof/profile.h"
#include "report/table/snapshot.h"

namespace holdfast {

inline constexpr size_t kMostWaitsWritten = 256;

void AddWaitingComments(const Snapshot& snapshot, const FramesOfStack& frames, Profile* profile,
                        size_t most = kMostWaitsWritten);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_LOCK_RECORDS_WAITING_COMMENTS_H_
