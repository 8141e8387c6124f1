// Walks that a thread has made before, so that it need not make them again.
//
// A step of a walk depends on where it stands (pc, sp, fp), on the unwind rows, which only change when a module goes away, and on the
// words of the stack that it reads: return addresses, and the saved fp where an outer frame is found by it. So a walk that begins
// at the same pc and sp, and finds the same words at the same addresses, is the same walk, with the same stack and row:
//
//     the walk before ── what came after it ──► ┌ pc 0x401236, sp 0x7ffe…e0, fp, generation, row of size class 64
//                                               │ 0x7ffe…08: 0x4012a1      compared with what is there now
//        caller's pc, sp ──► Innermost ──► set ─┤ 0x7ffe…38: 0x4013b0
//                     its caller: 0x4012a1      └ …
//
// Programs allocate in loops: what came after the walk before, when that came after the two before it, and began at that sp, comes
// again in 99 of 100 cases (python3; redis 96, g++ 81), so that is compared first. Else: programs have one function that allocates
// for all others (xmalloc, PyObject_Malloc): most walks that begin at the same pc and sp differ in its caller, so that one says where
// to look. Of a set all walks are told apart by one more word. A new one takes the place of one that was not found for long.
//
// 4.5 instructions a frame, where a walk takes 67 and finding its row 250 more. Remembered are walks of plain steps on the thread's own
// stack that reached the outermost frame; and only when the same path was walked there not long before, as most that come once never come
// again. Signal frames, guesses by frame pointers, coroutines and deep stacks go the long way. What is not remembered is walked
// as far as it differs from the walk before it (last_walk.h).
//
// Memory: 2.8 MiB (WalkMemory) for each thread that owns rows (kMostOwners), in private memory, touched as it is needed.
// Only its own thread uses it, muted; no system call but for the memory itself.
#ifndef HOLDFAST_SAMPLER_STACKS_REMEMBERED_WALKS_H_
#define HOLDFAST_SAMPLER_STACKS_REMEMBERED_WALKS_H_

#include <atomic>
#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/contract/weight.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/stacks/last_walk.h"
#include "sampler/stacks/row_cache.h"
#include "sampler/tables/stack_table.h"

namespace holdfast {

struct alignas(64) RememberedWalk {
  static constexpr int kMost = 112;  // words
  static constexpr int kTogether =
      4;  // count is a multiple of it: the outermost word is repeated where others are missing
  static constexpr int kRows = 32;
  static constexpr uintptr_t kMostBytes = sizeof(uintptr_t) << 16;  // of the stack, between sp and the outermost word
  static constexpr uint64_t kMore = uint64_t{1} << 63;
  uintptr_t pc;  // 0: none. Written last, and cleared first: a handler may jump out in between
  uintptr_t sp;
  uint64_t generation;  // walk_generation before it was made; with kMore where HoldsMore is to be asked as well
  Offset stack;
  uint8_t count;   // of words
  uint8_t number;  // of those that were kept after each other, each has another one
  bool uses_fp, has_labels;
  // Which walk came after this one, by those that came before it, and by its sp: NextAfterFound. 0: none yet.
  static constexpr int kNexts = 16;
  uint16_t nexts[kNexts];
  uintptr_t fp;          // where uses_fp
  uintptr_t label_word;  // LabelWord when it was made
  Offset rows[kRows];    // of this stack; 0: none. A size class has its place, by its lowest bits
  // That the walk has read, and so many words above sp: see SameWords.
  PlacedWords words[kMost / PlacedWords::kCount];

  // Whether a walk from `caller` would be this one.
  HOLDFAST_HOT bool Holds(const CallerRegisters& caller) const {
    if (pc != caller.pc || sp != caller.sp) return false;
    if (const uint64_t now = walk_generation.load(std::memory_order_relaxed); UNLIKELY(generation != now)) {
      if (generation != (now | kMore) || !HoldsMore(caller)) return false;
    }
    // All of them can be read, as the walk began at this sp.
    return SameWords(reinterpret_cast<const uintptr_t*>(caller.sp), words, count);
  }
  bool HoldsMore(const CallerRegisters& caller) const {
    return (!uses_fp || fp == caller.fp) && (!has_labels || label_word == *LabelWord(thread_state));
  }
  // 0: not known.
  HOLDFAST_HOT Offset RowFor(SharedTable* table, uint32_t size_class) const {
    const Offset row = rows[size_class % kRows];
    if (UNLIKELY(table->At<Row>(row)->size_class != size_class)) return 0;
    // The table begins there, with a word that is no row's.
    static_assert(kTableMagic >> 48 > kNoSizeClass);
    if (row == 0) __builtin_unreachable();
    return row;
  }
  void RememberRow(uint32_t size_class, Offset row) { rows[size_class % kRows] = row; }
  void ForgetRow(uint32_t size_class) { rows[size_class % kRows] = 0; }
};
// An odd number of cache lines: else the first lines of all of them would compete for one or two places in the cache.
static_assert(sizeof(RememberedWalk) == 21 * 64);
static_assert(RememberedWalk::kMost <= UINT8_MAX);  // see count

// What one thread remembers.
class WalkMemory {
 public:
  static constexpr int kWalkSets = 256, kWays = 8, kInnermost = 1024, kMissed = 4, kKnownRows = 4096;

