// A pool that reports its blocks to Holdfast. Build it in the folder above this one:
//
//     cc -Iinclude examples/pool.c -o pool
//     ./pool                      runs without Holdfast
//     holdfast run -- ./pool      and the profile names serve_request and keep_session, which the pool hides from malloc
#include <holdfast.h>
#include <stdio.h>
#include <sys/mman.h>

enum { kObjectBytes = 4096, kObjects = 1000 };

static char* memory;
static char* freed[kObjects];
static int free_count, handed_out;

static void* TakeFromPool(size_t bytes) {
  char* object = free_count > 0 ? freed[--free_count] : memory + (size_t)handed_out++ * kObjectBytes;
  holdfast_alloc(object, bytes);
  return object;
}
static void GiveToPool(void* object) {
  holdfast_free(object);  // before it can be handed out again
  freed[free_count++] = object;
}

__attribute__((noinline)) void* serve_request(void) { return TakeFromPool(100); }
__attribute__((noinline)) void* keep_session(void) { return TakeFromPool(3000); }

int main(void) {
  memory = mmap(NULL, (size_t)kObjects * kObjectBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  for (int i = 0; i < 5000; ++i) GiveToPool(serve_request());
  for (int i = 0; i < 200; ++i) keep_session();
  holdfast_snapshot();  // now, not at the end of the interval
  printf("expect serve_request 5000 500000 0 0\nexpect keep_session 200 600000 200 600000\n");
  return 0;
}
