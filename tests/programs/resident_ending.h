// The ends of programs with known resident memory, after they have reached their final state.
#ifndef HOLDFAST_TESTS_PROGRAMS_RESIDENT_ENDING_H_
#define HOLDFAST_TESTS_PROGRAMS_RESIDENT_ENDING_H_

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

// For main to return. `child`: a forked one that stops itself, or 0. `waits`: says so and waits for input. `vanishes`: SIGKILL.
static inline int EndSeen(pid_t child, int waits, int vanishes) {
  if (child > 0) {
    int status;
    waitpid(child, &status, WUNTRACED);
  }
  if (waits) {
    printf("ready\n");
    fflush(stdout);
    for (char c; read(0, &c, 1) > 0;) {
    }
  }
  if (vanishes) raise(SIGKILL);
  if (child <= 0) return 0;
  // The child goes on once we have ended: our last profile is made while it shares our pages.
  const pid_t parent = getpid();
  if (fork() == 0) {
    while (getppid() == parent) usleep(1000);
    kill(child, SIGCONT);
    _exit(0);
  }
  return 0;
}

#endif  // HOLDFAST_TESTS_PROGRAMS_RESIDENT_ENDING_H_
