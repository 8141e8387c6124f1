// Memory in use with two peaks of different stacks, and a burst that is over at once, all with known sizes:
//     10 MiB the whole time; 30 MiB more in the first peak, 60 MiB in the second, both for MS milliseconds; 100 MiB more for an
//     instant if BURST is 1; 20 MiB more at the end, or 59 if END is 1. SIZE: of a block.
//
//     two_peaks MS SIZE BURST [END]
//
// Prints `peak FUNCTION objects bytes` for what is in use at the second peak, and `at NANOSECONDS` of the wall clock before
// and after the highest point.
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/programs/known.h"

enum { kMiB = 1 << 20 };
struct blocks {
  void** all;
  size_t count;
};

// Not of malloc's, so that the totals are those of the blocks.
static void* map_list(size_t count) {
  return mmap(NULL, count * sizeof(void*), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// Left by a tail call.
KNOWN static void* leave_for_malloc(size_t size) { return malloc(size); }

#define HOLDS(function, mib)                                                                     \
  KNOWN static struct blocks function(size_t size) {                                             \
    struct blocks blocks = {map_list((mib) * (size_t)kMiB / size), (mib) * (size_t)kMiB / size}; \
    for (size_t i = 0; i < blocks.count; ++i) Use(blocks.all[i] = leave_for_malloc(size));       \
    return blocks;                                                                               \
  }

HOLDS(hold_always, 10)
HOLDS(hold_first, 30)
HOLDS(hold_second, 60)
HOLDS(hold_burst, 100)
HOLDS(hold_last, 20)
HOLDS(hold_last_much, 59)

static void let_go(struct blocks blocks) {
  for (size_t i = 0; i < blocks.count; ++i) free(blocks.all[i]);
}

static void wait_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static void say_time(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  char text[64];
  const int length = snprintf(text, sizeof text, "at %lld\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
  fwrite(text, 1, (size_t)length, stdout);
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  static char buffer[4096];
  setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  const long ms = atol(argv[1]);
  const size_t size = (size_t)atol(argv[2]);
  const struct blocks always = hold_always(size);
  const struct blocks first = hold_first(size);
  wait_ms(ms);
  let_go(first);
  wait_ms(50);
  if (argv[3][0] == '1') {
    say_time();
    let_go(hold_burst(size));
    say_time();
    wait_ms(50);
  }
  say_time();
  const struct blocks second = hold_second(size);
  wait_ms(ms);
  say_time();
  let_go(second);
  const struct blocks last = argc > 4 && argv[4][0] == '1' ? hold_last_much(size) : hold_last(size);
  wait_ms(50);
  printf("peak hold_always %zu %zu\n", always.count, always.count * size);
  printf("peak hold_second %zu %zu\n", second.count, second.count * size);
  printf("ready\n");
  fflush(stdout);
  Use(last.all);
  getchar();
  return 0;
}
