// Holds 100 blocks of 50,000 bytes in a global object, as many in a thread_local one, and frees all of them at exit.
//
//     freed_at_exit return|exit|quick_exit|_exit|thread|fork|nothing
//
// `thread`: another thread calls exit. `fork`: a child does what `return` does, and its parent frees nothing. `nothing`:
// only the global object, and exit handlers that free nothing. The exit handler allocates one block of 777 bytes from
// Handler(). After all allocations, the program prints "ready" and waits for a line of input, or its end.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool frees = true;

struct Holder {
  static constexpr int kBlocks = 100;
  void* blocks[kBlocks] = {};
  ~Holder() {
    if (!frees) return;
    for (void* block : blocks) free(block);
  }
};

static Holder global;
static thread_local Holder of_thread;
static void* kept;

__attribute__((noinline)) void Handler() { kept = malloc(777); }

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
  if (strcmp(way, "nothing") == 0) {
    frees = false;
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
