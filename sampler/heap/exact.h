// Every allocation recorded: the short way at interval 1.
//
//     malloc ──► the real malloc ──► RecordAllocExact ── walk remembered ──► the thread's own row: two additions; a word of the shadow map
//                                          ├── not this time ──► RecordAllocExactSlow: walks, finds the row, remembers both
//                                          └── not now ──► false: HeapEventDue, RecordAlloc (heap.h), as at any interval
//     free   ──► RecordFreeExact ──► the word, two additions ──► the real free
//
// Of one block in kAgedOneIn, chosen at random, the age is taken as well: it has a row of its own beside the thread's (kAgedOwner),
// which is nobody's, and so leads its free to AddFreeExact; and its LiveSample stands beside its word.
//
// What is recorded is the same as by the long way, stack by stack and block by block (HOLDFAST_REPLAY=0 takes that one). In use
// from the first sample at interval 1 on; where the interval is changed later, blocks that were recorded so stay known.
//
// Any thread, signal handlers, children of fork and vfork; no lock, no allocation, errno kept.
#ifndef HOLDFAST_SAMPLER_HEAP_EXACT_H_
#define HOLDFAST_SAMPLER_HEAP_EXACT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/contract/weight.h"
#include "sampler/heap/in_use.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/hot_path/timed_samples.h"
#include "sampler/process/enter.h"
#include "sampler/stacks/remembered_walks.h"
#include "sampler/tables/shadow_map.h"

