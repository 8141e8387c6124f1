// System calls straight to the kernel. libc's own wrappers are cancellation points, set errno, and may be interposed by
// the program; these do none of it: the result is the kernel's, −errno on failure.
//
// Any thread, any time, also before the shim is relocated (no GOT, no TLS). In a process with a seccomp filter none may be
// made at all: callers look at `no_system_calls` first.
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

// Set once, just before the program installs a seccomp filter: from then on the shim makes no system call.
extern HOLDFAST_HIDDEN std::atomic<bool> no_system_calls;
// Set where even clock_gettime, which is no system call as a rule, may not be called: in seccomp's strict mode (and after
// PR_SET_TSC) the instruction that reads the time is SIGSEGV, and with some clock sources it is a system call after all.
extern HOLDFAST_HIDDEN std::atomic<bool> no_clock;

template <typename... Args>
inline long RawSyscall(long number, Args... args) {
  static_assert(sizeof...(Args) <= 6);
  return SystemCall(number, {(long)(args)...});
}

inline bool SyscallFailed(long result) { return result < 0 && result > -4096; }

// As long as it lives no handler of the program's runs in this thread: it might jump out, and leave a lock of ours taken or
// half a step done. In a process with a seccomp filter one may.
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

 private:
  const bool blocks_;
  uint64_t mask_ = 0;
};

// Waits for what another thread is about to do, which holds nothing else and runs no handler meanwhile: microseconds, unless it was
// preempted. Looks 200 times at once, then so many times each 50 µs, and what timers are late; behind a seccomp filter without a rest.
// False: not even then.
template <typename Done>
bool AwaitBounded(int sleeps, Done done) {
  constexpr int kSpins = 200;
  const timespec pause = {0, 50'000};
  for (int i = 0; i < kSpins + sleeps; ++i) {
    if (done()) return true;
    if (i < kSpins) {
      SpinPause();
    } else if (!no_system_calls.load(std::memory_order_relaxed)) {
      RawSyscall(SYS_nanosleep, &pause, 0);
    }
  }
  return false;
}

// Private anonymous memory, zeroed, or null.
inline void* MapAnonymous(size_t bytes, int extra_flags = 0) {
  const long result =
      RawSyscall(SYS_mmap, 0, bytes, 3 /*PROT_READ|PROT_WRITE*/, 0x22 | extra_flags /*PRIVATE|ANON*/, -1, 0);
  return SyscallFailed(result) ? nullptr : reinterpret_cast<void*>(result);
}

// The same for memory of which most will never be touched: also in a program that locks all its future memory (mlockall)
// it is backed page by page.
inline void* MapLazily(size_t bytes) {
  const long result = RawSyscall(SYS_mmap, 0, bytes, 0 /*PROT_NONE*/, 0x4022 /*PRIVATE|ANON|NORESERVE*/, -1, 0);
  if (SyscallFailed(result)) return nullptr;
  RawSyscall(SYS_munlock, result, bytes);
  if (SyscallFailed(RawSyscall(SYS_mprotect, result, bytes, 3 /*PROT_READ|PROT_WRITE*/))) {
    RawSyscall(SYS_munmap, result, bytes);
    return nullptr;
  }
  return reinterpret_cast<void*>(result);
}

// Empties private anonymous pages, by hand where MADV_DONTNEED only says that it does. No other thread uses them. For a process in
// which system calls may be made.
void EmptyPages(void* start, size_t bytes);

// Reads a whole small file into `buffer`, zero-terminated. Bytes read, or −errno.
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
