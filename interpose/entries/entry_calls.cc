// The slow path of a redirected function: the same decisions as in interpose/heap, for a function that is known by its
// shape. Samples stay where the allocator puts them: a block that is freed by size must be in the size class that the
// program asked for, and another free may be inlined.
#include "interpose/entries/entry_calls.h"

#include <string.h>

#include "interpose/arch/entry_slow.h"
#include "interpose/base/readiness.h"
#include "sampler/arch/processor.h"
#include "sampler/heap/exact.h"
#include "sampler/heap/heap.h"

namespace holdfast {

constinit RedirectedEntry redirected_entries[kMostRedirected] = {};

namespace {

uint64_t Argument(const EntryRegisters& registers, int number) {
  switch (number) {
    case 0:
      return registers.rdi;
    case 1:
      return registers.rsi;
    case 2:
      return registers.rdx;
    default:
      return registers.rcx;
  }
}

uint64_t CallReal(const RedirectedEntry& entry, const EntryRegisters& r) {
  using Function = uint64_t(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
  return reinterpret_cast<Function*>(entry.real)(r.rdi, r.rsi, r.rdx, r.rcx, r.r8, r.r9);
}

CallerRegisters CallerOf(const EntryRegisters& r) { return {r.caller, reinterpret_cast<uintptr_t>(&r + 1), r.rbp}; }

void* BlockAt(uint64_t address) { return reinterpret_cast<void*>(address); }

uint64_t SizeOf(const CallShape& shape, const EntryRegisters& r) {
  const uint64_t size = Argument(r, shape.size);
  uint64_t product;
  if (shape.times < 0) return size;
  return __builtin_mul_overflow(size, Argument(r, shape.times), &product) ? UINT64_MAX : product;  // which fails
}

// Whether this call is to be sampled. Charges its size first, unless the stub has done so.
bool IsDue(uint64_t bytes, bool charged) {
  if (charged) return MayBeDue(bytes) && HeapEventDue(bytes);
  return bytes <= kHotSizeLimit && ChargeHeap(bytes) && HeapEventDue(bytes);
}

void RecordIfDue(const EntryRegisters& r, void* block, uint64_t bytes, bool due) {
  if (due) RecordAlloc(CallerOf(r), block, bytes);
}

void Allocate(const RedirectedEntry& entry, EntryRegisters& r, bool charged) {
  const uint64_t bytes = SizeOf(entry.shape, r);
  if (charged && ExactBegun() && bytes <= kHotSizeLimit) {
    const int64_t taken = TakeCharge();
    r.rax = CallReal(entry, r);
    void* block = BlockAt(r.rax);
    if (entry.shape.effect == Effect::kAllocatesInto)
      block = static_cast<int>(r.rax) == 0 ? *static_cast<void**>(BlockAt(r.rdi)) : nullptr;
    const CallerRegisters caller = CallerOf(r);
    if (RecordAllocExact(caller, block, bytes, taken)) return;
    if (PutBackCharge(taken) && HeapEventDue(bytes)) RecordAlloc(caller, block, bytes);
    return;
  }
  const bool due = IsDue(bytes, charged);
  r.rax = CallReal(entry, r);
  if (!due) return;
  void* block = BlockAt(r.rax);
  if (entry.shape.effect == Effect::kAllocatesInto)
    block = static_cast<int>(r.rax) == 0 ? *static_cast<void**>(BlockAt(r.rdi)) : nullptr;
  RecordIfDue(r, block, bytes, true);
}

// The size is only known afterwards.
void Copy(const RedirectedEntry& entry, EntryRegisters& r) {
  const bool has_buffer = entry.shape.effect == Effect::kCopiesPath && r.rsi != 0;
  r.rax = CallReal(entry, r);
  if (r.rax == 0 || has_buffer) return;
  const uint64_t bytes = strlen(static_cast<const char*>(BlockAt(r.rax))) + 1;
  RecordIfDue(r, BlockAt(r.rax), bytes, IsDue(bytes, false));
}

// The four cases of realloc, as in interpose/heap/malloc.cc.
void Reallocate(const RedirectedEntry& entry, EntryRegisters& r, bool charged) {
  const uint64_t bytes = SizeOf(entry.shape, r);
  void* block = BlockAt(Argument(r, entry.shape.block));
  const bool due =
      charged ? MayBeDue(bytes) && HeapEventDue(bytes) : (bytes != 0 || block == nullptr) && IsDue(bytes, false);
  const TakenLive old = block != nullptr ? TakeSample(block) : TakenLive{};
  r.rax = CallReal(entry, r);
  if (r.rax == 0 && bytes != 0 && entry.shape.effect != Effect::kReallocatesOrFrees) {
    PutBackSample(old, block);
    return;
  }
  if (old.sampled()) RecordFree(old, block, true);
  RecordIfDue(r, BlockAt(r.rax), bytes, due);
}

void Resize(const RedirectedEntry& entry, EntryRegisters& r) {
  const uint64_t bytes = SizeOf(entry.shape, r);
  void* block = BlockAt(Argument(r, entry.shape.block));
  const TakenLive old = TakeSample(block);
  r.rax = CallReal(entry, r);
  if (r.rax < bytes) {
    PutBackSample(old, block);
    return;
  }
  if (old.sampled()) RecordFree(old, block, true);
  RecordIfDue(r, block, bytes, IsDue(bytes, false));
}

void Free(const RedirectedEntry& entry, EntryRegisters& r) {
  void* block = BlockAt(Argument(r, entry.shape.block));
  if (block != nullptr && !SurelyNotSampled(block) && !(ExactBegun() && RecordFreeExact(block)) && PassesFilter(block))
    RecordFree(block);
  CallReal(entry, r);  // has no result: rax stays as it was
}

}  // namespace
}  // namespace holdfast

using namespace holdfast;

extern "C" void HoldfastEntryCall(EntryRegisters* registers) {
  EntryRegisters& r = *registers;
  const RedirectedEntry& entry = redirected_entries[r.number >> 1];
  const bool charged = (r.number & kWasCharged) != 0;
  switch (entry.shape.effect) {
    case Effect::kAllocates:
    case Effect::kAllocatesInto:
      return Allocate(entry, r, charged);
    case Effect::kCopies:
    case Effect::kCopiesPath:
      return Copy(entry, r);
    case Effect::kReallocates:
    case Effect::kReallocatesOrFrees:
      return Reallocate(entry, r, charged);
    case Effect::kResizes:
      return Resize(entry, r);
    default:
      return Free(entry, r);
  }
}
