// A forked child inherits a pthread_once that another thread of its parent is executing. The child runs the function itself
// and waits for nobody. Afterwards it does wait: for a thread of its own in the next pthread_once.
//     waits FUNCTION label contentions delay_ns
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clocks.h"
#include "known.h"

static pthread_once_t half_done = PTHREAD_ONCE_INIT, fresh = PTHREAD_ONCE_INIT;
static atomic_int begun, may_end, in_child, fresh_begun;

static void Initialise(void) {
  if (atomic_load(&in_child)) {
    Sleep(50);
    return;
  }
  atomic_store(&begun, 1);
  while (!atomic_load(&may_end)) Sleep(1);
}
static void InitialiseFresh(void) {
  atomic_store(&fresh_begun, 1);
  Sleep(50);
}
static void* Run(void* argument) {
  pthread_once(&half_done, Initialise);
  return argument;
}
static void* RunFresh(void* argument) {
  pthread_once(&fresh, InitialiseFresh);
  return argument;
}

KNOWN void runs_it_itself(void) { pthread_once(&half_done, Initialise); }
KNOWN void waits_for_a_thread(void) { pthread_once(&fresh, InitialiseFresh); }

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, Run, NULL);
  while (!atomic_load(&begun)) Sleep(1);
  const pid_t child = fork();
  if (child == 0) {
    atomic_store(&in_child, 1);
    runs_it_itself();
    pthread_t other;
    pthread_create(&other, NULL, RunFresh, NULL);
    while (!atomic_load(&fresh_begun)) Sleep(1);
    const uint64_t start = Now();
    waits_for_a_thread();
    printf("waits waits_for_a_thread once 1 %llu\n", (unsigned long long)(Now() - start));
    fflush(stdout);
    pthread_join(other, NULL);
    exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  atomic_store(&may_end, 1);
  pthread_join(thread, NULL);
  return status != 0;
}
