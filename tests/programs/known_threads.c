// Threads with known creators and known ends.
//
//     threads FUNCTION created alive        printed in the final state
//
// known_threads [WAYS [wait]]     WAYS: letters of the list below; default: all. wait: for a line, before the end
// known_threads grow              leaks three for each line on standard input
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include "known.h"

static sem_t begun, forever;
static volatile int ended;

static void* Return(void* argument) { return argument; }
static void* Exit(void* argument) { pthread_exit(argument); }
static void* Stay(void* argument) {
  sem_post(&begun);
  while (sem_wait(&forever) != 0) continue;
  return argument;
}
static void* ExitBySystemCall(void* argument) {
  ended = (int)syscall(SYS_gettid);
  syscall(SYS_exit, 0);
  return argument;
}
static int ReturnFromC11(void* argument) { return *(int*)argument; }
static int ExitFromC11(void* argument) { thrd_exit(*(int*)argument); }
static int StayInC11(void* argument) { return Stay(argument) == NULL; }

// Until the kernel has forgotten it, too.
static void AwaitEnd(int id) {
  while (syscall(SYS_tgkill, getpid(), id, 0) == 0) usleep(1000);
}

KNOWN void joins(void* (*what)(void*)) {
  pthread_t thread;
  void* value = NULL;
  if (pthread_create(&thread, NULL, what, &begun) != 0 || pthread_join(thread, &value) != 0 || value != &begun) abort();
}
KNOWN void detaches(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 16384);
  pthread_t thread;
  ended = 0;
  if (pthread_create(&thread, &attributes, ExitBySystemCall, NULL) != 0) abort();
  while (ended == 0) usleep(1000);
  AwaitEnd(ended);
}
KNOWN void cancels(void) {
  pthread_t thread;
  void* value = NULL;
  if (pthread_create(&thread, NULL, Stay, NULL) != 0) abort();
  sem_wait(&begun);
  pthread_cancel(thread);
  if (pthread_join(thread, &value) != 0 || value != PTHREAD_CANCELED) abort();
}
KNOWN void leaks(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, Stay, NULL) != 0) abort();
  sem_wait(&begun);
}
KNOWN void fails(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, (size_t)1 << 62);  // more than any processor addresses
  pthread_t thread;
  if (pthread_create(&thread, &attributes, Return, NULL) != EAGAIN) abort();
}
KNOWN void in_c11(int (*what)(void*)) {
  thrd_t thread;
  int given = 7, value = 0;
  if (thrd_create(&thread, what, &given) != thrd_success || thrd_join(thread, &value) != thrd_success || value != 7)
    abort();
}
KNOWN void leaks_in_c11(void) {
  thrd_t thread;
  if (thrd_create(&thread, StayInC11, NULL) != thrd_success) abort();
  sem_wait(&begun);
}
// A thread that forks: in the child it is the only one, and ends there by returning.
static void* Fork(void* argument) {
  const pid_t child = fork();
  if (child == 0) return argument;
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) abort();
  return argument;
}
KNOWN void forks(void) {
  fflush(stdout);
  joins(Fork);
}

static void Say(const char* function, int created, int alive) {
  printf("threads %s %d %d\n", function, created, alive);
}

int main(int argc, char** argv) {
  const char* ways = argc > 1 ? argv[1] : "jdclftsk";
  sem_init(&begun, 0, 0);
  sem_init(&forever, 0, 0);
  if (strcmp(ways, "grow") == 0) {  // three more for each line; of as many again nothing stays
    char line[100];
    int lines = 0;
    setvbuf(stdin, NULL, _IONBF, 0);
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
      for (int i = 0; i < 3; ++i) leaks();
      for (int i = 0; i < 3; ++i) joins(Return);
      printf("done %d\n", ++lines);
      fflush(stdout);
    }
    return 0;
  }
  for (; *ways != '\0'; ++ways) {
    if (*ways == 'j') {
      for (int i = 0; i < 20; ++i) joins(i % 2 == 0 ? Return : Exit);
      Say("joins", 20 + (strchr(ways, 'k') != NULL), 0);
    }
    if (*ways == 'd') {
      for (int i = 0; i < 5; ++i) detaches();
      Say("detaches", 5, 0);
    }
    if (*ways == 'c') {
      for (int i = 0; i < 5; ++i) cancels();
      Say("cancels", 5, 0);
    }
    if (*ways == 'l') {
      for (int i = 0; i < 7; ++i) leaks();
      Say("leaks", 7, 7);
    }
    if (*ways == 'f') {
      fails();
      Say("fails", 0, 0);
    }
    if (*ways == 't') {
      for (int i = 0; i < 6; ++i) in_c11(i % 2 == 0 ? ReturnFromC11 : ExitFromC11);
      Say("in_c11", 6, 0);
    }
    if (*ways == 's') {
      for (int i = 0; i < 3; ++i) leaks_in_c11();
      Say("leaks_in_c11", 3, 3);
    }
    if (*ways == 'k') {
      forks();
    }
  }
  fflush(stdout);
  if (argc > 2) getchar();
  return 0;
}
