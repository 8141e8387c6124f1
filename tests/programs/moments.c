// Does what each line on standard input says, and answers `done LINE`. For tests of conditions that are checked from outside.
//   hold MIB       allocates and touches this amount, in blocks of 64 KiB
//   free           frees all of it
//   idle MS        a thread waits this long for a condition, like idle threads
//   stick          a thread waits for a lock that main holds, until the end
//   fork MIB       a child holds this amount, and lives as long as its parent
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "known.h"

enum { kBlock = 64 << 10, kMax = 1 << 14 };
static void* blocks[kMax];
static int held;
static pthread_mutex_t held_by_main = PTHREAD_MUTEX_INITIALIZER, free_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

KNOWN static void hold_more(int mebibytes) {
  for (int i = 0; i < mebibytes * ((1 << 20) / kBlock) && held < kMax; ++i) {
    blocks[held] = malloc(kBlock);
    memset(blocks[held++], 1, kBlock);
  }
}

static void free_all(void) {
  while (held > 0) free(blocks[--held]);
}

KNOWN static void* wait_for_main(void* unused) {
  pthread_mutex_lock(&held_by_main);
  pthread_mutex_unlock(&held_by_main);
  return unused;
}

static void idle(long ms) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += ms / 1000;
  until.tv_nsec += ms % 1000 * 1000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_mutex_lock(&free_lock);
  while (pthread_cond_timedwait(&never, &free_lock, &until) == 0) {
  }
  pthread_mutex_unlock(&free_lock);
}

int main(void) {
  static char line[100];
  setvbuf(stdin, NULL, _IONBF, 0);
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    int number = 0;
    pthread_t thread;
    if (sscanf(line, "hold %d", &number) == 1) hold_more(number);
    if (strncmp(line, "free", 4) == 0) free_all();
    if (sscanf(line, "idle %d", &number) == 1) idle(number);
    if (strncmp(line, "stick", 5) == 0) {
      pthread_mutex_lock(&held_by_main);
      pthread_create(&thread, NULL, wait_for_main, NULL);
    }
    if (sscanf(line, "fork %d", &number) == 1 && fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      hold_more(number);
      printf("child %d\n", (int)getpid());
      fflush(stdout);
      pause();
    }
    printf("done %s", line);
    fflush(stdout);
  }
  return 0;
}
