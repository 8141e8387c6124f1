// Exceptions with known throwers and types.
//
//     throws FUNCTION TYPE rethrow count       TYPE: without blanks; rethrow: yes or -
//
// known_throws [RATE [THREADS]]: only throws, RATE in each of THREADS threads, as fast as possible; prints the time taken.
// known_throws handler: only throws in a signal handler, about 500 per second.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "known.h"

#define NOINLINE __attribute__((noinline, noclone))

namespace app {
struct Refused {
  int code;
};
template <typename T>
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};
}  // namespace app

static void Say(const char* function, const char* type, const char* rethrow, long count) {
  printf("throws %s %s %s %ld\n", function, type, rethrow, count);
}

extern "C" {
NOINLINE void refuses(int code) { throw app::Refused{code}; }
NOINLINE void is_wrong() { throw app::Wrong<long>("no"); }
NOINLINE void throws_on() {
  try {
    refuses(2);
  } catch (...) {
    throw;
  }
}
NOINLINE void throws_stored(const std::exception_ptr& stored) { std::rethrow_exception(stored); }
NOINLINE void throws_stored_on(const std::exception_ptr& stored) {
  try {
    std::rethrow_exception(stored);
  } catch (...) {
    throw;
  }
}
NOINLINE void throws_for_rate() { throw 1; }
NOINLINE void refuses_often(int code) { throw app::Refused{code}; }
NOINLINE void throws_number() { throw 7; }
NOINLINE void throws_on_little_stack() { throw 2.5; }
}

static int cleaned = 0;
struct Cleans {
  ~Cleans() { __atomic_add_fetch(&cleaned, 1, __ATOMIC_RELAXED); }
};

// A forced unwind through C++ frames, with a catch-all that has to throw it on.
static void* IsCancelled(void* begun) {
  Cleans cleans;
  __atomic_store_n(static_cast<int*>(begun), 1, __ATOMIC_RELEASE);
  try {
    while (true) pause();
  } catch (...) {
    Cleans as_well;
    throw;
  }
}
static void* Exits(void*) {
  Cleans cleans;
  try {
    pthread_exit(nullptr);
  } catch (...) {
    throw;
  }
}
static void* ThrowsOnLittleStack(void*) {
  try {
    throws_on_little_stack();
  } catch (double value) {
    if (value != 2.5) abort();
  }
  return nullptr;
}

static long often = 0;
static volatile sig_atomic_t handled = 0;
static void ThrowsInHandler(int) {
  try {
    throws_number();
  } catch (int value) {
    if (value != 7) abort();
    handled = handled + 1;
  }
}

// As Rust's and other runtimes do it: the unwinder, called directly, and a frame that catches whatever comes.
struct Unwinding {
  unsigned long language;
  void (*clean)(int, Unwinding*);
  unsigned long own[2];
} __attribute__((aligned(16)));
extern "C" int _Unwind_RaiseException(Unwinding*);
extern "C" int _Unwind_Resume_or_Rethrow(Unwinding*);
extern "C" {
NOINLINE void panics(const char* letters) {
  static thread_local Unwinding raised;
  memset(&raised, 0, sizeof raised);
  for (int i = 0; i < 8; ++i) raised.language = raised.language << 8 | static_cast<unsigned char>(letters[i]);
  raised.clean = [](int, Unwinding*) {};
  _Unwind_RaiseException(&raised);
  abort();
}
}
extern "C" NOINLINE void resumes() {
  static thread_local Unwinding raised;
  memset(&raised, 0, sizeof raised);
  raised.language = 0x4f54485200000000;  // OTHR
  raised.clean = [](int, Unwinding*) {};
  try {
    _Unwind_RaiseException(&raised);
  } catch (...) {
    _Unwind_Resume_or_Rethrow(&raised);
  }
  abort();
}
static void ResumesForeign() {
  try {
    resumes();
  } catch (...) {
    return;
  }
  abort();
}
static void CatchesForeign(const char* language) {
  try {
    panics(language);
  } catch (...) {
    return;
  }
  abort();
}

static long Seconds(int rate) {
  timespec start, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
  for (int i = 0; i < rate; ++i) {
    try {
      throws_for_rate();
    } catch (int) {
    }
  }
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return (end.tv_sec - start.tv_sec) * 1000000000L + end.tv_nsec - start.tv_nsec;
}

