// An hour of a busy server in some seconds: blocks from ever new stacks, and threads that start and end. After each tenth,
// prints its own memory in KiB: private memory, and shared memory (the table of a profiled program).
//   churn BLOCKS STACKS THREADS [wait]      wait: for a line on standard input, after the first block
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "known.h"

#define LEVELS 20
static void* Descend(unsigned path, int level);
KNOWN static void* left_of(unsigned path, int level) { return Descend(path, level); }
KNOWN static void* right_of(unsigned path, int level) { return Descend(path, level); }
static void* Descend(unsigned path, int level) {
  if (level == 0) return malloc(64 + path % 1000);
  return (path & 1) ? right_of(path >> 1, level - 1) : left_of(path >> 1, level - 1);
}

static long FieldOf(const char* status, const char* name) {
  const char* at = strstr(status, name);
  return at ? atol(at + strlen(name)) : -1;
}

static void Tell(int tenth) {
  static char status[8192];  // no allocation of our own in between
  const int fd = open("/proc/self/status", O_RDONLY);
  const ssize_t got = read(fd, status, sizeof status - 1);
  close(fd);
  if (got <= 0) return;
  status[got] = 0;
  fprintf(stderr, "tenth %d private %ld shared %ld\n", tenth, FieldOf(status, "RssAnon:"),
          FieldOf(status, "RssShmem:"));
}

static void* Comes(void* unused) {
  free(malloc(100));
  return unused;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const long blocks = atol(argv[1]), stacks = atol(argv[2]), threads = atol(argv[3]);
  setvbuf(stderr, NULL, _IONBF, 0);
  static void* kept[1000];
  if (argc > 4) {
    kept[0] = Descend(0, LEVELS);
    fprintf(stderr, "ready\n");
    char line[10];
    if (read(0, line, sizeof line) < 0) return 4;
  }
  long done = 0, ended = 0;
  for (int tenth = 1; tenth <= 10; ++tenth) {
    for (long i = 0; i < blocks / 10; ++i, ++done) {
      void** place = &kept[done * 7919 % 1000];
      free(*place);
      *place = Descend((unsigned)(done % stacks), LEVELS);
    }
    for (long i = 0; i < threads / 10; ++i, ++ended) {
      pthread_t thread;
      if (pthread_create(&thread, NULL, Comes, NULL)) return 3;
      pthread_join(thread, NULL);
    }
    Tell(tenth);
  }
  printf("%ld blocks, %ld threads\n", done, ended);
  return 0;
}
