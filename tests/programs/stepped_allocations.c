// Steps through allocations and frees, on a known stack and on a new one; a handler runs at every instruction of the library.
//     stepped_allocations LIBRARY fork       it forks, and the child allocates, frees, and continues where the parent was
//     stepped_allocations LIBRARY allocate   it allocates and frees itself
// Prints how often it ran, and how many children failed.
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "known.h"

static unsigned long start, end;
static int forks, came, bad, is_child;

KNOWN void in_handler(void) {
  void* block = malloc(48);
  Use(block);
  free(block);
}
KNOWN void outside(void) {
  void* block = malloc(64);
  Use(block);
  free(block);
}
// Below frames that no walk has come through, after one that has most of the outer ones.
KNOWN void descend(int depth) {
  if (depth > 0)
    descend(depth - 1);
  else
    outside();
  Use(&depth);
}

static void Handle(int signal, siginfo_t* info, void* context) {
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const unsigned long ip = (unsigned long)registers[REG_RIP];
  if (ip < start || ip >= end) return;
  ++came;
  if (!forks) {
    in_handler();
    return;
  }
  const pid_t child = fork();
  if (child == 0) {
    registers[REG_EFL] &= ~0x100l;
    is_child = 1;
    in_handler();
    return;
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) ++bad;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  forks = strcmp(argv[2], "fork") == 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[600];
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    if (strstr(line, argv[1]) != NULL && strstr(line, "r-xp") != NULL) sscanf(line, "%lx-%lx", &start, &end);
  }
  if (maps != NULL) fclose(maps);
  struct sigaction action = {.sa_sigaction = Handle, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGTRAP, &action, NULL);
  for (int i = 0; i < 200; ++i) {
    outside();
    in_handler();
  }
  descend(6);
  // A fork at each of 3,000 instructions takes 5 s: the known stack comes once then.
  for (int i = forks ? 1 : 0; i < 3; ++i) {
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    if (i < 2)
      outside();
    else
      descend(7);
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
    if (is_child) _exit(0);
  }
  printf("came %d bad %d\n", came, bad);
  return bad != 0;
}
