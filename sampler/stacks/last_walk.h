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
// Hashes and nodes of the frames that stay are known, too: see StackPath. 5 instructions a word that stays, 67 a frame that is
// walked. The rules are those of remembered_walks.h: plain steps, the thread's own stack, to the outermost frame, rows of the same
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
 public:
  // ---- One walk, as CaptureStack makes it ----

  // Finds out how many frames of the last walk may be joined.
  void Begin(const CallerRegisters& caller, const StackBounds& bounds);
  // At each frame. True: from here on it is the last walk.
  HOLDFAST_HOT bool Joins(uintptr_t pc, uintptr_t sp, uintptr_t fp) {
    while (kept_[may_join_].sp < sp) --may_join_;  // the first one is no frame's
    if (UNLIKELY(kept_[may_join_].sp == sp) && IsAt(may_join_, pc, fp)) {
      joined_ = may_join_;
      return true;
    }
    walked_[count_++] = {sp, fp, 0, false};
    return false;
  }
  // Of the step that follows: what it depends on, and what it has read.
  void UsesFp() { walked_[count_ - 1].uses_fp = true; }
  void ReadFp(uintptr_t place) {
    Frame& frame = walked_[count_ - 1];
    if (place < frame.sp || place % sizeof(uintptr_t) != 0) GiveUp();
    frame.fp_read_at = place;
    if (place + sizeof(uintptr_t) > walked_top_) walked_top_ = place + sizeof(uintptr_t);
  }
  // Where the walk ends: all return addresses that it has read lie below `sp`, the last one was `pc`.
  void Reached(uintptr_t pc, uintptr_t sp) {
    walked_end_ = pc == 0 ? sp - sizeof(uintptr_t) : 0;
    if (sp > walked_top_) walked_top_ = sp;
  }
  // A step that is not plain, or a row that may be another one the next time: no walk to be kept, nor to be joined from here on.
  void GiveUp() {
    gave_up_ = true;
    may_join_ = 0;
  }
  // The walk has come to the outermost frame, or to one of the last walk. Takes the new frames from `trace`. False: it is none to be
  // kept, and stands in `trace` as a whole; the last one stays.
  bool End(const StackBounds& bounds, StackTrace* trace);

  // ---- What is kept ----

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

  bool IsAt(int i, uintptr_t pc, uintptr_t fp) const {
    const Kept& frame = kept_[i];
    return frame.pc == pc && (!frame.fp_matters || frame.fp == fp) && count_ + i <= kMaxDepth;
  }

  // Of the last walk. The outermost frame is number 1; number 0 ends searches.
  uint64_t generation_ = 0;  // walk_generation before it was made; 0: there is none. Written last, and cleared first
  uintptr_t top_ = 0;        // all that it has read lies below
  Kept kept_[kMaxDepth + 1];
  Word words_[2 * kMaxDepth + 1];  // with the return address 0 of the outermost frame, if it has one
  StackPath path_;

  // Of the walk that is being made, innermost frame first.
  uint64_t walked_generation_ = 0;
  uintptr_t walked_from_ = 0, walked_top_ = 0, walked_end_ = 0;
  int count_ = 0;
  int may_join_ =
      0;  // the innermost frame that the walk has not passed and outside of which nothing has changed; 0: none
  int joined_ = 0;  // where it came to it
  bool gave_up_ = false;
  Frame walked_[kMaxDepth];
  StackTrace trace_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_STACKS_LAST_WALK_H_
