// Mappings with sizes known to the byte, created and removed in every way.
//
//     mappings kinds | threads | handler | jumps | fork | stacks | arenas
//
// Prints what the map profile must contain, by the calling function:
//     map FUNCTION KIND alloc_objects alloc_space inuse_objects inuse_space
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#define KIB 1024ul
#define MIB (1024 * KIB)
enum { kReadWrite = PROT_READ | PROT_WRITE, kPrivate = MAP_PRIVATE | MAP_ANONYMOUS };

static void Say(const char* function, const char* kind, size_t objects, size_t bytes, size_t live, size_t live_bytes) {
  printf("map %s %s %zu %zu %zu %zu\n", function, kind, objects, bytes, live, live_bytes);
  fflush(stdout);
}
static void Must(int holds, const char* what) {
  if (holds) return;
  printf("failed: %s, errno %d\n", what, errno);
  exit(9);
}

#define MAPS(name) \
  KNOWN char* name(size_t bytes) { return mmap(NULL, bytes, kReadWrite, kPrivate, -1, 0); }
MAPS(map_whole)
MAPS(map_head)
MAPS(map_tail)
MAPS(map_middle)
MAPS(map_pieces)
MAPS(map_odd)
MAPS(map_under)
MAPS(map_to_grow)
MAPS(map_to_shrink)
MAPS(map_to_move)
MAPS(map_target)
MAPS(map_in_parent)
MAPS(map_in_child)
MAPS(map_in_thread)
MAPS(map_outside)
MAPS(map_in_handler)
KNOWN char* map_file(int file, size_t bytes, int flags) { return mmap(NULL, bytes, PROT_READ, flags, file, 0); }
KNOWN char* map_file_64(int file, size_t bytes) { return mmap64(NULL, bytes, PROT_READ, MAP_SHARED, file, 0); }
KNOWN char* map_shared(size_t bytes) { return mmap(NULL, bytes, kReadWrite, MAP_SHARED | MAP_ANONYMOUS, -1, 0); }
KNOWN char* map_stack(size_t bytes) { return mmap(NULL, bytes, kReadWrite, kPrivate | MAP_STACK, -1, 0); }
KNOWN char* map_over(void* at, size_t bytes) { return mmap(at, bytes, kReadWrite, kPrivate | MAP_FIXED, -1, 0); }
KNOWN char* map_two(void* at, size_t bytes) { return mmap(at, bytes, kReadWrite, kPrivate | MAP_FIXED, -1, 0); }
KNOWN char* map_over_all(void* at, size_t bytes) { return mmap(at, bytes, PROT_READ, kPrivate | MAP_FIXED, -1, 0); }
KNOWN char* grow(void* old, size_t from, size_t to) { return mremap(old, from, to, MREMAP_MAYMOVE); }
KNOWN char* grow_file(void* old, size_t from, size_t to) { return mremap(old, from, to, MREMAP_MAYMOVE); }
KNOWN char* shrink(void* old, size_t from, size_t to) { return mremap(old, from, to, 0); }
KNOWN char* move_to(void* old, size_t bytes, void* to) {
  return mremap(old, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
}
KNOWN char* map_to_copy(size_t bytes, int flags) { return mmap(NULL, bytes, kReadWrite, flags | MAP_ANONYMOUS, -1, 0); }
KNOWN char* copy_file(void* old, size_t bytes) { return mremap(old, 0, bytes, MREMAP_MAYMOVE); }
KNOWN char* leave_behind(void* old, size_t bytes) {
  return mremap(old, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
}
KNOWN void* raise_break(intptr_t bytes) { return sbrk(bytes); }
KNOWN int set_break(void* end) { return brk(end); }
KNOWN char* attach(int id) { return shmat(id, NULL, 0); }
KNOWN char* attach_to_cut(int id) { return shmat(id, NULL, 0); }
KNOWN char* map_by_number(size_t bytes) { return (char*)syscall(SYS_mmap, NULL, bytes, kReadWrite, kPrivate, -1, 0); }
KNOWN char* grow_by_number(void* old, size_t from, size_t to) {
  return (char*)syscall(SYS_mremap, old, from, to, MREMAP_MAYMOVE, 0);
}
KNOWN char* attach_by_number(int id) { return (char*)syscall(SYS_shmat, id, NULL, 0); }

static void Break(void) {
  // malloc must not come in between: what is given back at the end is what was asked for last.
  char* begin = sbrk(0);
  char* first = raise_break(12388);
  char* second = raise_break(5000);
  void* less = raise_break(-6000);
  const int set = set_break(second + 20000);
  const int back = set_break(second + 8192);
  Must(first == begin && second == first + 12388 && less != (void*)-1 && set == 0 && back == 0, "brk");
  Must(sbrk(0) == second + 8192, "the end of the heap");
  // Below where the heap begins nothing happens, and libc says that it did.
  Must(sbrk(-(intptr_t)(64 * MIB)) == second + 8192 && set_break((void*)4096) == 0, "brk");
  Must(sbrk(0) == second + 8192, "the end of the heap");
  // 17,388 up to `second` + 5,000; 6,000 less leaves 11,388; then 21,000 from there; 11,808 of them were unmapped again.
  Say("raise_break", "brk", 2, 17388, 1, 11388);
  Say("set_break", "brk", 1, 21000, 1, 9192);
}

static void Pieces(void) {
  char* whole[3];
  for (int i = 0; i < 3; ++i) whole[i] = map_whole(MIB);
  Must(munmap(whole[1], MIB) == 0, "munmap");
  Say("map_whole", "anonymous", 3, 3 * MIB, 2, 2 * MIB);

  char* head = map_head(MIB);
  Must(munmap(head, 64 * KIB) == 0, "munmap");
  Say("map_head", "anonymous", 1, MIB, 1, MIB - 64 * KIB);
  char* tail = map_tail(MIB);
  Must(munmap(tail + 960 * KIB, 64 * KIB) == 0, "munmap");
  Say("map_tail", "anonymous", 1, MIB, 1, MIB - 64 * KIB);
  char* middle = map_middle(MIB);
  Must(munmap(middle + 256 * KIB, 128 * KIB) == 0 && munmap(middle + 512 * KIB, 4 * KIB) == 0, "munmap");
  Must(munmap(middle, 256 * KIB) == 0, "munmap");
  Say("map_middle", "anonymous", 1, MIB, 1, MIB - 388 * KIB);
  // In pieces, all of it; the last one reaches far beyond.
  char* pieces = map_pieces(MIB);
  for (size_t at = 4 * KIB; at < MIB; at += 16 * KIB) Must(munmap(pieces + at, 8 * KIB) == 0, "munmap");
  Must(munmap(pieces, MIB) == 0, "munmap");
  Say("map_pieces", "anonymous", 1, MIB, 0, 0);
  // Three at once, with a hole.
  char* room = map_outside(2 * MIB);
  char* low = map_two(room, 256 * KIB);
  char* high = map_two(room + 512 * KIB, 512 * KIB);
  Must(low == room && high == room + 512 * KIB && munmap(room + 300 * KIB, 8 * KIB) == 0, "munmap");
  Must(munmap(room, 2 * MIB) == 0, "munmap");
  Say("map_two", "anonymous", 2, 768 * KIB, 0, 0);
  Say("map_outside", "anonymous", 1, 2 * MIB, 0, 0);

  char* odd = map_odd(5000);
  odd = map_odd(100);
  Must(munmap(odd, 1) == 0, "munmap");
  Say("map_odd", "anonymous", 2, 12 * KIB, 1, 8 * KIB);
}

static void Failures(void) {
  char* whole = map_whole(MIB);
  errno = 77;
  Must(munmap(whole + 1, 4096) == -1 && errno == EINVAL, "munmap of an odd address");
  Must(munmap(whole, 0) == -1 && errno == EINVAL, "munmap of nothing");
  Must(mmap(NULL, 0, kReadWrite, kPrivate, -1, 0) == MAP_FAILED && errno == EINVAL, "mmap of nothing");
  Must(mmap(whole, 4096, kReadWrite, MAP_PRIVATE | MAP_FIXED, -1, 0) == MAP_FAILED && errno == EBADF,
       "mmap of no file");
  Must(mremap(whole + 1, 4096, 8192, 0) == MAP_FAILED && errno == EINVAL, "mremap of an odd address");
  Must(shmat(-1, NULL, 0) == (void*)-1 && errno == EINVAL, "shmat of nothing");
  Must(shmdt(whole) == -1 && errno == EINVAL, "shmdt of nothing");
  errno = 77;
  Must(munmap(whole, MIB) == 0 && errno == 77, "errno");
  Say("map_whole", "anonymous", 4, 4 * MIB, 2, 2 * MIB);
}

static void Fixed(void) {
  char* under = map_under(MIB);
  Must(map_over(under + 256 * KIB, 128 * KIB) == under + 256 * KIB, "MAP_FIXED");
  Must(map_over(under + 960 * KIB, 64 * KIB) == under + 960 * KIB, "MAP_FIXED");
  Must(map_over_all(under + 128 * KIB, 384 * KIB) == under + 128 * KIB, "MAP_FIXED");
  Say("map_under", "anonymous", 1, MIB, 1, MIB - 384 * KIB - 64 * KIB);
  Say("map_over", "anonymous", 2, 192 * KIB, 1, 64 * KIB);
  Say("map_over_all", "anonymous", 1, 384 * KIB, 1, 384 * KIB);
}

static void Moves(int file) {
  char* small = map_to_grow(64 * KIB);
  small = grow(small, 64 * KIB, MIB);
  Must(small != MAP_FAILED && grow(small, MIB, 2 * MIB) != MAP_FAILED, "mremap");
  Say("map_to_grow", "anonymous", 1, 64 * KIB, 0, 0);
  Say("grow", "anonymous", 2, 3 * MIB, 1, 2 * MIB);
  char* large = map_to_shrink(256 * KIB);
  Must(shrink(large, 256 * KIB, 64 * KIB) == large, "mremap");
  Say("map_to_shrink", "anonymous", 1, 256 * KIB, 0, 0);
  Say("shrink", "anonymous", 1, 64 * KIB, 1, 64 * KIB);
  // A part of one into the midst of another.
  char* from = map_to_move(512 * KIB);
  char* target = map_target(MIB);
  Must(move_to(from + 128 * KIB, 64 * KIB, target + 512 * KIB) == target + 512 * KIB, "mremap");
  Say("map_to_move", "anonymous", 1, 512 * KIB, 1, 448 * KIB);
  Say("map_target", "anonymous", 1, MIB, 1, MIB - 64 * KIB);
  Say("move_to", "anonymous", 1, 64 * KIB, 1, 64 * KIB);

  char* kept = map_file(file, 40 * KIB, MAP_PRIVATE);
  char* gone = map_file(file, 40 * KIB, MAP_SHARED);
  char* grown = map_file_64(file, 8 * KIB);
  Must(kept != MAP_FAILED && munmap(gone, 40 * KIB) == 0, "a file");
  Must(grow_file(grown, 8 * KIB, 16 * KIB) != MAP_FAILED, "mremap of a file");
  Say("map_file", "file", 2, 80 * KIB, 1, 40 * KIB);
  Say("map_file_64", "file", 1, 8 * KIB, 0, 0);
  Say("grow_file", "file", 1, 16 * KIB, 1, 16 * KIB);
  // What is copied is of the same kind.
  Must(copy_file(kept, 0) == MAP_FAILED, "mremap to nothing");
  char* shared_file = map_file_64(file, 24 * KIB);
  Must(copy_file(shared_file, 24 * KIB) != MAP_FAILED, "mremap of 0 bytes");
  Say("copy_file", "file", 1, 24 * KIB, 1, 24 * KIB);
  Say("map_file_64", "file", 2, 32 * KIB, 1, 24 * KIB);
  char* left = map_to_copy(48 * KIB, MAP_PRIVATE | MAP_STACK);
  Must(leave_behind(left, 48 * KIB) != MAP_FAILED, "MREMAP_DONTUNMAP");
  Say("map_to_copy", "stack", 1, 48 * KIB, 1, 48 * KIB);
  Say("leave_behind", "stack", 1, 48 * KIB, 1, 48 * KIB);
  Must(map_shared(96 * KIB) != MAP_FAILED && map_stack(160 * KIB) != MAP_FAILED, "mmap");
  Say("map_shared", "anonymous", 1, 96 * KIB, 1, 96 * KIB);
  Say("map_stack", "stack", 1, 160 * KIB, 1, 160 * KIB);
}

static void Segments(void) {
  const int id = shmget(IPC_PRIVATE, 300 * KIB + 1, IPC_CREAT | 0600);
  if (id < 0) return;  // where there is no System V memory
  char* first = attach(id);
  char* second = attach(id);
  char* third = attach_by_number(id);
  Must(first != (void*)-1 && second != (void*)-1 && third != (void*)-1, "shmat");
  Must(munmap(second + 64 * KIB, 32 * KIB) == 0 && shmdt(second) == 0, "shmdt");
  Must(syscall(SYS_shmdt, third) == 0, "shmdt");
  // What is left of one is found by where it began.
  char* cut = attach_to_cut(id);
  Must(munmap(cut, 64 * KIB) == 0 && munmap(cut + 128 * KIB, 4 * KIB) == 0 && shmdt(cut) == 0, "shmdt");
  shmctl(id, IPC_RMID, NULL);
  Say("attach_to_cut", "shm", 1, 304 * KIB, 0, 0);
  Say("attach", "shm", 2, 608 * KIB, 1, 304 * KIB);
  Say("attach_by_number", "shm", 1, 304 * KIB, 0, 0);
}

static void ByNumber(void) {
  char* block = map_by_number(MIB);
  Must(syscall(SYS_munmap, block + 512 * KIB, 512 * KIB) == 0, "munmap");
  Must(grow_by_number(block, 512 * KIB, 3 * MIB) != MAP_FAILED, "mremap");
  char* other = map_by_number(MIB);
  Must(syscall(SYS_munmap, other, 4 * KIB) == 0, "munmap");
  Say("map_by_number", "anonymous", 2, 2 * MIB, 1, MIB - 4 * KIB);
  Say("grow_by_number", "anonymous", 1, 3 * MIB, 1, 3 * MIB);
}

static int Kinds(void) {
  Break();
  Pieces();
  Failures();
  Fixed();
  char name[] = "/tmp/holdfast_mappings_XXXXXX";
  const int file = mkstemp(name);
  unlink(name);
  Must(file >= 0 && ftruncate(file, 40 * KIB) == 0, "a file");
  Moves(file);
  ByNumber();
  Segments();
  return 0;
}

// ---- Threads that unmap what others have mapped ----

enum { kThreads = 4, kRounds = 4000, kShared = 64 };
static _Atomic(char*) shared[kShared];
static size_t Size(const char* block) { return *(const size_t*)block; }

static void* MapAndUnmap(void* argument) {
  uint64_t random = (uintptr_t)argument * 0x9e3779b97f4a7c15 + 1;
  size_t* mapped = calloc(1, sizeof *mapped);
  for (int i = 0; i < kRounds; ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    const size_t bytes = (1 + (random >> 33) % 8) * 4096;
    char* block = map_in_thread(bytes);
    Must(block != MAP_FAILED, "mmap");
    *mapped += bytes;
    *(size_t*)block = bytes;
    char* other = atomic_exchange(&shared[(random >> 40) % kShared], block);
    if (other != NULL) Must(munmap(other, Size(other)) == 0, "munmap");
  }
  return mapped;
}

static int Threads(void) {
  pthread_t threads[kThreads];
  size_t mapped = 0, live = 0, live_bytes = 0;
  for (long i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, MapAndUnmap, (void*)(i + 1));
  for (int i = 0; i < kThreads; ++i) {
    void* one;
    pthread_join(threads[i], &one);
    mapped += *(size_t*)one;
  }
  for (int i = 0; i < kShared; ++i) {
    if (shared[i] == NULL) continue;
    ++live;
    live_bytes += Size(shared[i]);
  }
  Say("map_in_thread", "anonymous", (size_t)kThreads * kRounds, mapped, live, live_bytes);
  return 0;
}

// ---- A handler that interrupts a loop which maps ----

static atomic_int handled, kept;
static void Handler(int number) {
  (void)number;
  const int saved = errno;
  char* block = map_in_handler(12 * KIB);
  if (block == MAP_FAILED) return;
  if (atomic_fetch_add(&handled, 1) % 3 == 0) {
    munmap(block + 4 * KIB, 4 * KIB);
    atomic_fetch_add(&kept, 1);
  } else {
    munmap(block, 12 * KIB);
  }
  errno = saved;
}

static int InHandler(void) {
  signal(SIGALRM, Handler);
  const struct itimerval often = {{0, 150}, {0, 150}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  size_t rounds = 0;
  for (; atomic_load(&handled) < 400; ++rounds) {
    char* block = map_outside(64 * KIB);
    Must(munmap(block, 64 * KIB) == 0, "munmap");
  }
  setitimer(ITIMER_REAL, &never, NULL);
  Say("map_outside", "anonymous", rounds, rounds * 64 * KIB, 0, 0);
  // Of those that interrupted a sample there is no stack: together.
  printf("handled %d %d\n", atomic_load(&handled), atomic_load(&kept));
  return 0;
}

// ---- A handler that jumps out of a call, or forks in the midst of it ----

static sigjmp_buf out;
static volatile sig_atomic_t armed, jumped;
static void Jump(int number) {
  (void)number;
  ++jumped;
  if (jumped % 50 == 0) {
    const pid_t child = fork();
    if (child == 0) {
      map_in_child(8 * KIB);
      _exit(0);
    }
    waitpid(child, NULL, 0);
  }
  if (armed) siglongjmp(out, 1);
}

static int Jumps(void) {
  signal(SIGALRM, Jump);
  const struct itimerval often = {{0, 150}, {0, 150}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  sigsetjmp(out, 1);
  while (jumped < 500) {
    armed = 1;
    void* block = map_outside(64 * KIB);
    munmap(block, 64 * KIB);
    armed = 0;
  }
  setitimer(ITIMER_REAL, &never, NULL);
  armed = 0;
  for (int i = 0; i < 100; ++i) {
    char* block = map_whole(8 * KIB);
    if (i % 4 == 0) munmap(block, 8 * KIB);
  }
  Say("map_whole", "anonymous", 100, 800 * KIB, 75, 600 * KIB);
  return 0;
}

// ---- A child of fork ----

static int InChild(void) {
  char* first = map_in_parent(3 * MIB);
  map_in_parent(MIB);
  const pid_t child = fork();
  if (child == 0) {
    munmap(first, 3 * MIB);
    char* own = map_in_child(2 * MIB);
    munmap(own, MIB);
    Say("map_in_child", "anonymous", 1, 2 * MIB, 1, MIB);
    exit(0);
  }
  int status;
  Must(waitpid(child, &status, 0) == child && status == 0, "the child");
  Must(munmap(first, 4 * KIB) == 0, "munmap");
  Say("map_in_parent", "anonymous", 2, 4 * MIB, 2, 4 * MIB - 4 * KIB);
  return 0;
}

// ---- Threads' stacks ----

static pthread_barrier_t begun;
static void* Sleep(void* until) {
  pthread_barrier_wait(&begun);
  while (until == NULL || !atomic_load((atomic_int*)until)) usleep(1000);
  return NULL;
}
KNOWN pthread_t create_small(void* until) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * KIB);
  Must(pthread_create(&thread, &attributes, Sleep, until) == 0, "pthread_create");
  pthread_attr_destroy(&attributes);
  return thread;
}
KNOWN pthread_t create_default(void* until) {
  pthread_t thread;
  Must(pthread_create(&thread, NULL, Sleep, until) == 0, "pthread_create");
  return thread;
}
KNOWN pthread_t create_on_own(void* stack, size_t bytes) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, bytes);
  Must(pthread_create(&thread, &attributes, Sleep, NULL) == 0, "pthread_create");
  return thread;
}

