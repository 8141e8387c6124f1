// An allocator that calls one of our functions while it starts up, before main and before any constructor, as Chromium's
// does. An allocation at that moment would find it busy with itself and wait forever.
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static char memory[16 << 20] __attribute__((aligned(16)));
static size_t used;
static int starting, started;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void Say(const char* text) {
  if (write(1, text, strlen(text)) < 0) _exit(9);
}

static void Start(void) {
  if (started) return;
  if (starting) {
    Say("asked for memory while it was starting\n");
    _exit(7);
  }
  starting = 1;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  started = 1;
}

void* malloc(size_t bytes) {
  Start();
  pthread_mutex_lock(&mutex);
  size_t* block = (size_t*)(memory + used);
  used += (bytes + 16 + 15) / 16 * 16;
  const int fits = used <= sizeof memory;
  pthread_mutex_unlock(&mutex);
  if (!fits) return NULL;
  *block = bytes;
  return block + 2;
}
void free(void* block) { (void)block; }
void* calloc(size_t count, size_t each) { return malloc(count * each); }
void* realloc(void* block, size_t bytes) {
  void* moved = malloc(bytes);
  if (block && moved) memcpy(moved, block, ((size_t*)block)[-2] < bytes ? ((size_t*)block)[-2] : bytes);
  return moved;
}

static void First(void) { *(volatile char*)malloc(10) = 1; }
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = First;

int main(void) {
  for (int i = 0; i < 1000; ++i) free(malloc(100));
  Say("started\n");
  return 0;
}
