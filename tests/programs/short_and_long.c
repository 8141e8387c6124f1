// 10,000 waits of 2 µs (a spin lock) and 20 of 1 ms (a mutex), by the program's own clock, and the standard deviation of
// their estimates at an interval of 100 µs:
//     waits FUNCTION label contentions delay_ns
//     sigma FUNCTION contentions delay_ns
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "clocks.h"
#include "known.h"

static pthread_spinlock_t spin;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int taken, arriving, done;

KNOWN void waits_shortly(void) { pthread_spin_lock(&spin); }
KNOWN void waits_long(void) { pthread_mutex_lock(&mutex); }

typedef struct {
  const char *name, *label;
  int rounds;
  uint64_t hold_ns;
  void (*wait)(void);
  double captured;  // of waits below 150 µs this part is captured, see docs/sampling.md
} Phase;
static const Phase phases[] = {{"waits_shortly", "spin", 10000, 2000, waits_shortly, 0.25},
                               {"waits_long", "mutex", 20, 1000000, waits_long, 0.25}};

static void* Waiter(void* argument) {
  const Phase* phase = argument;
  uint64_t total = 0;
  double of_count = 0, of_delay = 0;
  for (int i = 1; i <= phase->rounds; ++i) {
    while (taken != i) {
    }
    arriving = i;
    const uint64_t start = Now();
    phase->wait();
    const uint64_t waited = Now() - start;
    if (phase->hold_ns < 10000)
      pthread_spin_unlock(&spin);
    else
      pthread_mutex_unlock(&mutex);
    done = i;
    total += waited;
    const double p =
        (1 - exp(-(double)waited / 1e5)) * (waited < 150000 || phase->hold_ns < 10000 ? phase->captured : 1);
    of_count += (1 - p) / p;
    of_delay += (double)waited * (double)waited * (1 - p) / p;
  }
  printf("waits %s %s %d %llu\n", phase->name, phase->label, phase->rounds, (unsigned long long)total);
  printf("sigma %s %.0f %.0f\n", phase->name, sqrt(of_count), sqrt(of_delay));
  return NULL;
}

int main(void) {
  pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
  for (int which = 0; which < 2; ++which) {
    const Phase* phase = &phases[which];
    pthread_t waiter;
    taken = arriving = done = 0;
    pthread_create(&waiter, NULL, Waiter, (void*)phase);
    for (int i = 1; i <= phase->rounds; ++i) {
      if (which == 0)
        pthread_spin_lock(&spin);
      else
        pthread_mutex_lock(&mutex);
      taken = i;
      while (arriving != i) {
      }
      const uint64_t until = Now() + phase->hold_ns;
      while (Now() < until) {
      }
      if (which == 0)
        pthread_spin_unlock(&spin);
      else
        pthread_mutex_unlock(&mutex);
      while (done != i) {
      }
    }
    pthread_join(waiter, NULL);
  }
  return 0;
}
