// The walk that a thread made last, frame by frame from the outermost on, so that the next one is made only where it differs.
//
// Most walks share their outer frames with the one before: a parser's loop, a tree that is walked down and up. So the words that
// the last walk read are compared from the outermost on, as far as they are what they were. The new walk begins at its caller as
// ever; where it comes to a frame of the last one (same pc and sp, and fp where an outer frame depends on it) outside of which all
// words are unchanged, the rest is the same:
//
//     last   main ─ parse ─ object ─ member ─ string ─ malloc
//     now    main ─ parse ─ object ─ array ─ malloc
//            └── words unchanged ──┘ └─ walked ─┘     "array" returns to where "member" did: the same frame, joined
//
// Hashes and nodes of the frames that stay are known, too: see StackPath. 5 instructions a word that stays, 150 a frame that is
// walked: 90 to find it, 60 to keep it. The rules are those of remembered_walks.h: plain steps, the thread's own stack, to the outermost frame, rows of the same
// generation; a walk that is none of it leaves the last one as it is.
//
// Only its own thread uses it, muted. A handler may jump out anywhere: what is half written is not valid.
#ifndef HOLDFAST_SAMPLER_STACKS_LAST_WALK_H_
#define HOLDFAST_SAMPLER_STACKS_LAST_WALK_H_

#include <cstdint>
#include <span>

#include "sampler/arch/processor.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/tables/stack_table.h"

namespace holdfast {

class LastWalk {
  struct Frame {
    uintptr_t sp, fp;
    uintptr_t fp_read_at;  // where its step found the fp of the next outer frame; 0: that has the same
    bool uses_fp;
  };
  struct Kept {
    uintptr_t sp, pc, fp;
    uint32_t words_outside;  // that were read from this frame on
    bool fp_matters;         // an outer frame is found by it
  };
  // What is still so of the last walk: `frame` is the innermost one that the new walk has not passed and outside of which no word has
  // changed. Number 0: none.
  struct Unchanged {
    const Kept* frame;
    uint64_t generation;  // walk_generation before the new walk
  };

 public:
  // One walk, as CaptureStack makes it: by value, so that it stays in registers.
  class Next {
   public:
    Next(LastWalk* last, const CallerRegisters& caller, const StackBounds& bounds)
        : Next(last, caller.sp, last->FindUnchanged(caller, bounds)) {}

    // At each frame. True: from here on it is the last walk.
    HOLDFAST_HOT bool Joins(uintptr_t pc, uintptr_t sp, uintptr_t fp) {
      while (may_join_->sp < sp) --may_join_;  // the first one is no frame's
      if (UNLIKELY(may_join_->sp == sp) && IsAt(*may_join_, pc, fp)) {
        joined_ = may_join_;
        return true;
      }
      *next_++ = {sp, fp, 0, false};
      return false;
    }
    // Of the step that follows: what it depends on, and what it has read. Its frame ends at `cfa`.
    void UsesFp() { next_[-1].uses_fp = true; }
    void ReadFp(uintptr_t place, uintptr_t cfa) {
      const uintptr_t sp = next_[-1].sp;
      if (UNLIKELY(place - sp >= cfa - sp || place % sizeof(uintptr_t) != 0)) GiveUp();
      next_[-1].fp_read_at = place;
    }
    // Where the walk ends: all that it has read lies below `sp`, the last return address was `pc`.
    void Reached(uintptr_t pc, uintptr_t sp) {
      top_ = sp;
      ended_ = pc == 0;
    }
    // A step that is not plain, or a row that may be another one the next time: no walk to be kept, nor to be joined from here on.
    void GiveUp() {
      gave_up_ = true;
      may_join_ = last_->kept_;
    }
    // The walk has come to the outermost frame, or to one of the last walk. Takes the new frames from `trace`. False: it is none to be
    // kept, and stands in `trace` as a whole; the last one stays.
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
    const Kept* joined_ = last_->kept_;  // where it came to the last walk
    Frame* next_ = last_->walked_;
    uintptr_t top_ = 0;
    bool ended_ = false, gave_up_ = false;
  };

  StackPath& path() { return path_; }
  int walked() const { return count_; }  // frames of the newest walk that were not the last one's
  StackTrace* trace() { return &trace_; }
  uint64_t generation() const { return generation_; }
  uintptr_t top() const { return top_; }  // all that it has read lies below
  bool uses_fp() const { return kept_[path_.depth].fp_matters; }
  // Each word that it has read, and that matters, where it was read. The outermost one first; none before the first walk.
  struct Word {
    uintptr_t place, word;
  };
  std::span<const Word> words() const { return {words_, kept_[path_.depth].words_outside}; }

 private:
  Unchanged FindUnchanged(const CallerRegisters& caller, const StackBounds& bounds);
  // By value: by reference it would stay in memory all the while.
  bool Keep(Next next, const StackBounds& bounds, StackTrace* trace);

  // The outermost frame is number 1; number 0 ends searches.
  uint64_t generation_ = 0;  // walk_generation before it was made; 0: there is none. Written last, and cleared first
  uintptr_t top_ = 0;        // all that it has read lies below
  Kept kept_[kMaxDepth + 1];
  Word words_[2 * kMaxDepth + 1];  // with the return address 0 of the outermost frame, if it has one
  StackPath path_;
  int count_ = 0;

  Frame walked_[kMaxDepth];  // of the walk that is being made, innermost frame first
  StackTrace trace_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_STACKS_LAST_WALK_H_