// Interrupts a loop in which each iteration is sampled.
static int InHandler() {
  signal(SIGALRM, ThrowsInHandler);
  const itimerval soon = {{0, 2000}, {0, 2000}}, never = {};
  setitimer(ITIMER_REAL, &soon, nullptr);
  while (handled < 400) munmap(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
  setitimer(ITIMER_REAL, &never, nullptr);
  Say("throws_number", "int", "-", handled);
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "handler") == 0) return InHandler();
  if (argc > 1) {
    const int rate = atoi(argv[1]), count = argc > 2 ? atoi(argv[2]) : 1;
    std::vector<std::thread> threads;
    for (int i = 1; i < count; ++i) threads.emplace_back([rate] { Seconds(rate); });
    const long ns = Seconds(rate);
    for (std::thread& thread : threads) thread.join();
    Say("throws_for_rate", "int", "-", static_cast<long>(rate) * count);
    printf("took %ld ns\n", ns / rate);
    return 0;
  }
  for (int i = 0; i < 30; ++i) {
    try {
      refuses(1);
    } catch (const app::Refused& refused) {
      if (refused.code != 1) abort();
    }
  }
  for (int i = 0; i < 20; ++i) {
    try {
      is_wrong();
    } catch (const std::exception& error) {
      if (strcmp(error.what(), "no") != 0) abort();
    }
  }
  for (int i = 0; i < 10; ++i) {
    try {
      throws_on();
    } catch (const app::Refused& refused) {
      if (refused.code != 2) abort();
    }
  }
  Say("refuses", "app::Refused", "-", 40);
  Say("is_wrong", "app::Wrong<long>", "-", 20);
  Say("throws_on", "app::Refused", "yes", 10);

  const std::exception_ptr stored = std::make_exception_ptr(app::Refused{3});
  for (int i = 0; i < 5; ++i) {
    try {
      throws_stored(stored);
    } catch (const app::Refused& refused) {
      if (refused.code != 3) abort();
    }
  }
  Say("throws_stored", "app::Refused", "yes", 5);

  for (int i = 0; i < 6; ++i) CatchesForeign("MOZ\0RUST");
  Say("panics", "rust_panic", "-", 6);
  for (int i = 0; i < 4; ++i) CatchesForeign("OTHR\0\0\0\0");
  Say("panics", "foreign", "-", 4);

  for (int i = 0; i < 2; ++i) ResumesForeign();
  Say("resumes", "foreign", "-", 2);
  Say("resumes", "foreign", "yes", 2);

  // What was stored, thrown, caught, and thrown on.
  for (int i = 0; i < 2; ++i) {
    try {
      throws_stored_on(stored);
    } catch (const app::Refused& refused) {
      if (refused.code != 3) abort();
    }
  }
  Say("throws_stored_on", "app::Refused", "yes", 4);

  // None of these is an exception.
  int begun = 0;
  pthread_t thread;
  pthread_create(&thread, nullptr, IsCancelled, &begun);
  while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) == 0) usleep(1000);
  void* value = nullptr;
  pthread_cancel(thread);
  pthread_join(thread, &value);
  if (value != PTHREAD_CANCELED || cleaned != 2) abort();
  pthread_create(&thread, nullptr, Exits, nullptr);
  pthread_join(thread, nullptr);
  if (cleaned != 3) abort();
  Say("IsCancelled(void*)", "-", "-", 0);
  Say("Exits(void*)", "-", "-", 0);

  pthread_attr_t little;
  pthread_attr_init(&little);
  pthread_attr_setstacksize(&little, 16384);
  pthread_create(&thread, &little, ThrowsOnLittleStack, nullptr);
  pthread_join(thread, nullptr);
  Say("throws_on_little_stack", "double", "-", 1);

  // Many signal handlers throw and catch, and interrupt a thread that does the same.
  signal(SIGALRM, ThrowsInHandler);
  const itimerval soon = {{0, 500}, {0, 500}}, never = {};
  setitimer(ITIMER_REAL, &soon, nullptr);
  while (handled < 50) {
    ++often;
    try {
      refuses_often(4);
    } catch (const app::Refused& refused) {
      if (refused.code != 4) abort();
    }
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  Say("refuses_often", "app::Refused", "-", often);
  fflush(stdout);
  return 0;
}
