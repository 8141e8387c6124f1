// Reads of memory that may not be mapped: the stack of the code that called us, whatever stack that is.
//
// Known to be readable: the main thread's stack up to its beginning, and the thread's StackBounds. Everything else is
// probed page by page as the walk gets there, with a system call that reads one word and does nothing: rt_sigprocmask
// with an operation that does not exist (EFAULT: not readable, EINVAL: readable). It costs 137 ns a page
// (process_vm_readv: 1,360 ns for one, 2,360 for four; EPYC, Linux 6.18, November 2026). Every program needs
// rt_sigprocmask, so seccomp filters allow it; filters that kill on process_vm_readv are common (systemd's
// @system-service is one).
//
// Any thread, in signal handlers; no lock, no allocation.
#ifndef HOLDFAST_SAMPLER_CAPTURE_RAW_MEMORY_H_
#define HOLDFAST_SAMPLER_CAPTURE_RAW_MEMORY_H_

#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/contract/attributes.h"
#include "sampler/hot_path/thread_state.h"

namespace holdfast {

inline constexpr uintptr_t PageOf(uintptr_t address) { return address & ~(kPageBytes - 1); }

// Asks the kernel. Also false if no system call may be made, or this one is refused.
bool PageReadable(uintptr_t address);
// The opposite: true only if the kernel says that the page is not readable.
bool PageForbidden(uintptr_t address);

// Returns the beginning of the main thread's stack if `sp` is on it; otherwise 0.
uintptr_t MainStackEnd(uintptr_t sp);

// A window of readable memory that follows a walk up the stack.
class StackReader {
 public:
  explicit StackReader(StackBounds* bounds) : bounds_(bounds) {}

  // Restarts at a stack pointer. `in_use`: we were called on this stack, so its page is readable. Otherwise the page is
  // probed, and false means that there is no stack.
  bool StartAt(uintptr_t sp, bool in_use);

  // True if the word at `address` can be read.
  HOLDFAST_HOT bool Reach(uintptr_t address) {
    if (LIKELY(address - low_ < size_)) return true;
    return ReachSlow(address);
  }
  static uintptr_t Word(uintptr_t address) { return *reinterpret_cast<const uintptr_t*>(address); }

  // For a deep stack: together with kMaxProbes they cover the 8 MiB of a usual thread's stack.
  void AllowMoreProbes() { probes_left_ += kMoreProbes; }

  // Call after the walk, which ended at `outermost`: if that is in the thread's own block, the thread remembers the
  // readable part of its stack.
  void Remember(uintptr_t outermost);

 private:
  HOLDFAST_COLD bool ReachSlow(uintptr_t address);
  bool Grow();
  uintptr_t End() const { return low_ + size_ + kWordTail; }
  void EndAt(uintptr_t high);

  // A word is readable if its last byte is: `size_` counts the addresses at which a whole word can be read.
  static constexpr uintptr_t kWordTail = sizeof(uintptr_t) - 1;

  uintptr_t low_ = 0;
  uintptr_t size_ = 0;
  uintptr_t limit_ = 0;  // this stack ends at or below it; 0: not known
  int probes_left_ = kMaxProbes;
  bool final_ = false;  // no more will ever be known
  StackBounds* bounds_;

  static constexpr int kMaxProbes = 512;  // 70 µs: the most that a walk over an unknown stack may spend on probes
  static constexpr int kMoreProbes = 1536;
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_RAW_MEMORY_H_