static int Stacks(void) {
  static atomic_int end;
  pthread_barrier_init(&begun, NULL, 7);
  pthread_t ending[3];
  for (int i = 0; i < 2; ++i) ending[i] = create_small(&end);
  create_small(NULL);
  ending[2] = create_default(&end);
  create_default(NULL);
  char* own = map_stack(MIB);
  create_on_own(own, MIB);
  pthread_barrier_wait(&begun);
  atomic_store(&end, 1);
  for (int i = 0; i < 3; ++i) pthread_join(ending[i], NULL);
  pthread_attr_t plain;
  size_t bytes;
  pthread_attr_init(&plain);
  pthread_attr_getstacksize(&plain, &bytes);
  Say("create_small", "stack", 3, 768 * KIB, 1, 256 * KIB);
  Say("create_default", "stack", 2, 2 * bytes, 1, bytes);
  Say("map_stack", "stack", 1, MIB, 1, MIB);
  return 0;
}

// ---- What glibc maps by itself ----

static void* Allocates(void* unused) {
  (void)unused;
  char* block = malloc(100 * KIB);
  memset(block, 1, 100 * KIB);
  return block;
}

static int Arenas(void) {
  for (int i = 0; i < 3; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, Allocates, NULL);
    pthread_join(thread, NULL);
  }
  map_whole(MIB);
  Say("map_whole", "anonymous", 1, MIB, 1, MIB);
  return 0;
}

int main(int count, char** arguments) {
  const char* how = count > 1 ? arguments[1] : "";
  if (strcmp(how, "kinds") == 0) return Kinds();
  if (strcmp(how, "threads") == 0) return Threads();
  if (strcmp(how, "handler") == 0) return InHandler();
  if (strcmp(how, "jumps") == 0) return Jumps();
  if (strcmp(how, "fork") == 0) return InChild();
  if (strcmp(how, "stacks") == 0) return Stacks();
  if (strcmp(how, "arenas") == 0) return Arenas();
  return 2;
}
