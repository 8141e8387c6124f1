#include "sampler/capture/raw_memory.h"

#include <errno.h>

#include <atomic>

#include "sampler/contract/loaded_objects.h"
#include "sampler/contract/syscalls.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/table/shared_table.h"

namespace holdfast {
namespace {

// The kernel keeps at least 128 MiB below the main thread's stack free for its growth, so nothing else is this near.
constexpr uintptr_t kMainStackReach = uintptr_t{64} << 20;
// With a seccomp filter: how far below the thread's control block its stack is assumed readable.
constexpr uintptr_t kNear = 16 * kPageBytes;

// How far below its control block a thread's outermost frame may be to be certainly in the thread's own block: a
// coroutine's stack may adjoin that block without a guard page. No thread's block is smaller than PTHREAD_STACK_MIN (16
// KiB), nor than its static thread-local memory and a further 2 KiB. libc's own part of that memory is almost the
// lowest, because libc is loaded late; glibc leaves about 1.6 KiB below it for libraries that are loaded later.
uintptr_t LargestOwnDistance() {
  constexpr uintptr_t kSmallBlock = 12 << 10, kAroundTls = 3 << 10;
  const uintptr_t to_libcs = ThreadPointer() - reinterpret_cast<uintptr_t>(&errno);
  return to_libcs < kUserEnd && to_libcs + kAroundTls > kSmallBlock ? to_libcs + kAroundTls : kSmallBlock;
}

long ProbeResult(uintptr_t address) { return RawSyscall(SYS_rt_sigprocmask, -1L, address, 0L, 8L); }

enum class Probing : uint8_t { kUnknown, kWorks, kImpossible };
constinit std::atomic<Probing> probing{Probing::kUnknown};

// An emulated or filtered kernel may refuse the operation before it reads the memory: then every page would seem
// readable. A kernel address shows it.
HOLDFAST_COLD bool ProbingWorksSlow() {
  const bool works = ProbeResult(~uintptr_t{0} - kPageBytes + 1) == -EFAULT;
  probing.store(works ? Probing::kWorks : Probing::kImpossible, std::memory_order_relaxed);
  return works;
}

}  // namespace

namespace {

enum class Answer : uint8_t { kNone, kReadable, kForbidden };

Answer AskAbout(uintptr_t address) {
  if (no_system_calls.load(std::memory_order_relaxed)) return Answer::kNone;
  // Relaxed: two threads that test at once get the same result.
  const Probing known = probing.load(std::memory_order_relaxed);
  if (UNLIKELY(known != Probing::kWorks) && (known == Probing::kImpossible || !ProbingWorksSlow()))
    return Answer::kNone;
  if (SharedTable* table = CurrentTable()) {
    table->header()->counters[thread_state.shard].memory_probes.fetch_add(1, std::memory_order_relaxed);
  }
  return ProbeResult(PageOf(address)) == -EINVAL ? Answer::kReadable : Answer::kForbidden;
}

}  // namespace

bool PageReadable(uintptr_t address) { return address < kUserEnd && AskAbout(address) == Answer::kReadable; }
bool PageForbidden(uintptr_t address) { return AskAbout(address) == Answer::kForbidden; }

uintptr_t MainStackEnd(uintptr_t sp) {
  const uintptr_t end = initial_stack;
  return sp < end && end - sp <= kMainStackReach ? end : 0;
}

HOLDFAST_WARM bool StackReader::StartAt(uintptr_t sp, bool in_use) {
  // The word below the stack pointer counts as part of the stack: it held the return address of the callee, and keeps
  // the window from being empty.
  low_ = sp - sizeof(uintptr_t);
  limit_ = 0;
  final_ = true;
  if (const uintptr_t main_end = MainStackEnd(sp); main_end != 0) {
    EndAt(main_end);
    return true;
  }
  if (sp >= bounds_->low && sp < bounds_->high) {
    EndAt(bounds_->high);
    return true;
  }
  // glibc keeps a thread's control block, where the thread pointer points, at the upper end of the block with its
  // stack.
  const uintptr_t own_end = ThreadPointer();
  if (no_system_calls.load(std::memory_order_relaxed) && sp < own_end && own_end - sp <= kNear) {
    EndAt(own_end);
    return true;
  }
  if (!in_use && !PageReadable(low_)) return false;
  if (sp < own_end) limit_ = own_end;
  final_ = false;
  EndAt(PageOf(low_) + kPageBytes);
  return true;
}

void StackReader::EndAt(uintptr_t high) {
  if (limit_ != 0 && high > limit_) high = limit_;
  size_ = high - low_ - kWordTail;
}

bool StackReader::Grow() {
  uintptr_t high = End();
  if (high == limit_ || final_) return false;
  if (high >= bounds_->low && high < bounds_->high) {  // reached memory that an earlier walk found readable
    high = bounds_->high;
  } else {
    if (probes_left_-- <= 0 || !PageReadable(high)) {
      final_ = true;
      return false;
    }
    high += kPageBytes;
  }
  EndAt(high);
  return true;
}

bool StackReader::ReachSlow(uintptr_t address) {
  if (final_ || address >= kUserEnd || (limit_ != 0 && address + kWordTail >= limit_)) return false;
  const uintptr_t high = End();
  if (address + kWordTail < high || address >= high + kPageBytes) {
    // Below, or beyond a large frame, or a call on another stack: a new window. The pages between are not probed.
    if (probes_left_-- <= 0 || !PageReadable(address)) return false;
    low_ = PageOf(address);
    EndAt(low_ + kPageBytes);
  }
  while (address - low_ >= size_) {
    if (!Grow()) return false;
  }
  return true;
}

void StackReader::Remember(uintptr_t outermost) {
  if (limit_ == 0 || outermost < low_ || outermost >= limit_ || limit_ - outermost > LargestOwnDistance()) return;
  while (End() < limit_) {
    if (!Grow()) return;
  }
  if (bounds_->high == limit_ && bounds_->low <= low_) return;
  // Every low that is ever stored belongs to the same high, the thread's own block: a signal handler that captures
  // between these two stores finds either nothing or a valid range.
  __atomic_store_n(&bounds_->low, low_, __ATOMIC_RELAXED);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  __atomic_store_n(&bounds_->high, limit_, __ATOMIC_RELAXED);
}

}  // namespace holdfast
