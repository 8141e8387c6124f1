// Holds 100 blocks of 50,000 bytes in a global object, as many in a thread_local one, and frees all of them at exit.
//
//     freed_at_exit return|exit|quick_exit|_exit|thread|fork|handler_threads|realloc|nothing|idle
//
// `thread`: another thread calls exit. `fork`: a child does what `return` does, and its parent frees nothing.
// `handler_threads`: two global objects, and an exit handler that starts a thread for each, which frees its blocks.
// `realloc`: an exit handler shrinks the global object's blocks before they are freed. `nothing`: only the global object,
// and exit handlers that free nothing. The exit handler allocates one block of 777 bytes from Handler(); with `idle`, which
// otherwise is `nothing`, it does not. After all allocations, the program prints "ready" and waits for a line of input, or
// its end.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool frees = true, is_idle = false, reallocates = false, starts_threads = false;

struct Holder {
  static constexpr int kBlocks = 100;
  void* blocks[kBlocks] = {};
  ~Holder() {
    if (!frees) return;
    for (void* block : blocks) free(block);
  }
};

static Holder global, second;
static thread_local Holder of_thread;
static void* kept;

static void* FreeBlocks(void* holder) {
  for (void*& block : static_cast<Holder*>(holder)->blocks) {
    free(block);
    block = nullptr;
  }
  return nullptr;
}

__attribute__((noinline)) void Handler() {
  if (starts_threads) {
    pthread_t threads[2];
    pthread_create(&threads[0], nullptr, FreeBlocks, &global);
    pthread_create(&threads[1], nullptr, FreeBlocks, &second);
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
  }
  if (reallocates) {
    for (void*& block : global.blocks) block = realloc(block, 100);
  }
  if (!is_idle) kept = malloc(777);
}

__attribute__((noinline)) void Fill(Holder* holder) {
  for (void*& block : holder->blocks) block = malloc(50000);
}

static void* ExitsHere(void*) { exit(7); }

int main(int, char** arguments) {
  const char* way = arguments[1];
  if (strcmp(way, "fork") == 0) {
    const pid_t child = fork();
    if (child != 0) {
      int status = 0;
      waitpid(child, &status, 0);
      _exit(WEXITSTATUS(status));
    }
  }
  atexit(Handler);
  at_quick_exit([] {
    for (void*& block : global.blocks) free(block);
  });
  Fill(&global);
  is_idle = strcmp(way, "idle") == 0;
  reallocates = strcmp(way, "realloc") == 0;
  starts_threads = strcmp(way, "handler_threads") == 0;
  if (strcmp(way, "nothing") == 0 || is_idle) {
    frees = false;
  } else if (starts_threads || reallocates) {
    Fill(&second);
  } else {
    Fill(&of_thread);  // libc keeps a record of the destructor, and frees it
  }
  write(1, "ready\n", 6);
  char line[16];
  read(0, line, sizeof line);
  if (strcmp(way, "exit") == 0) exit(7);
  if (strcmp(way, "quick_exit") == 0) quick_exit(7);
  if (strcmp(way, "_exit") == 0) _exit(7);
  if (strcmp(way, "thread") == 0) {
    pthread_t thread;
    pthread_create(&thread, nullptr, ExitsHere, nullptr);
    pthread_join(thread, nullptr);
  }
  return 7;
}
