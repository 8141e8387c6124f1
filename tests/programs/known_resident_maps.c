// Mappings with a known resident part, exact to the page. Prints a line per function:
//
//     resident FUNCTION LABEL mappings bytes resident_bytes
//     huge bytes                     all bytes on huge pages, according to /proc/self/smaps
//
//   known_resident_maps MAPPINGS [fork | wait | many | swap | stacks | vanish …]
//     touched_in_part   MAPPINGS of 64 pages; the first 21 were written
//     given_back        MAPPINGS of 64 pages, written; the second half was returned (MADV_DONTNEED)
//     only_read         MAPPINGS of 64 pages, read: pages of zeros that all processes share
//     cut               MAPPINGS of 64 pages, written; the middle 16 were unmapped
//     below, above      MAPPINGS of 64 pages, written; others were mapped over 16 of them, and 3 pages of these written
//     shared_file       MAPPINGS of 32 pages of a file; 10 were written; read_file sees them again: all 32
//     private_file      MAPPINGS of 32 pages of a file; 5 were written, so that they are copies
//     attached          a System V segment of 16 pages; 3 were written
//     moved             MAPPINGS of 16 pages that had 8 when they were written, and were moved
//     reserved          1 TiB; 3 pages were written
//     on_huge_pages     8 MiB for which the kernel was asked for huge pages; one byte was written in each of three of these
//     put_away          with the mode `swap`: 256 pages, written, which the kernel was asked to swap out (MADV_PAGEOUT); the line
//                       `swapped bytes` says how many it did
//     start_threads     with the mode `stacks`: 6 sleeping threads with stacks of 1 MiB that used 10, 20 … 60 pages of them
//     pool              256 pages, written; blocks have 100 of them, as reported through holdfast.h: the row has the others
//
// fork: a child lives meanwhile, and has a mapping of its own. wait: prints `ready` and waits for its input to end. many:
// 50,000 mappings of two pages, every second one separate, with one page written in each. vanish: kills itself at the end.
#define _GNU_SOURCE
#include <fcntl.h>
#include <holdfast.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"
#include "resident_ending.h"

#define PAGE 4096ul
#define MIB (1ul << 20)
enum { kReadWrite = PROT_READ | PROT_WRITE, kPrivate = MAP_PRIVATE | MAP_ANONYMOUS, kMany = 50000 };

#define MAPS(name) \
  KNOWN static char* name(size_t bytes) { return mmap(NULL, bytes, kReadWrite, kPrivate, -1, 0); }
MAPS(touched_in_part)
MAPS(given_back)
MAPS(only_read)
MAPS(cut)
MAPS(below)
MAPS(before_it_moved)
MAPS(on_huge_pages)
MAPS(pool)
MAPS(one_of_many)
MAPS(put_away)
MAPS(in_child)
KNOWN static char* above(void* at, size_t bytes) { return mmap(at, bytes, kReadWrite, kPrivate | MAP_FIXED, -1, 0); }
KNOWN static char* shared_file(int file, size_t bytes) { return mmap(NULL, bytes, kReadWrite, MAP_SHARED, file, 0); }
KNOWN static char* read_file(int file, size_t bytes) {
  return mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
}
KNOWN static char* private_file(int file, size_t bytes) { return mmap(NULL, bytes, kReadWrite, MAP_PRIVATE, file, 0); }
KNOWN static char* attached(int id) { return shmat(id, NULL, 0); }
KNOWN static char* moved(char* old, size_t from, size_t to) {
  char* elsewhere = mmap(NULL, to, PROT_NONE, kPrivate, -1, 0);
  return mremap(old, from, to, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere);
}
KNOWN static char* reserved(size_t bytes) { return mmap(NULL, bytes, kReadWrite, kPrivate | MAP_NORESERVE, -1, 0); }

static void Touch(char* from, size_t pages) {
  if (from == MAP_FAILED) abort();
  for (size_t i = 0; i < pages; ++i) from[i * PAGE] = 1;
}

static void Say(const char* function, const char* label, size_t mappings, size_t pages, size_t resident) {
  printf("resident %s %s %zu %zu %zu\n", function, label, mappings, pages * PAGE, resident * PAGE);
  fflush(stdout);
}

static int File(size_t bytes) {
  const int file = memfd_create("known", 0);
  char page[PAGE] = "x";
  for (size_t at = 0; at < bytes; at += PAGE) {
    if (write(file, page, PAGE) != (ssize_t)PAGE) abort();
  }
  return file;
}

