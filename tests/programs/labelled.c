// What threads may do with labels (include/holdfast.h), one named case at a time. Prints what the profile must contain:
// "expect KEY=VALUE,… objects bytes objects-in-use bytes-in-use", for the blocks of serve().
#define _GNU_SOURCE
#include <errno.h>
#include <holdfast.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) void* serve(size_t bytes) {
  void* block = malloc(bytes);
  __asm__ volatile("" : : "r"(block) : "memory");
  return block;
}
// Of other calls between: walks and stacks that differ.
__attribute__((noinline)) void* deeper(int levels, size_t bytes) {
  void* block = levels == 0 ? serve(bytes) : deeper(levels - 1, bytes);
  __asm__ volatile("" : : "r"(block) : "memory");
  return block;
}

// Every way to set, change, nest and take away; many times, so that walks are remembered.
static void Sets(void) {
  for (int i = 0; i < 1000; ++i) {
    free(serve(10));
    const uint32_t none = holdfast_label("tenant", "acme");
    free(deeper(i % 3, 20));
    const uint32_t acme = holdfast_label("kind", "write");
    free(serve(30));
    holdfast_label("tenant", "zenith");
    free(serve(40));
    holdfast_label("tenant", NULL);
    free(serve(50));
    holdfast_set_labels(acme);
    free(serve(60));
    holdfast_label("tenant", "");
    free(serve(70));
    holdfast_set_labels(none);
    free(serve(80));
    holdfast_set_labels(4000000000u);
  }
  puts("expect - 3000 160000 0 0");
  puts("expect tenant=acme 2000 80000 0 0");
  puts("expect kind=write,tenant=acme 1000 30000 0 0");
  puts("expect kind=write,tenant=zenith 1000 40000 0 0");
  puts("expect kind=write 1000 50000 0 0");
}

// As many labels as there is room for, and some more.
static void Many(void) {
  char tenant[32];
  for (int i = 0; i < 10000; ++i) {
    snprintf(tenant, sizeof tenant, "t%d", i);
    holdfast_label("tenant", tenant);
    free(serve(100));
  }
  holdfast_label("tenant", "t7");
  free(serve(1000));
  puts("expect tenant=[overflow] 5968 596800 0 0");
  puts("expect tenant=t7 2 1100 0 0");
  puts("expect tenant=t4031 1 100 0 0");
}

static void Huge(void) {
  static char text[1 << 20];
  memset(text, 'x', sizeof text - 1);
  holdfast_label(text, text);
  free(serve(100));
  holdfast_set_labels(0);
  memcpy(text, "tenant", 7);
  memset(text + 8, 0xc3, 3000);                                                 // no UTF-8
  for (int i = 0; i < 128; i += 2) memcpy(text + 4000 + i + 1, "\xc3\xa4", 2);  // cut in the midst of a character
  text[4000] = 'x';
  holdfast_label(text, text + 8);
  free(serve(200));
  holdfast_label(text, text + 4000);
  free(serve(300));
  holdfast_label(text, "a\nb\t\x1b[31m\"<b>");
  free(serve(400));
  holdfast_set_labels(0);
  holdfast_label(NULL, "x");
  holdfast_label("", "x");
  holdfast_label(NULL, NULL);
  free(serve(500));
  for (int i = 0; i < 20; ++i) {
    snprintf(text, 64, "key%02d", i);
    memset(text + 100, 'v', 120);
    text[220] = 0;
    holdfast_label(text, text + 100);
  }
  free(serve(600));
  holdfast_set_labels(0);
  holdfast_label("bytes", "mine");
  free(serve(700));
  puts("expect - 1 500 0 0");
  puts("expect label_bytes=mine 1 700 0 0");
}

static void* kept;
static pthread_key_t last_words;
static void LastWords(void* value) {
  holdfast_label("kind", value);
  kept = serve(200);
}
static void* Thread(void* unused) {
  free(serve(50));  // none at first
  holdfast_label("tenant", "acme");
  pthread_setspecific(last_words, "farewell");
  free(serve(100));
  return unused;
}
static void Threads(void) {
  pthread_key_create(&last_words, LastWords);
  holdfast_label("tenant", "main");
  for (int i = 0; i < 50; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, Thread, NULL);
    pthread_join(thread, NULL);
    free(kept);
    free(serve(10));
  }
  puts("expect - 50 2500 0 0");
  puts("expect tenant=acme 50 5000 0 0");
  puts("expect kind=farewell,tenant=acme 50 10000 0 0");
  puts("expect tenant=main 50 500 0 0");
}

