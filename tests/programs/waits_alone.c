// Its only thread waits for ever in the function that the argument names. For tests of attach. Prints "ready"; SIGTERM ends it.
#define _GNU_SOURCE
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static void End(int signal) {
  (void)signal;
  _exit(0);
}

int main(int count, char** arguments) {
  const char* const function = count > 1 ? arguments[1] : "";
  static sem_t never;
  struct timespec later;
  clock_gettime(CLOCK_REALTIME, &later);
  later.tv_sec += 1000;
  signal(SIGTERM, End);
  puts("ready");
  fflush(stdout);
  for (;;) {
    if (strcmp(function, "poll") == 0) poll(NULL, 0, -1);
    if (strcmp(function, "sleep") == 0) sleep(1000);
    if (strcmp(function, "sem_wait") == 0) sem_wait(&never);
    if (strcmp(function, "sem_timedwait") == 0) sem_timedwait(&never, &later);
    if (strcmp(function, "lockf") == 0) {
      FILE* const file = tmpfile();
      if (file == NULL) return 1;
      int ends[2];
      char byte;
      if (pipe(ends) != 0) return 1;
      if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (lockf(fileno(file), F_LOCK, 0) != 0 || write(ends[1], "", 1) != 1) _exit(1);
        for (;;) pause();
      }
      if (read(ends[0], &byte, 1) != 1 || lockf(fileno(file), F_LOCK, 0) != 0) return 1;
    }
  }
}
