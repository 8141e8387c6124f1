#include "sampler/record/exact.h"

#include "sampler/capture/little_stack.h"
#include "sampler/capture/module_table.h"
#include "sampler/capture/sample_stack.h"
#include "sampler/process/cpu_timers.h"
#include "sampler/process/noted_threads.h"
#include "sampler/process/process.h"
#include "sampler/process/small_process.h"
#include "sampler/record/ages.h"
#include "sampler/record/heap.h"
#include "sampler/record/heap_sums.h"
#include "sampler/record/live_table.h"

namespace holdfast {

HOLDFAST_HOT_DATA constinit std::atomic<uint32_t> exact_interval_count{0};

namespace {

struct FoundRow {
  Row* row;
  bool known;  // belongs to this thread and stack: may be remembered. Other rows count what comes to them
};

// If the table is full: a row of the thread's own below the overflow stack, or the one that all threads share.
HOLDFAST_WARM FoundRow FindRowOf(SharedTable* table, const ThreadState& thread, Stack* stack, uint16_t size_class) {
  const auto owner = static_cast<uint8_t>(thread.owner);
  const bool overflows = table->OffsetOf(stack) == table->header()->overflow_stack;  // counted already
  if (!overflows) {
    if (Row* own = FindOwnRow(table, stack, owner, size_class)) return {own, true};
  }
  if (Row* own = OwnOverflowRow(table, owner, size_class)) {
    if (!overflows) table->Count(Loss::kStackTableFull);
    return {own, false};
  }
  return {FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, size_class), false};
}

// For the stack that was just walked. `*stack`: 0 if it is not to be remembered.
FoundRow FindRowOfLast(SharedTable* table, const ThreadState& thread, WalkMemory* memory, uint16_t size_class,
                       TaggedPc labels, Offset* stack, uint64_t* path_hash) {
  StackPath& path = memory->last().path();
  const uint64_t hash = *path_hash = path.HashWith(labels);
  if (const WalkMemory::KnownRow* known = memory->FindKnownRow(hash, size_class)) {
    Row* row = table->At<Row>(known->row);
    if (LIKELY(!IsFull(*row))) {
      *stack = known->stack;
      return {row, true};
    }
  }
  Stack* interned = InternStack(table, &path, labels);
  const FoundRow found = FindRowOf(table, thread, interned, size_class);
  *stack = found.known ? table->OffsetOf(interned) : 0;
  if (found.known) memory->RememberRow(hash, size_class, table->OffsetOf(found.row), *stack);
  return found;
}

// Out of line: usually the walk is known not to be cached.
HOLDFAST_WARM RememberedWalk* FindKnown(WalkMemory* memory, const CallerRegisters& caller) {
  return memory->Find(caller);
}

// For a stack that is not remembered, or not with this size class.
Row* FindRowSlow(SharedTable* table, ThreadState& thread, WalkMemory* memory, const CallerRegisters& caller,
                 uint16_t size_class, bool unknown) {
  RememberedWalk* walk = LIKELY(unknown) ? nullptr : FindKnown(memory, caller);
  FoundRow found;
  if (walk != nullptr) {
    if (const Offset known = walk->RowFor(table, size_class); known != 0) return table->At<Row>(known);
    found = FindRowOf(table, thread, table->At<Stack>(walk->stack), size_class);
  } else {
    SeeThreadNameIfWanted(thread);
    // Read once: a handler may set others.
    const uintptr_t label_word = *LabelWord(thread);
    const TaggedPc labels = LabelFrame(table, LabelsIn(label_word));
    LastWalk& last = memory->last();
    switch (WalkFromLast(table, thread, caller, &last)) {
      case Walked::kLast: {
        Offset stack;
        uint64_t path_hash;
        found = FindRowOfLast(table, thread, memory, size_class, labels, &stack, &path_hash);
        if (stack != 0) walk = memory->KeepIfExpected(caller, path_hash, stack, label_word);
        break;
      }
      case Walked::kTrace:
        found = FindRowOf(table, thread, InternStack(table, *last.trace(), labels), size_class);
        break;
      case Walked::kMissing:
        found = FindRowOf(table, thread, MissingStack(table), size_class);
        break;
    }
  }
  if (walk != nullptr && found.known) walk->RememberRow(size_class, table->OffsetOf(found.row));
  return found.row;
}

void AddAllocExact(SharedTable* table, const ThreadState& thread, Row* row, uint64_t bytes) {
  if (LIKELY(row->owner != 0)) {
    AddOwnAlloc(table, thread, row, bytes);
  } else {
    AddAlloc(table, thread, row, bytes, 1);
  }
}

// Whether the bytes of the word of `address`, and of the next one if `both`, have no block. Tiny ones may have been there.
HOLDFAST_COLD bool HasNoBlock(SharedTable* table, uintptr_t address, bool both) {
  bool none = true;
  VisitShadowAt(table, address, both, &none, [](void* context, uintptr_t) { *static_cast<bool*>(context) = false; });
  return none;
}

// Returns the word for a new block, if neither the shadow map nor the live table has another sample there. `makes`: made
// now if needed. Null: it becomes a live sample.
std::atomic<uint32_t>* FreeWord(SharedTable* table, const void* block, uint64_t bytes, bool makes) {
  const auto address = reinterpret_cast<uintptr_t>(block);
  if (UNLIKELY(!MayBeShadowed(address, bytes)) || UNLIKELY(IsCounted(block))) return nullptr;
  ShadowDirectory* const directory = shadow_directory.load(std::memory_order_acquire);
  std::atomic<uint32_t>* word = ShadowWord(table, directory, address);
  if (word == nullptr && makes && bytes <= kMakesChunk) word = MakeShadowWord(table, directory, address);
  if (UNLIKELY(word == nullptr)) return nullptr;
  if (std::atomic<uint32_t>* free = FreeShadow(table, word, address, bytes); LIKELY(free != nullptr)) return free;
  if (IsTiny(address, bytes)) {
    if (!makes || HasTinies(word->load(std::memory_order_relaxed))) return nullptr;
    word = MakeTinyWord(table, directory, address);
    return word != nullptr && word->load(std::memory_order_relaxed) == 0 ? word : nullptr;
  }
  return HasNoBlock(table, address, bytes > kLargestOwnClass) ? word : nullptr;
}

// A block was just allocated in the place of others: their frees were not seen.
HOLDFAST_WARM void FreeUnseen(SharedTable* table, const void* block, uint64_t bytes) {
  RecordUnseenFree(block);
  if (bytes > kLargestShadowed) return;
  struct Place {
    uintptr_t start, end;
  } place = {reinterpret_cast<uintptr_t>(block), reinterpret_cast<uintptr_t>(block) + bytes};
  VisitShadowAt(table, place.start, bytes > kLargestOwnClass, &place, [](void* context, uintptr_t other) {
    const Place& of = *static_cast<Place*>(context);
    if (other >= of.start && other < of.end) RecordUnseenFree(reinterpret_cast<const void*>(other));
  });
}

// Records that the block lives: small blocks of this thread's own rows in the shadow map, others in the live table.
HOLDFAST_COLD void InsertExactSlow(SharedTable* table, ThreadState& thread, Row* row, const void* block,
                                   uint64_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(block);
  if (row->owner != 0) {
    if (std::atomic<uint32_t>* word = FreeWord(table, block, bytes, true))
      return PutShadow(word, table->OffsetOf(row), address, bytes);
  }
  const int level = InsertLive(table, address, BornNow(thread, bytes, table->OffsetOf(row), thread.interval_index));
  if (level >= 0) return AddToFilter(block, level);
  table->Count(Loss::kLiveTableFull);
  // Its free would never be seen. Undercounting one block beats reporting a false leak.
  ProbeFree(block);
  if (row->owner != 0) return AddFreeExact(table, row, bytes, nullptr, false);
  AddFree(table, thread, row, bytes, 1);
}

// Records a block with an age. False: not this one; nothing has happened.
HOLDFAST_COLD bool RecordAged(SharedTable* table, ThreadState& thread, Row* own, const void* block, uint64_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(block);
  // Without a word in the shadow map its LiveSample has the age anyway.
  if (own->owner == 0) return false;
  std::atomic<uint32_t>* word = FreeWord(table, block, bytes, true);
  if (word == nullptr) return false;
  Row* row = AgedRowOf(table, own);
  LiveSample sample = BornNow(thread, bytes, row != nullptr ? table->OffsetOf(row) : 0, thread.interval_index);
  if (sample.born_ns == 0) return false;
  sample.beside_shadow = 1;
  if (row == nullptr || InsertLive(table, address, sample) < 0) {
    table->Count(Loss::kAgesFull);
    return false;
  }
  AddOwnAlloc(table, thread, row, bytes);
  PutShadow(word, sample.row, address, bytes);
  return true;
}

uint32_t AverageBytes(const Row& row) {
  const uint64_t objects = row.sums[kAllocObjects].load(std::memory_order_relaxed) >> kCountFractionBits;
  const uint64_t bytes = row.sums[kAllocSpace].load(std::memory_order_relaxed) >> kAmountFractionBits;
  return objects != 0 ? static_cast<uint32_t>(bytes / objects) : 0;
}

}  // namespace

