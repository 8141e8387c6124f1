// Threads that have names, change them, and are named by others, one case per argument. Prints what the profile must
// contain: "expect KEY=VALUE,… objects bytes objects-in-use bytes-in-use", for the blocks of serve().
#include <holdfast.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

extern "C" __attribute__((noinline)) void* serve(size_t bytes) {
  void* block = malloc(bytes);
  __asm__ volatile("" : : "r"(block) : "memory");
  return block;
}

namespace {

void Serve(int times, size_t bytes) {
  for (int i = 0; i < times; ++i) free(serve(bytes));
}

std::atomic<int> step{0};
void Await(int wanted) {
  while (step.load() < wanted) usleep(100);
}

void Run(void* (*function)(void*), void* argument = nullptr) {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, function, argument) != 0) abort();
  pthread_join(thread, nullptr);
}

// By itself, by each way that there is; by another thread; a name that is given again.
void* Renamed(void* /*argument*/) {
  pthread_setname_np(pthread_self(), "alpha");
  Serve(1000, 10);
  prctl(PR_SET_NAME, "beta");
  Serve(500, 20);
  step = 1;
  Await(2);
  Serve(500, 30);  // gamma
  pthread_setname_np(pthread_self(), "alpha");
  Serve(100, 40);
  return nullptr;
}
void Renames() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, Renamed, nullptr) != 0) abort();
  Await(1);
  if (pthread_setname_np(thread, "gamma") != 0) abort();
  step = 2;
  pthread_join(thread, nullptr);
  Serve(10, 1000);
  puts("expect thread=alpha 1100 14000 0 0");
  puts("expect thread=beta 500 10000 0 0");
  puts("expect thread=gamma 500 15000 0 0");
  puts("expect thread=thread_labels 10 10000 0 0");
}

// By another thread, again and again, in a loop: all from one place in the code.
void* Called(void* /*argument*/) {
  for (int turn = 1; turn < 8; turn += 2) {
    Await(turn);
    Serve(1000, 100);
    step = turn + 1;
  }
  return nullptr;
}
void IsCalled() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, Called, nullptr) != 0) abort();
  for (int turn = 1; turn < 8; turn += 2) {
    const char name[] = {static_cast<char>('a' + turn), '\0'};
    if (pthread_setname_np(thread, name) != 0) abort();
    step = turn;
    Await(turn + 1);
  }
  pthread_join(thread, nullptr);
}

// Beside labels of the program's own, which it hands from thread to thread, and one that is called as ours is.
uint32_t handed;
void* Labelled(void* /*argument*/) {
  pthread_setname_np(pthread_self(), "second");
  holdfast_set_labels(handed);
  Serve(300, 10);
  holdfast_set_labels(0);
  Serve(200, 10);
  return nullptr;
}
void Labels() {
  pthread_setname_np(pthread_self(), "first");
  Serve(10, 10);
  holdfast_label("tenant", "acme");
  handed = holdfast_label("thread", "mine");
  Serve(100, 10);
  handed = holdfast_label("\x01thread", "nobody");
  Run(Labelled);
  puts("expect thread=first 10 100 0 0");
  puts("expect label_thread=mine,tenant=acme,thread=first 100 1000 0 0");
  puts("expect label_thread=mine,tenant=acme,thread=second 300 3000 0 0");
  puts("expect thread=second 200 2000 0 0");
}

// More names than there is room for, one after the other.
void* Worker(void* number) {
  char name[16];
  snprintf(name, sizeof name, "worker-%d", static_cast<int>(reinterpret_cast<size_t>(number)));
  pthread_setname_np(pthread_self(), name);
  Serve(10, 100);
  return nullptr;
}
void Many() {
  for (size_t i = 0; i < 200; ++i) Run(Worker, reinterpret_cast<void*>(i));
}
// The names differ in more than a number.
void* Different(void* number) {
  char name[16];
  snprintf(name, sizeof name, "%c%c-task", static_cast<int>('a' + reinterpret_cast<size_t>(number) / 26),
           static_cast<int>('a' + reinterpret_cast<size_t>(number) % 26));
  pthread_setname_np(pthread_self(), name);
  Serve(10, 100);
  return nullptr;
}
void AllDifferent() {
  for (size_t i = 0; i < 300; ++i) Run(Different, reinterpret_cast<void*>(i));
}

void* Forks(void* /*argument*/) {
  pthread_setname_np(pthread_self(), "forker");
  Serve(100, 10);
  const pid_t child = fork();
  if (child == 0) {
    Serve(50, 10);
    pthread_setname_np(pthread_self(), "child");
    Serve(25, 10);
    exit(0);
  }
  waitpid(child, nullptr, 0);
  Serve(100, 10);
  return nullptr;
}
void Forked() {
  Run(Forks);
  puts("expect thread=forker 250 2500 0 0");
  puts("expect thread=child 25 250 0 0");
}

// Waits for a line, so that its threads can be looked at.
void* Thrower(void* /*argument*/) {
  pthread_setname_np(pthread_self(), "thrower");
  for (int i = 0; i < 120; ++i) {
    try {
      throw i;
    } catch (int) {
    }
    usleep(2000);
  }
  puts("ready");
  fflush(stdout);
  char line[10];
  fgets(line, sizeof line, stdin);
  return nullptr;
}
void Throws() { Run(Thrower); }

// Each kind of sample.
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
void* Nothing(void* argument) { return argument; }
void* Holder(void* /*argument*/) {
  pthread_setname_np(pthread_self(), "holder");
  pthread_mutex_lock(&lock);
  step = 1;
  usleep(100'000);
  pthread_mutex_unlock(&lock);
  return nullptr;
}
void* Waiter(void* /*argument*/) {
  pthread_setname_np(pthread_self(), "waiter");
  Await(1);
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < 7; ++i) {
    try {
      throw i;
    } catch (int) {
    }
  }
  for (int i = 0; i < 3; ++i) Run(Nothing);
  return nullptr;
}
void Kinds() {
  pthread_t threads[2];
  if (pthread_create(&threads[0], nullptr, Holder, nullptr) != 0) abort();
  if (pthread_create(&threads[1], nullptr, Waiter, nullptr) != 0) abort();
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  const struct {
    const char* name;
    void (*run)();
  } cases[] = {{"renames", Renames}, {"labels", Labels}, {"many", Many},     {"different", AllDifferent},
               {"forked", Forked},   {"kinds", Kinds},   {"throws", Throws}, {"called", IsCalled}};
  for (const auto& one : cases) {
    if (strcmp(one.name, argv[1]) == 0) one.run();
  }
  return 0;
}
