// Threads that are stuck in the way that the argument names. Prints "ready" once all of them sleep in their final places.
//
//   abba         two threads, two mutexes, taken in two orders
//   three        the same in a circle of three
//   chain        a reader waits for a writer that waits for a condition that nobody signals
//   holder       a thread sleeps with a mutex for which 8 others wait
//   locals       the same twice, with mutexes that are local variables, one of main's and one of a thread's
//   lost         a condition was signalled before anybody waited for it
//   robust       a robust mutex: its owner died, the next one does not make it consistent, and others wait
//   orphan       a plain mutex; its owner died
//   joins        main joins a thread that waits for a mutex of main's
//   joins_last   main joins the last of its three threads; the first one waits for a mutex of main's
//   recursive, errorcheck, inherit    abba, with mutexes of that kind
//   timed        abba, but one of both gives up after an hour
//   forked       a child waits for a plain mutex that its parent held during fork
//   many N       N threads wait for one mutex, which main holds
//   ends         a wait that goes on until a line arrives on standard input
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline))

pthread_mutex_t accounts_mutex = PTHREAD_MUTEX_INITIALIZER, audit_mutex = PTHREAD_MUTEX_INITIALIZER,
                ledger_mutex = PTHREAD_MUTEX_INITIALIZER, ready_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
pthread_cond_t ready_condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t all_hold;
static atomic_int threads[64], count;

static void Named(const char* name) {
  prctl(PR_SET_NAME, name);
  int place = atomic_fetch_add(&count, 1);
  if (place < 64) threads[place] = (int)syscall(SYS_gettid);
}

// Threads other than this one that exist sleep in a futex: they have come to where they stay.
static int AllAsleep(int expected) {
  if (atomic_load(&count) < expected) return 0;
  for (int i = 0; i < expected && i < 64; ++i) {
    char path[64], call[16] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", threads[i]);
    FILE* file = fopen(path, "r");
    if (file == NULL) continue;  // it has ended
    int got = fscanf(file, "%15s", call);
    fclose(file);
    if (got != 1 || (atoi(call) != SYS_futex && atoi(call) != SYS_clock_nanosleep && atoi(call) != SYS_nanosleep))
      return 0;
  }
  return 1;
}
static void SayReady(int expected) {
  while (!AllAsleep(expected)) usleep(1000);
  usleep(1000);  // and past the first part of a wait, after which the stack is captured
  while (!AllAsleep(expected)) usleep(1000);
  printf("ready\n");
  fflush(stdout);
}
static void Stay(int expected) {
  SayReady(expected);
  while (1) pause();
}
static pthread_t Start(void* (*function)(void*)) {
  pthread_t thread;
  pthread_create(&thread, NULL, function, NULL);
  return thread;
}

KEPT static void transfer(void) {
  pthread_mutex_lock(&audit_mutex);
  pthread_mutex_unlock(&audit_mutex);
}
KEPT static void audit(void) {
  pthread_mutex_lock(&accounts_mutex);
  pthread_mutex_unlock(&accounts_mutex);
}
static void* run_transfers(void* unused) {
  Named("transfers");
  pthread_mutex_lock(&accounts_mutex);
  pthread_barrier_wait(&all_hold);
  transfer();
  return unused;
}
static void* run_audits(void* unused) {
  Named("audits");
  pthread_mutex_lock(&audit_mutex);
  pthread_barrier_wait(&all_hold);
  audit();
  return unused;
}

KEPT static void audit_within_an_hour(void) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += 3600;
  if (pthread_mutex_timedlock(&accounts_mutex, &end) == 0) pthread_mutex_unlock(&accounts_mutex);
}
static void* run_timed_audits(void* unused) {
  Named("audits");
  pthread_mutex_lock(&audit_mutex);
  pthread_barrier_wait(&all_hold);
  audit_within_an_hour();
  return unused;
}

KEPT static void post_to_ledger(void) {
  pthread_mutex_lock(&ledger_mutex);
  pthread_mutex_unlock(&ledger_mutex);
}
static void* run_three_audits(void* unused) {
  Named("audits");
  pthread_mutex_lock(&audit_mutex);
  pthread_barrier_wait(&all_hold);
  post_to_ledger();
  return unused;
}
static void* run_ledger(void* unused) {
  Named("ledger");
  pthread_mutex_lock(&ledger_mutex);
  pthread_barrier_wait(&all_hold);
  audit();
  return unused;
}

