// The stack of another process's thread that sleeps in a system call, without stopping it: from the program counter and the
// stack pointer that /proc tells, by the unwind tables of its modules as they lie in its memory.
//
// The frame pointer is not told. It is known again where a frame saved it. Where one is needed before that, words on the stack that
// look like a frame (an address above, and one behind a call) are tried: a pointer beside a return address looks like one, too, and
// a wait keeps such a pair. The one that leads to the end of the stack is taken, or the one that leads farthest.
//
// What the process holds may be anything: what is read is copied, steps and sizes are bounded.
#ifndef HOLDFAST_REPORT_OUTSIDE_OUTSIDE_STACK_H_
#define HOLDFAST_REPORT_OUTSIDE_OUTSIDE_STACK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "report/table/snapshot.h"
#include "report/table/thread_status.h"

namespace holdfast {

class OutsideStacks {
 public:
  OutsideStacks();
  ~OutsideStacks();
  // Frames leaf first, as in a StackInfo; cut (truncated) where the way is not known any more. `ends`, if given: where each
  // frame ends, upwards; one less where the way was not known.
  StackInfo Walk(const ProcessMemory& memory, const std::vector<ModuleInfo>& modules, uint64_t pc, uint64_t sp,
                 std::vector<uint64_t>* ends = nullptr);

 private:
  class Image;  // a module's file, mapped as it lies in the process
  const Image* ImageOf(const ProcessMemory& memory, const std::vector<ModuleInfo>& modules, uint64_t pc);
  std::vector<std::unique_ptr<Image>> images_;
};

// Of a walk that began at `sp`: the frame that holds `address`, and how far into it; nothing if none does.
struct FrameAt {
  size_t frame;
  uint64_t offset;
};
std::optional<FrameAt> FrameHolding(uint64_t address, uint64_t sp, const std::vector<uint64_t>& ends);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OUTSIDE_OUTSIDE_STACK_H_
