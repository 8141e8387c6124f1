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
#include "sampler/stacks/little_stack.h"
#include "sampler/tables/shared_table.h"

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

// Each returns whether the real function is still to be called, by a jump with all registers restored.

bool Allocate(const RedirectedEntry& entry, EntryRegisters& r, bool charged) {
  const uint64_t bytes = SizeOf(entry.shape, r);
  if (charged && ExactBegun() && bytes <= kHotSizeLimit) {
    const int64_t taken = TakeCharge();
    r.rax = CallReal(entry, r);
    void* block = BlockAt(r.rax);
    if (entry.shape.effect == Effect::kAllocatesInto)
      block = static_cast<int>(r.rax) == 0 ? *static_cast<void**>(BlockAt(r.rdi)) : nullptr;
    const CallerRegisters caller = CallerOf(r);
    if (RecordAllocExact(caller, block, bytes, taken)) return false;
    if (PutBackCharge(taken) && HeapEventDue(bytes)) RecordAlloc(caller, block, bytes);
    return false;
  }
  if (!IsDue(bytes, charged)) return true;
  r.rax = CallReal(entry, r);
  void* block = BlockAt(r.rax);
  if (entry.shape.effect == Effect::kAllocatesInto)
    block = static_cast<int>(r.rax) == 0 ? *static_cast<void**>(BlockAt(r.rdi)) : nullptr;
  RecordIfDue(r, block, bytes, true);
  return false;
}

// The size is only known afterwards.
bool Copy(const RedirectedEntry& entry, EntryRegisters& r) {
  const bool has_buffer = entry.shape.effect == Effect::kCopiesPath && r.rsi != 0;
  r.rax = CallReal(entry, r);
  if (r.rax == 0 || has_buffer) return false;
  const uint64_t bytes = strlen(static_cast<const char*>(BlockAt(r.rax))) + 1;
  RecordIfDue(r, BlockAt(r.rax), bytes, IsDue(bytes, false));
  return false;
}

bool IsReallocDue(const void* block, uint64_t bytes, bool charged) {
  return charged ? MayBeDue(bytes) && HeapEventDue(bytes) : (bytes != 0 || block == nullptr) && IsDue(bytes, false);
}

// The four cases of realloc, as in interpose/heap/malloc.cc.
bool Reallocate(const RedirectedEntry& entry, EntryRegisters& r, bool charged) {
  const uint64_t bytes = SizeOf(entry.shape, r);
  void* block = BlockAt(Argument(r, entry.shape.block));
  const bool due = IsReallocDue(block, bytes, charged);
  const TakenLive old = block != nullptr ? TakeSample(block) : TakenLive{};
  r.rax = CallReal(entry, r);
  if (r.rax == 0 && bytes != 0 && entry.shape.effect != Effect::kReallocatesOrFrees) {
    PutBackSample(old, block);
    return false;
  }
  if (old.sampled()) RecordFree(old, block, true);
  RecordIfDue(r, BlockAt(r.rax), bytes, due);
  return false;
}

bool Resize(const RedirectedEntry& entry, EntryRegisters& r) {
  const uint64_t bytes = SizeOf(entry.shape, r);
  void* block = BlockAt(Argument(r, entry.shape.block));
  const TakenLive old = TakeSample(block);
  r.rax = CallReal(entry, r);
  if (r.rax < bytes) {
    PutBackSample(old, block);
    return false;
  }
  if (old.sampled()) RecordFree(old, block, true);
  RecordIfDue(r, block, bytes, IsDue(bytes, false));
  return false;
}

bool Free(const RedirectedEntry& entry, EntryRegisters& r) {
  void* block = BlockAt(Argument(r, entry.shape.block));
  if (block != nullptr && !SurelyNotSampled(block) && !(ExactBegun() && RecordFreeExact(block)) && PassesFilter(block))
    RecordFree(block);
  return true;
}

// The saved registers take up to 2.7 KiB of stack, and the real function would run below them. So where the thread has
// less than this, it runs without them, and a sample that is due is lost.
constexpr uintptr_t kStackForReal = 8 << 10;

void SkipSample(const RedirectedEntry& entry, const EntryRegisters& r, bool charged) {
  bool due = false;
  switch (entry.shape.effect) {
    case Effect::kAllocates:
    case Effect::kAllocatesInto:
      due = IsDue(SizeOf(entry.shape, r), charged);
      break;
    case Effect::kReallocates:
    case Effect::kReallocatesOrFrees: {
      void* block = BlockAt(Argument(r, entry.shape.block));
      due = IsReallocDue(block, SizeOf(entry.shape, r), charged);
      if (const TakenLive old = block != nullptr ? TakeSample(block) : TakenLive{}; old.sampled())
        RecordFree(old, block, true);
      break;
    }
    default:
      break;  // its size is only known afterwards
  }
  if (SharedTable* recorded = due ? table() : nullptr) recorded->Count(Loss::kStackMissing);
}

// Returns whether the real function is still to be called.
bool Handle(const RedirectedEntry& entry, EntryRegisters& r, bool charged) {
  if (entry.shape.effect == Effect::kFrees) return Free(entry, r);
  if (LittleStackLeft(kStackForReal)) {
    SkipSample(entry, r, charged);
    return true;
  }
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
    default:
      return Resize(entry, r);
  }
}

}  // namespace
}  // namespace holdfast

using namespace holdfast;

extern "C" void HoldfastEntryCall(EntryRegisters* registers) {
  EntryRegisters& r = *registers;
  const RedirectedEntry& entry = redirected_entries[r.number >> 1];
  r.number = Handle(entry, r, (r.number & kWasCharged) != 0) ? entry.real : 0;
}
