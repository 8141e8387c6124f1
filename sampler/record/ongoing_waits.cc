#include "sampler/record/ongoing_waits.h"

#include <pthread.h>

#include <bit>

#include "sampler/contract/lock_words.h"
#include "sampler/contract/syscalls.h"
#include "sampler/process/process.h"

namespace holdfast {
namespace {

constexpr uint32_t kProbes = 16;  // slots tried before another segment is made

uint32_t TurnOf(uint64_t owner) { return static_cast<uint32_t>(owner); }
uint32_t ThreadOf(uint64_t owner) { return static_cast<uint32_t>(owner >> kOngoingThreadShift); }
uint64_t Owner(uint32_t turn, uint32_t thread_id) { return uint64_t{thread_id} << kOngoingThreadShift | turn; }
uint32_t LowBits(const void* wait) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(wait)); }

int SegmentOf(uint32_t number) { return number < kOngoingSlots0 ? 0 : std::bit_width(number / kOngoingSlots0); }

// Null: there is no such segment.
OngoingWait* SlotAt(SharedTable* table, uint32_t number) {
  const int segment = SegmentOf(number);
  const Offset at = table->header()->ongoing_segments[segment].load(std::memory_order_acquire);
  return at == 0 ? nullptr : table->At<OngoingWait>(at) + (number - OngoingSlotsUpTo(segment));
}

int Segments(SharedTable* table) {
  const auto& segments = table->header()->ongoing_segments;
  int made = 0;
  while (made < kOngoingSegments && segments[made].load(std::memory_order_acquire) != 0) ++made;
  return made;
}

// False: the table is full.
bool PublishSegment(SharedTable* table, int number) {
  // Slots have their own cache lines; other records are only aligned to 8 bytes.
  const uint32_t slots = OngoingSlotsUpTo(number + 1) - OngoingSlotsUpTo(number);
  constexpr auto kLine = static_cast<uint32_t>(alignof(OngoingWait));
  auto* made = static_cast<char*>(table->Allocate(slots * static_cast<uint32_t>(sizeof(OngoingWait)) + kLine));
  if (made == nullptr) return false;
  made += -reinterpret_cast<uintptr_t>(made) % kLine;
  Offset none = 0;
  table->header()->ongoing_segments[number].compare_exchange_strong(
      none, table->OffsetOf(made), std::memory_order_release, std::memory_order_acquire);
  return true;
}

// 1 + the number of the segment that a thread is making; 0: none.
constinit std::atomic<uint32_t> being_made{0};

// If several threads come here together, the first one makes the segment, which takes a hundred microseconds; the
// others give it some time, also to run. It may have left by a jump; then each makes one, and all but one stay unused.
bool MakeSegment(SharedTable* table, int number) {
  std::atomic<Offset>& segment = table->header()->ongoing_segments[number];
  const auto mine = static_cast<uint32_t>(number) + 1;
  constexpr int kSpins = 256, kYields = 16;
  uint32_t others = 0;
  if (!being_made.compare_exchange_strong(others, mine, std::memory_order_relaxed) && others == mine) {
    for (int i = 0; i < kSpins + kYields; ++i) {
      if (segment.load(std::memory_order_acquire) != 0) return true;
      if (being_made.load(std::memory_order_acquire) != mine) break;  // made, or there was no room
      if (i < kSpins || no_system_calls.load(std::memory_order_relaxed)) {
        SpinPause();
      } else {
        RawSyscall(SYS_sched_yield);
      }
    }
  }
  // It may have been made since we checked.
  const bool is_there = segment.load(std::memory_order_acquire) != 0 || PublishSegment(table, number);
  being_made.store(0, std::memory_order_release);
  return is_there;
}

// Takes a free slot; or, with `may_be_left`, this thread's own that was left by a jump.
bool Take(OngoingWait* slot, uint32_t thread_id, bool may_be_left) {
  uint64_t owner = slot->owner.load(std::memory_order_relaxed);
  const uint32_t turn = TurnOf(owner);
  if (turn % kTurnStates != kNobodys && (!may_be_left || thread_id == 0 || ThreadOf(owner) != thread_id)) return false;
  const uint32_t next = turn / kTurnStates * kTurnStates + kTurnStates;
  if (!slot->owner.compare_exchange_strong(owner, Owner(next + kBeingFilled, thread_id), std::memory_order_acquire,
                                           std::memory_order_relaxed))
    return false;
  if (ThreadOf(owner) != thread_id) {  // another thread's locks are not this one's
    slot->start_ns.store(0, std::memory_order_relaxed);
    for (OngoingWait::Got& got : slot->got) got.lock.store(0, std::memory_order_relaxed);
  }
  return true;
}

