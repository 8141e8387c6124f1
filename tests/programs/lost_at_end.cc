// Loses some blocks (lose_blocks: 50 of 1,000 bytes; lose_list: 40 of 200 bytes, one of them direct), keeps others, and
// ends in the way that its argument names.
//
//   none                          loses nothing
//   return exit _exit quick_exit abort kill status
//   fork                          a child loses blocks (lose_blocks alone), the parent none
//   exec                          loses blocks, then executes itself with `none`
//   threads                       two threads hold a block each, only on their stack: one sleeps, one runs
//   wait                          prints "ready", and waits for the end of its input or a signal
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>

void* kept_blocks[20];

namespace {

struct Link {
  Link* next;
  char payload[192];
};

__attribute__((noinline)) void lose_blocks() {
  for (int i = 0; i < 50; ++i) memset(malloc(1000), 1, 1000);
}
__attribute__((noinline)) void lose_list() {
  Link* last = nullptr;
  for (int i = 0; i < 40; ++i) {
    Link* link = static_cast<Link*>(malloc(sizeof(Link)));
    link->next = last;
    last = link;
  }
}
__attribute__((noinline)) void keep_blocks() {
  for (void*& block : kept_blocks) block = malloc(500);
}
__attribute__((noinline)) void lose() {
  lose_blocks();
  lose_list();
}
// Overwrites what the calls above left on the stack.
__attribute__((noinline)) void clear_stack() {
  volatile char bytes[16 << 10];
  for (volatile char& byte : bytes) byte = 0;
}

std::atomic<int> ready{0};
void* hold_while_asleep(void*) {
  void* volatile block = malloc(700);
  ++ready;
  while (true) pause();
  return block;
}
void* hold_while_running(void*) {
  void* volatile block = malloc(800);
  ++ready;
  while (true) ++ready;
  return block;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "none";
  keep_blocks();
  if (how == "fork") {
    pid_t child = fork();
    if (child == 0) {
      lose_blocks();
      clear_stack();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return 0;
  }
  if (how == "threads") {
    pthread_t thread;
    pthread_create(&thread, nullptr, hold_while_asleep, nullptr);
    pthread_create(&thread, nullptr, hold_while_running, nullptr);
    while (ready < 2) usleep(100);
    return 0;
  }
  if (how != "none") lose();
  clear_stack();
  if (how == "wait") {
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
  }
  if (how == "exit") exit(0);
  if (how == "_exit") _exit(0);
  if (how == "quick_exit") quick_exit(0);
  if (how == "abort") abort();
  if (how == "kill") kill(getpid(), SIGKILL);
  if (how == "status") return 3;
  if (how == "exec") execl(argv[0], argv[0], "none", nullptr);
  return 0;
}