static size_t HugeBytes(void) {
  char line[512];
  size_t kib, sum = 0;
  FILE* smaps = fopen("/proc/self/smaps", "r");
  while (smaps != NULL && fgets(line, sizeof line, smaps) != NULL) {
    if (sscanf(line, "AnonHugePages: %zu kB", &kib) == 1) sum += kib * 1024;
  }
  if (smaps != NULL) fclose(smaps);
  return sum;
}

static void Pieces(size_t n) {
  for (size_t i = 0; i < n; ++i) {
    Touch(touched_in_part(64 * PAGE), 21);
    char* half = given_back(64 * PAGE);
    Touch(half, 64);
    madvise(half + 32 * PAGE, 32 * PAGE, MADV_DONTNEED);
    char* read = only_read(64 * PAGE);
    for (size_t at = 0; at < 64 * PAGE; at += PAGE) Use((void*)(uintptr_t)((volatile char*)read)[at]);
    char* whole = cut(64 * PAGE);
    Touch(whole, 64);
    munmap(whole + 24 * PAGE, 16 * PAGE);
    char* lower = below(64 * PAGE);
    Touch(lower, 64);
    Touch(above(lower + 40 * PAGE, 16 * PAGE), 3);
    char* old = before_it_moved(8 * PAGE);
    Touch(old, 8);
    if (moved(old, 8 * PAGE, 16 * PAGE) == MAP_FAILED) abort();
  }
  Say("touched_in_part", "anonymous", n, n * 64, n * 21);
  Say("given_back", "anonymous", n, n * 64, n * 32);
  Say("only_read", "anonymous", n, n * 64, 0);
  Say("cut", "anonymous", n, n * 48, n * 48);
  Say("below", "anonymous", n, n * 48, n * 48);
  Say("above", "anonymous", n, n * 16, n * 3);
  Say("moved", "anonymous", n, n * 16, n * 8);
}

static void Files(size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const int file = File(32 * PAGE);
    Touch(shared_file(file, 32 * PAGE), 10);
    if (read_file(file, 32 * PAGE) == MAP_FAILED) abort();
    Touch(private_file(file, 32 * PAGE), 5);
    close(file);
  }
  Say("shared_file", "file", n, n * 32, n * 10);
  Say("read_file", "file", n, n * 32, n * 32);
  Say("private_file", "file", n, n * 32, n * 5);
  const int id = shmget(IPC_PRIVATE, 16 * PAGE, 0600);
  Touch(attached(id), 3);
  shmctl(id, IPC_RMID, NULL);
  Say("attached", "shm", 1, 16, 3);
}

static void Large(void) {
  prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  const size_t bytes = 1ul << 40;
  char* start = reserved(bytes);
  if (start != MAP_FAILED) {  // RLIMIT_AS, or no overcommitment
    start[0] = start[bytes / 3] = start[bytes - 1] = 1;
    Say("reserved", "anonymous", 1, bytes / PAGE, 3);
  }
  char* huge = on_huge_pages(8 * MIB);
  char* aligned = (char*)(((uintptr_t)huge + 2 * MIB - 1) / (2 * MIB) * (2 * MIB));
  madvise(aligned, 6 * MIB, MADV_HUGEPAGE);
  aligned[100] = aligned[2 * MIB] = aligned[6 * MIB - 1] = 1;
  const size_t on_huge = HugeBytes(), small = 3 - on_huge / (2 * MIB);
  Say("on_huge_pages", "anonymous", 1, 8 * MIB / PAGE, on_huge / PAGE + small);
  printf("huge %zu\n", on_huge);
}

KNOWN static void take_from_pool(char* block, size_t bytes) { holdfast_alloc(block, bytes); }

static void Pool(void) {
  char* memory = pool(256 * PAGE);
  Touch(memory, 256);
  for (size_t i = 0; i < 50; ++i) take_from_pool(memory + i * 4 * PAGE, 2 * PAGE);
  Say("pool", "arena", 1, 156, 156);
  Say("take_from_pool", "-", 50, 100, 100);
}

static void Many(void) {
  static char* hold[kMany];
  for (int i = 0; i < kMany; ++i) {
    hold[i] = one_of_many(2 * PAGE);
    if (hold[i] == MAP_FAILED) abort();
    hold[i][i % 2 * PAGE] = 1;
    if (i % 2 != 0) mprotect(hold[i], 2 * PAGE, PROT_READ);  // or the kernel joins them
  }
  Say("one_of_many", "anonymous", kMany, kMany * 2, kMany);
}

