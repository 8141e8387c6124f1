// Unloads libraries while stacks refer to them. `hard_unloading CASE PLUGIN...`; prints what happened.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

// ---- code without unwind tables; its frame pointer leads to a plugin's words that were left on the stack ----

typedef void* (*Compiled)(void* frame, void* (*allocate)(size_t), size_t bytes);

// push %rbp; mov %rdi,%rbp; mov %rdx,%rdi; call *%rsi; pop %rbp; ret
static const unsigned char kCompiled[] = {0x55, 0x48, 0x89, 0xfd, 0x48, 0x89, 0xd7, 0xff, 0xd6, 0x5d, 0xc3};

static void* Load(const char* path) {
  void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) printf("%s\n", dlerror()), exit(1);
  return plugin;
}

// Behind a call in the plugin.
static uintptr_t ReturnAddressIn(void* plugin) {
  const unsigned char* code = dlsym(plugin, "Allocate");
  for (int i = 0; i < 100; ++i) {
    if (code[i] == 0xe8) return (uintptr_t)&code[i + 5];
  }
  printf("no call in the plugin\n");
  exit(1);
}

static atomic_uintptr_t stale;
static atomic_int over;
static Compiled compiled;

// As many such frames as fit: each leads to the next.
static void* Walks(void* unused) {
  uintptr_t frames[16][2];
  while (!over) {
    for (int i = 0; i < 16; ++i) frames[i][0] = i < 15 ? (uintptr_t)frames[i + 1] : 0, frames[i][1] = stale;
    for (size_t i = 0; i < 50; ++i) free(compiled(frames, malloc, 100 + i));
  }
  return unused;
}

static void StaleFrames(const char* path) {
  void* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(page, kCompiled, sizeof kCompiled);
  compiled = (Compiled)page;
  void* plugin = Load(path);
  stale = ReturnAddressIn(plugin);
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, Walks, NULL);
  for (int i = 0; i < 5000; ++i) {
    dlclose(plugin);
    plugin = Load(path);
    stale = ReturnAddressIn(plugin);
  }
  over = 1;
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  printf("unloaded 5000 times\n");
}

// ---- a dlclose that lasts, as a destructor does ----

static double Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

// By the program's own frames, and by those of another plugin.
static void* (*in_plugin)(size_t);
__attribute__((noinline)) static double PairNs(int depth, void* (*allocate)(size_t)) {
  if (depth > 0) {
    const double ns = PairNs(depth - 1, allocate);
    __asm__ volatile("");
    return ns;
  }
  const int pairs = 20000;
  double best = 1e18;
  for (int round = 0; round < 5; ++round) {
    const double start = Now();
    for (int i = 0; i < pairs; ++i) free(allocate(100));
    const double took = (Now() - start) / pairs;
    if (took < best) best = took;
  }
  return best;
}

static int wants_times;
static void AllocatesMuch(const char* when) {
  const double own = PairNs(20, malloc), plugins = PairNs(20, in_plugin);
  if (wants_times) fprintf(stderr, "%s: malloc and free %.0f ns, in a plugin %.0f ns\n", when, own, plugins);
}

static void* InAnotherThread(void* unused) {
  AllocatesMuch("in a destructor");
  return unused;
}
static void OnClose(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, InAnotherThread, NULL);
  pthread_join(thread, NULL);
}

static void LongDestructor(const char* closing, const char* other) {
  in_plugin = (void* (*)(size_t))dlsym(Load(other), "Allocate");
  void* plugin = Load(closing);
  *(void (**)(void))dlsym(plugin, "on_close") = OnClose;
  AllocatesMuch("before");
  dlclose(plugin);
  AllocatesMuch("after");
  printf("allocated while a destructor ran\n");
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
  const char* which = argc > 1 ? argv[1] : "";
  if (argc > 2 && !strcmp(which, "stale_frames")) return StaleFrames(argv[2]), 0;
  wants_times = argc > 4;
  if (argc > 3 && !strcmp(which, "long_destructor")) return LongDestructor(argv[2], argv[3]), 0;
  return 99;
}
