// Stops its threads by signals all the time, as a garbage collector does (Boehm's): main sends each a signal and waits until all
// have answered from their handlers, where they wait for another signal. Meanwhile they allocate and compare what they wrote.
// Answers "line N: M mistakes" to each line of standard input, from a thread of its own, which is stopped as well.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kThreads = 4, kStop = SIGPWR, kGoOn = SIGXCPU };

static sem_t answers;
static volatile sig_atomic_t is_stopped;
static int mistakes;
static pthread_t threads[kThreads + 1];

static void OnGoOn(int signal) { (void)signal; }
static void OnStop(int signal) {
  const int kept = errno;
  sigset_t all_but_go_on;
  (void)signal;
  sigfillset(&all_but_go_on);
  sigdelset(&all_but_go_on, kGoOn);
  sem_post(&answers);
  while (is_stopped) sigsuspend(&all_but_go_on);
  sem_post(&answers);
  errno = kept;
}

static void* Allocate(void* number) {
  unsigned char* blocks[64] = {0};
  const unsigned char mark = (unsigned char)(1 + (size_t)number);
  for (unsigned i = 0;; ++i) {
    unsigned char** const block = &blocks[i * 7 % 64];
    if (*block != NULL && ((*block)[0] != mark || (*block)[99] != mark))
      __atomic_add_fetch(&mistakes, 1, __ATOMIC_RELAXED);
    free(*block);
    *block = malloc(100 + i % 3000);
    memset(*block, mark, 100);
    if (i % 1000 == 0) usleep(1000);
  }
  return NULL;
}

static void* Answer(void* unused) {
  char line[100];
  size_t filled = 0;
  for (int lines = 0;;) {
    const ssize_t got = read(0, line + filled, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (line[filled] != '\n') {
      filled = (filled + 1) % (sizeof line - 1);
      continue;
    }
    filled = 0;
    printf("line %d: %d mistakes\n", ++lines, __atomic_load_n(&mistakes, __ATOMIC_RELAXED));
    fflush(stdout);
  }
  _exit(mistakes != 0);
  return unused;
}

static void AwaitAnswers(void) {
  for (int i = 0; i <= kThreads; ++i) {
    while (sem_wait(&answers) != 0) continue;
  }
}

int main(void) {
  struct sigaction stop = {.sa_handler = OnStop, .sa_flags = SA_RESTART}, go_on = {.sa_handler = OnGoOn};
  sigfillset(&stop.sa_mask);
  sigaction(kStop, &stop, NULL);
  sigaction(kGoOn, &go_on, NULL);
  sem_init(&answers, 0, 0);
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, Allocate, (void*)i);
  pthread_create(&threads[kThreads], NULL, Answer, NULL);
  printf("ready\n");
  fflush(stdout);
  while (1) {
    is_stopped = 1;
    for (int i = 0; i <= kThreads; ++i) {
      if (pthread_kill(threads[i], kStop) != 0) _exit(1);
    }
    AwaitAnswers();
    is_stopped = 0;
    for (int i = 0; i <= kThreads; ++i) pthread_kill(threads[i], kGoOn);
    AwaitAnswers();
    usleep(500);
  }
}
