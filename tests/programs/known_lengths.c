// Holds a mutex with one waiter at a time, for known lengths: pairs of how many times, and milliseconds. Prints the lengths
// of the waits and the holds by the program's own clock.
//     known_lengths 85 1 13 20 2 200
//     lengths waits P50 P90 P99 LONGEST          nanoseconds, nearest rank
//     lengths holds P50 P90 P99 LONGEST          since the arrival of the waiter
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "clocks.h"
#include "known.h"

enum { kMax = 100000 };
pthread_mutex_t measured_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int taken, coming, done;
static _Atomic uint64_t came_ns;
static int rounds;
static uint64_t waits[kMax], holds[kMax];

KNOWN void wait_for_it(void) { pthread_mutex_lock(&measured_mutex); }
KNOWN void let_it_go(void) { pthread_mutex_unlock(&measured_mutex); }

static void* Waiter(void* unused) {
  for (int i = 1; i <= rounds; ++i) {
    while (taken != i) Sleep(0);
    const uint64_t start = Now();
    came_ns = start;
    coming = i;
    wait_for_it();
    waits[i - 1] = Now() - start;
    pthread_mutex_unlock(&measured_mutex);
    done = i;
  }
  return unused;
}

static int Ascending(const void* a, const void* b) {
  const uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
  return x < y ? -1 : x > y;
}
static void Print(const char* name, uint64_t* lengths) {
  qsort(lengths, (size_t)rounds, sizeof *lengths, Ascending);
  const int shares[] = {50, 90, 99, 100};
  printf("lengths %s", name);
  for (int i = 0; i < 4; ++i) printf(" %llu", (unsigned long long)lengths[(rounds * shares[i] + 99) / 100 - 1]);
  printf("\n");
}

int main(int argc, char** argv) {
  pthread_t waiter;
  for (int i = 1; i + 1 < argc; i += 2) rounds += atoi(argv[i]);
  if (rounds == 0 || rounds > kMax) return 1;
  pthread_create(&waiter, NULL, Waiter, NULL);
  for (int i = 1, round = 0; i + 1 < argc; i += 2) {
    for (int n = 0; n < atoi(argv[i]); ++n) {
      pthread_mutex_lock(&measured_mutex);
      taken = ++round;
      while (coming != round) Sleep(0);
      Sleep(atol(argv[i + 1]));
      holds[round - 1] = Now() - came_ns;
      let_it_go();
      while (done != round) Sleep(0);
    }
  }
  pthread_join(waiter, NULL);
  Print("waits", waits);
  Print("holds", holds);
  return 0;
}
