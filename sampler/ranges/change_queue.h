// The way to the list of ranges, which one thread changes at a time, for threads and signal handlers that must not wait for each other.
//
//     SubmitChange ── nobody is at it ──► takes what is queued, then its own, into the list
//                 └── somebody is ──► into the queue, 72 KiB of it; who is at it takes it along, in the order of arrival
//
// Nothing is lost and nobody waits, but where 1,024 changes are queued, as who is at it has been taken off its processor: then
// until it is back, for 0.3 s at most, and after that the change is counted (kMappingsFull) and forgotten.
#ifndef HOLDFAST_SAMPLER_RANGES_CHANGE_QUEUE_H_
#define HOLDFAST_SAMPLER_RANGES_CHANGE_QUEUE_H_

#include "sampler/ranges/mapping_change.h"
#include "sampler/tables/shared_table.h"

namespace holdfast {

// Any thread, also in a signal handler. No handler may jump out of it: the caller has its signals blocked. Where none can be
// (seccomp), and one jumps, later changes are lost and counted.
void SubmitChange(SharedTable* table, const MappingChange& change);

// In a child of fork: the queue, and who was at it, are its parent's. Ranges too.
void ForgetMappings();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RANGES_CHANGE_QUEUE_H_
