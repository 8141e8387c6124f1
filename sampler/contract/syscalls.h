// System calls directly to the kernel. libc's wrappers are cancellation points, set errno, and may be interposed by the
// program. These do none of that: they return the kernel's result, −errno on failure.
//
// Any thread, any time, also before the shim is relocated (no GOT, no TLS). With a seccomp filter no system call is
// allowed: callers check `no_system_calls` first.
#ifndef HOLDFAST_SAMPLER_CONTRACT_SYSCALLS_H_
#define HOLDFAST_SAMPLER_CONTRACT_SYSCALLS_H_

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/contract/attributes.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace holdfast {

// Set once, just before the program installs a seccomp filter: the shim then makes no more system calls.
extern HOLDFAST_HIDDEN std::atomic<bool> no_system_calls;
// Set when clock_gettime must not be called either, although it is usually no system call. In seccomp's strict mode
// (and after PR_SET_TSC) the instruction that reads the time raises SIGSEGV, and with some clock sources the clock is a
// system call after all.
extern HOLDFAST_HIDDEN std::atomic<bool> no_clock;

template <typename... Args>
inline long RawSyscall(long number, Args... args) {
  static_assert(sizeof...(Args) <= 6);
  return SystemCall(number, {(long)(args)...});
}

// readlink(2), which newer processors have only as readlinkat(2). Adds no zero.
inline long ReadLink(const char* path, char* target, size_t capacity) {
#ifdef SYS_readlink
  return RawSyscall(SYS_readlink, path, target, capacity);
#else
  return RawSyscall(SYS_readlinkat, AT_FDCWD, path, target, capacity);
#endif
}

inline bool SyscallFailed(long result) { return result < 0 && result > -4096; }

// Blocks the program's signal handlers in this thread while the object lives: a handler might jump out and leave one of
// our locks taken or a step half done. With a seccomp filter handlers can still run.
class SignalsBlocked {
 public:
  SignalsBlocked() : blocks_(!no_system_calls.load(std::memory_order_relaxed)) {
    const uint64_t all = ~uint64_t{0};
    if (blocks_) RawSyscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask_, sizeof all);
  }
  ~SignalsBlocked() {
    if (blocks_) RawSyscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask_, nullptr, sizeof mask_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  // The kernel's mask of signals that were blocked before.
  uint64_t before() const { return mask_; }

 private:
  const bool blocks_;
  uint64_t mask_ = 0;
};

// Not by nanosleep: a thread that `holdfast attach` has borrowed is in an interrupted system call, and nanosleep would change how
// that call continues.
inline void SleepShortly(long ns) {
  timespec pause = {0, ns};  // the kernel writes into it
  RawSyscall(SYS_ppoll, 0, 0, &pause, 0, 0);
}

// Waits for another thread to finish a step. That thread holds nothing else and runs no handler meanwhile:
// microseconds, unless it is preempted. Checks 200 times immediately, then again after sleeps of 50 µs each (timers may
// be late); with a seccomp filter, without sleeping. Returns false if the step is still not done.
template <typename Done>
bool AwaitBounded(int sleeps, Done done) {
  constexpr int kSpins = 200;
  for (int i = 0; i < kSpins + sleeps; ++i) {
    if (done()) return true;
    if (i < kSpins) {
      SpinPause();
    } else if (!no_system_calls.load(std::memory_order_relaxed)) {
      SleepShortly(50'000);
    }
  }
  return false;
}

// Returns private anonymous memory, zeroed, or null.
inline void* MapAnonymous(size_t bytes, int extra_flags = 0) {
  const long result =
      RawSyscall(SYS_mmap, 0, bytes, 3 /*PROT_READ|PROT_WRITE*/, 0x22 | extra_flags /*PRIVATE|ANON*/, -1, 0);
  return SyscallFailed(result) ? nullptr : reinterpret_cast<void*>(result);
}

// Call for sparse memory before its first use: where the kernel uses huge pages for everything, one word would take 2 MiB.
inline void UseSmallPages(const void* start, size_t bytes) { RawSyscall(SYS_madvise, start, bytes, MADV_NOHUGEPAGE); }

// The same for memory that will mostly stay untouched: it gets small pages on demand, even in a program that locks all
// its future memory (mlockall).
inline void* MapLazily(size_t bytes) {
  const long result = RawSyscall(SYS_mmap, 0, bytes, 0 /*PROT_NONE*/, 0x4022 /*PRIVATE|ANON|NORESERVE*/, -1, 0);
  if (SyscallFailed(result)) return nullptr;
  RawSyscall(SYS_munlock, result, bytes);
  if (SyscallFailed(RawSyscall(SYS_mprotect, result, bytes, 3 /*PROT_READ|PROT_WRITE*/))) {
    RawSyscall(SYS_munmap, result, bytes);
    return nullptr;
  }
  UseSmallPages(reinterpret_cast<void*>(result), bytes);
  return reinterpret_cast<void*>(result);
}

// Whether madvise has an effect. A filter or an emulator may return 0 and do nothing, also for a page that no process can
// have; the kernel does not.
inline bool ActsOnAdvice(int advice) { return SyscallFailed(RawSyscall(SYS_madvise, kUnmappable, kPageBytes, advice)); }

// Empties private anonymous pages, by hand if MADV_DONTNEED claims success without effect. No other thread uses them.
// Only in a process that may make system calls.
void EmptyPages(void* start, size_t bytes);

// Reads a whole small file into `buffer`, zero-terminated. Returns the number of bytes, or −errno.
inline long ReadSmallFile(const char* path, char* buffer, size_t capacity) {
  const long fd = RawSyscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (SyscallFailed(fd)) return fd;
  size_t filled = 0;
  while (filled + 1 < capacity) {
    const long got = RawSyscall(SYS_read, fd, buffer + filled, capacity - 1 - filled);
    if (got == -4 /*EINTR*/) continue;
    if (got <= 0) break;
    filled += static_cast<size_t>(got);
  }
  buffer[filled] = '\0';
  RawSyscall(SYS_close, fd);
  return static_cast<long>(filled);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_SYSCALLS_H_
