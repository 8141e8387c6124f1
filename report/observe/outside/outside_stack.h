// Walks the stack of another process's thread that sleeps in a system call, without stopping it. /proc has the program
// counter and the stack pointer; the unwind tables are read from the process's modules in memory.
//
// The frame pointer is unknown until a frame that saved it is reached. If it is needed earlier, candidate frames on the
// stack are tried: an address further up the stack, followed by an address after a call. A pointer beside a return
// address also looks like that, and waits save such pairs. The candidate that leads to the end of the stack wins,
// otherwise the one that leads furthest.
//
// On arm64, the caller of a function without a frame, such as syscall(), is in a register, and the walk ends there.
//
// The process's memory is untrusted: all data is copied, and steps and sizes are bounded.
#ifndef HOLDFAST_REPORT_OBSERVE_OUTSIDE_OUTSIDE_STACK_H_
#define HOLDFAST_REPORT_OBSERVE_OUTSIDE_OUTSIDE_STACK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "report/observe/table/snapshot.h"
#include "report/observe/table/thread_status.h"

namespace holdfast {

class OutsideStacks {
 public:
  OutsideStacks();
  ~OutsideStacks();
  // Returns frames leaf first, as in StackInfo, truncated where the caller is unknown. `ends`, if not null: the upper
  // end of each frame; one element less if the walk was truncated. With `ends`, a deep stack keeps all its
  // frames: see OmitFrames.
  StackInfo Walk(const ProcessMemory& memory, const std::vector<ModuleInfo>& modules, uint64_t pc, uint64_t sp,
                 std::vector<uint64_t>* ends = nullptr);

 private:
  class Tables;  // a module's headers and unwind tables, at the offsets they have in the process
  const Tables* TablesOf(const ProcessMemory& memory, const std::vector<ModuleInfo>& modules, uint64_t pc);
  std::vector<std::unique_ptr<Tables>> tables_;
};

// Leaves out the middle of a deep stack, as the library does (sampler/contract/deep_stacks.h).
void OmitFrames(StackInfo* stack);

// Returns the frame that contains `address`, and the offset in it, for a walk that began at `sp`; nothing if there is
// none.
struct FrameAt {
  size_t frame;
  uint64_t offset;
};
std::optional<FrameAt> FrameHolding(uint64_t address, uint64_t sp, const std::vector<uint64_t>& ends);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_OUTSIDE_OUTSIDE_STACK_H_