KEPT static void wait_until_ready(void) {
  pthread_mutex_lock(&ready_mutex);
  pthread_cond_wait(&ready_condition, &ready_mutex);
  pthread_mutex_unlock(&ready_mutex);
}
static void* update_table(void* unused) {
  Named("writer");
  pthread_rwlock_wrlock(&table_lock);
  pthread_barrier_wait(&all_hold);
  wait_until_ready();
  return unused;
}
KEPT static void look_up(void) {
  pthread_rwlock_rdlock(&table_lock);
  pthread_rwlock_unlock(&table_lock);
}
static void* serve_reads(void* unused) {
  Named("reader");
  pthread_barrier_wait(&all_hold);
  look_up();
  return unused;
}

KEPT static void flush_log(void) { sleep(3600); }
static void* hold_for_long(void* unused) {
  Named("flusher");
  pthread_mutex_lock(&accounts_mutex);
  pthread_barrier_wait(&all_hold);
  flush_log();
  return unused;
}
KEPT static void want_accounts(void) {
  pthread_mutex_lock(&accounts_mutex);
  pthread_mutex_unlock(&accounts_mutex);
}
static void* wait_for_accounts(void* unused) {
  Named("worker");
  pthread_barrier_wait(&all_hold);
  want_accounts();
  return unused;
}
static void* wait_at_once(void* unused) {
  Named("worker");
  want_accounts();
  return unused;
}
// What waits for `mutex`, a local variable of its caller's.
static void* wait_for_local(void* mutex) {
  Named("waiter");
  pthread_mutex_lock(mutex);
  return mutex;
}
KEPT static void* keep_jobs(void* unused) {
  pthread_mutex_t jobs = PTHREAD_MUTEX_INITIALIZER;
  Named("keeper");
  pthread_mutex_lock(&jobs);
  pthread_t waiter;
  pthread_create(&waiter, NULL, wait_for_local, &jobs);
  flush_log();
  pthread_mutex_unlock(&jobs);
  return unused;
}
// Left by a tail call, while its caller has a lock of its own.
KEPT static int leave_for_lock(pthread_mutex_t* mutex) { return pthread_mutex_lock(mutex); }
KEPT static void* want_requests(void* requests) {
  pthread_mutex_t answers = PTHREAD_MUTEX_INITIALIZER;
  Named("asker");
  pthread_mutex_lock(&answers);
  pthread_t waiter;
  pthread_create(&waiter, NULL, wait_for_local, &answers);
  leave_for_lock(requests);
  pthread_mutex_unlock(&answers);
  return requests;
}
KEPT static void run_server(void) {
  pthread_mutex_t requests = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&requests);
  pthread_t waiter;
  pthread_create(&waiter, NULL, wait_for_local, &requests);
  Start(keep_jobs);
  pthread_create(&waiter, NULL, want_requests, &requests);
  Stay(5);
  pthread_mutex_unlock(&requests);
}
// It lives on, and waits for nothing more: its wait is over because it says so.
static atomic_int got;
static void* want_and_rest(void* unused) {
  wait_at_once(unused);
  got = 1;
  pause();
  return unused;
}

static void* consume(void* unused) {
  Named("consumer");
  wait_until_ready();
  return unused;
}

KEPT static void recover_state(void) { flush_log(); }
static void* take_after_death(void* unused) {
  Named("recoverer");
  if (pthread_mutex_lock(&ledger_mutex) != EOWNERDEAD) abort();
  pthread_barrier_wait(&all_hold);
  recover_state();
  return unused;
}
static void* wait_for_ledger(void* unused) {
  Named("worker");
  pthread_barrier_wait(&all_hold);
  post_to_ledger();
  return unused;
}
static void* die_with(void* mutex) {
  pthread_mutex_lock(mutex);
  return NULL;
}
static void DieWith(pthread_mutex_t* mutex) {
  pthread_t thread;
  pthread_create(&thread, NULL, die_with, mutex);
  pthread_join(thread, NULL);
}

static void Make(pthread_mutex_t* mutex, int type, int protocol, int robust) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_settype(&kind, type);
  pthread_mutexattr_setprotocol(&kind, protocol);
  pthread_mutexattr_setrobust(&kind, robust);
  pthread_mutex_init(mutex, &kind);
}
static void MakeBoth(int type, int protocol) {
  Make(&accounts_mutex, type, protocol, PTHREAD_MUTEX_STALLED);
  Make(&audit_mutex, type, protocol, PTHREAD_MUTEX_STALLED);
}

