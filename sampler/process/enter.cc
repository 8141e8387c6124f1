#include "sampler/process/enter.h"

#include <signal.h>
#include <sys/mman.h>

#include "sampler/arch/processor.h"
#include "sampler/capture/raw_memory.h"
#include "sampler/capture/remembered_walks.h"
#include "sampler/capture/scratch.h"
#include "sampler/contract/clock.h"
#include "sampler/contract/poisson_sampler.h"
#include "sampler/contract/syscalls.h"
#include "sampler/hot_path/timed_samples.h"
#include "sampler/process/begin_child.h"
#include "sampler/process/cpu_timers.h"
#include "sampler/process/process.h"

namespace holdfast {

constinit OwnershipPage* ownership = nullptr;
constinit bool ownership_is_emptied = false;

namespace {

// kOurs: the state belongs to this process. kOursByPid: to the process with that pid, because the kernel does not empty
// the page.
enum Ownership : uint32_t { kEmptied = 0, kOurs = 1, kBecomingOurs = 2, kOursByPid = 3 };

constinit OwnershipPage page_of_no_kernel{};  // if the kernel empties none

// A page that children of fork do not have, but those of vfork and clone(CLONE_VM) do. Its contents distinguish it from
// anything that a child maps at its place. Null: no such page can be had.
constinit const uint64_t* unforked_page = nullptr;
constinit uint64_t unforked_word = 0;

// Returns a page with this advice; null if the advice has no effect.
void* MapAdvised(int advice) {
  if (!ActsOnAdvice(advice)) return nullptr;
  void* page = MapAnonymous(kPageBytes);
  if (page == nullptr || !SyscallFailed(RawSyscall(SYS_madvise, page, kPageBytes, advice))) return page;
  RawSyscall(SYS_munmap, page, kPageBytes);
  return nullptr;
}

void MakeUnforkedPage() {
  auto* page = static_cast<uint64_t*>(MapAdvised(MADV_DONTFORK));
  unforked_page = page;
  if (page == nullptr) return;
  if (RawSyscall(SYS_getrandom, &unforked_word, sizeof unforked_word, 1 /*GRND_NONBLOCK*/) != sizeof unforked_word)
    unforked_word = static_cast<uint64_t>(KernelNs()) * 0x9e3779b97f4a7c15;
  *page = unforked_word;
}

// Whether this is the process that the page names, or a child that shares its memory.
enum class Memory : uint8_t { kOurs, kCopied, kUnknown };
HOLDFAST_COLD Memory ClassifyMemory() {
  if (no_system_calls.load(std::memory_order_relaxed)) return Memory::kOurs;  // children mark themselves
  const long pid = RawSyscall(SYS_getpid);
  // PID 1 of a namespace may have a child that is PID 1 of another.
  if (pid == process.pid && pid != 1) return Memory::kOurs;
  const auto address = reinterpret_cast<uintptr_t>(unforked_page);
  if (unforked_page != nullptr && PageForbidden(address)) return Memory::kCopied;
  if (unforked_page != nullptr && PageReadable(address))
    return *unforked_page == unforked_word ? Memory::kOurs : Memory::kCopied;
  return pid == process.pid ? Memory::kOurs : Memory::kUnknown;
}

// In a forked child: forgets the parent's state. Called by the one thread that made the state kBecomingOurs.
void BecomeOurs(int pid) {
  BeginChild(pid);
  if (!ownership_is_emptied) MakeUnforkedPage();
  ownership->state.store(ownership_is_emptied ? kOurs : kOursByPid, std::memory_order_release);
}

// If the kernel does not empty the page. False: do not record.
HOLDFAST_COLD bool IsOursByPid() {
  const Memory memory = ClassifyMemory();
  if (memory != Memory::kCopied) return memory == Memory::kOurs;
  const SignalsBlocked blocked;
  uint32_t expected = kOursByPid;
  if (!ownership->state.compare_exchange_strong(expected, kBecomingOurs, std::memory_order_acquire)) return false;
  // Another thread may have begun and finished that since the check.
  if (ClassifyMemory() == Memory::kCopied) {
    BecomeOurs(0);
  } else {
    ownership->state.store(kOursByPid, std::memory_order_release);
  }
  return true;
}

// A handler of the program may jump out of a sample of ours (siglongjmp), and leave the thread muted. A later call then
// is at the same stack depth or above. A handler that runs inside the sample is below, by a signal frame at least (1
// KiB), or on another stack, far away.
bool LeftByJump(const ThreadState& thread, uintptr_t here) {
  constexpr uintptr_t kFrames = 512, kSameStack = 256 << 10;
  if (thread.in_operator || here + kFrames < thread.entered_at || here + kFrames - thread.entered_at >= kSameStack)
    return false;
  // A signal stack may be above, within the thread's own.
  stack_t current{};
  return no_system_calls.load(std::memory_order_relaxed) || SyscallFailed(RawSyscall(SYS_sigaltstack, 0, &current)) ||
         (current.ss_flags & SS_ONSTACK) == 0;
}

}  // namespace

void MakeOwnershipPage() {
  auto* page = static_cast<OwnershipPage*>(MapAdvised(MADV_WIPEONFORK));
  ownership_is_emptied = page != nullptr;
  if (page == nullptr) {
    MakeUnforkedPage();
    page = &page_of_no_kernel;
  }
  page->state.store(ownership_is_emptied ? kOurs : kOursByPid, std::memory_order_relaxed);
  ownership = page;
}

void MarkForkedChild(int pid) {
  ownership->forked_pid.store(pid, std::memory_order_relaxed);
  // No other thread is here. Whatever a thread of the parent was doing, kBecomingOurs too, is over.
  if (!ownership_is_emptied) ownership->state.store(kEmptied, std::memory_order_relaxed);
}

bool OwnState() {
  if (ownership == nullptr || LIKELY(ownership->state.load(std::memory_order_acquire) == kOurs)) return true;
  const uint32_t state = ownership->state.load(std::memory_order_relaxed);
  if (state == kOursByPid && IsOursByPid()) return true;
  if (state == kEmptied) {
    const SignalsBlocked blocked;
    uint32_t emptied = kEmptied;
    if (ownership->state.compare_exchange_strong(emptied, kBecomingOurs, std::memory_order_acquire)) {
      BecomeOurs(ownership->forked_pid.load(std::memory_order_relaxed));
      return true;
    }
  }
  // Another thread of the child is doing that: about 100 ms at most.
  AwaitBounded(1000, [] { return ownership->state.load(std::memory_order_acquire) != kBecomingOurs; });
  const uint32_t now = ownership->state.load(std::memory_order_acquire);
  return now == kOurs || (now == kOursByPid && ClassifyMemory() == Memory::kOurs);
}

bool OwnStateWithNews() {
  const bool has_no_news =
      ownership != nullptr && ownership->state.load(std::memory_order_acquire) == kEmptied && !HasCpuTimers();
  return !has_no_news && OwnState();
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
    thread.owner = static_cast<uint16_t>(ordinal < kMaxOwners ? ordinal + 1 : 0);
    if (WalkMemory* of_parent = WalkMemory::Of(thread)) of_parent->ForgetStarts();
    thread.heap_gap = thread.heap_countdown;  // the parent's part of what was allocated since is unknown
    thread.lock_countdown = 0;
    thread.hold_countdown = 0;
    thread.current_wait = {};
    thread.ended_wait = {};
    thread.preparing = 0;
    thread.slot_turn = static_cast<uint16_t>(thread.random);
    thread.thread_id = 0;
    thread.noted = false;
    thread.samples = FirstSamples(thread.random >> 32);
    thread.interval_index = thread.lock_index = thread.hold_index =
        0;  // a child's own table begins with the interval that was in force
    thread.epoch = epoch;
  }
  SeeCpu(thread);
  return true;
}

}  // namespace holdfast
