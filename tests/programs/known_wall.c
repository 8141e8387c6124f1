// Workers that compute for 30 % of their time, read from a pipe for 20 %, wait for a lock for 40 % and sleep for 10 %, in
// parts of random length. Prints what the clocks and the kernel say that the workers did, as sums in nanoseconds:
// `wall PART NANOSECONDS`.
//
//     known_wall SECONDS WORKERS [SHORT_THREADS [closed]]      0 seconds: until a line is read; prints `ready` before
//
// `closed`: nobody but root may look into the process.
//
// Each worker has a helper that keeps the worker waiting: Evict holds the worker's lock, Feed writes late into the pipe.
// Each short thread sleeps for 30 to 130 ms and ends.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { kCompute, kRead, kLock, kSleep, kParts };
static const char* const names[kParts] = {"compute", "read", "lock", "sleep"};
static const double shares[kParts] = {0.3, 0.2, 0.4, 0.1};
static const int64_t cycle_ns = 60000000;

static _Atomic int64_t cpu_ns, runnable_ns, lived_ns, blocked_ns[kParts], short_ns;
static int64_t until_ns;
static _Atomic int stop;

static int64_t Now(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void SleepFor(int64_t ns) {
  const struct timespec time = {ns / 1000000000, ns % 1000000000};
  nanosleep(&time, NULL);
}

struct Schedule {
  int64_t cpu, waited;
};

struct Worker {
  pthread_mutex_t cache_mutex;
  sem_t wanted, ready;
  int pipe[2], part, number;
  int64_t ns;
  unsigned seed;
};

static struct Schedule ReadSchedule(int fd) {
  char text[96] = "";
  struct Schedule schedule = {0, 0};
  if (pread(fd, text, sizeof text - 1, 0) <= 0) return schedule;
  char* next;
  schedule.cpu = strtoll(text, &next, 10);
  schedule.waited = strtoll(next, &next, 10);
  return schedule;
}

__attribute__((noinline)) void Evict(struct Worker* worker) {
  pthread_mutex_lock(&worker->cache_mutex);
  sem_post(&worker->ready);
  SleepFor(worker->ns);
  pthread_mutex_unlock(&worker->cache_mutex);
}

__attribute__((noinline)) void Feed(struct Worker* worker) {
  sem_post(&worker->ready);
  SleepFor(worker->ns);
  if (write(worker->pipe[1], "x", 1) != 1) abort();
}

static void* Help(void* argument) {
  struct Worker* worker = argument;
  char name[16];
  snprintf(name, sizeof name, "helper-%d", worker->number);
  pthread_setname_np(pthread_self(), name);
  for (;;) {
    sem_wait(&worker->wanted);
    if (worker->part == kParts) return NULL;
    (worker->part == kLock ? Evict : Feed)(worker);
  }
}

static volatile unsigned sink;
__attribute__((noinline)) void Compute(int64_t ns) {
  for (const int64_t end = Now(CLOCK_THREAD_CPUTIME_ID) + ns; Now(CLOCK_THREAD_CPUTIME_ID) < end;)
    for (unsigned i = 0; i < 20000; ++i) sink += i * i;
}

__attribute__((noinline)) void ReadInput(struct Worker* worker) {
  char byte;
  if (read(worker->pipe[0], &byte, 1) != 1) abort();
}

__attribute__((noinline)) void LookUp(struct Worker* worker) {
  pthread_mutex_lock(&worker->cache_mutex);
  pthread_mutex_unlock(&worker->cache_mutex);
}

static void* Work(void* argument) {
  struct Worker* worker = argument;
  char name[16], path[64];
  snprintf(name, sizeof name, "worker-%d", worker->number);
  pthread_setname_np(pthread_self(), name);
  pthread_t helper;
  if (pthread_create(&helper, NULL, Help, worker) != 0) abort();
  snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const int64_t began = Now(CLOCK_MONOTONIC);
  int64_t end = began;
  struct Schedule schedule = {0, 0};
  while (end < until_ns && !stop) {
    for (int part = 0; part < kParts; ++part) {
      // From half to one and a half of the mean.
      const double factor = 0.5 + rand_r(&worker->seed) / (double)RAND_MAX;
      worker->ns = (int64_t)(cycle_ns * shares[part] * factor);
      worker->part = part;
      if (part == kRead || part == kLock) {
        sem_post(&worker->wanted);
        sem_wait(&worker->ready);
      }
      const int64_t start = Now(CLOCK_MONOTONIC);
      const struct Schedule before = ReadSchedule(fd);
      if (part == kCompute) Compute(worker->ns);
      if (part == kRead) ReadInput(worker);
      if (part == kLock) LookUp(worker);
      if (part == kSleep) SleepFor(worker->ns);
      schedule = ReadSchedule(fd);
      end = Now(CLOCK_MONOTONIC);
      const int64_t ran = schedule.cpu - before.cpu + schedule.waited - before.waited;
      if (end - start > ran) blocked_ns[part] += end - start - ran;
    }
  }
  cpu_ns += schedule.cpu;
  runnable_ns += schedule.waited;
  lived_ns += end - began;
  worker->part = kParts;
  sem_post(&worker->wanted);
  pthread_join(helper, NULL);
  return NULL;
}

static void* Short(void* argument) {
  const int64_t start = Now(CLOCK_MONOTONIC);
  pthread_setname_np(pthread_self(), "short");
  SleepFor((30 + (int64_t)(intptr_t)argument % 101) * 1000000);
  short_ns += Now(CLOCK_MONOTONIC) - start;
  return NULL;
}

int main(int count, char** arguments) {
  const int64_t ns = (int64_t)(1e9 * (count > 1 ? atof(arguments[1]) : 1));
  const int workers = count > 2 ? atoi(arguments[2]) : 1, threads = count > 3 ? atoi(arguments[3]) : 0;
  if (count > 4 && strcmp(arguments[4], "closed") == 0) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  struct Worker* all = calloc((size_t)workers, sizeof *all);
  pthread_t* ids = calloc((size_t)(workers + threads), sizeof *ids);
  until_ns = ns == 0 ? INT64_MAX : Now(CLOCK_MONOTONIC) + ns;
  for (int i = 0; i < workers; ++i) {
    pthread_mutex_init(&all[i].cache_mutex, NULL);
    sem_init(&all[i].wanted, 0, 0);
    sem_init(&all[i].ready, 0, 0);
    if (pipe(all[i].pipe) != 0) abort();
    all[i].number = i + 1;
    all[i].seed = (unsigned)i + 1;
    if (pthread_create(&ids[i], NULL, Work, &all[i]) != 0) abort();
  }
  for (int i = 0; i < threads; ++i) {
    SleepFor(ns / (threads + 1));
    if (pthread_create(&ids[workers + i], NULL, Short, (void*)(intptr_t)(i * 37)) != 0) abort();
  }
  if (ns == 0) {
    puts("ready");
    fflush(stdout);
    getchar();
    stop = 1;
  }
  for (int i = 0; i < workers + threads; ++i) pthread_join(ids[i], NULL);
  printf("wall cpu %lld\nwall runnable %lld\nwall lived %lld\nwall short %lld\n", (long long)cpu_ns,
         (long long)runnable_ns, (long long)lived_ns, (long long)short_ns);
  for (int part = kRead; part < kParts; ++part) printf("wall %s %lld\n", names[part], (long long)blocked_ns[part]);
  return 0;
}
