// Blocks with known lifetimes: freed at once, after others, after a sleep, by another thread, never. Prints a line each:
//
//   lived FUNCTION blocks bytes least_ns most_ns how     the range of their ages; how: same, other, temporary
//   kept FUNCTION bytes
//
//   known_lifetimes BLOCKS SLEEP_MS BYTES [END]      END: fork: a child does everything, its parent nothing; kill: ends by SIGKILL
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kMax = 100000 };
static size_t block_bytes;
static void* blocks[kMax];
static int count;

static long long Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void SleepMs(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static void Say(const char* function, long long least, long long most, const char* how) {
  printf("lived %s %d %lld %lld %lld %s\n", function, count, (long long)count * (long long)block_bytes, least, most,
         how);
}

__attribute__((noinline)) void* at_once(void) { return malloc(block_bytes); }
__attribute__((noinline)) void* in_pairs(void) { return malloc(block_bytes); }
__attribute__((noinline)) void* after_a_sleep(void) { return malloc(block_bytes); }
__attribute__((noinline)) void* handed_over(void) { return malloc(block_bytes); }
__attribute__((noinline)) void* kept(void) { return malloc(block_bytes); }

static void* FreeAll(void* none) {
  for (int i = 0; i < count; ++i) free(blocks[i]);
  return none;
}

static void Work(long sleep_ms) {
  long long start = Now();
  for (int i = 0; i < count; ++i) free(at_once());
  Say("at_once", 0, Now() - start, "temporary");

  start = Now();
  for (int i = 0; i < count; i += 2) {
    void* first = in_pairs();
    void* second = in_pairs();
    free(first);
    free(second);
  }
  Say("in_pairs", 0, Now() - start, "pairs");  // the second of each is a temporary

  start = Now();
  for (int i = 0; i < count; ++i) blocks[i] = after_a_sleep();
  void* last = malloc(16);  // the last of them would be a temporary
  long long all_there = Now();
  SleepMs(sleep_ms);
  long long woke = Now();
  FreeAll(NULL);
  Say("after_a_sleep", woke - all_there, Now() - start, "same");
  free(last);

  start = Now();
  for (int i = 0; i < count; ++i) blocks[i] = handed_over();
  all_there = Now();
  SleepMs(2);
  woke = Now();
  pthread_t thread;
  pthread_create(&thread, NULL, FreeAll, NULL);
  pthread_join(thread, NULL);
  Say("handed_over", woke - all_there, Now() - start, "other");

  for (int i = 0; i < count / 2; ++i) blocks[i] = kept();
  printf("kept kept %lld\n", (long long)(count / 2) * (long long)block_bytes);
  fflush(stdout);
}

int main(int argc, char** argv) {
  count = argc > 1 ? atoi(argv[1]) / 2 * 2 : 2000;
  if (count > kMax) count = kMax;
  block_bytes = argc > 3 ? (size_t)atol(argv[3]) : 300;
  const char* end = argc > 4 ? argv[4] : "";
  if (strcmp(end, "fork") == 0) {
    const pid_t child = fork();
    if (child != 0) return waitpid(child, NULL, 0) == child ? 0 : 1;
  }
  Work(argc > 2 ? atol(argv[2]) : 20);
  if (strcmp(end, "kill") == 0) raise(SIGKILL);
  return 0;
}