HOLDFAST_WARM bool RecordAllocExactSlow(const CallerRegisters& caller, void* block, size_t bytes, int64_t charged,
                                        bool unknown) {
  ThreadState& thread = thread_state;
  if (block == nullptr || LittleStackLeft(kStackForRecord)) return false;
  // A gap of an earlier interval has run out: its sample has that interval's weight.
  if (uint32_t{thread.interval_index} + 1 != exact_interval_count.load(std::memory_order_relaxed)) return false;
  thread.entered_at = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  // Before the sample: a handler that draws its own gap, while muted, must have the last word.
  BeginGap(thread, {1, true});
  Mute(thread);
  SharedTable* const table = CurrentTable();
  // A handler may have forked, and this may be its child.
  if (table == nullptr || !IsExactHere(thread)) {
    Unmute(thread);
    return false;
  }
  WalkMemory* memory = WalkMemory::Make(thread);
  if (UNLIKELY(memory == nullptr)) {
    Unmute(thread);
    return false;
  }
  // Counts what our own code and operators have allocated since the last sample, as HeapEventDue does.
  const int64_t more = charged - static_cast<int64_t>(bytes != 0 ? bytes : 1);
  if (more != 0) ShardOf(table, thread).alloc_bytes.fetch_add(static_cast<uint64_t>(more), std::memory_order_relaxed);
  const OwnTime own_time(table, thread);
  Row* row = FindRowSlow(table, thread, memory, caller, static_cast<uint16_t>(SizeClass(bytes)), unknown);
  std::atomic<uint32_t>* const word = FreeWord(table, block, bytes, false);
  if (UNLIKELY(word == nullptr)) FreeUnseen(table, block, bytes);
  ProbeAlloc(block, bytes, bytes);
  if (LIKELY(!own_time.is_aged()) || !RecordAged(table, thread, row, block, bytes)) {
    AddAllocExact(table, thread, row, bytes);
    if (LIKELY(word != nullptr) && LIKELY(row->owner != 0))
      PutShadow(word, table->OffsetOf(row), reinterpret_cast<uintptr_t>(block), bytes);
    else
      InsertExactSlow(table, thread, row, block, bytes);
  }
  if (UNLIKELY(own_time.measured())) {
    own_time.Add();
    NoteThread(table, thread, row, own_time.start_ns());
    GiveBackRoom(table, thread);
    AfterSample(table);
    SeeCpu(thread);
    LookAtFreeCallsAgain(false);
  }
  Unmute(thread);
  return true;
}

