// A server with a mutex in each of 200 connections, an array of 100 shards in one block, and a static array of 80 more. A
// worker waits once for each of them, until the main thread has seen it sleep.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "asleep.h"
#include "known.h"

enum { kConnections = 200, kShards = 100, kStatic = 80, kAll = kConnections + kShards + kStatic };

typedef struct {
  char name[100];
  pthread_mutex_t state_lock;
} Connection;
typedef struct {
  long count;
  pthread_mutex_t mutex;
} Shard;

static Shard static_shards[kStatic];

KNOWN Connection* make_connection(void) { return calloc(1, sizeof(Connection)); }
KNOWN Shard* make_shards(void) { return calloc(kShards, sizeof(Shard)); }
KNOWN void update_shard(pthread_mutex_t* mutex) { pthread_mutex_lock(mutex); }
KNOWN void change_state(pthread_mutex_t* mutex) { pthread_mutex_lock(mutex); }
KNOWN void let_go(pthread_mutex_t* mutex) { pthread_mutex_unlock(mutex); }

static pthread_mutex_t* locks[kAll];
static atomic_int turn = -1, gone_on = -1, thread;

static void* Work(void* unused) {
  thread = (int)syscall(SYS_gettid);
  for (int i = 0; i < kAll; ++i) {
    while (turn < i) sched_yield();
    i < kConnections ? change_state(locks[i]) : update_shard(locks[i]);
    pthread_mutex_unlock(locks[i]);
    gone_on = i;
  }
  return unused;
}

int main(void) {
  for (int i = 0; i < kConnections; ++i) locks[i] = &make_connection()->state_lock;
  Shard* shards = make_shards();
  for (int i = 0; i < kShards; ++i) locks[kConnections + i] = &shards[i].mutex;
  for (int i = 0; i < kStatic; ++i) locks[kConnections + kShards + i] = &static_shards[i].mutex;
  pthread_t worker;
  pthread_create(&worker, NULL, Work, NULL);
  while (thread == 0) sched_yield();
  for (int i = 0; i < kAll; ++i) {
    pthread_mutex_lock(locks[i]);
    turn = i;
    while (!Sleeps(thread)) sched_yield();
    let_go(locks[i]);
    while (gone_on < i) sched_yield();
  }
  pthread_join(worker, NULL);
  return 0;
}
