// The sampled blocks that are not yet freed: address → row, size, interval, and time of birth.
//
// Levels of slots, each twice the size of the previous one. An address may only be in the kLiveWindow slots that begin
// at its hash, in any level. So a look-up reads a fixed number of slots, a removal leaves nothing that would slow the
// next one, and a churn of billions of blocks changes nothing. An insertion returns the level, and a removal may name
// it (sampler/hot_path/sampled_filter.h remembers it): then a look-up reads two cache lines, however many blocks live.
//
//     level 0   [····A···|··B·····]     2,048 slots
//     level 1   [··|·C··|··|······]     4,096, made when a window of level 0 was full
//     level 3   [······]  [··D···]      two segments of 8,192, each made when it is needed
//
// Any thread, also in a signal handler; lock-free. The thread that frees a block removes its address before the real
// free, so no two threads ever change the same address.
#ifndef HOLDFAST_SAMPLER_RECORD_LIVE_TABLE_H_
#define HOLDFAST_SAMPLER_RECORD_LIVE_TABLE_H_

#include "sampler/table/shadow_map.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

// Returns the level; −1: no slot and no room for another segment (the caller counts kLiveTableFull).
int InsertLive(SharedTable* table, uintptr_t address, const LiveSample& sample);

// A slot made unreachable, to be dropped or put back.
struct TakenLive {
  LiveSample sample;
  std::atomic<uint64_t>* key = nullptr;  // null: not in this table
  Shadowed exact;                        // row 0: not in the shadow map either
  bool sampled() const { return key != nullptr || exact.row != 0; }
};

// Finds `address` and makes its slot unreachable for others, without freeing it yet. `level` −1: any.
TakenLive TakeLive(SharedTable* table, uintptr_t address, int level = -1);
// The same for a block that is in the shadow map too (LiveSample::beside_shadow), identified by its row: after a
// realloc another block may be at the address.
TakenLive TakeLiveOf(SharedTable* table, uintptr_t address, Offset row);
// The block is gone: frees the slot.
void DropLive(const TakenLive& taken);
// The block still exists (a realloc failed): makes the slot reachable again.
void PutBackLive(const TakenLive& taken, uintptr_t address);

// Calls `visit` with the address of each block in the table.
void VisitLive(SharedTable* table, void (*visit)(SharedTable* table, uintptr_t address));

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_LIVE_TABLE_H_