static void AbbaStays(void) {
  pthread_barrier_init(&all_hold, NULL, 2);
  Start(run_transfers);
  Start(run_audits);
  Stay(2);
}

KEPT static void wait_for_workers(pthread_t worker) { pthread_join(worker, NULL); }
static void* sleep_for_long(void* unused) {
  Named("sleeper");
  flush_log();
  return unused;
}
static void* say_ready(void* unused) {
  SayReady(2);
  return unused;
}

static void ReadLine(void) {
  char line[64];
  if (fgets(line, sizeof line, stdin) == NULL) exit(0);
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  // As servers do that are started by root: from here on nobody but root may look into it.
  if (argc > 3 && strcmp(argv[2], "as") == 0 && setuid((uid_t)atoi(argv[3])) != 0) return 1;
  if (strcmp(how, "abba") == 0) AbbaStays();
  if (strcmp(how, "recursive") == 0) {
    MakeBoth(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE);
    AbbaStays();
  }
  if (strcmp(how, "errorcheck") == 0) {
    MakeBoth(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE);
    AbbaStays();
  }
  if (strcmp(how, "inherit") == 0) {
    MakeBoth(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT);
    AbbaStays();
  }
  if (strcmp(how, "timed") == 0) {
    pthread_barrier_init(&all_hold, NULL, 2);
    Start(run_transfers);
    Start(run_timed_audits);
    Stay(2);
  }
  if (strcmp(how, "forked") == 0) {
    pthread_mutex_lock(&ledger_mutex);
    pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      pthread_barrier_init(&all_hold, NULL, 1);
      Start(wait_for_ledger);
      Stay(1);
    }
    waitpid(child, NULL, 0);
    return 0;
  }
  if (strcmp(how, "three") == 0) {
    pthread_barrier_init(&all_hold, NULL, 3);
    Start(run_transfers);
    Start(run_three_audits);
    Start(run_ledger);
    Stay(3);
  }
  if (strcmp(how, "chain") == 0) {
    pthread_barrier_init(&all_hold, NULL, 2);
    Start(update_table);
    Start(serve_reads);
    Stay(2);
  }
  if (strcmp(how, "holder") == 0) {
    pthread_barrier_init(&all_hold, NULL, 9);
    Start(hold_for_long);
    for (int i = 0; i < 8; ++i) Start(wait_for_accounts);
    Stay(9);
  }
  if (strcmp(how, "locals") == 0) run_server();
  if (strcmp(how, "lost") == 0) {
    pthread_cond_signal(&ready_condition);
    Start(consume);
    Stay(1);
  }
  if (strcmp(how, "robust") == 0) {
    Make(&ledger_mutex, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
    DieWith(&ledger_mutex);
    pthread_barrier_init(&all_hold, NULL, 2);
    Start(take_after_death);
    Start(wait_for_ledger);
    Stay(2);
  }
  if (strcmp(how, "orphan") == 0) {
    DieWith(&ledger_mutex);
    pthread_barrier_init(&all_hold, NULL, 1);
    Start(wait_for_ledger);
    Stay(1);
  }
  if (strcmp(how, "joins") == 0) {
    Named("joins");
    pthread_mutex_lock(&accounts_mutex);
    pthread_t worker = Start(wait_at_once);
    Start(say_ready);
    wait_for_workers(worker);
  }
  if (strcmp(how, "joins_last") == 0) {
    Named("joins");
    pthread_mutex_lock(&accounts_mutex);
    Start(wait_at_once);
    pthread_t last = Start(sleep_for_long);
    Start(say_ready);
    wait_for_workers(last);
  }
  if (strcmp(how, "many") == 0) {
    pthread_mutex_lock(&accounts_mutex);
    const int many = argc > 2 ? atoi(argv[2]) : 1000;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (int i = 0; i < many; ++i) {
      pthread_t thread;
      if (pthread_create(&thread, &small, wait_at_once, NULL) != 0) return 3;
    }
    Stay(many);
  }
  if (strcmp(how, "ends") == 0) {
    pthread_mutex_lock(&accounts_mutex);
    Start(want_and_rest);
    SayReady(1);
    ReadLine();
    pthread_mutex_unlock(&accounts_mutex);
    while (!got) {
    }
    printf("over\n");
    fflush(stdout);
    ReadLine();
    return 0;
  }
  fprintf(stderr, "no such way to be stuck: %s\n", how);
  return 2;
}
