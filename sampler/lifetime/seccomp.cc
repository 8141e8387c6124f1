#include "sampler/contract/clock.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/cpu_timers.h"
#include "sampler/process/enter.h"
#include "sampler/process/own_table.h"
#include "sampler/process/process.h"

namespace holdfast {

namespace {

constinit std::atomic<bool> clock_forbidden{false};  // by PR_SET_TSC

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
  if (SharedTable* made = GetTable(); made != nullptr && more_bytes != 0) made->Back(more_bytes);
  // Another thread may still be starting the exporter.
  AwaitTableMade();
  Unmute(thread);
}

}  // namespace

// Open files and mappings stay: the table grows as before.
void BeforeLandlock() {
  OwnState();
  if (!InBorrowedMemory()) MakeTableReady(0);
}

void BeforeSeccomp(bool strict) {
  // In a vfork child the filter is its own, the memory its parent's. (A forked child finds out here that it is one.)
  OwnState();
  if (InBorrowedMemory()) return;
  // Enough for some thousand further stacks; then growth stops, and is counted.
  MakeTableReady(2 << 20);
  EndCpuTimers();
  if (strict || !ClockIsNoSystemCall()) no_clock.store(true, std::memory_order_release);
  no_system_calls.store(true, std::memory_order_release);
}

void AfterFailedSeccomp() {
  if (!process.recording.load(std::memory_order_relaxed)) return;
  no_system_calls.store(false, std::memory_order_release);
  ResumeCpuTimers();
  no_clock.store(clock_forbidden.load(std::memory_order_relaxed), std::memory_order_release);
}

void ForbidClock(bool forbidden) {
  if (!process.recording.load(std::memory_order_relaxed)) return;
  clock_forbidden.store(forbidden, std::memory_order_relaxed);
  if (forbidden || !no_system_calls.load(std::memory_order_relaxed))
    no_clock.store(forbidden, std::memory_order_release);
}

}  // namespace holdfast
