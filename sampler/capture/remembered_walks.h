// Walks that a thread has made before, and need not make again.
//
// A step of a walk depends on its position (pc, sp, fp), on the unwind rows, which only change when a module goes away,
// and on the words that it reads from the stack: return addresses, and the saved fp if an outer frame depends on it. So
// a walk that begins at the same pc and sp, and finds the same words at the same addresses, is the same walk, with the
// same stack and row:
//
//     the walk before ── what came after it ──► ┌ pc 0x401236, sp 0x7ffe…e0, fp, generation, row of size class 64
//                                               │ 0x7ffe…08: 0x4012a1      compared with what is there now
//        caller's pc, sp ──► Innermost ──► set ─┤ 0x7ffe…38: 0x4013b0
//                     its caller: 0x4012a1      └ …
//
// Programs allocate in loops. The walk that followed the last one, when the same two came before it and it began at
// that sp, comes again in 99 of 100 cases (python3; redis 96, g++ 81), so it is compared first. Otherwise, many
// programs have one function that allocates for all others (xmalloc, PyObject_Malloc): most walks that begin at the
// same pc and sp differ in its caller, so that word selects the set. One more word distinguishes the walks of a set. A
// new walk replaces one that was not found for long.
//
// 4.5 instructions a frame; a walk takes 67, and finding its row 250 more. Only walks in plain steps on the thread's
// own stack up to the outermost frame are remembered, and only if the same path was walked there not long before,
// because most walks that come once never come again. Signal frames, guesses by frame pointers, coroutines and deep
// stacks take the long path. Other walks stop where they join the previous one (last_walk.h).
//
// Memory: 1.6 MiB (WalkMemory) for each thread that owns rows (kMaxOwners), in private memory, touched on demand. Only
// its own thread uses it, muted; no system call except for the memory itself.
#ifndef HOLDFAST_SAMPLER_CAPTURE_REMEMBERED_WALKS_H_
#define HOLDFAST_SAMPLER_CAPTURE_REMEMBERED_WALKS_H_

#include <atomic>
#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/capture/last_walk.h"
#include "sampler/capture/row_cache.h"
#include "sampler/contract/weight.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/table/stack_table.h"

namespace holdfast {

struct alignas(64) RememberedWalk {
  static constexpr int kMax = 112;     // words
  static constexpr int kTogether = 4;  // count is a multiple of it: the outermost word is repeated as padding
  static constexpr int kRows = 64;
  static constexpr uintptr_t kMaxBytes = sizeof(uintptr_t) << 16;  // of stack, between sp and the outermost word
  static constexpr uint64_t kMore = uint64_t{1} << 63;
  uintptr_t pc;  // 0: none. Written last, and cleared first: a handler may jump out in between
  uintptr_t sp;
  uint64_t generation;  // walk_generation before it was made; with kMore if HoldsMore must be called as well
  Offset stack;
  uint8_t count;   // of words
  uint8_t number;  // differs between walks that were kept one after the other
  bool uses_fp, has_labels;
  // The walk that followed this one, by the walks before it, and by its sp: NextAfterFound. 0: none yet.
  static constexpr int kNexts = 16;
  uint16_t nexts[kNexts];
  uintptr_t fp;          // if uses_fp
  uintptr_t label_word;  // LabelWord when it was made
  Offset rows[kRows];    // of this stack; 0: none. The lowest bits of a size class select the place
  // The words that the walk has read, with their distances above sp in words: see SameWords.
  PlacedWords words[kMax / PlacedWords::kCount];

