// The slow path of a redirected function: the same decisions as in interpose/heap, for a function that is known by its
// shape. Samples stay where the allocator puts them: a block that is freed by size must be in the size class that the
// program asked for, and another free may be inlined.
#include "interpose/entries/entry_calls.h"

#include <string.h>

#include <atomic>

#include "interpose/arch/entry_slow.h"
#include "interpose/base/readiness.h"
#include "sampler/arch/processor.h"
#include "sampler/capture/little_stack.h"
#include "sampler/capture/module_table.h"
#include "sampler/hot_path/this_thread.h"
#include "sampler/record/exact.h"
#include "sampler/record/heap.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

constinit RedirectedEntry redirected_entries[kMaxRedirected] = {};

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

// Leaves what the real function returns in rax and rdx, where its caller finds it: some return the block's size in rdx.
// If rdx is no result, it keeps the value of the real function.
void CallReal(const RedirectedEntry& entry, EntryRegisters& r) {
  struct Results {
    uint64_t rax, rdx;
  };
  using Function = Results(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
  const Results results = reinterpret_cast<Function*>(entry.real)(r.rdi, r.rsi, r.rdx, r.rcx, r.r8, r.r9);
  r.rax = results.rax;
  r.rdx = results.rdx;
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

// A program's own operator new that keeps account, say, asks for at most so much more than its caller. A guess.
constexpr uint64_t kMaxBeside = 128;

// Whether the real function has got this block from another allocation that was counted: it passes its calls on to the
// next malloc, perhaps with room for a header, or a function that the program calls too allocates for it.
HOLDFAST_COLD bool IsCountedInsideSlow(const AllocationMark& before, void* block, uint64_t bytes) {
  // A smaller charge was for something else: a new thread's first call allocates its thread-local data.
  if (!HasSampledSince(before)) return ChargedSince(before) - (bytes != 0 ? bytes : 1) <= kMaxBeside;
  if (IsWithinLastCounted(block)) return true;
  const TakenLive inner = TakeSample(block);
  if (!inner.sampled()) return false;
  PutBackSample(inner, block);
  return true;
}
// Call ForgetLastCounted before the real function.
void ForgetLastCounted() { SetLastCounted(nullptr, 0); }
bool IsCountedInside(const AllocationMark& before, void* block, uint64_t bytes) {
  if (LIKELY(!HasSampledSince(before) && ChargedSince(before) == 0)) return false;
  return block != nullptr && IsCountedInsideSlow(before, block, bytes);
}

void* BlockOf(const RedirectedEntry& entry, const EntryRegisters& r) {
  if (entry.shape.effect != Effect::kAllocatesInto) return BlockAt(r.rax);
  return static_cast<int>(r.rax) == 0 ? *static_cast<void**>(BlockAt(r.rdi)) : nullptr;
}

// Each returns whether the real function is still to be called, by a jump with all registers restored.

bool Allocate(const RedirectedEntry& entry, EntryRegisters& r, bool charged) {
  const uint64_t bytes = SizeOf(entry.shape, r);
  if (charged && ExactBegun() && bytes <= kHotSizeLimit) {
    const int64_t taken = TakeCharge();
    const AllocationMark before = MarkAllocations();
    ForgetLastCounted();
    CallReal(entry, r);
    void* block = BlockOf(entry, r);
    if (UNLIKELY(IsCountedInside(before, block, bytes))) return false;
    SetLastCounted(block, bytes);
    const CallerRegisters caller = CallerOf(r);
    if (RecordAllocExact(caller, block, bytes, taken)) return false;
    if (PutBackCharge(taken) && HeapEventDue(bytes)) RecordAlloc(caller, block, bytes);
    return false;
  }
  if (!IsDue(bytes, charged)) return true;
  const AllocationMark before = MarkAllocations();
  ForgetLastCounted();
  CallReal(entry, r);
  void* block = BlockOf(entry, r);
  if (UNLIKELY(IsCountedInside(before, block, bytes))) return false;
  SetLastCounted(block, bytes);
  RecordAlloc(CallerOf(r), block, bytes);
  return false;
}

// The size is only known afterwards.
bool Copy(const RedirectedEntry& entry, EntryRegisters& r) {
  const bool has_buffer = entry.shape.block >= 0 && Argument(r, entry.shape.block) != 0;
  const AllocationMark before = MarkAllocations();
  ForgetLastCounted();
  CallReal(entry, r);
  if (r.rax == 0 || has_buffer) return false;
  const uint64_t bytes = strlen(static_cast<const char*>(BlockAt(r.rax))) + 1;
  if (LIKELY(!IsCountedInside(before, BlockAt(r.rax), bytes)) && IsDue(bytes, false))
    RecordAlloc(CallerOf(r), BlockAt(r.rax), bytes);
  return false;
}

bool IsReallocDue(const void* block, uint64_t bytes, bool charged) {
  return charged ? MayBeDue(bytes) && HeapEventDue(bytes) : (bytes != 0 || block == nullptr) && IsDue(bytes, false);
}

// The four cases of realloc, as in interpose/heap/malloc.cc.
bool Reallocate(const RedirectedEntry& entry, EntryRegisters& r, bool charged) {
  const uint64_t bytes = SizeOf(entry.shape, r);
  void* block = BlockAt(Argument(r, entry.shape.block));
  bool due = IsReallocDue(block, bytes, charged);
  const TakenLive old = block != nullptr ? TakeSample(block) : TakenLive{};
  const AllocationMark before = MarkAllocations();
  ForgetLastCounted();
  CallReal(entry, r);
  if (r.rax == 0 && bytes != 0 && entry.shape.effect != Effect::kReallocatesOrFrees) {
    PutBackSample(old, block);
    return false;
  }
  if (old.sampled()) RecordFree(old, block, true);
  if (bytes == 0 && block != nullptr && r.rax != 0) due = IsDue(0, false);  // mimalloc returns a block of 0 bytes
  if (due && LIKELY(!IsCountedInside(before, BlockAt(r.rax), bytes))) RecordAlloc(CallerOf(r), BlockAt(r.rax), bytes);
  return false;
}

bool Resize(const RedirectedEntry& entry, EntryRegisters& r) {
  const uint64_t bytes = SizeOf(entry.shape, r);
  void* block = BlockAt(Argument(r, entry.shape.block));
  const TakenLive old = TakeSample(block);
  CallReal(entry, r);
  if (r.rax < bytes) {
    PutBackSample(old, block);
    return false;
  }
  if (old.sampled()) RecordFree(old, block, true);
  if (IsDue(bytes, false)) RecordAlloc(CallerOf(r), block, bytes);
  return false;
}

bool Free(const RedirectedEntry& entry, EntryRegisters& r) {
  void* block = BlockAt(Argument(r, entry.shape.block));
  if (block != nullptr && !SurelyNotSampled(block) && !(ExactBegun() && RecordFreeExact(block)) && PassesFilter(block))
    RecordFree(block);
  return true;
}

// ---- Functions that free many blocks ----

// jemalloc's names of such functions: "arena.0.reset", "arena.17.destroy".
bool FreesMany(const char* control) {
  if (control == nullptr || strncmp(control, "arena.", 6) != 0) return false;
  const char* action = strrchr(control, '.');
  return strcmp(action, ".reset") == 0 || strcmp(action, ".destroy") == 0;
}

// The numbers of these two: the first and third of {arena, which one, action}. 0: the program has not asked for them.
constexpr int kFreeingControls = 2;
std::atomic<uint64_t> freeing_controls[kFreeingControls];

constexpr int kControlNumbers = 3;
uint64_t KeyOf(const size_t* numbers) { return uint64_t{numbers[0]} << 32 | (numbers[2] & 0x7fffffff) | 1u << 31; }

bool LearnNumbers(const RedirectedEntry& entry, EntryRegisters& r) {
  const bool frees = FreesMany(static_cast<const char*>(BlockAt(r.rdi)));
  const auto* count = static_cast<const size_t*>(BlockAt(r.rdx));
  CallReal(entry, r);
  if (!frees || static_cast<int>(r.rax) != 0 || *count < kControlNumbers) return false;
  const uint64_t key = KeyOf(static_cast<const size_t*>(BlockAt(r.rsi)));
  for (std::atomic<uint64_t>& known : freeing_controls) {
    uint64_t empty = 0;
    if (known.compare_exchange_strong(empty, key, std::memory_order_relaxed) || empty == key) break;
  }
  return false;
}

void LookAtNumbers(const EntryRegisters& r) {
  if (r.rsi != kControlNumbers || r.rdi == 0) return;
  const uint64_t key = KeyOf(static_cast<const size_t*>(BlockAt(r.rdi)));
  for (const std::atomic<uint64_t>& known : freeing_controls) {
    if (known.load(std::memory_order_relaxed) == key) NoteManyFreed();
  }
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
  if (SharedTable* table = due ? CurrentTable() : nullptr) table->Count(Loss::kStackMissing);
}

// Returns whether the real function is still to be called.
bool Handle(const RedirectedEntry& entry, EntryRegisters& r, bool charged) {
  if (entry.shape.effect == Effect::kFrees) return Free(entry, r);
  if (entry.shape.effect == Effect::kFreesMany ||
      (entry.shape.effect == Effect::kControls && FreesMany(static_cast<const char*>(BlockAt(r.rdi))))) {
    NoteManyFreed();
    return true;
  }
  if (entry.shape.effect == Effect::kControls) return true;
  if (entry.shape.effect == Effect::kControlsByNumbers) {
    LookAtNumbers(r);
    return true;
  }
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
    case Effect::kControlNumbers:
      return LearnNumbers(entry, r);
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