// A slot number, or kNone.
constexpr uint32_t kNone = UINT32_MAX;
uint32_t TakeFrom(SharedTable* table, uint32_t thread_id, uint32_t begin, uint32_t end, uint32_t probes) {
  const uint32_t first = thread_id * 0x9e3779b1u >> 16, slots = end - begin;
  for (uint32_t i = 0; i < probes && i < slots; ++i) {
    const uint32_t number = begin + (first + i) % slots;
    if (Take(SlotAt(table, number), thread_id, false)) return number;
  }
  return kNone;
}

// The newest segment first: the earlier ones were full when it was made. If it is full, try some of theirs too, and all
// of them before the wait is given up.
uint32_t TakeAny(SharedTable* table, uint32_t thread_id) {
  for (int made = Segments(table);; ++made) {
    const uint32_t slots = OngoingSlotsUpTo(made), older = OngoingSlotsUpTo(made > 0 ? made - 1 : 0);
    uint32_t number = TakeFrom(table, thread_id, older, slots, kProbes);
    if (number == kNone) number = TakeFrom(table, thread_id, 0, slots, kProbes);
    if (number != kNone) return number;
    const bool is_last = made == kOngoingSegments;
    if (is_last || !MakeSegment(table, made)) return TakeFrom(table, thread_id, 0, slots, slots);
  }
}

void Release(OngoingWait* slot, uint64_t owner) {
  const uint32_t turn = TurnOf(owner) / kTurnStates * kTurnStates + kTurnStates;
  slot->owner.store(Owner(turn, ThreadOf(owner)), std::memory_order_release);
}

// Fields of glibc's locks that the static initialisers have frozen, or musl's words. 0: unknown.
uint32_t HolderOf(const WaitState& wait) {
  int holder = 0;
  if (UNLIKELY(process.libc == Libc::kMusl))
    return wait.kind == WaitKind::kMutex ? static_cast<const MuslMutex*>(wait.holder)->Owner() : 0;
  if (wait.kind == WaitKind::kMutex) {
    holder = __atomic_load_n(&static_cast<const pthread_mutex_t*>(wait.holder)->__data.__owner, __ATOMIC_RELAXED);
  } else if (wait.kind == WaitKind::kRwlockRead || wait.kind == WaitKind::kRwlockWrite) {
    holder = __atomic_load_n(&static_cast<const pthread_rwlock_t*>(wait.holder)->__data.__cur_writer, __ATOMIC_RELAXED);
  }
  return static_cast<uint32_t>(holder);
}

// Returns the slot of this wait; null: it has none, or another wait has it by now.
OngoingWait* SlotOf(const WaitState& wait) {
  OngoingWait* slot = wait.ongoing;
  if (slot == nullptr || slot->wait.load(std::memory_order_relaxed) != LowBits(&wait)) return nullptr;
  const uint64_t owner = slot->owner.load(std::memory_order_relaxed);
  const bool is_ours = ThreadOf(owner) == static_cast<uint32_t>(thread_state.thread_id);
  return is_ours && TurnOf(owner) % kTurnStates == kWaiting ? slot : nullptr;
}

// Replaces the lock that was acquired longest ago, or this one.
void NoteGot(OngoingWait* slot, const void* lock, int64_t end_ns) {
  const auto address = reinterpret_cast<uintptr_t>(lock);
  OngoingWait::Got* place = &slot->got[0];
  for (OngoingWait::Got& got : slot->got) {
    const bool is_older = got.end_ns.load(std::memory_order_relaxed) < place->end_ns.load(std::memory_order_relaxed);
    if (got.lock.load(std::memory_order_relaxed) == address) {
      place = &got;
      break;
    }
    if (is_older) place = &got;
  }
  place->lock.store(address, std::memory_order_relaxed);
  place->end_ns.store(end_ns, std::memory_order_relaxed);
}

// The state that a timed-out wait leaves for the next one.
constexpr int64_t kLongestBreakNs = 1'000'000;
constexpr int kSliceParts = 8;
void LeaveSlice(OngoingWait* slot, int64_t end_ns) {
  const int64_t part_ns = (end_ns - slot->start_ns.load(std::memory_order_relaxed)) / kSliceParts;
  slot->start_ns.store(end_ns + (part_ns > kLongestBreakNs ? part_ns : kLongestBreakNs), std::memory_order_relaxed);
}

