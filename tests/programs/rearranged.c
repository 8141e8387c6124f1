// A program and a library that call each other and allocate, so that stacks pass through both files. Tests run copies of
// the files that other tools have rearranged.
//   rearranged LIBRARY [remap|hold]     "-": the library was loaded with the program
//   remap: the memory of both files becomes anonymous first, as programs do that put their code on huge pages
//   hold: holds a mutex that a thread waits for, until its standard input ends
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "known.h"

typedef void* Through(void* (*)(size_t), size_t);

KNOWN void* program_allocates(size_t bytes) {
  void* block = malloc(bytes);
  Use(block);
  return block;
}

// Replaces mapped files called rearranged… by memory with the same contents, except what may be written to.
static int Remap(void) {
  struct {
    char* start;
    size_t bytes;
    int executable;
  } found[64];
  int count = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[4096];
  while (maps != NULL && count < 64 && fgets(line, sizeof line, maps) != NULL) {
    uintptr_t start, end;
    char rights[5];
    if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) != 3) continue;
    if (strstr(line, "/rearranged") == NULL || rights[0] != 'r' || rights[1] == 'w') continue;
    found[count].start = (char*)start;
    found[count].bytes = end - start;
    found[count++].executable = rights[2] == 'x';
  }
  if (maps != NULL) fclose(maps);
  for (int i = 0; i < count; ++i) {
    const size_t bytes = found[i].bytes;
    char* copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) return 1;
    memcpy(copy, found[i].start, bytes);
    if (mprotect(copy, bytes, PROT_READ | (found[i].executable ? PROT_EXEC : 0)) != 0) return 1;
    if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, found[i].start) == MAP_FAILED) return 1;
  }
  return count == 0;
}

KNOWN void calls_both(Through* through) {
  Use(through(program_allocates, 100));
  Use(through(NULL, 50));
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

KNOWN void* waits_for_input(size_t bytes) {
  char c;
  printf("waits\n");
  fflush(stdout);
  return read(0, &c, bytes) == 0 ? NULL : &lock;
}

KNOWN void* wants_lock(void* unused) {
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  return unused;
}

KNOWN int holds_lock(Through* through) {
  pthread_t thread;
  pthread_mutex_lock(&lock);
  if (pthread_create(&thread, NULL, wants_lock, NULL) != 0) return 1;
  Use(through(waits_for_input, 1));
  pthread_mutex_unlock(&lock);
  return pthread_join(thread, NULL);
}

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  void* library = dlopen(strcmp(argv[1], "-") == 0 ? NULL : argv[1], RTLD_NOW);
  Through* through = library != NULL ? (Through*)dlsym(library, "through_library") : NULL;
  if (through == NULL) {
    printf("%s\n", dlerror());
    return 1;
  }
  if (argc > 2 && strcmp(argv[2], "hold") == 0) return holds_lock(through);
  if (argc > 2 && Remap() != 0) return 2;
  calls_both(through);
  Expect("program_allocates", 1, 100, 1, 100);
  Expect("library_allocates", 1, 50, 1, 50);
  return 0;
}
