// Counts a wait or a hold by its length: TimeHistogram in sampler/contract/records.h. Inside the sampler only.
//
// Any thread, also in a signal handler; lock-free. If there is no room, the loss is counted, and marked in place for
// good.
#ifndef HOLDFAST_SAMPLER_RECORD_LOCK_TIMES_H_
#define HOLDFAST_SAMPLER_RECORD_LOCK_TIMES_H_

#include "sampler/contract/time_buckets.h"
#include "sampler/table/stack_table.h"

namespace holdfast {

// Returns the record at `place`, made if needed. Null: there is no room.
template <typename T, typename Place>
HOLDFAST_COLD T* MakeAtSlow(SharedTable* table, std::atomic<Place>* place) {
  Place found = place->load(std::memory_order_acquire);
  if (found == 0) {
    T* made = table->New<T>(table->OffsetOf(place));
    const Place offset = made != nullptr ? table->OffsetOf(made) : kNoRoom;
    // Release: a thread that finds the offset finds zeroes. Acquire: so do we in another thread's record; ours then
    // stays unused.
    if (place->compare_exchange_strong(found, offset, std::memory_order_acq_rel)) return made;
  }
  return found != kNoRoom ? table->At<T>(static_cast<Offset>(found)) : nullptr;
}

template <typename T, typename Place>
inline T* MakeAt(SharedTable* table, std::atomic<Place>* place) {
  const Place found = place->load(std::memory_order_acquire);
  return LIKELY(found > kNoRoom) ? table->At<T>(static_cast<Offset>(found)) : MakeAtSlow<T>(table, place);
}

// Adds to the bucket of `ns`: one to a lock's counts, a sample's weight to a row's.
template <typename Place>
inline void AddTime(SharedTable* table, std::atomic<Place>* times, uint64_t ns, uint64_t by) {
  const uint32_t bucket = TimeBucket(ns);
  if (auto* histogram = MakeAt<TimeHistogram>(table, times)) {
    if (auto* part = MakeAt<TimePart>(table, &histogram->parts[bucket / kBucketsInPart]))
      return AddTo(table, &part->counts[bucket % kBucketsInPart], by);
  }
  table->Count(Loss::kTimesFull);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_LOCK_TIMES_H_
