// A thread's last walk, frame by frame from the outermost on, so that the next walk covers only the frames that differ.
//
// Consecutive walks usually share their outer frames: a parser's loop, a tree that is walked down and up. So the words
// that the last walk read are compared from the outermost on, up to the first change. The new walk begins at its caller
// as usual. When it reaches a frame of the last walk (same pc and sp, and same fp if an outer frame depends on it), and
// all words outside of that frame are unchanged, the rest of the walk is the same:
//
//     last   main ─ parse ─ object ─ member ─ string ─ malloc
//     now    main ─ parse ─ object ─ array ─ malloc
//            └── words unchanged ──┘ └─ walked ─┘     "array" returns to where "member" did: the same frame, joined
//
// Hashes and nodes of the unchanged frames are known, too: see StackPath. 5 instructions for an unchanged word, 150 for
// a walked frame: 90 to find it, 60 to keep it. The rules of remembered_walks.h apply: plain steps, the thread's own
// stack, up to the outermost frame, rows of the same generation. Any other walk leaves the last one as it is.
//
// Only its own thread uses it, muted. A handler may jump out anywhere: half-written data is not valid.
#ifndef HOLDFAST_SAMPLER_CAPTURE_LAST_WALK_H_
#define HOLDFAST_SAMPLER_CAPTURE_LAST_WALK_H_

#include <cstdint>
#include <span>

#include "sampler/arch/processor.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/table/stack_table.h"

namespace holdfast {

// The places from which a walk reads the return addresses, by the number of the frame: known from the CFA where calls push
// them. A word as read may be signed.
template <bool kPushed>
struct ReadReturns {
  void Set(intptr_t, uintptr_t) {}
  static uintptr_t PlaceOf(intptr_t, uintptr_t cfa) { return cfa - sizeof(uintptr_t); }
  static uintptr_t WordOf(intptr_t, uintptr_t pc) { return pc; }
};
template <>
struct ReadReturns<false> {
  uintptr_t places[kMaxDepth];
  void Set(intptr_t frame, uintptr_t place) { places[frame] = place; }
  uintptr_t PlaceOf(intptr_t frame, uintptr_t) const { return places[frame]; }
  uintptr_t WordOf(intptr_t frame, uintptr_t) const { return *reinterpret_cast<const uintptr_t*>(places[frame]); }
};

class LastWalk {
  struct Frame {
    uintptr_t sp, fp;
    uintptr_t fp_read_at;  // address from which the step read the next outer frame's fp; 0: unchanged fp
    bool uses_fp;
  };
  struct Kept {
    uintptr_t sp, pc, fp;
    uint32_t words_outside;  // words read from this frame on, outwards
    bool fp_matters;         // an outer frame depends on it
  };
  // The unchanged part of the last walk: `frame` is the innermost frame that the new walk has not passed and outside of
  // which no word has changed. Number 0: none.
  struct Unchanged {
    const Kept* frame;
    uint64_t generation;  // walk_generation before the new walk
  };

 public:
  // One walk in CaptureStack: by value, so that it stays in registers.
  class Next {
   public:
    Next(LastWalk* last, const CallerRegisters& caller, const StackBounds& bounds)
        : Next(last, caller.sp, last->FindUnchanged(caller, bounds)) {}

    // Call at each frame. True: the rest is the last walk.
    HOLDFAST_HOT bool Joins(uintptr_t pc, uintptr_t sp, uintptr_t fp) {
      while (may_join_->sp < sp) --may_join_;  // the first one is no frame's
      if (UNLIKELY(may_join_->sp == sp) && IsAt(*may_join_, pc, fp)) {
        joined_ = may_join_;
        return true;
      }
      *next_++ = {sp, fp, 0, false};
      return false;
    }
    // For the following step: what it depends on, and what it has read. Its frame ends at `cfa`.
    void UsesFp() { next_[-1].uses_fp = true; }
    void ReadFp(uintptr_t place, uintptr_t cfa) {
      const uintptr_t sp = next_[-1].sp;
      if (UNLIKELY(place - sp >= cfa - sp || place % sizeof(uintptr_t) != 0)) GiveUp();
      next_[-1].fp_read_at = place;
    }
    // The place from which it read the return address; only if that is not known.
    void ReadReturn(uintptr_t place, uintptr_t cfa) {
      if (kCallPushesReturn) return;
      const uintptr_t sp = next_[-1].sp;
      if (UNLIKELY(place - sp >= cfa - sp || place % sizeof(uintptr_t) != 0)) GiveUp();
      last_->returns_.Set(Count() - 1, place);
    }
    // The end of the walk: all words that it read are below `sp`, and the last return address was `pc`.
    void Reached(uintptr_t pc, uintptr_t sp) {
      top_ = sp;
      ended_ = pc == 0;
    }
    // Call for a step that is not plain, or a row that may change: the walk is not kept, and joins nothing from here
    // on.
    void GiveUp() {
      gave_up_ = true;
      may_join_ = last_->kept_;
    }
    // The walk has reached the outermost frame, or a frame of the last walk. Takes the new frames from `trace`. False:
    // the walk is not to be kept, and `trace` has all of it; the last walk stays.
    bool End(const StackBounds& bounds, StackTrace* trace) const { return last_->Keep(*this, bounds, trace); }

   private:
    friend class LastWalk;
    Next(LastWalk* last, uintptr_t from, const Unchanged& unchanged)
        : last_(last), generation_(unchanged.generation), from_(from), may_join_(unchanged.frame) {}
    int Count() const { return static_cast<int>(next_ - last_->walked_); }
    bool IsAt(const Kept& frame, uintptr_t pc, uintptr_t fp) const {
      return frame.pc == pc && (!frame.fp_matters || frame.fp == fp) && Count() + (&frame - last_->kept_) <= kMaxDepth;
    }

    LastWalk* const last_;
    const uint64_t generation_;
    const uintptr_t from_;
    const Kept* may_join_;
    const Kept* joined_ = last_->kept_;  // where it reached the last walk
    Frame* next_ = last_->walked_;
    uintptr_t top_ = 0;
    bool ended_ = false, gave_up_ = false;
  };

  StackPath& path() { return path_; }
  int walked() const { return count_; }  // frames of the newest walk that the last one did not have
  StackTrace* trace() { return &trace_; }
  uint64_t generation() const { return generation_; }
  uintptr_t top() const { return top_; }  // all words that it read are below
  bool uses_fp() const { return kept_[path_.depth].fp_matters; }
  // Each word that was read, and matters, with its address. The outermost first; none before the first walk.
  struct Word {
    uintptr_t place, word;
  };
  std::span<const Word> words() const { return {words_, kept_[path_.depth].words_outside}; }

 private:
  Unchanged FindUnchanged(const CallerRegisters& caller, const StackBounds& bounds);
  // By value: a reference would keep it in memory.
  bool Keep(Next next, const StackBounds& bounds, StackTrace* trace);

  // The outermost frame is number 1; number 0 ends searches.
  uint64_t generation_ = 0;  // walk_generation before it was made; 0: none. Written last, and cleared first
  uintptr_t top_ = 0;        // all words that it read are below
  Kept kept_[kMaxDepth + 1];
  Word words_[2 * kMaxDepth + 1];  // includes the return address 0 of the outermost frame, if it has one
  StackPath path_;
  int count_ = 0;

  Frame walked_[kMaxDepth];  // of the walk in progress, innermost frame first
  StackTrace trace_;
  [[no_unique_address]] ReadReturns<kCallPushesReturn> returns_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_LAST_WALK_H_
