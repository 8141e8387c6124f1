// Threads that can never be woken, called lost_…, beside others that can, called kept_…. Prints "ready" once all of them
// wait, and then waits for the end of its input. With an argument: only the kept ones.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace {

struct Gate {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  sem_t semaphore;
  bool is_open = false;
  Gate() { sem_init(&semaphore, 0, 0); }
};

// ---- Threads ----

void* wait_for_condition(void* given) {
  auto* gate = static_cast<Gate*>(given);
  pthread_mutex_lock(&gate->mutex);
  while (!gate->is_open) pthread_cond_wait(&gate->condition, &gate->mutex);
  return nullptr;
}
void* wait_for_semaphore(void* given) {
  sem_wait(&static_cast<Gate*>(given)->semaphore);
  return nullptr;
}
void* wait_for_a_minute(void* given) {
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 60;
  sem_timedwait(&static_cast<Gate*>(given)->semaphore, &until);
  return nullptr;
}
void* wait_for_mutex(void* given) {
  pthread_mutex_lock(&static_cast<Gate*>(given)->mutex);
  return nullptr;
}
void* lock_and_end(void* given) {
  pthread_mutex_lock(&static_cast<Gate*>(given)->mutex);
  return nullptr;
}
void* wait_for_own_stack(void*) {
  Gate gate;
  sem_wait(&gate.semaphore);
  return nullptr;
}
void* join_other(void* given) {
  pthread_join(reinterpret_cast<pthread_t>(given), nullptr);
  return nullptr;
}
// Waits for the first gate, and would then open the second.
struct Pair {
  Gate *first, *second;
};
void* wait_and_open(void* given) {
  Pair volatile pair = *static_cast<Pair*>(given);
  delete static_cast<Pair*>(given);
  sem_wait(&pair.first->semaphore);
  sem_post(&pair.second->semaphore);
  return nullptr;
}
void* watch(void* given) {
  epoll_event event;
  if (epoll_wait(static_cast<int>(reinterpret_cast<intptr_t>(given)), &event, 1, -1) == 1)
    sem_post(&static_cast<Gate*>(event.data.ptr)->semaphore);
  return nullptr;
}
struct Opener {
  Gate* gate;
};
void* open_after_input(void* given) {
  Opener* volatile opener = static_cast<Opener*>(given);
  int ends[2];
  char byte;
  if (pipe(ends) == 0 && read(ends[0], &byte, 1) == 1) sem_post(&opener->gate->semaphore);
  return nullptr;
}
void* wait_for_future(void* given) {
  std::future<int> future = std::move(*static_cast<std::future<int>*>(given));
  future.wait();
  return nullptr;
}
void* wait_for_barrier(void* given) {
  pthread_barrier_wait(static_cast<pthread_barrier_t*>(given));
  return nullptr;
}

__attribute__((noinline)) pthread_t start(const char* name, void* (*run)(void*), void* argument) {
  pthread_t thread;
  pthread_create(&thread, nullptr, run, argument);
  pthread_setname_np(thread, name);
  return thread;
}
// Overwrites what calls have left on the stack.
__attribute__((noinline)) void clear_stack() {
  volatile char bytes[32 << 10];
  for (volatile char& byte : bytes) byte = 0;
}

// ---- Lost ones ----

__attribute__((noinline)) void lose_forgotten() {
  start("lost_condition", wait_for_condition, new Gate);
  start("lost_semaphore", wait_for_semaphore, new Gate);
}
__attribute__((noinline)) void lose_own_stack() { start("lost_own_stack", wait_for_own_stack, nullptr); }
__attribute__((noinline)) void lose_owner() {
  Gate* gate = new Gate;
  pthread_join(start("ends", lock_and_end, gate), nullptr);
  start("lost_mutex", wait_for_mutex, gate);
}
__attribute__((noinline)) void lose_producer() {
  auto* promise = new std::promise<int>;
  start("lost_future", wait_for_future, new std::future<int>(promise->get_future()));
}
__attribute__((noinline)) void lose_cycle() {
  Gate *first = new Gate, *second = new Gate;
  const pthread_t thread = start("lost_cycle_a", wait_and_open, new Pair{first, second});
  start("lost_cycle_b", wait_and_open, new Pair{second, first});
  start("lost_join", join_other, reinterpret_cast<void*>(thread));
}
// Returns a hidden pointer.
__attribute__((noinline)) uintptr_t lose_freed() {
  Gate* gate = new Gate;
  start("lost_freed", wait_for_semaphore, gate);
  return ~reinterpret_cast<uintptr_t>(gate);
}