namespace holdfast {

// TableHeader::heap_interval_count when the newest interval was last seen to be 1; 0: it never was.
extern HOLDFAST_HIDDEN std::atomic<uint32_t> exact_interval_count;

// Whether some block may have been recorded so.
inline bool ExactBegun() { return exact_interval_count.load(std::memory_order_relaxed) != 0; }

// Whether all is as it was at this thread's last sample: its own process, interval 1, nothing of ours under way. `table` may be
// null or another process's where it is not.
HOLDFAST_HOT inline bool IsExactNow(const ThreadState& thread, SharedTable* table) {
  const uint32_t count = exact_interval_count.load(std::memory_order_relaxed);
  return LIKELY(!thread.muted) && LIKELY(IsExactHere(thread)) &&
         LIKELY(table->header()->heap_interval_count.load(std::memory_order_relaxed) == count);
}

// What was charged since the last sample, taken off the countdown before the real function runs: whatever comes in between (a lock
// that the allocator waits for, a handler, one that jumps out) finds the thread as if nothing were under way.
HOLDFAST_HOT inline int64_t TakeCharge() {
  ThreadState& thread = thread_state;
  const int64_t charged = thread.heap_gap - thread.heap_countdown;
  thread.heap_countdown = thread.heap_gap;
  return charged;
}
// It is to be recorded in another way. True: the countdown has run out.
inline bool PutBackCharge(int64_t charged) {
  // A handler may have drawn a gap that is not over.
  thread_state.heap_countdown -= charged;
  return thread_state.heap_countdown <= 0;
}

// To a row of the calling thread's own, and to what it has in use. True: the row is full, see kFullSum.
HOLDFAST_HOT inline bool AddOwnAlloc(SharedTable* table, const ThreadState& thread, Row* row, uint64_t bytes) {
  AddOwnInUse(table, thread, bytes << kAmountFractionBits);
  const bool full = FillsAsOwner(&row->sums[kAllocObjects], uint64_t{1} << kCountFractionBits);
  return FillsAsOwner(&row->sums[kAllocSpace], bytes << kAmountFractionBits) || full;
}
HOLDFAST_HOT inline void AddOwnFree(SharedTable* table, const ThreadState& thread, Row* row, uint64_t bytes) {
  AddAsOwner(&row->sums[kFreeObjects], uint64_t{1} << kCountFractionBits);
  AddAsOwner(&row->sums[kFreeSpace], bytes << kAmountFractionBits);
  TakeOwnInUse(table, thread, bytes << kAmountFractionBits);
}

// `unknown`: this walk was looked for among those that are remembered, and is none of them.
bool RecordAllocExactSlow(const CallerRegisters& caller, void* block, size_t bytes, int64_t charged, bool unknown);

// `block` was just allocated for the program, at a charge that ran out and was taken. False: nothing has happened.
HOLDFAST_HOT inline bool RecordAllocExact(CallerRegisters caller, void* block, size_t bytes, int64_t charged) {
  ThreadState& thread = thread_state;
  SharedTable* const recorded = table();
  if (UNLIKELY(!IsExactNow(thread, recorded))) return false;
  const auto address = reinterpret_cast<uintptr_t>(block);
  WalkMemory* const memory = WalkMemory::Of(thread);
  bool unknown = false;
  // Nothing charged but this block; a block of 0 bytes is charged 1, and goes the other way.
  // No block (null) leads to a word that looks like a row.
  if (LIKELY(charged == static_cast<int64_t>(bytes)) && LIKELY(thread.heap_gap == 1) &&
      LIKELY(address % kShadowGrain == 0) && LIKELY(memory != nullptr) && LIKELY(IsUntimed(thread))) {
    thread.entered_at = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    Mute(thread);
    std::atomic<uint32_t>* word = ShadowWord(recorded, shadow_directory.load(std::memory_order_relaxed), address);
    if (LIKELY(word != nullptr)) {
      // It lies in no cache, as often as not: it comes while the walk is compared.
      __builtin_prefetch(word, 1);
      if (RememberedWalk* walk = memory->Find(caller); LIKELY(walk != nullptr)) {
        const uint32_t size_class = LIKELY(bytes <= SmallSizeClasses::kLargest) ? kSmallSizeClasses.of[bytes]
                                    : bytes <= kLargestShadowed                 ? SizeClass(bytes)
                                                                                : kNoSizeClass;
        const Offset row_at = walk->RowFor(recorded, size_class);
        if (LIKELY(row_at != 0) && LIKELY(!IsCounted(block)) && IsFreeShadow(word, bytes)) {
          PutShadowedSize(word, bytes);
          CountUntimed(thread);
          if (UNLIKELY(AddOwnAlloc(recorded, thread, recorded->At<Row>(row_at), bytes))) walk->ForgetRow(size_class);
          PutShadowedRow(word, row_at);
          Unmute(thread);
          return true;
        }
      } else {
        unknown = true;
      }
    }
    Unmute(thread);
  }
  return RecordAllocExactSlow(InMemory(caller), block, bytes, charged, unknown);
}

// Counts `block` as freed that was recorded in this row.
void AddFreeExact(SharedTable* table, Row* row, uint64_t bytes, const void* block, bool reallocated);

// A block whose word was taken away before the real function runs, if it has one; then says how that ended. Not found: it is no block
// that was recorded so, or not by an introduced thread of this process, and goes the long way.
class TakenExact {
 public:
  HOLDFAST_HOT explicit TakenExact(const void* block) {
    if (UNLIKELY(block == nullptr) || UNLIKELY(!IsExactHere(thread_state))) return;
    const auto address = reinterpret_cast<uintptr_t>(block);
    table_ = table();
    std::atomic<uint32_t>* word = ShadowWord(table_, shadow_directory.load(std::memory_order_relaxed), address);
    if (UNLIKELY(word == nullptr) || UNLIKELY(address % kShadowGrain != 0)) return;
    row_ = word->load(std::memory_order_relaxed);
    if (UNLIKELY(!IsShadowedRow(row_))) return;
    second_ = word[1].load(std::memory_order_relaxed);
    word->store(0, std::memory_order_relaxed);
    word_ = word;
  }
  bool found() const { return word_ != nullptr; }
  HOLDFAST_HOT void Freed(const void* block, bool reallocated = false) const {
    Row* row = table_->At<Row>(row_);
    const uint32_t bytes = ShadowedBytes(row->size_class, second_);
    if (UNLIKELY(row->owner != thread_state.owner)) return AddFreeExact(table_, row, bytes, block, reallocated);
    AddOwnFree(table_, thread_state, row, bytes);
  }
  void Stays() const { word_->store(row_, std::memory_order_release); }

 private:
  SharedTable* table_ = nullptr;
  std::atomic<uint32_t>* word_ = nullptr;
  Offset row_ = 0;
  uint32_t second_ = 0;  // read before the block is given back: another may begin between, and take that word
};

// Before the real free. False: the long way.
HOLDFAST_HOT inline bool RecordFreeExact(const void* block) {
  const TakenExact taken(block);
  if (UNLIKELY(!taken.found())) return false;
  taken.Freed(block);
  return true;
}

// For the long way. From a sample at interval 1 on; `interval_count`: how many were ever set.
void BeginExact(SharedTable* table, ThreadState& thread, uint32_t interval_count);
// Takes the block's word away; put back, it is there again.
Shadowed TakeExact(SharedTable* table, const void* block);
void PutBackExact(SharedTable* table, Shadowed taken, const void* block);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HEAP_EXACT_H_
