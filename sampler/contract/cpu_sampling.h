// CPU samples: how they are requested, and why a process takes none.
//
// A CPU timer of the kernel counts the time that a thread runs, in user code and in system calls. Since Linux 5.9
// (CONFIG_POSIX_CPU_TIMERS_TASK_WORK) its signal arrives when the thread returns to user code, so it ends no
// system call, with the exception in docs/limitations.md. Before that, a call could fail with EINTR, or be cut short.
#ifndef HOLDFAST_SAMPLER_CONTRACT_CPU_SAMPLING_H_
#define HOLDFAST_SAMPLER_CONTRACT_CPU_SAMPLING_H_

#include <cstdint>

namespace holdfast {

// glibc reserves this signal for pthread_cancel: no program can block it, wait for it or replace its handler through
// libc.
inline constexpr int kCpuSignal = 32;
inline constexpr uint64_t kDefaultCpuHz = 100, kMaxCpuHz = 1000;
inline constexpr uint64_t CpuIntervalNs(uint64_t hz) { return hz == 0 ? 0 : 1'000'000'000 / hz; }

enum class CpuState : uint32_t {
  kOff = 0,    // not requested
  kOn,         // threads have timers
  kOtherLibc,  // only with glibc is signal 32 free: musl uses it itself
  kFiltered,   // behind a seccomp filter no timer is created
  kOldKernel,  // signals of CPU timers would interrupt system calls
  kRefused,    // the kernel refused the handler or the first timer
  kOtherProcessor,
  kProgramsTimer,  // setitimer(ITIMER_PROF or ITIMER_VIRTUAL), or a timer of timer_create on a CPU clock
};
inline constexpr int kCpuStates = 8;
// What prevents CPU samples.
inline constexpr const char* kCpuStateTexts[kCpuStates] = {
    "off",
    "on",
    "its libc is not glibc, which alone leaves signal 32 free",
    "a seccomp filter is in force, behind which no timer is created",
    "the kernel is older than Linux 5.9, and its CPU timers would interrupt system calls",
    "the kernel refused signal 32 or a CPU timer",
    "CPU samples are taken on x86-64 only",
    "the program has a CPU timer of its own (setitimer or timer_create), and ours would move its signals to other threads",
};

// Whether signals of CPU timers wait for the return to user code. `release`: as uname says it, "6.1.0-13-amd64".
bool DefersCpuTimers(const char* release);

// Accepts yes, no, a number of samples for each second of CPU time (0 = off), or either with ",force".
bool ParseCpu(const char* text, uint64_t* interval_ns, bool* is_forced);
inline constexpr char kCpuTakes[] = "yes, no, or samples a second from 1 to 1000, such as 100";

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_CPU_SAMPLING_H_