  // The calling thread's; null: it has none, at least not yet.
  HOLDFAST_HOT static WalkMemory* Of(const ThreadState& thread) {
    return all_[thread.owner].load(std::memory_order_relaxed);
  }
  // Made now if need be. Null: too many threads, no memory, a seccomp filter.
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

  // After Find has found none, and the last walk led to `stack`, whose path has this hash, while LabelWord had this value: keeps it, if
  // it is worth it. Null: it is not, or it is too long.
  RememberedWalk* KeepIfExpected(const CallerRegisters& caller, uint64_t path_hash, Offset stack, uintptr_t label_word);
  // The same in any case. `set`: SetOfLast.
  RememberedWalk* Keep(const CallerRegisters& caller, size_t set, Offset stack, uintptr_t label_word);
  // Where the last walk, which began at `caller`, is to be found from now on. `was_searched`: Find looks for it there already.
  size_t SetOfLast(const CallerRegisters& caller, bool* was_searched);
  // Whether a walk from `caller` that led to the path of this hash came to this set not long ago; it has now.
  bool Expects(size_t set, const CallerRegisters& caller, uint64_t path_hash);

  // Where a walk stands: bytes from here.
  uint32_t PlaceOf(const RememberedWalk& walk) const {
    return static_cast<uint32_t>(reinterpret_cast<const char*>(&walk) - reinterpret_cast<const char*>(this));
  }

  // What the thread walked last.
  LastWalk& last() { return last_; }
  // The row that was remembered for a stack, by the hash of its path, and a size class; for walks that are not remembered. Another
  // one may have its place.
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

  // In a child of fork, whose threads have these numbers anew: what was kept was on another thread's stack, of which there may be
  // less by now.
  void ForgetStarts();

  // Before this thread's labels change for the first time: walks are kept with the word in which they lie, and those of before are
  // forgotten. So a thread without labels pays nothing.
  void KeepLabelsApart();

 private:
  static WalkMemory* MakeSlow(ThreadState& thread);

  // Where walks that began at this sp (and pc, mostly: another one may have its place) have their first word.
  struct Innermost {
    uintptr_t sp;  // 0: none. Written last, and cleared first
    const uintptr_t* place;
  };

  static uint64_t StartOf(const CallerRegisters& caller) { return (caller.pc + caller.sp) * 0x9e3779b97f4a7c15; }
  static size_t SetOf(uint64_t start, uintptr_t innermost_word) {
    static_assert(kWalkSets == 256);
    return (start + innermost_word) * 0x9e3779b97f4a7c15 >> 56;
  }
  HOLDFAST_HOT RememberedWalk* At(uint32_t place) {
    return reinterpret_cast<RememberedWalk*>(reinterpret_cast<char*>(this) + place);
  }
  HOLDFAST_HOT void Found(uint32_t place) {
    history_ = history_ * 4 + At(found_)->number;
    found_ = place;
  }
  // Numbers, as those of a loop follow each other and so never meet here; places would, by where their sets happen to lie (python3: 0.3
  // to 6 % of the walks are not found here; with numbers 0.8 %).
  HOLDFAST_HOT uint16_t* NextAfterFound(const CallerRegisters& caller) {
    return &At(found_)->nexts[(history_ + caller.sp / 8) % RememberedWalk::kNexts];
  }
  RememberedWalk* FindByWord(const CallerRegisters& caller);
  RememberedWalk* FindIn(const CallerRegisters& caller, size_t set);

  // Of each walk of a set one word, by whose lower half most others are told from it without a look at them: the third, as those
  // of a set mostly have the first in common.
  struct alignas(64) Signs {
    uint32_t words[kWays];   // SignOf; 0: none
    uint16_t places[kWays];  // as in RememberedWalk
  };
  static uint32_t SignOf(uintptr_t word) { return static_cast<uint32_t>(word) | 1; }
  static constexpr int kSign = 2;

  // Of another table, or after a dlclose, it is another one.
  uint64_t KeyOf(uint64_t path_hash, uint16_t size_class) const {
    return ((path_hash ^ path_hash >> 32) + (last_.generation() << 16 | size_class)) * 0x9e3779b97f4a7c15;
  }

  static std::atomic<WalkMemory*> all_[kMostOwners + 1];  // by ThreadState::owner; [0] stays null

  RememberedWalk none_;  // begins nowhere
  RememberedWalk sets_[kWalkSets][kWays];
  static_assert((sizeof(none_) + sizeof(sets_)) / alignof(RememberedWalk) <= UINT16_MAX);  // see nexts
  uint32_t found_;  // PlaceOf the walk that was found last
  uint32_t
      history_;   // of the walk before that its number, of the one before it the two lowest bits: see NextAfterFound
  uint8_t kept_;  // the last one's number
  Innermost innermost_[kInnermost];
  // Which way is to be tried first for the next walk of a set; and a bit for each way: it was found by its word since it was kept, or since it was
  // last passed over.
  uint8_t next_victim_[kWalkSets], was_found_[kWalkSets];
  Signs signs_[kWalkSets];
  bool labels_apart_;
  uint32_t missed_[kWalkSets][kMissed];  // newest first
  KnownRow known_rows_[kKnownRows];
  LastWalk last_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_STACKS_REMEMBERED_WALKS_H_
