// Checks that no path without a sample writes to memory that threads share. Makes everything of the profiler's that is writable
// and not thread-local read-only; then two threads at a time execute every path. A write raises SIGSEGV, which identifies it.
//     unsampled_writes LIBRARY...       the libraries to watch, by a part of their paths
#define _GNU_SOURCE
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "known.h"

enum { kMax = 64, kFilterBytes = 4 << 20, kRounds = 500 };
static struct {
  uintptr_t start, end;
  char name[160];
} watched[kMax];
static int count;
static char** libraries;
static atomic_int step;  // not a barrier, which would be a wait, and may be captured
static pthread_mutex_t mutexes[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP};

// operator new and delete, by their names.
extern void* _Znwm(size_t) __attribute__((weak));
extern void _ZdlPv(void*) __attribute__((weak));

static void Add(uintptr_t start, uintptr_t end, const char* name) {
  if (count == kMax) return;
  watched[count].start = start;
  watched[count].end = end;
  snprintf(watched[count].name, sizeof watched[count].name, "%s", name);
  ++count;
}

// Variables, with those that are 0 at first, which /proc/self/maps shows without a name.
static int AddVariables(struct dl_phdr_info* info, size_t size, void* unused) {
  (void)size;
  (void)unused;
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  int ours = 0;
  for (char** library = libraries; *library; ++library) ours |= strstr(info->dlpi_name, *library) != NULL;
  for (int i = 0; ours && i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_W)) continue;
    const uintptr_t start = info->dlpi_addr + part->p_vaddr;
    Add(start & ~(page - 1), (start + part->p_memsz + page - 1) & ~(page - 1), info->dlpi_name);
  }
  return 0;
}

static void FindWatched(void) {
  dl_iterate_phdr(AddVariables, NULL);
  const int libraries_found = count;
  FILE* maps = fopen("/proc/self/maps", "r");
  static char buffer[1 << 16], line[512];
  setvbuf(maps, buffer, _IOFBF, sizeof buffer);
  while (fgets(line, sizeof line, maps)) {
    uintptr_t start, end;
    char rights[8], path[256] = "";
    if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &start, &end, rights, path) < 3 || rights[1] != 'w') continue;
    // The filter of frees is the one anonymous mapping of its size; the kernel may have joined it with variables below.
    for (int i = 0; i < libraries_found && path[0] == 0; ++i) {
      if (start < watched[i].end && watched[i].end < end) start = watched[i].end;
    }
    if (path[0] == 0 && end - start == kFilterBytes) Add(start, end, "the filter of frees");
    if (strstr(path, "/holdfast.") && strstr(path, ".table")) Add(start, end, path);
  }
  fclose(maps);
}

static void Watch(int rights) {
  for (int i = 0; i < count; ++i) {
    if (mprotect((void*)watched[i].start, watched[i].end - watched[i].start, rights) != 0) _exit(3);
  }
}

static void OnWrite(int signal_number, siginfo_t* info, void* context) {
  (void)signal_number;
  (void)context;
  Watch(PROT_READ | PROT_WRITE);
  const uintptr_t at = (uintptr_t)info->si_addr;
  for (int i = 0; i < count; ++i) {
    if (at < watched[i].start || at >= watched[i].end) continue;
    printf("a path without a sample wrote shared memory: byte %lu of %s\n", at - watched[i].start, watched[i].name);
    fflush(stdout);
    _exit(1);
  }
  _exit(2);
}

static void EveryPath(pthread_mutex_t* own) {
  const struct timespec deadline = {INT32_MAX, 0};
  for (int i = 0; i < kRounds; ++i) {
    void* p = malloc(16 + i % 48);
    malloc_usable_size(p);
    free(realloc(p, 40));
    free(calloc(3, 9));
    free(reallocarray(NULL, 2, 8));
    free(aligned_alloc(64, 64));
    if (posix_memalign(&p, 32, 20) == 0) free(p);
    if (_Znwm) _ZdlPv(_Znwm(24));
    for (int m = 0; m < 2; ++m) {
      pthread_mutex_lock(&own[m]);
      pthread_mutex_unlock(&own[m]);
      if (pthread_mutex_trylock(&own[m]) == 0) pthread_mutex_unlock(&own[m]);
      pthread_mutex_timedlock(&own[m], &deadline);
      pthread_mutex_unlock(&own[m]);
    }
  }
}

static void* Other(void* unused) {
  pthread_mutex_t own[2];
  memcpy(own, mutexes, sizeof own);
  EveryPath(own);  // this thread is known from here on
  step = 1;
  while (step < 2) {
  }
  EveryPath(own);  // everything is watched
  step = 3;
  return unused;
}

int main(int argc, char** argv) {
  if (argc < 2) return 3;
  libraries = argv + 1;
  // All but sure to be sampled, at any interval in question: from here on there is a table.
  free(malloc((size_t)8 << 30));
  pthread_mutex_t own[2];
  memcpy(own, mutexes, sizeof own);
  EveryPath(own);
  pthread_t other;
  if (pthread_create(&other, NULL, Other, NULL) != 0) return 3;
  while (step < 1) usleep(1000);
  FindWatched();
  struct sigaction action = {.sa_sigaction = OnWrite, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, NULL);
  Watch(PROT_READ);
  step = 2;
  EveryPath(own);
  while (step < 3) {
  }
  Watch(PROT_READ | PROT_WRITE);
  pthread_join(other, NULL);
  printf("watched %d\n", count);
  for (int i = 0; i < count; ++i)
    printf("  %lu KiB of %s\n", (watched[i].end - watched[i].start) / 1024, watched[i].name);
  return 0;
}
