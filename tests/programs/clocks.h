// The programs' own time measurements, to compare with the profile.
#ifndef HOLDFAST_TESTS_PROGRAMS_CLOCKS_H_
#define HOLDFAST_TESTS_PROGRAMS_CLOCKS_H_

#include <stddef.h>
#include <stdint.h>
#include <time.h>

// Nanoseconds of CLOCK_MONOTONIC.
static inline uint64_t Now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline void Sleep(long ms) {
  const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

#endif  // HOLDFAST_TESTS_PROGRAMS_CLOCKS_H_
