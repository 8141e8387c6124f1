// Functions that leave with a tail call before the callee allocates or unlocks, so none of them has a frame by then. Each
// way allocates its own size, and the program prints which functions the stack should have, the innermost first:
//     ways SIZE function function …
// The same file is a library, with HOLDFAST_LIBRARY_HALF.
#include <malloc.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

#if defined(__clang__)
#define KEPT extern "C" __attribute__((noinline))
#else
#define KEPT extern "C" __attribute__((noipa))
#endif

KEPT void* library_entry(size_t size, int what);
KEPT void* library_wrap(size_t size);

#ifdef HOLDFAST_LIBRARY_HALF

KEPT __attribute__((visibility("hidden"))) void* library_hidden(size_t size, int what) {
  void* made = malloc(size);
  return what == 0 ? made : nullptr;
}
void* library_entry(size_t size, int what) { return library_hidden(size, what + 0); }
void* library_wrap(size_t size) { return malloc(size); }

#else

volatile int sink;
std::mutex slow_mutex;

// At the leaf: what malloc or operator new returns is returned.
KEPT void* wrap_malloc(size_t size) {
  sink = sink + 1;
  return malloc(size);
}
KEPT void* wrap_twice(size_t size) {
  sink = sink + 2;
  return wrap_malloc(size);
}
KEPT void* wrap_new(size_t size) {
  sink = sink + 3;
  return operator new(size);
}
KEPT void* uses_wrap(size_t size) {
  void* made = wrap_malloc(size);
  sink = 1;
  return made;
}
KEPT void* uses_twice(size_t size) {
  void* made = wrap_twice(size);
  sink = 1;
  return made;
}
KEPT void* uses_new(size_t size) {
  void* made = wrap_new(size);
  sink = 1;
  return made;
}
// What libc makes of another function is none of the program's: the leaf is who called it by name.
KEPT void* calls_memalign(size_t size) {
  void* made = memalign(64, size);
  sink = 1;
  return made;
}
KEPT void* calls_reallocarray(size_t size) {
  void* made = reallocarray(nullptr, 1, size);
  sink = 1;
  return made;
}
KEPT void* wrap_aligned_alloc(size_t size) {
  sink = sink + 9;
  return aligned_alloc(64, size);
}
KEPT void* uses_aligned_alloc(size_t size) {
  void* made = wrap_aligned_alloc(size);
  sink = 1;
  return made;
}
KEPT void* uses_library_wrap(size_t size) {
  void* made = library_wrap(size);
  sink = 1;
  return made;
}

// In the middle.
KEPT void* works(size_t size) {
  void* made = malloc(size);
  sink = 1;
  return made;
}
KEPT void* hands_on(size_t size) {
  sink = sink + 4;
  return works(size);
}
KEPT void* hands_on_again(size_t size) {
  sink = sink + 5;
  return hands_on(size);
}
KEPT void* uses_middle(size_t size) {
  void* made = hands_on_again(size);
  sink = 1;
  return made;
}
KEPT void* uses_library(size_t size) {
  void* made = library_entry(size, 0);
  sink = 1;
  return made;
}

// Two ways that lead to the same function: only where they begin is known.
KEPT void* one_way(size_t size) {
  sink = sink + 6;
  return works(size);
}
KEPT void* other_way(size_t size) {
  sink = sink + 7;
  return works(size);
}
KEPT void* either(size_t size) {
  if (sink % 2 == 0) return one_way(size);
  return other_way(size);
}
KEPT void* uses_either(size_t size) {
  void* made = either(size);
  sink = 1;
  return made;
}

// By a virtual function: who was called is known, whom it called is not.
struct Worker {
  virtual ~Worker() = default;
  virtual void* Work(size_t size) = 0;
};
struct Allocates : Worker {
  void* Work(size_t size) override;
};
__attribute__((noinline)) void* Allocates::Work(size_t size) {
  void* made = works(size);
  sink = 1;
  return made;
}
KEPT void* asks_worker(Worker* worker, size_t size) {
  sink = sink + 8;
  return worker->Work(size);
}
KEPT void* uses_worker(Worker* worker, size_t size) {
  void* made = asks_worker(worker, size);
  sink = 1;
  return made;
}