void AddFreeExact(SharedTable* table, Row* row, uint64_t bytes, const void* block, bool reallocated) {
  const ThreadState& thread = thread_state;
  if (row->owner == kAgedOwner) {
    const TakenLive taken = TakeLiveOf(table, reinterpret_cast<uintptr_t>(block), table->OffsetOf(row));
    if (taken.key != nullptr) {
      DropLive(taken);
      AddAge(table, row, taken.sample, reallocated);
    }
  }
  if (row->owner == thread.owner && IsExactHere(thread)) {
    AddOwnFree(table, thread, row, bytes);
    GiveBackRoom(table, thread);
  } else {
    TakeInUse(table, thread, bytes << kAmountFractionBits);
    AddTo(table, &row->sums[kFreeObjectsByOthers], uint64_t{1} << kCountFractionBits);
    AddTo(table, &row->sums[kFreeSpaceByOthers], bytes << kAmountFractionBits);
  }
}

void BeginExact(SharedTable* table, ThreadState& thread, uint32_t interval_count) {
  if (!process.options.replay || process.samples_need_counters || !MayBeExactHere()) return;
  if (IsExactHere(thread) && exact_interval_count.load(std::memory_order_relaxed) == interval_count) return;
  if (!BeginShadow(table)) return;
  // While there is room: samples that find the table full take the short path too.
  if (thread.owner != 0) MakeOwnOverflowRows(table, static_cast<uint8_t>(thread.owner));
  // Frees must search the shadow map too, before the first block that only the shadow map knows.
  BeginWithoutCounters();
  SetExactHere(thread);
  exact_interval_count.store(interval_count, std::memory_order_release);
}

