// The queue in front of the list of ranges. One thread changes the list at a time; threads and signal handlers must not
// wait for each other.
//
//     SubmitChange ── list is free ──► applies the queued changes, then its own
//                 └── list is in use ──► into the queue, 72 KiB; the thread that uses the list applies it, in order of arrival
//
// Nothing is lost and nobody waits, unless 1,024 changes are queued because that thread was preempted. Then a caller
// waits until it is back, for 0.3 s at most; after that the change is counted (kMappingsFull) and dropped.
#ifndef HOLDFAST_SAMPLER_TABLE_CHANGE_QUEUE_H_
#define HOLDFAST_SAMPLER_TABLE_CHANGE_QUEUE_H_

#include "sampler/table/mapping_change.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

// Any thread, also in a signal handler. No handler may jump out of it: the caller has its signals blocked. If they
// cannot be blocked (seccomp) and a handler jumps out, later changes are lost and counted.
void SubmitChange(SharedTable* table, const MappingChange& change);

// For a child of fork: the queue, and the thread that used the list, are its parent's. Forgets the ranges too.
void ForgetMappings();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_CHANGE_QUEUE_H_
