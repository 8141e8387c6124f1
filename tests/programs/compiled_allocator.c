// An executable with an allocator in C, as a compiler and a linker arrange it: each build has other flags. The callers are
// in the same file, so gcc's -fipa-ra lets them keep values in registers that malloc and free do not use. Pairs of
// functions have equal code: a linker may fold them.
//
//     compiled_allocator [remap]     remap: the memory of the executable's code becomes anonymous first
//     compiled_allocator steps       stops at each instruction of some calls, and maps memory there
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "known.h"

#define ENTRY __attribute__((noinline, noclone, used, visibility("default")))

// ---- The allocator: blocks of 1,024 bytes, the one freed last is given out first ----
enum { kBlock = 1024, kHead = 16 };
static char room[4 << 20];
static size_t used;
static void* freed;

ENTRY void* malloc(size_t bytes) {
  const size_t whole = (bytes + kHead + kBlock - 1) / kBlock * kBlock;
  if (whole == kBlock && freed != NULL) {
    void** block = freed;
    freed = *block;
    return block;
  }
  if (bytes > sizeof room || used + whole > sizeof room) return NULL;
  used += whole;
  return room + used - whole + kHead;
}
ENTRY void free(void* block) {
  if (block == NULL) return;
  *(void**)block = freed;
  freed = block;
}
ENTRY void cfree(void* block) {
  if (block == NULL) return;
  *(void**)block = freed;
  freed = block;
}
ENTRY void* calloc(size_t count, size_t each) {
  void* block = malloc(count * each);
  if (block != NULL) memset(block, 0, count * each);
  return block;
}
ENTRY void* realloc(void* old, size_t bytes) {
  if (old == NULL) return malloc(bytes);
  return bytes <= kBlock - kHead ? old : NULL;
}
ENTRY void* memalign(size_t alignment, size_t bytes) { return alignment <= kHead ? malloc(bytes) : NULL; }
ENTRY void* aligned_alloc(size_t alignment, size_t bytes) { return alignment <= kHead ? malloc(bytes) : NULL; }

// ---- The callers, all different ----
static volatile int caller;

KNOWN void* kept(size_t bytes) {
  caller = 1;
  return malloc(bytes);
}
KNOWN void* passing(size_t bytes) {
  caller = 2;
  return calloc(1, bytes);
}
KNOWN void* by_memalign(size_t bytes) {
  caller = 3;
  return memalign(16, bytes);
}
KNOWN void* by_aligned_alloc(size_t bytes) {
  caller = 4;
  return aligned_alloc(16, bytes);
}

KNOWN void* emptied(void* old) {
  caller = 5;
  return realloc(old, 0);
}

// Returns whether values that live across the calls have changed.
KNOWN int loses_values(const volatile long* in, const volatile double* real) {
  const long a = in[0], b = in[1], c = in[2], d = in[3];
  const double r = real[0], s = real[1], t = real[2], u = real[3];
  free(malloc(64));
  return a != in[0] || b != in[1] || c != in[2] || d != in[3] || r != real[0] || s != real[1] || t != real[2] ||
         u != real[3];
}

// Replaces the executable's own code by memory with the same contents.
static int Remap(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[4096];
  uintptr_t start = 0, end = 0;
  int found = 0;
  while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL) {
    char rights[5];
    if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3 && rights[2] == 'x')
      found = start <= (uintptr_t)malloc && (uintptr_t)malloc < end;
  }
  if (maps != NULL) fclose(maps);
  if (!found) return 1;
  const size_t bytes = end - start;
  char* copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return 1;
  memcpy(copy, (const char*)start, bytes);
  if (mprotect(copy, bytes, PROT_READ | PROT_EXEC) != 0) return 1;
  return mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void*)start) == MAP_FAILED;
}

// ---- Each instruction ----
KNOWN void Step(int signal) {
  (void)signal;
  const size_t bytes = 16 << 20;
  munmap(mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), bytes);
}
// The flag is set and cleared here, so that each step is within a call of this function. Not in the red zone.
#if defined(__x86_64__)
#define SWITCH(flag)                                                                                                  \
  __asm__ volatile("lea -128(%%rsp),%%rsp\n.cfi_adjust_cfa_offset 128\npushfq\n.cfi_adjust_cfa_offset 8\n" flag       \
                   ",(%%rsp)\npopfq\n.cfi_adjust_cfa_offset -8\nlea 128(%%rsp),%%rsp\n.cfi_adjust_cfa_offset -128" :: \
                       : "memory", "cc")
#else
#define SWITCH(flag)
#endif
KNOWN void* stepped_malloc(size_t bytes) {
  SWITCH("orq $0x100");
  void* block = malloc(bytes);
  SWITCH("andq $~0x100");
  return block;
}
KNOWN void* stepped_memalign(size_t bytes) {
  SWITCH("orq $0x100");
  void* block = memalign(16, bytes);
  SWITCH("andq $~0x100");
  return block;
}
KNOWN void stepped_free(void* block) {
  SWITCH("orq $0x100");
  free(block);
  SWITCH("andq $~0x100");
}
KNOWN int WorkInSteps(void) {
  free(malloc(200));  // binds functions, for which the dynamic linker has code with incomplete unwind tables
  signal(SIGTRAP, Step);
  for (int i = 0; i < 3; ++i) {
    void* block = stepped_malloc(200);
    Use(block);
    stepped_free(block);
    stepped_free(stepped_memalign(200));
  }
  return 0;
}

int main(int count, char** arguments) {
  if (count > 1 && strcmp(arguments[1], "steps") == 0) return WorkInSteps();
  if (count > 1 && strcmp(arguments[1], "remap") == 0 && Remap() != 0) return 2;
  const long in[] = {1, 2, 3, 4};
  const double real[] = {1.5, 2.5, 3.5, 4.5};
  int wrong = 0;
  for (int i = 0; i < 100; ++i) {
    memset(kept(100), i, 100);
    free(passing(200));
    if (i % 2 == 0) cfree(by_memalign(300));
    if (i % 2 == 0) free(by_aligned_alloc(400));
    wrong += loses_values(in, real);
  }
  for (int i = 0; i < 10; ++i) Use(emptied(passing(200)));  // a block of 0 bytes is a block
  Expect("kept", 100, 10000, 100, 10000);
  Expect("passing", 110, 22000, 0, 0);
  Expect("emptied", 10, 0, 10, 0);
  Expect("by_memalign", 50, 15000, 0, 0);
  Expect("by_aligned_alloc", 50, 20000, 0, 0);
  printf("wrong %d\n", wrong);
  return wrong != 0;
}