void PauseExact() {
  constexpr uint32_t kNoCount = UINT32_MAX;
  if (ExactBegun()) exact_interval_count.store(kNoCount, std::memory_order_relaxed);
}

Shadowed TakeExact(SharedTable* table, const void* block) {
  const auto address = reinterpret_cast<uintptr_t>(block);
  ShadowDirectory* const directory = shadow_directory.load(std::memory_order_acquire);
  std::atomic<uint32_t>* word = WordOfBlock(table, directory, address);
  // Usually there is none, and no locked instruction is needed.
  if (word == nullptr) return {};
  const uint32_t taken = word->exchange(0, std::memory_order_relaxed);
  if (!IsShadowedRow(taken)) return {};  // freed twice at the same moment
  const Offset row = ShadowedRow(taken);
  const Row& of = *table->At<Row>(row);
  const uint32_t second = of.size_class > kLargestOwnClass ? word[1].load(std::memory_order_relaxed) : 0;
  const std::optional<uint32_t> bytes = CheckedShadowedBytes(of.size_class, second);
  // Its free was not seen, and another block has begun in its second word since: an estimate.
  return {row, bytes.has_value() ? *bytes : AverageBytes(of)};
}

void PutBackExact(SharedTable* table, Shadowed taken, const void* block) {
  const auto address = reinterpret_cast<uintptr_t>(block);
  ShadowDirectory* const directory = shadow_directory.load(std::memory_order_acquire);
  std::atomic<uint32_t>* word = ShadowWord(table, directory, address);
  if (word == nullptr) return;
  const uint32_t value = word->load(std::memory_order_relaxed);
  if (HasTinies(value)) word = TinyWord(table, value, address);
  PutShadow(word, taken.row, address, taken.bytes);
}

void ForgetExact(SharedTable* table) {
  VisitShadow(table, [](SharedTable* of, uintptr_t address) {
    const Shadowed taken = TakeExact(of, reinterpret_cast<const void*>(address));
    if (taken.row == 0) return;
    Row* row = of->At<Row>(taken.row);
    if (row->owner == kAgedOwner) {
      if (const TakenLive age = TakeLiveOf(of, address, taken.row); age.key != nullptr) DropLive(age);
    }
    AddFreeExact(of, row, taken.bytes, nullptr, false);
  });
}

}  // namespace holdfast
