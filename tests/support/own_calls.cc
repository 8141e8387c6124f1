// The system calls that tests make, without imports of libc's functions. On arm64 a parent that imports prctl or syscall may be a
// subreaper (docs/limitations.md), and no program that is preloaded alone gets an exporter below it.
#if !defined(__x86_64__)
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "sampler/contract/syscalls.h"

extern "C" long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  const long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long), d = va_arg(list, long),
             e = va_arg(list, long), f = va_arg(list, long);
  va_end(list);
  const long result = holdfast::RawSyscall(number, a, b, c, d, e, f);
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}

extern "C" int prctl(int option, ...) noexcept {
  va_list list;
  va_start(list, option);
  const long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long), d = va_arg(list, long);
  va_end(list);
  return static_cast<int>(syscall(SYS_prctl, option, a, b, c, d));
}
#endif
