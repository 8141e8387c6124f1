// Files of older releases have English comments in place of typed records. This is their only reader: it turns these comments into
// the same records, so that nothing else parses a comment. `go tool pprof -proto` drops the records of a file; what it writes
// is read here, too.
//
//   lock 1: mutex 0x55d2c0a81040 contentions 120 delay_ns 5000000 longest_ns 90000 holds 80 hold_ns 4900000
//   lock 1 block: 64 bytes, 16 into it, stack 3        in a live block that was sampled
//   lock 3 frame: 48 into it, stack 5                  in the frame of the first function of that stack
//   lock 1 thread-local: 288                           that far below a thread's own block
//   lock 1 member: bank::Server::queue_mutex_ (server)
//   lock 1 name: queue_mutex (server)                  or server!0x4a080, its address in the file
//   lock 1 wait_times: 19456:90 212992:30              bucket start in ns, count; "incomplete" first if counts are missing
//   lock 1 hold_times: held_ns 2600000 longest_ns 61000 14336:41 57344:39
//   lock 1 alone: 1900000
//   lock 1 waiting: 8 delay_ns 200000000 longest_ns 25000000
//   lock 65 locks: 3936 hottest_ns 1200000
//   lock stack 3: 0x55d2c0901233 0x55d2c0901300        addresses of locations, leaf first
//   lock site 4 mutex wait_times: longest_ns 90000 19456:87.50 212992:31.25
//   lock site 3 rwlock-write alone: 350000 of 400000
//   lock_samples: 7                                    of all locks: contentions, delay_ns, gap_ns; of a kind: mutex delay_ns: 5
//   lock pair 1: lock 1 holder 3 waiter 4 contentions 12.50 delay_ns 400000
//   waiting: 9 threads, delay_ns 210000000000
//   waiting thread 1: tid 4711 number 2 gone 0 name worker
//   waiting thread 2 waits: since its start            also labels:, does:, stack:
//   waiting stack 2: 0x55d2c0901233
//   waiting 1: thread 1 mutex 0x55d2c0a81040 lock 2 delay_ns 25100000000 stack 1 holder 3 source now readers 0 died 0
//   waiting 1 slices: age_ns 60200000000
//   waiting deadlock 1: 1 2
//   waiting not written: 12
//   waiting unknown: why
//   thread 3: stack 2 tid 4713 name io-worker
//   thread stack 2: 0x55d2c0901233
//
// A line that has not this form is skipped.
#ifndef HOLDFAST_REPORT_PROFILE_OLD_COMMENTS_H_
#define HOLDFAST_REPORT_PROFILE_OLD_COMMENTS_H_

#include "report/profile/profile.h"

namespace holdfast {

// Fills the records of a profile that has none, and removes the comments that are not for people.
void ReadOldComments(Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_OLD_COMMENTS_H_