  // Whether a walk from `caller` would be this one.
  HOLDFAST_HOT bool Holds(const CallerRegisters& caller) const {
    if (pc != caller.pc || sp != caller.sp) return false;
    if (const uint64_t now = walk_generation.load(std::memory_order_relaxed); UNLIKELY(generation != now)) {
      if (generation != (now | kMore) || !HoldsMore(caller)) return false;
    }
    // All of them are readable, because the walk began at this sp.
    return SameWords(reinterpret_cast<const uintptr_t*>(caller.sp), words, count);
  }
  bool HoldsMore(const CallerRegisters& caller) const {
    return (!uses_fp || fp == caller.fp) && (!has_labels || label_word == *LabelWord(thread_state));
  }
  // 0: not known.
  HOLDFAST_HOT Offset RowFor(SharedTable* table, uint32_t size_class) const {
    const Offset row = rows[size_class % kRows];
    if (UNLIKELY(table->At<Row>(row)->size_class != size_class)) return 0;
    // Offset 0 is the table's start, with a word that is no row's.
    static_assert(kTableMagic >> 48 > kNoSizeClass);
    if (row == 0) __builtin_unreachable();
    return row;
  }
  void RememberRow(uint32_t size_class, Offset row) { rows[size_class % kRows] = row; }
  void ForgetRow(uint32_t size_class) { rows[size_class % kRows] = 0; }
};
// An odd number of cache lines: otherwise the first lines of all walks would compete for one or two places in the
// cache.
static_assert(sizeof(RememberedWalk) == 23 * 64);
static_assert(RememberedWalk::kMax <= UINT8_MAX);  // see count

// One thread's memory of walks.
class WalkMemory {
 public:
  static constexpr int kWalkSets = 128, kWays = 8, kInnermost = 1024, kMissed = 4, kKnownRows = 4096;

  // The calling thread's; null: it has none, or not yet.
  HOLDFAST_HOT static WalkMemory* Of(const ThreadState& thread) {
    return all_[thread.owner].load(std::memory_order_relaxed);
  }
  // Makes it now if needed. Null: too many threads, no memory, a seccomp filter.
  static WalkMemory* Make(ThreadState& thread) {
    WalkMemory* const memory = Of(thread);
    return LIKELY(memory != nullptr) ? memory : MakeSlow(thread);
  }

  HOLDFAST_HOT RememberedWalk* Find(const CallerRegisters& caller) {
    const uint32_t place = uint32_t{*NextAfterFound(caller)} * alignof(RememberedWalk);
    RememberedWalk* const walk = At(place);
    if (UNLIKELY(!walk->Holds(caller))) return FindByWord(InMemory(caller));
    Found(place);
    return walk;
  }

  // Call after Find has found none, and the last walk led to `stack`; `path_hash` is its path's hash, and `label_word`
  // the LabelWord at that time. Keeps the walk if it is worth it. Null: it is not, or it is too long.
  RememberedWalk* KeepIfExpected(const CallerRegisters& caller, uint64_t path_hash, Offset stack, uintptr_t label_word);
  // The same in any case. `set`: SetOfLast.
  RememberedWalk* Keep(const CallerRegisters& caller, size_t set, Offset stack, uintptr_t label_word);
  // Returns the set for the last walk, which began at `caller`. `was_searched`: Find searches that set already.
  size_t SetOfLast(const CallerRegisters& caller, bool* was_searched);
  // Whether a walk from `caller` with this path hash came to this set not long ago; records that it has now.
  bool Expects(size_t set, const CallerRegisters& caller, uint64_t path_hash);

  // The position of a walk: bytes from here.
  uint32_t PlaceOf(const RememberedWalk& walk) const {
    return static_cast<uint32_t>(reinterpret_cast<const char*>(&walk) - reinterpret_cast<const char*>(this));
  }

  // The thread's last walk.
  LastWalk& last() { return last_; }
  // The row remembered for a stack (by the hash of its path) and a size class, for walks that are not remembered.
  // Another row may replace it.
  struct KnownRow {
    uint64_t key;  // 0: none. Written last, and cleared first
    Offset row, stack;
  };
  KnownRow* FindKnownRow(uint64_t path_hash, uint16_t size_class) {
    KnownRow* known = &known_rows_[KeyOf(path_hash, size_class) >> 52];
    static_assert(kKnownRows == 1 << (64 - 52));
    return known->row != 0 && known->key == KeyOf(path_hash, size_class) ? known : nullptr;
  }
  void RememberRow(uint64_t path_hash, uint16_t size_class, Offset row, Offset stack);

