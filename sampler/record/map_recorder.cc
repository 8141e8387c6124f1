#include "sampler/capture/little_stack.h"
#include "sampler/capture/sample_stack.h"
#include "sampler/contract/syscalls.h"
#include "sampler/process/entered.h"
#include "sampler/process/noted_threads.h"
#include "sampler/process/own_table.h"
#include "sampler/process/small_process.h"
#include "sampler/record/before_next_change.h"
#include "sampler/record/maps.h"
#include "sampler/table/change_queue.h"

namespace holdfast {
namespace {

void Submit(SharedTable* table, uint32_t epoch, const MappingChange& change) {
  const SignalsBlocked blocked;
  // A handler may have forked, and this may be its child: the stack is in another table.
  if (OwnState() && process.epoch.load(std::memory_order_acquire) == epoch && CurrentTable() == table)
    SubmitChange(table, change);
}

void Lose() {
  if (SharedTable* table = CurrentTable())
    table->Count(Loss::kMappingsFull);
  else
    CountBeforeTable(&BeforeTable::lost_samples, 1);
}

// Records `change` and its caller.
void Record(const CallerRegisters& caller, MappingChange change) {
  CallBeforeNextChange();
  ThreadState& thread = thread_state;
  const Entered entered(thread);
  if (entered.way() == Way::kClosed) return;
  const uint32_t epoch = process.epoch.load(std::memory_order_acquire);
  // During a sample the table may just be being made.
  SharedTable* table = entered.way() == Way::kOpen ? GetTable() : CurrentTable();
  if (table == nullptr) return CountBeforeTable(&BeforeTable::lost_samples, 1);
  if (entered.way() == Way::kNested) {
    change.stack = table->OffsetOf(MissingStack(table));
    return Submit(table, epoch, change);
  }
  const OwnTime own_time(table, thread);
  if (UNLIKELY(TableIsHidden())) CountMappedBytes(change.end - change.start);
  change.stack = table->OffsetOf(SampleStack(table, thread, caller));
  Submit(table, epoch, change);
  own_time.Add();
  if (own_time.measured()) AfterSample(table);
}

void RecordGone(const MappingChange& change) {
  if (CurrentTable() == nullptr) return;
  CallBeforeNextChange();
  const Entered entered(thread_state);
  SharedTable* table = CurrentTable();  // a child of fork may have noticed that it is one
  if (entered.way() == Way::kClosed || table == nullptr) return;
  Submit(table, process.epoch.load(std::memory_order_acquire), change);
}

__attribute__((noinline)) void RecordMappedSlow(const CallerRegisters& caller, uintptr_t start, size_t bytes,
                                                MappingKind kind) {
  MappingChange change;
  change.start = start;
  change.end = start + bytes;
  change.ticket = TakeMappingTicket();
  change.kind = kind;
  Record(caller, change);
}

__attribute__((noinline)) void RecordUnmappedSlow(uintptr_t start, size_t bytes, uint64_t ticket, bool detached) {
  MappingChange change;
  change.removed_start = start;
  change.removed_end = start + bytes;
  change.older_than = ticket;
  change.detached = detached;
  RecordGone(change);
}

__attribute__((noinline)) void RecordMovedSlow(const CallerRegisters& caller, const Moved& moved, uint64_t ticket) {
  MappingChange change;
  change.removed_start = moved.from;
  change.removed_end = moved.from + (moved.stays ? 0 : moved.from_bytes);
  change.older_than = ticket;
  change.start = moved.to;
  change.end = moved.to + moved.to_bytes;
  change.ticket = TakeMappingTicket();
  Record(caller, change);
}

}  // namespace

// Before anything that uses stack. Each continues by a jump.

void RecordMapped(const CallerRegisters& caller, uintptr_t start, size_t bytes, MappingKind kind) {
  if (UNLIKELY(LittleStackLeft(kStackForRecord))) return Lose();
  RecordMappedSlow(caller, start, bytes, kind);
}

void RecordUnmapped(uintptr_t start, size_t bytes, uint64_t ticket) {
  if (UNLIKELY(LittleStackLeft(kStackForRecord))) return Lose();
  RecordUnmappedSlow(start, bytes, ticket, false);
}

void RecordMoved(const CallerRegisters& caller, const Moved& moved, uint64_t ticket) {
  if (UNLIKELY(LittleStackLeft(kStackForRecord))) return Lose();
  RecordMovedSlow(caller, moved, ticket);
}

void RecordDetached(uintptr_t start, uint64_t ticket) {
  if (UNLIKELY(LittleStackLeft(kStackForRecord))) return Lose();
  RecordUnmappedSlow(start, 0, ticket, true);
}

void CountUnknownMapping() {
  if (OwnState()) Lose();
}

}  // namespace holdfast
