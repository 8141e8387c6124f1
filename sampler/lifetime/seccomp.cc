#include "sampler/contract/clock.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/cpu_timers.h"
#include "sampler/process/enter.h"
#include "sampler/process/own_table.h"
#include "sampler/process/process.h"
#include "sampler/table/stack_table.h"

namespace holdfast {

namespace {

constinit std::atomic<bool> clock_forbidden{false};  // by PR_SET_TSC

// Calls in progress that may install a filter. kInstalled: one has succeeded, so system calls stay off. kResuming: the
// only one has failed, and its thread switches them on again.
constinit std::atomic<uint32_t> filter_calls{0};
constexpr uint32_t kResuming = 1u << 30, kInstalled = 1u << 31;

bool CountFilterCall() {
  uint32_t now = filter_calls.load();
  return (now & kResuming) == 0 && filter_calls.compare_exchange_strong(now, now + 1);
}

// The kernel maps the time into the program only from some sources of it.
bool ClockIsNoSystemCall() {
  if (mapped_clock == nullptr) return false;
  char source[64];
  if (ReadSmallFile("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source) <= 0)
    return false;
  return TextStartsWith(source, "tsc") || TextStartsWith(source, "kvm-clock") ||
         TextStartsWith(source, "hyperv_clocksource_tsc_page");
}

// Makes the table with that many more bytes in memory, and waits until the exporter runs.
void MakeTableReady(uint32_t more_bytes) {
  ThreadState& thread = thread_state;
  if (!EnterSlow(thread)) return;
  Mute(thread);
  if (SharedTable* made = FinishedTable(); made != nullptr && more_bytes != 0) {
    made->Back(more_bytes);
    PrepareStacks(made);
  }
  Unmute(thread);
}

}  // namespace

// Open files and mappings stay: the table grows as before.
void BeforeLandlock() {
  OwnState();
  if (!no_system_calls.load(std::memory_order_relaxed) && !InBorrowedMemory()) MakeTableReady(0);
}

bool BeforeSeccomp(bool strict) {
  // In a vfork child the filter is its own, the memory its parent's. (A forked child finds out here that it is one.)
  OwnState();
  if (InBorrowedMemory()) return false;
  if (!AwaitBounded(1000, CountFilterCall)) filter_calls.fetch_add(1);
  // Otherwise a filter may be in force already, or arrive at any moment.
  if (!no_system_calls.load(std::memory_order_acquire)) {
    // Enough for some thousand further stacks; then growth stops, and is counted.
    MakeTableReady(2 << 20);
    EndCpuTimers();
    if (!ClockIsNoSystemCall()) no_clock.store(true, std::memory_order_release);
    no_system_calls.store(true, std::memory_order_release);
  }
  if (strict) no_clock.store(true, std::memory_order_release);
  return true;
}

void AfterSeccomp(bool was_counted, bool is_installed) {
  if (!was_counted) return;
  if (is_installed) filter_calls.fetch_or(kInstalled);
  const bool may_resume = process.recording.load(std::memory_order_relaxed);
  uint32_t now = filter_calls.load();
  while (!filter_calls.compare_exchange_weak(now, now == 1 && may_resume ? kResuming : now - 1)) {
  }
  if (now != 1 || !may_resume) return;
  no_clock.store(clock_forbidden.load(std::memory_order_relaxed), std::memory_order_release);
  no_system_calls.store(false, std::memory_order_release);
  ResumeCpuTimers();
  filter_calls.fetch_and(~kResuming);
}

bool ForbidClock(bool forbidden) {
  const bool was_forbidden = clock_forbidden.load(std::memory_order_relaxed);
  if (!process.recording.load(std::memory_order_relaxed)) return was_forbidden;
  clock_forbidden.store(forbidden, std::memory_order_relaxed);
  if (forbidden || !no_system_calls.load(std::memory_order_relaxed))
    no_clock.store(forbidden, std::memory_order_release);
  return was_forbidden;
}

}  // namespace holdfast
