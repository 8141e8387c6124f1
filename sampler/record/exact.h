// Every allocation recorded: the short path at interval 1.
//
//     malloc ──► the real malloc ──► RecordAllocExact ── walk remembered ──► the thread's own row: two additions; a word of the shadow map
//                                          ├── unknown walk ──► RecordAllocExactSlow: walks, finds the row, remembers both
//                                          └── not possible now ──► false: HeapEventDue, RecordAlloc (heap.h), as at any interval
//     free   ──► RecordFreeExact ──► the word, two additions ──► the real free
//
// One block in kAgedOneIn, chosen at random, has an age. Its row is beside the thread's own (kAgedOwner) and belongs to
// no thread, which leads its free to AddFreeExact. Its LiveSample is in the live table as well.
//
// The result is the same as on the long path, stack by stack and block by block (HOLDFAST_REPLAY=0 selects that path).
// In use from the first sample at interval 1 on. If the interval changes later, the blocks that were recorded stay
// known.
//
// Any thread, signal handlers, children of fork and vfork; no lock, no allocation, errno kept.
#ifndef HOLDFAST_SAMPLER_RECORD_EXACT_H_
#define HOLDFAST_SAMPLER_RECORD_EXACT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/capture/remembered_walks.h"
#include "sampler/contract/weight.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/hot_path/timed_samples.h"
#include "sampler/process/enter.h"
#include "sampler/record/otel_probes.h"
#include "sampler/table/in_use.h"
#include "sampler/table/shadow_map.h"

