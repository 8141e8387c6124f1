// Records of single locks, in the table file: how often and how long threads waited for each, and who waited for whom.
//
//     lock_heads[hash of address and kind] → LockRecord → …        exact sums of every wait and hold
//     pair_heads[hash of the three]        → LockPairRecord → …          weighted sums of sampled holds and waits
//
// Any thread; lock-free, insert-only like the stacks. Full (kMaxLocks, kMaxPairs, or no room): null, counted as
// kLockTableFull; the profiles themselves lose nothing.
#ifndef HOLDFAST_SAMPLER_RECORD_LOCK_RECORDS_H_
#define HOLDFAST_SAMPLER_RECORD_LOCK_RECORDS_H_

#include "sampler/contract/weight.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

LockRecord* FindLockRecord(SharedTable* table, const void* lock, WaitKind kind);

// `holder`, `waiter`: rows, 0 = not known. A pair for a wait alone has no holder; for a hold without captured waiters,
// no waiter.
LockPairRecord* FindLockPair(SharedTable* table, Offset holder, Offset waiter, LockRecord* record);

// `count` and `amount` as in Weight; `parts`: the number of pairs that share the hold.
void AddToPair(SharedTable* table, LockPairRecord* pair, const Weight& weight, uint64_t parts);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_LOCK_RECORDS_H_