// ---- Others ----

Gate* queue_gate;
std::deque<std::function<void()>> tasks;
std::mutex tasks_mutex;
std::condition_variable tasks_added;
std::vector<std::promise<int>> promises;
pthread_barrier_t* barrier;

void work() {
  pthread_setname_np(pthread_self(), "kept_pool");
  std::unique_lock<std::mutex> lock(tasks_mutex);
  tasks_added.wait(lock, [] { return !tasks.empty(); });
}
__attribute__((noinline)) void keep_in_variables() {
  queue_gate = new Gate;
  start("kept_queue", wait_for_condition, queue_gate);
  std::thread(work).detach();
  static std::vector<std::thread> pool;
  pool.emplace_back(work);
  promises.emplace_back();
  start("kept_future", wait_for_future, new std::future<int>(promises.back().get_future()));
  barrier = static_cast<pthread_barrier_t*>(malloc(sizeof *barrier));
  pthread_barrier_init(barrier, nullptr, 2);
  start("kept_barrier", wait_for_barrier, barrier);
}
__attribute__((noinline)) void keep_by_time() { start("kept_timed", wait_for_a_minute, new Gate); }
__attribute__((noinline)) void keep_by_threads() {
  // A thread that waits for a variable would open the gate; another one, after its input, through a block of its own.
  Gate *last = new Gate, *next = new Gate;
  start("kept_chain", wait_and_open, new Pair{queue_gate, last});
  start("kept_last", wait_for_semaphore, last);
  start("kept_reader", open_after_input, new Opener{next});
  start("kept_by_reader", wait_for_semaphore, next);
  start("kept_join", join_other, reinterpret_cast<void*>(start("kept_own", open_after_input, new Opener{nullptr})));
}
__attribute__((noinline)) void keep_in_kernel() {
  Gate* gate = new Gate;
  int ends[2];
  const int watched = epoll_create1(0);
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.ptr = gate;
  if (pipe(ends) != 0 || epoll_ctl(watched, EPOLL_CTL_ADD, ends[0], &event) != 0) abort();
  start("kept_watcher", watch, reinterpret_cast<void*>(static_cast<intptr_t>(watched)));
  start("kept_by_epoll", wait_for_semaphore, gate);

  Gate* of_timer = new Gate;
  sigevent notice = {};
  notice.sigev_notify = SIGEV_SIGNAL;
  notice.sigev_signo = SIGRTMIN;
  notice.sigev_value.sival_ptr = of_timer;
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &notice, &timer) != 0) abort();
  start("kept_by_timer", wait_for_semaphore, of_timer);
}
__attribute__((noinline)) void keep_in_shared_memory() {
  void* memory = mmap(nullptr, sizeof(Gate), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Gate* gate = new (memory) Gate;
  sem_init(&gate->semaphore, 1, 0);
  start("kept_shared", wait_for_semaphore, gate);
}

// Waits until all threads but this one sleep.
void await_sleep() {
  for (bool all = false; !all;) {
    usleep(1000);
    all = true;
    FILE* list = popen("grep -L '^State:.*sleeping' /proc/$PPID/task/*/status | wc -l", "r");
    int running = 0;
    if (list == nullptr || fscanf(list, "%d", &running) != 1 || running > 0) all = false;
    if (list != nullptr) pclose(list);
  }
}

}  // namespace

int main(int argc, char**) {
  setvbuf(stdout, nullptr, _IONBF, 0);
  keep_in_variables();
  keep_by_time();
  keep_by_threads();
  keep_in_kernel();
  keep_in_shared_memory();
  if (argc == 1) {
    lose_forgotten();
    lose_own_stack();
    lose_owner();
    lose_producer();
    lose_cycle();
    const uintptr_t freed = lose_freed();
    await_sleep();
    delete reinterpret_cast<Gate*>(~freed);
  }
  await_sleep();
  clear_stack();
  write(1, "ready\n", 6);
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  _exit(0);
}