static void Forks(void) {
  holdfast_label("tenant", "acme");
  free(serve(100));
  fflush(stdout);
  if (fork() == 0) {
    for (int i = 0; i < 10; ++i) free(serve(200));  // as the parent
    holdfast_label("kind", "child");
    for (int i = 0; i < 10; ++i) free(serve(300));
    holdfast_set_labels(0);
    free(serve(400));
    if (fork() == 0) {
      free(serve(500));
      exit(0);
    }
    wait(NULL);
    exit(0);
  }
  wait(NULL);
  free(serve(100));
  puts("expect tenant=acme 12 2200 0 0");
  puts("expect kind=child,tenant=acme 10 3000 0 0");
  puts("expect - 2 900 0 0");
}

// A handler that labels what it takes from a pool, in the midst of labels and of allocations; and one that jumps out of them.
static volatile int ticks;
static char pool[16];
static sigjmp_buf out;
static volatile int may_jump;
static void Tick(int signal) {
  const int kept_errno = errno;
  const uint32_t before = holdfast_label("in", "handler");
  holdfast_alloc(pool, 10);
  holdfast_free(pool);
  holdfast_set_labels(before);
  ++ticks;
  errno = kept_errno;
  if (may_jump && ticks % 3 == 0) {
    holdfast_label("tenant", "jumped");
    siglongjmp(out, 1);
  }
  (void)signal;
}
static void Signals(void) {
  struct sigaction action = {.sa_handler = Tick, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 50}, {0, 50}};
  setitimer(ITIMER_REAL, &often, NULL);
  char name[8];
  for (int i = 0; ticks < 3000; ++i) {
    snprintf(name, sizeof name, "t%d", i % 50);
    holdfast_label("tenant", name);
    free(serve(100));
    holdfast_set_labels(0);
  }
  // volatile: it lives across jumps.
  for (volatile int i = 0; ticks < 6000; ++i) {
    if (sigsetjmp(out, 1) == 0) {
      may_jump = 1;
      for (int j = 0; j < 1000; ++j) {
        holdfast_label("tenant", j % 2 ? "even" : "odd");
        holdfast_set_labels(0);
      }
    }
  }
  may_jump = 0;
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  holdfast_set_labels(0);
  holdfast_label("tenant", "after");
  free(serve(1000));
  puts("expect tenant=after 1 1000 0 0");
}

static pthread_barrier_t begin;
static void* Races(void* number) {
  char name[16];
  pthread_barrier_wait(&begin);
  for (int i = 0; i < 2000; ++i) {
    snprintf(name, sizeof name, "t%d", i % 500);
    holdfast_label("tenant", name);
    if (i >= 1500) free(serve(100));
  }
  return number;
}
static void Race(void) {
  pthread_t threads[8];
  pthread_barrier_init(&begin, NULL, 8);
  for (int i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, Races, NULL);
  for (int i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
  puts("expect tenant=t0 8 800 0 0");
  puts("expect tenant=t499 8 800 0 0");
}

// Labels before main, and what exec leaves of them.
__attribute__((constructor)) static void Early(void) {
  if (getenv("LABEL_EARLY")) holdfast_label("tenant", "early");
}
static void Executes(char** argv) {
  free(serve(100));
  if (getenv("LABEL_EARLY")) {
    unsetenv("LABEL_EARLY");
    execv("/proc/self/exe", argv);
  }
  puts("expect tenant=early 1 100 0 0");
  puts("expect - 1 100 0 0");
}

// One waits for the other: who, with its labels.
static pthread_mutex_t ledger = PTHREAD_MUTEX_INITIALIZER;
static void* Waiter(void* unused) {
  holdfast_label("tenant", "acme");
  holdfast_label("kind", "read");
  pthread_mutex_lock(&ledger);
  pthread_mutex_unlock(&ledger);
  return unused;
}
static void Waits(void) {
  pthread_t thread;
  char line[8];
  holdfast_label("tenant", "zenith");
  pthread_mutex_lock(&ledger);
  pthread_create(&thread, NULL, Waiter, NULL);
  puts("waiting");
  fflush(stdout);
  if (fgets(line, sizeof line, stdin) == NULL) puts("end");
  pthread_mutex_unlock(&ledger);
  pthread_join(thread, NULL);
}

// More labels than servers take of a series: aa=1, ba=1 … up to the bytes that a set may have, for ten blocks.
static void Wide(void) {
  char name[3] = "";
  for (int i = 0; i < 102; ++i) {
    name[0] = (char)('a' + i % 26);
    name[1] = (char)('a' + i / 26);
    holdfast_label(name, "1");
  }
  for (int i = 0; i < 10; ++i) serve(100);
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(void);
  } kCases[] = {{"sets", Sets},       {"many", Many}, {"huge", Huge},   {"threads", Threads}, {"forks", Forks},
                {"signals", Signals}, {"race", Race}, {"waits", Waits}, {"wide", Wide}};
  if (argc < 2) return 2;
  if (strcmp(argv[1], "executes") == 0) Executes(argv);
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; ++i) {
    if (strcmp(argv[1], kCases[i].name) == 0) kCases[i].run();
  }
  return 0;
}
