#include "sampler/process/enter.h"

#include <signal.h>
#include <sys/mman.h>

#include "sampler/arch/processor.h"
#include "sampler/contract/poisson_sampler.h"
#include "sampler/contract/syscalls.h"
#include "sampler/hot_path/timed_samples.h"
#include "sampler/process/begin_child.h"
#include "sampler/process/process.h"
#include "sampler/stacks/remembered_walks.h"
#include "sampler/stacks/scratch.h"

namespace holdfast {

constinit OwnershipPage* ownership = nullptr;

namespace {

// A page that the kernel empties in every child of fork, also of _Fork and raw clone: how a child knows itself, without
// a system call on the way. kOurs: the state belongs to this process. Null: the kernel cannot (before 4.14).
enum Ownership : uint32_t { kEmptied = 0, kOurs = 1, kBecomingOurs = 2 };

// A handler of the program's may jump out of a sample of ours (siglongjmp), and leave the thread muted. Then a later call
// stands where the muted one stood, or above; a handler that runs inside of it stands below, by a signal frame at least
// (1 KiB), or on another stack, far away.
bool LeftByJump(const ThreadState& thread, uintptr_t here) {
  constexpr uintptr_t kFrames = 512, kSameStack = 256 << 10;
  if (thread.in_operator || here + kFrames < thread.entered_at || here + kFrames - thread.entered_at >= kSameStack)
    return false;
  // A signal stack may lie above, within the thread's own.
  stack_t current{};
  return no_system_calls.load(std::memory_order_relaxed) || SyscallFailed(RawSyscall(SYS_sigaltstack, 0, &current)) ||
         (current.ss_flags & SS_ONSTACK) == 0;
}

}  // namespace

void MakeOwnershipPage() {
  void* page = MapAnonymous(kPageBytes);
  if (page == nullptr) return;
  if (SyscallFailed(RawSyscall(SYS_madvise, page, kPageBytes, MADV_WIPEONFORK))) {
    RawSyscall(SYS_munmap, page, kPageBytes);
    return;
  }
  ownership = static_cast<OwnershipPage*>(page);
  ownership->state.store(kOurs, std::memory_order_relaxed);
}

bool OwnState() {
  if (ownership == nullptr || LIKELY(ownership->state.load(std::memory_order_acquire) == kOurs)) return true;
  if (ownership->state.load(std::memory_order_relaxed) == kEmptied) {
    const SignalsBlocked blocked;
    uint32_t emptied = kEmptied;
    if (ownership->state.compare_exchange_strong(emptied, kBecomingOurs, std::memory_order_acquire)) {
      BeginChild(ownership->forked_pid.load(std::memory_order_relaxed));
      ownership->state.store(kOurs, std::memory_order_release);
      return true;
    }
  }
  // Another thread of the child is at it: 100 ms or so at most.
  AwaitBounded(1000, [] { return ownership->state.load(std::memory_order_acquire) != kBecomingOurs; });
  return ownership->state.load(std::memory_order_acquire) == kOurs;
}

bool EnterSlow(ThreadState& thread) {
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (UNLIKELY(thread.muted)) {
    if (!LeftByJump(thread, here)) return false;
    Unmute(thread);
    ReturnScratch(thread);
  }
  thread.entered_at = here;
  if (!OwnState() || !process.recording.load(std::memory_order_relaxed)) return false;
  const uint32_t epoch = process.epoch.load(std::memory_order_acquire);
  if (UNLIKELY(thread.epoch != epoch)) {
    const uint32_t ordinal = process.threads.fetch_add(1, std::memory_order_relaxed);
    uint64_t seed = process.seed + ordinal * 0xd1342543de82ef95;
    thread.random = NextRandom(&seed);
    thread.shard = static_cast<uint16_t>(ordinal % kCounterShards);
    thread.owner = static_cast<uint16_t>(ordinal < kMostOwners ? ordinal + 1 : 0);
    if (WalkMemory* of_parent = WalkMemory::Of(thread)) of_parent->ForgetStarts();
    thread.heap_gap = thread.heap_countdown;  // of what was allocated since, the parent's part is not known
    thread.lock_countdown = 0;
    thread.hold_countdown = 0;
    thread.current_wait = {};
    thread.ended_wait = {};
    thread.preparing = 0;
    thread.tended = static_cast<uint16_t>(thread.random);
    thread.thread_id = 0;
    thread.noted = false;
    thread.samples = FirstSamples(thread.random >> 32);
    thread.interval_index = thread.lock_index = thread.hold_index =
        0;  // a child's own table begins with the interval that was in force
    thread.epoch = epoch;
  }
  return true;
}

}  // namespace holdfast
