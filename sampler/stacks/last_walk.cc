#include "sampler/stacks/last_walk.h"

#include "sampler/stacks/row_cache.h"

namespace holdfast {
namespace {

constexpr uintptr_t kWordBytes = sizeof(uintptr_t);

uintptr_t WordAt(uintptr_t place) { return *reinterpret_cast<const uintptr_t*>(place); }

}  // namespace

void LastWalk::Begin(const CallerRegisters& caller, const StackBounds& bounds) {
  walked_generation_ = walk_generation.load(std::memory_order_acquire);
  walked_from_ = caller.sp;
  walked_top_ = walked_end_ = 0;
  count_ = may_join_ = joined_ = 0;
  gave_up_ = false;
  kept_[0].sp = UINTPTR_MAX;
  // Only what lies on the thread's own stack, and is still in use, is read.
  if (generation_ != walked_generation_ || caller.sp < bounds.low || top_ > bounds.high || kept_[1].sp < caller.sp)
    return;
  if (end_ != 0 && WordAt(end_) != 0) return;
  const Kept* last = &kept_[path_.depth];
  while (last->sp < caller.sp) --last;
  // The words that led to each frame: they lie above the sp of the next one.
  const Kept* frame = &kept_[1];
  for (; frame != last; ++frame) {
    if (WordAt(frame->sp - kWordBytes) != frame->pc) break;
    if (frame->fp_read_at != 0 && WordAt(frame->fp_read_at) != frame->fp) break;
  }
  may_join_ = static_cast<int>(frame - kept_);
}

bool LastWalk::End(const StackBounds& bounds, StackTrace* trace) {
  const int kept = joined_;
  const uintptr_t top = kept != 0 && top_ > walked_top_ ? top_ : walked_top_;
  if (gave_up_ || count_ + kept == 0 || walked_from_ % kWordBytes != 0 || walked_from_ < bounds.low ||
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
  if (kept == 0) end_ = walked_end_;
  path_.Cut(kept);
  for (int i = kept + 1, from = count_ - 1; from >= 0; ++i, --from) {
    const Frame& frame = walked_[from];
    const bool matters_outside = fp_matters_[i - 1];
    kept_[i - 1].fp_read_at = matters_outside ? frame.fp_read_at : 0;
    kept_[i] = {frame.sp, trace->frames[from] & kPcMask, 0, frame.fp};
    fp_matters_[i] = frame.uses_fp || (frame.fp_read_at == 0 && i > 1 && matters_outside);
    path_.Add(trace->frames[from]);
  }
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  generation_ = walked_generation_;
  return true;
}

}  // namespace holdfast
