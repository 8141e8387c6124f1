// A fork without the handlers of pthread_atfork: _Fork, or the system call where libc lacks it (glibc before 2.34).
#ifndef HOLDFAST_TESTS_PROGRAMS_RAW_FORK_H_
#define HOLDFAST_TESTS_PROGRAMS_RAW_FORK_H_

#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

pid_t _Fork(void) __attribute__((weak));

static inline pid_t RawFork(void) {
  return _Fork != NULL ? _Fork() : (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

#endif  // HOLDFAST_TESTS_PROGRAMS_RAW_FORK_H_
