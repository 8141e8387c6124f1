// Preloaded: a wall clock that jumps 400 days back and forth at each reading, in an order that no reader can follow. The
// monotonic clock is unchanged.
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t Jump(void) {
  static atomic_uint looks;
  const unsigned mixed = (atomic_fetch_add(&looks, 1) + 1) * 2654435761u;
  return ((long)((mixed ^ mixed >> 15) % 1021 % 3) - 1) * 400L * 24 * 3600;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += Jump();
  return result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  const int result = (int)syscall(SYS_gettimeofday, now, zone);
  if (result == 0) now->tv_sec += Jump();
  return result;
}

time_t time(time_t* to) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}