static void Swap(void) {
  enum { kPages = 256 };
  char* memory = put_away(kPages * PAGE);
  for (size_t i = 0; i < kPages * PAGE; ++i) memory[i] = (char)(i * i >> 7);
  madvise(memory, kPages * PAGE, MADV_PAGEOUT);
  uint64_t entries[kPages];
  const int pagemap = open("/proc/self/pagemap", O_RDONLY);
  if (pread(pagemap, entries, sizeof entries, (off_t)((uintptr_t)memory / PAGE * 8)) != sizeof entries) abort();
  close(pagemap);
  size_t here = 0, away = 0;
  for (int i = 0; i < kPages; ++i) {
    here += entries[i] >> 63;
    away += entries[i] >> 62 & 1;
  }
  Say("put_away", "anonymous", 1, kPages, here);
  printf("swapped %zu\n", away * PAGE);
}

enum { kThreads = 6 };
static pthread_barrier_t deep;
static pid_t ids[kThreads];

static void* UseStack(void* tens) {
  const uintptr_t pages = (uintptr_t)tens * 10;
  volatile char used[pages * PAGE];
  for (uintptr_t i = 0; i < pages; ++i) used[i * PAGE] = 1;
  Use((void*)(uintptr_t)used);
  ids[(uintptr_t)tens - 1] = gettid();
  pthread_barrier_wait(&deep);
  while (pause() != 0) {
  }
  return NULL;
}

KNOWN static void start_threads(pthread_t* threads) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, MIB);
  for (uintptr_t i = 0; i < kThreads; ++i) {
    if (pthread_create(&threads[i], &attributes, UseStack, (void*)(i + 1)) != 0) abort();
  }
}

// The call that pause() makes.
#ifdef SYS_pause
#define CALL_OF_PAUSE SYS_pause
#else  // arm64
#define CALL_OF_PAUSE SYS_ppoll
#endif
// Whether it is in pause().
static int Sleeps(pid_t thread) {
  char path[64], call[16] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
  const int file = open(path, O_RDONLY);
  const ssize_t got = read(file, call, sizeof call - 1);
  close(file);
  return got > 0 && atoi(call) == CALL_OF_PAUSE && call[0] != 'r';
}

static void Stacks(void) {
  pthread_t threads[kThreads];
  size_t pages = 0, resident = 0;
  pthread_barrier_init(&deep, NULL, kThreads + 1);
  start_threads(threads);
  pthread_barrier_wait(&deep);
  const int pagemap = open("/proc/self/pagemap", O_RDONLY);
  for (int i = 0; i < kThreads; ++i) {
    while (!Sleeps(ids[i])) usleep(1000);
    pthread_attr_t attributes;
    void* lowest;
    size_t bytes;
    if (pthread_getattr_np(threads[i], &attributes) != 0) abort();
    pthread_attr_getstack(&attributes, &lowest, &bytes);
    pthread_attr_destroy(&attributes);
    pages += bytes / PAGE;
    for (size_t at = 0; at < bytes; at += PAGE) {
      uint64_t entry = 0;
      if (pread(pagemap, &entry, sizeof entry, (off_t)(((uintptr_t)lowest + at) / PAGE * 8)) != sizeof entry) abort();
      // There, and this process's alone: not the page of zeros that all have who only read.
      resident += entry >> 63 & entry >> 56 & 1;
    }
  }
  close(pagemap);
  Say("start_threads", "stack", kThreads, pages, resident);
}

static int Has(int argc, char** argv, const char* word) {
  for (int i = 2; i < argc; ++i) {
    if (strcmp(argv[i], word) == 0) return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  const size_t mappings = argc > 1 ? (size_t)atol(argv[1]) : 4;
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  // of a huge page all is resident
  if (Has(argc, argv, "many")) Many();
  if (Has(argc, argv, "swap")) Swap();
  if (Has(argc, argv, "stacks")) Stacks();
  Pieces(mappings);
  Files(mappings);
  Large();
  Pool();
  pid_t child = 0;
  if (Has(argc, argv, "fork") && (child = fork()) == 0) {
    Touch(in_child(64 * PAGE), 21);
    Say("in_child", "anonymous", 1, 64, 21);
    raise(SIGSTOP);
    _exit(0);
  }
  return EndSeen(child, Has(argc, argv, "wait"), Has(argc, argv, "vanish"));
}