namespace holdfast {

// TableHeader::heap_interval_count when the newest interval was last seen to be 1; 0: it never was.
extern HOLDFAST_HIDDEN std::atomic<uint32_t> exact_interval_count;

// Sends allocations to the long path until a sample at interval 1 is recorded there again. Recorded blocks stay known.
void PauseExact();

// Whether any block may have been recorded on the short path.
inline bool ExactBegun() { return exact_interval_count.load(std::memory_order_relaxed) != 0; }

// Whether nothing has changed since this thread's last sample: same process, interval 1, none of our own work in
// progress. If the process has changed, `table` may be null or another process's.
HOLDFAST_HOT inline bool IsExactNow(const ThreadState& thread, SharedTable* table) {
  const uint32_t count = exact_interval_count.load(std::memory_order_relaxed);
  return LIKELY(!thread.muted) && LIKELY(IsExactHere(thread)) &&
         LIKELY(table->header()->heap_interval_count.load(std::memory_order_relaxed) == count);
}

// Takes the bytes charged since the last sample off the countdown before the real function runs. Whatever happens in
// between (a lock in the allocator, a signal handler, a jump out) finds the thread as if nothing were in progress.
HOLDFAST_HOT inline int64_t TakeCharge() {
  ThreadState& thread = thread_state;
  const int64_t charged = thread.heap_gap - thread.heap_countdown;
  thread.heap_countdown = thread.heap_gap;
  return charged;
}
// Undoes TakeCharge, for a block that the long path records. True: the countdown has run out.
inline bool PutBackCharge(int64_t charged) {
  // A handler may have drawn a new gap that is not over.
  thread_state.heap_countdown -= charged;
  return thread_state.heap_countdown <= 0;
}

// Adds to a row of the calling thread and to its bytes in use. True: the row is full, see kFullSum.
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

// `unknown`: this walk is known not to be remembered.
bool RecordAllocExactSlow(const CallerRegisters& caller, void* block, size_t bytes, int64_t charged, bool unknown);

// Records `block`, just allocated for the program, after its charge ran out and was taken. False: nothing has happened.
HOLDFAST_HOT inline bool RecordAllocExact(CallerRegisters caller, void* block, size_t bytes, int64_t charged) {
  ThreadState& thread = thread_state;
  SharedTable* const table = CurrentTable();
  if (UNLIKELY(!IsExactNow(thread, table))) return false;
  const auto address = reinterpret_cast<uintptr_t>(block);
  WalkMemory* const memory = WalkMemory::Of(thread);
  bool unknown = false;
  // The charge is this block's alone. A block of 0 bytes is charged 1, and takes the other path. Also tests for a null
  // block: no block is in the first pages.
  if (LIKELY(charged == static_cast<int64_t>(bytes)) && LIKELY(thread.heap_gap == 1) &&
      (LIKELY(address % kShadowAlignment == 0) || bytes <= kLargestTiny) && LIKELY(memory != nullptr) &&
      LIKELY(IsUntimed(thread))) {
    thread.entered_at = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    Mute(thread);
    std::atomic<uint32_t>* word = ShadowWord(table, shadow_directory.load(std::memory_order_relaxed), address);
    if (LIKELY(word != nullptr) && LIKELY(address >> kShadowShift != 0)) {
      // Often a cache miss: the line arrives while the walk is compared.
      __builtin_prefetch(word, 1);
      if (RememberedWalk* walk = memory->Find(caller); LIKELY(walk != nullptr)) {
        const uint32_t size_class = LIKELY(bytes <= SmallSizeClasses::kLargest) ? kSmallSizeClasses.of[bytes]
                                    : bytes <= kLargestShadowed                 ? SizeClass(bytes)
                                                                                : kNoSizeClass;
        const Offset row_at = walk->RowFor(table, size_class);
        if (LIKELY(row_at != 0) && LIKELY(!IsCounted(block)) &&
            LIKELY((word = FreeShadow(table, word, address, bytes)) != nullptr)) {
          PutShadowedSize(word, bytes);
          CountUntimed(thread);
          if (UNLIKELY(AddOwnAlloc(table, thread, table->At<Row>(row_at), bytes))) walk->ForgetRow(size_class);
          ProbeAllocExact(block, bytes);
          PutShadowedRow(word, row_at, address);
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

// Counts `block` of this row as freed. Null: the age is not known.
void AddFreeExact(SharedTable* table, Row* row, uint64_t bytes, const void* block, bool reallocated);

// Removes a block's word, if it has one, before the real function runs; then records how that ended. Not found: the
// block was not recorded here, or the calling thread is not an introduced thread of this process; use the long path.
class TakenExact {
 public:
  HOLDFAST_HOT explicit TakenExact(const void* block) {
    // The table's first word, to which a null block leads, is no block's.
    if (UNLIKELY(!IsExactHere(thread_state))) return;
    const auto address = reinterpret_cast<uintptr_t>(block);
    table_ = CurrentTable();
    std::atomic<uint32_t>* word = ShadowWord(table_, shadow_directory.load(std::memory_order_relaxed), address);
    if (UNLIKELY(word == nullptr)) return;
    uint32_t taken = word->load(std::memory_order_relaxed);
    if (UNLIKELY(!IsShadowOf(taken, address))) {
      if (!HasTinies(taken)) return;
      word = TinyWord(table_, taken, address);
      taken = word->load(std::memory_order_relaxed);
      if (UNLIKELY(!IsShadowedRow(taken))) return;
    }
    second_ = word[1].load(std::memory_order_relaxed);
    word->store(0, std::memory_order_relaxed);
    taken_ = taken;
    word_ = word;
  }
  bool found() const { return word_ != nullptr; }
  HOLDFAST_HOT void Freed(const void* block, bool reallocated = false) const {
    ProbeFreeExact(block);
    Row* row = RowOfShadow(table_, taken_);
    const uint32_t bytes = ShadowedBytes(row->size_class, second_);
    if (UNLIKELY(row->owner != thread_state.owner)) return AddFreeExact(table_, row, bytes, block, reallocated);
    AddOwnFree(table_, thread_state, row, bytes);
  }
  void Stays() const { word_->store(taken_, std::memory_order_release); }

 private:
  SharedTable* table_ = nullptr;
  std::atomic<uint32_t>* word_ = nullptr;
  uint32_t taken_ = 0;
  uint32_t second_ = 0;  // read before the real free: afterwards another block may use this word
};

// Call before the real free. False: use the long path.
HOLDFAST_HOT inline bool RecordFreeExact(const void* block) {
  const TakenExact taken(block);
  if (UNLIKELY(!taken.found())) return false;
  taken.Freed(block);
  return true;
}

// For the long path, at each sample at interval 1; `interval_count`: how many intervals were ever set.
void BeginExact(SharedTable* table, ThreadState& thread, uint32_t interval_count);
// Removes the block's word; PutBackExact restores it.
Shadowed TakeExact(SharedTable* table, const void* block);
void PutBackExact(SharedTable* table, Shadowed taken, const void* block);
// Removes the words of all blocks, and counts these as freed, without ages.
void ForgetExact(SharedTable* table);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_EXACT_H_
