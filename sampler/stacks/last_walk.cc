#include "sampler/stacks/last_walk.h"

#include "sampler/stacks/row_cache.h"

namespace holdfast {
namespace {

constexpr uintptr_t kWordBytes = sizeof(uintptr_t);

uintptr_t WordAt(uintptr_t place) { return *reinterpret_cast<const uintptr_t*>(place); }

}  // namespace

bool LastWalk::IsUnchanged(int i) const {
  return WordAt(sps_[i] - kWordBytes) == Pc(i) && (fp_read_at_[i] == 0 || WordAt(fp_read_at_[i]) == fps_[i]);
}

void LastWalk::Begin(const CallerRegisters& caller, const StackBounds& bounds) {
  walked_generation_ = walk_generation.load(std::memory_order_acquire);
  walked_from_ = caller.sp;
  walked_top_ = walked_end_ = 0;
  count_ = may_join_ = joined_ = 0;
  gave_up_ = false;
  sps_[0] = UINTPTR_MAX;
  // Only what lies on the thread's own stack, and is still in use, is read.
  if (generation_ != walked_generation_ || caller.sp < bounds.low || top_ > bounds.high || sps_[1] < caller.sp) return;
  if (end_ != 0 && WordAt(end_) != 0) return;
  int unchanged = 1;
  while (unchanged < path_.depth && sps_[unchanged + 1] >= caller.sp && IsUnchanged(unchanged)) ++unchanged;
  may_join_ = unchanged;
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
    fp_read_at_[i - 1] = fp_matters_[i - 1] ? frame.fp_read_at : 0;
    sps_[i] = frame.sp;
    fps_[i] = frame.fp;
    fp_matters_[i] = frame.uses_fp || (frame.fp_read_at == 0 && i > 1 && fp_matters_[i - 1]);
    path_.Add(trace->frames[from]);
  }
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  generation_ = walked_generation_;
  return true;
}

}  // namespace holdfast
