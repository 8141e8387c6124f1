// Keeps pointers to malloc and free in a page of its own data, which it may protect. Reads lines, and answers each:
//
//     read, none, write    what may be done with the page from now on
//     use                  allocates and frees through the page
//     take                 remembers what the page's pointer to malloc is
//     taken                allocates 1,000 blocks of 10,000 bytes through what it remembers, and frees them by name
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "known.h"

static struct {
  void (*release)(void*);
  void* (*allocate)(size_t);
  char rest[4096 - 16];
} pointers __attribute__((aligned(4096))) = {free, malloc, {0}};

KNOWN void taken_blocks(void* (*allocate)(size_t)) {
  static void* blocks[1000];
  for (int i = 0; i < 1000; ++i) blocks[i] = allocate(10000);
  for (int i = 0; i < 1000; ++i) free(blocks[i]);
}

int main(void) {
  void* (*volatile remembered)(size_t) = NULL;
  char line[100];
  int lines = 0;
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    int rights = -1;
    if (strcmp(line, "read\n") == 0) rights = PROT_READ;
    if (strcmp(line, "none\n") == 0) rights = PROT_NONE;
    if (strcmp(line, "write\n") == 0) rights = PROT_READ | PROT_WRITE;
    if (rights >= 0 && mprotect(&pointers, sizeof pointers, rights) != 0) return 97;
    if (strcmp(line, "take\n") == 0) remembered = pointers.allocate;
    if (strcmp(line, "taken\n") == 0) taken_blocks(remembered);
    if (strcmp(line, "use\n") == 0) {
      void* block = pointers.allocate(1000);
      memset(block, 1, 1000);
      pointers.release(block);
    }
    printf("done %d\n", ++lines);
    fflush(stdout);
  }
  return 0;
}
