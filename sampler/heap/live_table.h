// The sampled blocks that have not been freed: address → row, size, interval, and since when they live.
//
// Levels of slots, each twice the size of the one before. An address may lie only in the kLiveWindow slots that begin
// at its hash, in any level: a look-up reads a fixed number of slots, a removal leaves nothing behind that would slow
// the next one, and a churn of billions of blocks changes nothing. Who inserts is told the level, and who takes may name
// it (sampler/hot_path/sampled_filter.h remembers it): then two cache lines are all that is looked at, however many blocks live.
//
//     level 0   [····A···|··B·····]     2,048 slots
//     level 1   [··|·C··|··|······]     4,096, made when a window of level 0 was full
//     level 3   [······]  [··D···]      two segments of 8,192, each made when it is needed
//
// Any thread, also in a signal handler; lock-free. A block's address is removed by the thread that frees it before the
// real free, so no two threads ever change the same address.
#ifndef HOLDFAST_SAMPLER_HEAP_LIVE_TABLE_H_
#define HOLDFAST_SAMPLER_HEAP_LIVE_TABLE_H_

#include "sampler/tables/shadow_map.h"
#include "sampler/tables/shared_table.h"

namespace holdfast {

// The level; −1: no slot and no room for another segment (the caller counts kLiveTableFull).
int InsertLive(SharedTable* table, uintptr_t address, const LiveSample& sample);

// A slot that a caller holds: taken out of reach, to be dropped or put back.
struct TakenLive {
  LiveSample sample;
  std::atomic<uint64_t>* key = nullptr;  // null: it did not stand in this table
  Shadowed exact;                        // nor in that one, where its row is 0
  bool sampled() const { return key != nullptr || exact.row != 0; }
};

// Finds `address` and makes its slot unreachable for others, without giving it away yet. `level` −1: in any.
TakenLive TakeLive(SharedTable* table, uintptr_t address, int level = -1);
// The same of a block that the shadow map knows, too (LiveSample::beside_shadow), by its row: after a realloc another block may lie
// at the address.
TakenLive TakeLiveOf(SharedTable* table, uintptr_t address, Offset row);
// The block is gone: the slot is free for others.
void DropLive(const TakenLive& taken);
// The block is still there after all (a realloc that failed).
void PutBackLive(const TakenLive& taken, uintptr_t address);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HEAP_LIVE_TABLE_H_