  // For a child of fork. Its threads reuse these numbers: the walks were on another thread's stack, and part of that
  // may be unmapped by now.
  void ForgetStarts();

  // Call before this thread's labels change for the first time: later walks are kept together with the word that
  // contains the labels, and earlier ones are forgotten. So a thread without labels pays nothing.
  void KeepLabelsApart();

 private:
  static WalkMemory* MakeSlow(ThreadState& thread);

  // Address of the first word of walks that begin at this sp (and usually this pc: others may share the entry).
  struct Innermost {
    uintptr_t sp;  // 0: none. Written last, and cleared first
    const uintptr_t* place;
  };

  static uint64_t StartOf(const CallerRegisters& caller) { return (caller.pc + caller.sp) * 0x9e3779b97f4a7c15; }
  static size_t SetOf(uint64_t start, uintptr_t innermost_word) {
    static_assert(kWalkSets == 128);
    return (start + innermost_word) * 0x9e3779b97f4a7c15 >> 57;
  }
  HOLDFAST_HOT RememberedWalk* At(uint32_t place) {
    return reinterpret_cast<RememberedWalk*>(reinterpret_cast<char*>(this) + place);
  }
  HOLDFAST_HOT void Found(uint32_t place) {
    history_ = history_ * 4 + At(found_)->number;
    found_ = place;
  }
  // Indexed by numbers, because the walks of a loop have consecutive numbers and so never collide. Places would collide
  // by where their sets are (python3: 0.3 to 6 % of the walks would not be found here; with numbers 0.8 %).
  HOLDFAST_HOT uint16_t* NextAfterFound(const CallerRegisters& caller) {
    return &At(found_)->nexts[(history_ + caller.sp / 8) % RememberedWalk::kNexts];
  }
  RememberedWalk* FindByWord(const CallerRegisters& caller);
  RememberedWalk* FindIn(const CallerRegisters& caller, size_t set);

  // One word of each walk of a set: its lower half distinguishes the walk from most others without reading it. The
  // third word, because the walks of a set usually share the first.
  struct alignas(64) Signs {
    uint32_t words[kWays];   // SignOf; 0: none
    uint16_t places[kWays];  // as in RememberedWalk
  };
  static uint32_t SignOf(uintptr_t word) { return static_cast<uint32_t>(word) | 1; }
  static constexpr int kSign = 2;

  // Differs for another table, or after a dlclose.
  uint64_t KeyOf(uint64_t path_hash, uint16_t size_class) const {
    return ((path_hash ^ path_hash >> 32) + (last_.generation() << 16 | size_class)) * 0x9e3779b97f4a7c15;
  }

  static std::atomic<WalkMemory*> all_[kMaxOwners + 1];  // by ThreadState::owner; [0] stays null

  RememberedWalk none_;  // begins nowhere
  RememberedWalk sets_[kWalkSets][kWays];
  static_assert((sizeof(none_) + sizeof(sets_)) / alignof(RememberedWalk) <= UINT16_MAX);  // see nexts
  uint32_t found_;  // PlaceOf the walk found last
  uint32_t
      history_;   // number of the walk before it, and the two lowest bits of the one before that: see NextAfterFound
  uint8_t kept_;  // the last one's number
  Innermost innermost_[kInnermost];
  // The way of a set that is replaced next; and a bit for each way: it was found by its word since it was kept, or since
  // it was last passed over.
  uint8_t next_victim_[kWalkSets], was_found_[kWalkSets];
  Signs signs_[kWalkSets];
  bool labels_apart_;
  uint32_t missed_[kWalkSets][kMissed];  // newest first
  KnownRow known_rows_[kKnownRows];
  LastWalk last_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_REMEMBERED_WALKS_H_
