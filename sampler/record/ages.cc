#include "sampler/record/ages.h"

#include "sampler/contract/age_buckets.h"
#include "sampler/contract/clock.h"
#include "sampler/contract/weight.h"
#include "sampler/hot_path/own_floats.h"
#include "sampler/process/process.h"
#include "sampler/table/stack_table.h"

namespace holdfast {
namespace {

// The bits of a thread id in LiveSample. Threads that may not ask for their id share one value.
uint32_t ThreadBits(int id) { return static_cast<uint32_t>(id) & ((1u << 26) - 1); }

FreedBy HowFreed(const ThreadState& thread, const LiveSample& sample, bool reallocated) {
  if (sample.thread != ThreadBits(thread.thread_id)) return FreedBy::kOtherThread;
  // Nothing was charged since the gap was drawn, right before this block's sample.
  const bool is_last = sample.moment == thread.samples && thread.heap_countdown == thread.heap_gap;
  return is_last && !reallocated && !thread.in_operator ? FreedBy::kTemporary : FreedBy::kSameThread;
}

// Returns the head of a row's cells; null: there is no room for the row that has them.
std::atomic<Offset>* CellsOf(SharedTable* table, Row* row) {
  if (row->owner != 0 && row->owner != kAgedOwner) row = AgedRowOf(table, row);
  return row != nullptr ? &row->ages : nullptr;
}

AgeCell* CellOf(SharedTable* table, std::atomic<Offset>* cells, uint8_t bucket, FreedBy freed_by) {
  Offset seen = cells->load(std::memory_order_acquire);
  for (Offset at = seen; at != 0;) {
    auto* cell = table->At<AgeCell>(at);
    if (cell->bucket == bucket && cell->freed_by == freed_by) return cell;
    at = cell->next;
  }
  if (UNLIKELY(table->IsFullForAges(sizeof(AgeCell)))) return nullptr;
  auto* made = table->New<AgeCell>(table->OffsetOf(cells));
  if (made == nullptr) return nullptr;
  made->bucket = bucket;
  made->freed_by = freed_by;
  do {
    made->next = seen;
    // Release: a reader that finds the cell finds it whole.
  } while (
      !cells->compare_exchange_weak(seen, table->OffsetOf(made), std::memory_order_release, std::memory_order_acquire));
  return made;
}

}  // namespace

LiveSample BornNow(ThreadState& thread, uint64_t bytes, Offset row, uint32_t interval_index) {
  static_assert(kIntervals <= 32);
  LiveSample sample{};
  sample.size = bytes;
  sample.row = row;
  sample.interval_index = interval_index & (kIntervals - 1);
  if (process.options.lifetimes == Lifetimes::kNo) return sample;
  sample.moment = thread.samples;
  sample.thread = ThreadBits(ThreadId());
  sample.born_ns = MonotonicNs();
  return sample;
}

void AddAge(SharedTable* table, Row* row, const LiveSample& sample, bool reallocated) {
  const int64_t now = sample.born_ns != 0 ? MonotonicNs() : 0;
  if (now == 0) return;
  const int64_t age = now > sample.born_ns ? now - sample.born_ns : 0;
  std::atomic<Offset>* cells = CellsOf(table, row);
  AgeCell* cell = cells != nullptr ? CellOf(table, cells, static_cast<uint8_t>(AgeBucket(age)),
                                            HowFreed(thread_state, sample, reallocated))
                                   : nullptr;
  if (cell == nullptr) return table->Count(Loss::kAgesFull);
  const uint64_t interval = table->header()->heap_intervals[sample.interval_index].interval;
  const OwnFloats floats;
  const Weight weight = WeightOf(sample.size, interval, sample.beside_shadow != 0 ? 1.0 / kAgedOneIn : 1);
  AddTo(table, &cell->objects, weight.count);
  AddTo(table, &cell->bytes, weight.amount);
  AddDouble(&cell->ages_ns, static_cast<double>(age) * static_cast<double>(weight.count) / (1 << kCountFractionBits));
  AddDouble(&cell->variance, weight.count_variance);
}

Row* AgedRowOf(SharedTable* table, Row* own) {
  Offset found = own->ages.load(std::memory_order_acquire);
  if (LIKELY(found != 0)) return table->At<Row>(found);
  if (UNLIKELY(table->IsFullForAges(sizeof(Row)))) return nullptr;
  Row* made = table->New<Row>(table->OffsetOf(own));
  if (made == nullptr) return nullptr;
  made->profile = ProfileKind::kHeap;
  made->owner = kAgedOwner;
  made->size_class = own->size_class;
  // Published first: a reader of the other list needs the row together with its first block. After a race one row stays
  // in the list, empty.
  NoteRow(table, made);
  // Release: a thread that finds the row finds it whole. Acquire: so do we in another thread's row; ours then stays
  // unused.
  if (own->ages.compare_exchange_strong(found, table->OffsetOf(made), std::memory_order_acq_rel)) return made;
  return table->At<Row>(found);
}

}  // namespace holdfast
