#include "sampler/capture/last_walk.h"

#include "sampler/capture/row_cache.h"

namespace holdfast {
namespace {

constexpr uintptr_t kWordBytes = sizeof(uintptr_t);

// 0: unchanged.
uintptr_t Difference(const LastWalk::Word& word) { return *reinterpret_cast<const uintptr_t*>(word.place) ^ word.word; }

uintptr_t DifferenceOfFour(const LastWalk::Word* words) {
  return Difference(words[0]) | Difference(words[1]) | Difference(words[2]) | Difference(words[3]);
}

// Counts the unchanged words among the first `count`, up to the first change.
uint32_t CountSame(const LastWalk::Word* words, uint32_t count) {
  uint32_t left = count;
  for (; left >= 4 && DifferenceOfFour(words) == 0; left -= 4) words += 4;
  for (; left > 0 && Difference(*words) == 0; --left) ++words;
  return count - left;
}

}  // namespace

HOLDFAST_WARM LastWalk::Unchanged LastWalk::FindUnchanged(const CallerRegisters& caller, const StackBounds& bounds) {
  const uint64_t generation = walk_generation.load(std::memory_order_acquire);
  kept_[0].sp = UINTPTR_MAX;
  // Reads only words on the thread's own stack that are still in use.
  if (generation_ != generation || caller.sp < bounds.low || top_ > bounds.high || kept_[1].sp < caller.sp)
    return {kept_, generation};
  const Kept* frame = &kept_[path_.depth];
  while (frame->sp < caller.sp) --frame;
  // The words that led to each frame: above the sp of the next one.
  const uint32_t same = CountSame(words_, frame->words_outside);
  while (frame->words_outside > same) --frame;
  return {frame, generation};
}

HOLDFAST_WARM bool LastWalk::Keep(Next next, const StackBounds& bounds, StackTrace* trace) {
  const int kept = static_cast<int>(next.joined_ - kept_);
  count_ = next.Count();
  const uintptr_t top = kept != 0 && top_ > next.top_ ? top_ : next.top_;
  if (next.gave_up_ || count_ + kept == 0 || next.from_ % kWordBytes != 0 || next.from_ < bounds.low ||
      top > bounds.high) {
    if (kept == 0) return false;
    for (int i = 0; i < kept; ++i) trace->frames[count_ + i] = path_.frames[kept - 1 - i];
    trace->depth = static_cast<uint16_t>(count_ + kept);
    trace->truncated = false;
    return false;
  }
  generation_ = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  top_ = top;
  path_.Cut(kept);
  Kept* frame = &kept_[kept];
  Word* word = &words_[frame->words_outside];
  const Frame* from = &walked_[count_];
  const TaggedPc* pc = &trace->frames[count_];
  if (kept == 0 && next.ended_) *word++ = {returns_.PlaceOf(count_ - 1, next.top_), returns_.WordOf(count_ - 1, 0)};
  while (from != walked_) {
    --from, --pc;
    // Number 0, outside of the outermost frame, has read nothing, and nothing depends on its fp.
    const Kept& outer = *frame;
    if (from->fp_read_at != 0 && outer.fp_matters) *word++ = {from->fp_read_at, outer.fp};
    const intptr_t number = from - walked_;
    if (&outer != kept_) *word++ = {returns_.PlaceOf(number, outer.sp), returns_.WordOf(number, outer.pc)};
    const bool fp_matters = from->uses_fp || (from->fp_read_at == 0 && outer.fp_matters);
    ++frame;
    *frame = {from->sp, *pc & kPcMask, from->fp, static_cast<uint32_t>(word - words_), fp_matters};
    path_.Add(*pc);
  }
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  generation_ = next.generation_;
  return true;
}

}  // namespace holdfast