// By a pointer in memory, `jmp *factory(%rip)`: to a function with a frame, to one that leaves as well, and behind another
// function that has left. What a pointer leads to is not known, so nothing is put back after it.
void* (*factory)(size_t) = works;
void* (*leaf_factory)(size_t) = wrap_malloc;
KEPT void* by_factory(size_t size) { return factory(size); }
KEPT void* by_leaf_factory(size_t size) { return leaf_factory(size); }
KEPT void* goes_to_factory(size_t size) {
  sink = sink + 10;
  return by_leaf_factory(size);
}
KEPT void* uses_factory(size_t size) {
  void* made = by_factory(size);
  sink = 1;
  return made;
}
KEPT void* uses_leaf_factory(size_t size) {
  void* made = by_leaf_factory(size);
  sink = 1;
  return made;
}
KEPT void* uses_goes_to_factory(size_t size) {
  void* made = goes_to_factory(size);
  sink = 1;
  return made;
}

// No tail call, nothing to add: a call by a pointer, a function in parts, one that calls itself.
KEPT void* by_pointer(void* (*function)(size_t), size_t size) {
  void* made = function(size);
  sink = 1;
  return made;
}
KEPT void* recurses(size_t size, int depth) {
  if (depth == 0) return by_pointer(works, size);
  void* made = recurses(size, depth - 1);
  sink = 1;
  return made;
}

// What a lock_guard at the end of a function becomes: `jmp pthread_mutex_unlock`.
volatile bool victim_arrived;
KEPT void slow_flush() {
  std::lock_guard<std::mutex> lock(slow_mutex);
  while (!victim_arrived) sched_yield();
  const timespec moment = {0, 30'000'000};
  nanosleep(&moment, nullptr);
}
KEPT void flushes() {
  slow_flush();
  sink = 1;
}

void Say(const char* what, size_t size, void* made) {
  std::printf("ways %zu %s\n", size, what);
  std::free(made);
}

int main(int argc, char**) {
  if (argc > 1) factory = leaf_factory = uses_wrap;  // no compiler knows them
  Say("wrap_malloc uses_wrap main", 100001, uses_wrap(100001));
  Say("wrap_malloc wrap_twice uses_twice main", 100002, uses_twice(100002));
  Say("wrap_new uses_new main", 100003, uses_new(100003));
  Say("library_wrap uses_library_wrap main", 100004, uses_library_wrap(100004));
  Say("works hands_on hands_on_again uses_middle main", 100005, uses_middle(100005));
  Say("library_hidden library_entry uses_library main", 100006, uses_library(100006));
  Say("works either uses_either main", 100007, uses_either(100007));
  Allocates worker;
  Say("works Allocates::Work(unsigned long) asks_worker uses_worker main", 100008, uses_worker(&worker, 100008));
  Say("works by_pointer recurses recurses main", 100009, recurses(100009, 1));
  Say("calls_memalign main", 100010, calls_memalign(100010));
  Say("calls_reallocarray main", 100011, calls_reallocarray(100011));
  Say("wrap_aligned_alloc uses_aligned_alloc main", 100012, uses_aligned_alloc(100012));
  Say("works by_factory uses_factory main", 100013, uses_factory(100013));
  Say("by_leaf_factory uses_leaf_factory main", 100014, uses_leaf_factory(100014));
  Say("by_leaf_factory goes_to_factory uses_goes_to_factory main", 100015, uses_goes_to_factory(100015));
  std::thread victim([] {
    while (slow_mutex.try_lock()) slow_mutex.unlock();  // until it is held
    victim_arrived = true;
    slow_mutex.lock();
    slow_mutex.unlock();
  });
  flushes();
  victim.join();
}

#endif
