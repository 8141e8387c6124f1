// A global mutex and one inside a heap block. A culprit holds each for a while, and a victim waits for it. Prints how long
// the victims waited, by their own clock:
//     waits FUNCTION label contentions delay_ns
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "clocks.h"
#include "known.h"

typedef struct {
  char name[48];
  pthread_mutex_t mutex;
} Table;

pthread_mutex_t global_queue_mutex = PTHREAD_MUTEX_INITIALIZER;
static Table* table;

KNOWN Table* make_table(void) { return calloc(1, sizeof(Table)); }
KNOWN void queue_victim(void) { pthread_mutex_lock(&global_queue_mutex); }
KNOWN void queue_culprit(void) { pthread_mutex_unlock(&global_queue_mutex); }
KNOWN void table_victim(void) { pthread_mutex_lock(&table->mutex); }
KNOWN void table_culprit(void) { pthread_mutex_unlock(&table->mutex); }

typedef struct {
  void (*lock)(void);
  pthread_mutex_t* mutex;
  uint64_t waited;
  volatile int arrived;
} Victim;
static void* Wait(void* argument) {
  Victim* victim = argument;
  const uint64_t start = Now();
  victim->arrived = 1;
  victim->lock();
  victim->waited = Now() - start;
  pthread_mutex_unlock(victim->mutex);
  return NULL;
}

static void Fight(const char* name, void (*victim_locks)(void), void (*culprit_unlocks)(void), pthread_mutex_t* mutex,
                  int rounds, long ms) {
  uint64_t waited = 0;
  for (int i = 0; i < rounds; ++i) {
    Victim victim = {victim_locks, mutex, 0, 0};
    pthread_t thread;
    pthread_mutex_lock(mutex);
    pthread_create(&thread, NULL, Wait, &victim);
    while (!victim.arrived) Sleep(1);
    Sleep(ms);
    culprit_unlocks();
    pthread_join(thread, NULL);
    waited += victim.waited;
  }
  printf("waits %s mutex %d %llu\n", name, rounds, (unsigned long long)waited);
}

int main(void) {
  table = make_table();
  pthread_mutex_init(&table->mutex, NULL);
  Fight("queue_victim", queue_victim, queue_culprit, &global_queue_mutex, 3, 30);
  Fight("table_victim", table_victim, table_culprit, &table->mutex, 2, 20);
  return 0;
}
