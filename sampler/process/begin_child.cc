#include "sampler/process/begin_child.h"

#include <sys/mman.h>

#include "sampler/capture/module_table.h"
#include "sampler/capture/scratch.h"
#include "sampler/contract/poisson_sampler.h"
#include "sampler/contract/syscalls.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/process/cpu_timers.h"
#include "sampler/process/own_table.h"
#include "sampler/process/process.h"
#include "sampler/process/small_process.h"
#include "sampler/table/change_queue.h"
#include "sampler/table/label_sets.h"
#include "sampler/table/shadow_map.h"
#include "sampler/table/stack_table.h"

namespace holdfast {

namespace {

uint64_t NewestInterval(const IntervalChange* intervals, const std::atomic<uint32_t>& count) {
  return intervals[NewestIndex(count.load(std::memory_order_acquire))].interval;
}

}  // namespace

void BeginChild(int forked_pid) {
  uint64_t cpu_interval_ns = process.options.cpu_interval_ns;
  SharedTable* old = current_table.load(std::memory_order_relaxed);
  current_table.store(nullptr, std::memory_order_relaxed);
  ForgetLockSlots();
  ForgetShadow();
  ForgetMappings();
  if (no_system_calls.load(std::memory_order_relaxed)) {
    // With a seccomp filter nothing can be made anew: the child runs unrecorded. The inherited memory stays mapped,
    // untouched.
    process.recording.store(false, std::memory_order_relaxed);
    return;
  }
  if (old != nullptr) {
    // Intervals that `holdfast set` gave to the parent apply to its children, too.
    const TableHeader& head = *old->header();
    process.options.heap_interval = NewestInterval(head.heap_intervals, head.heap_interval_count);
    process.options.lock_interval_ns = NewestInterval(head.lock_intervals, head.lock_interval_count);
    cpu_interval_ns = NewestInterval(head.cpu_intervals, head.cpu.interval_count);
    // Detaches the parent's file. Left readable and writable: a handler that interrupted a sample in the parent may
    // return into it here. Shared, because private memory would count in RLIMIT_DATA.
    RawSyscall(SYS_mmap, old, old->header()->cap_bytes, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    ForgetStacks();
  }
  // The counters of early blocks must not be 0 even for a moment, because another thread may be freeing one. The
  // parent's counters are correct in the child as well: they only err towards "perhaps".
  uint8_t* counters = sampled_filter.counters.load(std::memory_order_relaxed);
  if (counters != nullptr && sampled_filter.always_ask[0].bytes + sampled_filter.always_ask[1].bytes == 0) {
    RawSyscall(SYS_madvise, counters, kFilterBytes, MADV_DONTNEED);
  }
  EndWithoutCounters();
  ResetScratch();
  ForgetModules();
  ForgetLabelFrames();
  // The first caller may be a vfork child of this process, with another pid.
  process.pid = forked_pid != 0 ? forked_pid : static_cast<int>(RawSyscall(SYS_getpid));
  process.forked = true;
  if (process.subreaper.exchange(false, std::memory_order_relaxed)) process.child_of_subreaper = true;
  process.before_table.alloc_bytes = 0;
  process.before_table.lost_samples = 0;
  process.location = {};
  NoteHidden(false);
  process.out_id = {};
  // With a given seed, a child's samples are reproducible too, and differ from its parent's and siblings' (see
  // BeforeFork).
  uint64_t seed =
      process.seed + process.forks.load(std::memory_order_relaxed) * 0x632be59bd9b4e019 + thread_state.random;
  process.seed = process.options.seed == 0 ? 0 : NextRandom(&seed);
  if (process.seed == 0) DrawSeed();
  process.threads = 0;
  if (!process.options.children) process.recording = false;
  AllowNewTable();
  ForgetCpuTimers(cpu_interval_ns);
  process.epoch.fetch_add(1, std::memory_order_release);
  // Now, not at its next slow path: many children live for a moment.
  if (HasCpuTimers()) SeeCpuSlow(thread_state, WhileOthersChange::kWait);
}

}  // namespace holdfast