// Whether the wait continues one for the same lock that timed out shortly before. The slot is this thread's, and still
// has the former wait. A joined thread has no address; then the call is the same.
bool GoesOn(const OngoingWait& slot, const WaitState& wait, const CallerRegisters& caller) {
  return slot.start_ns.load(std::memory_order_relaxed) >= wait.start_ns &&
         slot.lock.load(std::memory_order_relaxed) == reinterpret_cast<uintptr_t>(wait.holder) &&
         slot.kind.load(std::memory_order_relaxed) == static_cast<uint8_t>(wait.kind) &&
         (wait.holder != nullptr || slot.caller.load(std::memory_order_relaxed) == caller.pc);
}

void Note(SharedTable* table, OngoingWait* slot, const WaitState& wait) {
  slot->start_ns.store(wait.start_ns, std::memory_order_relaxed);
  slot->row.store(wait.row != nullptr ? table->OffsetOf(wait.row) : 0, std::memory_order_relaxed);
  slot->holder.store(HolderOf(wait), std::memory_order_relaxed);
}

}  // namespace

void BeginOngoing(SharedTable* table, ThreadState& thread, const CallerRegisters& caller, const void* mutex,
                  WaitState* wait) {
  const auto thread_id = static_cast<uint32_t>(ThreadId());
  const bool is_outermost = wait->outer.wait == nullptr;
  uint32_t number = thread.ongoing_slot - 1u;
  OngoingWait* slot = thread.ongoing_slot != 0 ? SlotAt(table, number) : nullptr;
  if (UNLIKELY(slot == nullptr || !Take(slot, thread_id, is_outermost))) {
    number = TakeAny(table, thread_id);
    if (number == kNone) return table->Count(Loss::kOngoingFull);
    slot = SlotAt(table, number);
    if (is_outermost) thread.ongoing_slot = static_cast<uint16_t>(number + 1);
  }
  wait->ongoing = slot;
  if (!GoesOn(*slot, *wait, caller)) slot->since_ns.store(wait->start_ns, std::memory_order_relaxed);
  slot->lock.store(reinterpret_cast<uintptr_t>(wait->holder), std::memory_order_relaxed);
  slot->caller.store(caller.pc, std::memory_order_relaxed);
  slot->mutex.store(reinterpret_cast<uintptr_t>(mutex), std::memory_order_relaxed);
  slot->wait.store(LowBits(wait), std::memory_order_relaxed);
  slot->kind.store(static_cast<uint8_t>(wait->kind), std::memory_order_relaxed);
  Note(table, slot, *wait);
  // Release: a reader that finds the thread waiting finds what it waits for.
  slot->owner.store(slot->owner.load(std::memory_order_relaxed) - kBeingFilled + kWaiting, std::memory_order_release);
}

void NoteOngoing(SharedTable* table, const WaitState& wait) {
  if (OngoingWait* slot = SlotOf(wait)) Note(table, slot, wait);
}

void NoteRow(SharedTable* table, const WaitState& wait) {
  if (OngoingWait* slot = SlotOf(wait)) slot->row.store(table->OffsetOf(wait.row), std::memory_order_relaxed);
}

void EndOngoing(const WaitState& wait, int64_t end_ns, bool acquired) {
  OngoingWait* slot = SlotOf(wait);
  if (slot == nullptr) return;
  if (!acquired) {
    LeaveSlice(slot, end_ns);
  } else if (KeepsNoHolder(wait.kind)) {
    NoteGot(slot, wait.holder, end_ns);
  }
  Release(slot, slot->owner.load(std::memory_order_relaxed));
}

template <typename Which>
static Offset ReleaseWhere(SharedTable* table, uint32_t thread_id, Which which) {
  const uint32_t slots = OngoingSlotsUpTo(Segments(table));
  Offset row = 0;
  for (uint32_t number = 0; number < slots; ++number) {
    OngoingWait* slot = SlotAt(table, number);
    const uint64_t owner = slot->owner.load(std::memory_order_relaxed);
    if (TurnOf(owner) % kTurnStates == kNobodys || ThreadOf(owner) != thread_id || !which(*slot)) continue;
    if (const Offset known = slot->row.load(std::memory_order_relaxed); known != 0) row = known;
    Release(slot, owner);
  }
  return row;
}

Offset DropOngoing(SharedTable* table, const ThreadState& thread, const void* wait) {
  return ReleaseWhere(table, static_cast<uint32_t>(thread.thread_id), [=](const OngoingWait& slot) {
    return slot.wait.load(std::memory_order_relaxed) == LowBits(wait);
  });
}

Offset DropOngoingOf(SharedTable* table, int thread_id) {
  return ReleaseWhere(table, static_cast<uint32_t>(thread_id), [](const OngoingWait&) { return true; });
}

}  // namespace holdfast
