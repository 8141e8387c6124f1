// One allocation or lock pattern over and over for a while, timed: what scripts/bench runs bare and under each profiler.
//     micro WORK SECONDS       prints "NANOSECONDS-PER-OPERATION OPERATIONS": elapsed time × threads / operations, measured
//                              once a profiler's own process has started, which has no part in an operation's cost
//   pair[.2]          malloc(64), free                                   .2: beside a second thread that does the same in
//   new[.2]           operator new(64), delete                           every other slice of the time; of the first thread
//   ring.N[.2]        one of N live blocks of 16 to 1,023 bytes freed,   then, in the slices in which both work; and, as a
//                     another allocated                                  third figure, how many times longer that is than
//   lock[.2]          an uncontended mutex, locked and unlocked          in the slices in which it works alone
//   contended.H.T     T threads lock one mutex, hold it for H ns, let go, and do as much without it
//   handoff.U         two threads on two processors: one holds a mutex for U microseconds while the other waits; the median
//                     time from the call of unlock to the waiter's return, as "nanoseconds per operation"
//   live.N            as ring.1024, while N sampled blocks are live (bare: N blocks)
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "tests/programs/own_table.h"

namespace {

struct Work {
  std::string name;
  long arguments[2] = {0, 0};
  double seconds = 1;
  bool by_turns = false;  // Lead and Follow
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
std::atomic<bool> start{false};
std::atomic<uint64_t> operations{0};
std::atomic<int> ready{0};

double Now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// A profiler that has a process of its own starts it within this time of the first event.
constexpr double kOthersStart = 0.05;

void Use(void* p) { asm volatile("" : : "r"(p) : "memory"); }

// Busy for about `ns`, without a clock: calibrated once.
double spins_per_ns = 0;
void Spin(long ns) {
  for (long i = static_cast<long>(static_cast<double>(ns) * spins_per_ns); i > 0; --i) asm volatile("" ::: "memory");
}
void Calibrate() {
  spins_per_ns = 1;
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    const double begin = Now();
    Spin(100'000);
    best = std::min(best, Now() - begin);
  }
  spins_per_ns = 100'000 / (best * 1e9);
}

// Of works by turns, what the first thread found.
std::atomic<bool> ended{false}, alone{false};
double seconds_of_one = 0, together_over_alone = 0;

double Median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

constexpr int kBatch = 2'000;

// Seconds that an operation takes, measured for so long.
template <typename One>
double SecondsOf(One& one, double seconds) {
  uint64_t done = 0;
  double now;
  const double begin = Now();
  do {
    for (int i = 0; i < kBatch; ++i) one(done + static_cast<uint64_t>(i));
    done += kBatch;
    now = Now();
  } while (now < begin + seconds);
  operations.fetch_add(done);
  return (now - begin) / static_cast<double>(done);
}

// The first thread's part: slices by turns, so that what the machine does meanwhile is on both sides.
template <typename One>
void Lead(const Work& work, One& one) {
  constexpr double kSlice = 0.004, kChange = 0.001;  // the other thread has stopped or begun
  std::vector<double> ratios, together;
  for (const double end = Now() + work.seconds; Now() < end;) {
    double took[2];
    for (const bool by_itself : {true, false}) {
      alone.store(by_itself);
      SecondsOf(one, kChange);
      took[by_itself] = SecondsOf(one, kSlice);
    }
    together.push_back(took[false]);
    ratios.push_back(took[false] / took[true]);
  }
  ended.store(true);
  seconds_of_one = Median(together);
  together_over_alone = Median(ratios);
}

template <typename One>
void Follow(One& one) {
  while (!ended.load()) {
    if (alone.load())
      usleep(100);
    else
      for (int i = 0; i < kBatch; ++i) one(static_cast<uint64_t>(i));
  }
}

// Runs `one` in batches until the time is up.
template <typename One>
void Loop(const Work& work, One one) {
  const double warm = Now() + kOthersStart;
  do {
    for (int i = 0; i < 5 * kBatch; ++i) one(i);
  } while (Now() < warm);
  const bool first = ready.fetch_add(1) == 0;
  while (!start.load()) {
  }
  if (!work.by_turns)
    SecondsOf(one, work.seconds);
  else if (first)
    Lead(work, one);
  else
    Follow(one);
}

void Ring(const Work& work, size_t blocks) {
  std::vector<void*> ring(blocks);
  uint64_t turn = 0;
  const auto one = [&](uint64_t) {
    const size_t at = turn++ * 7919 % blocks;
    free(ring[at]);
    ring[at] = malloc(16 + turn * 104729 % 1008);
    Use(ring[at]);
  };
  for (size_t i = 0; i < blocks; ++i) one(i);
  Loop(work, one);
}

void Live(const Work& work, size_t blocks) {
  holdfast::UseUpGap();
  holdfast::TableHeader* table = holdfast::OwnTable();
  const uint64_t interval = table != nullptr ? table->heap_intervals[0].interval : 0;
  std::vector<void*> live(blocks);
  if (interval > 1) holdfast::SetHeapInterval(table, 1);
  for (void*& p : live) Use(p = malloc(64));
  if (interval > 1) holdfast::SetHeapInterval(table, interval);
  Ring(work, 1024);
}

// ---- One lock handed from one thread to another ----

std::atomic<long> asked{0}, answered{0};  // rounds
double returned_at;                       // of the round that was answered last

void StayOn(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof set, &set);  // refused: the threads go where they like, and the spread grows
}

void* Waiter(void*) {
  StayOn(1);
  for (long round = 1;; ++round) {
    while (asked.load() == round - 1) {
    }
    if (asked.load() < 0) return nullptr;
    pthread_mutex_lock(&mutex);
    returned_at = Now();
    pthread_mutex_unlock(&mutex);
    answered.store(round);
  }
}

int HandOff(const Work& work) {
  StayOn(0);
  pthread_t waiter;
  if (pthread_create(&waiter, nullptr, Waiter, nullptr) != 0) return 3;
  std::vector<double> took;
  const double warm = Now() + kOthersStart, end = warm + work.seconds;
  for (long round = 1; Now() < end; ++round) {
    pthread_mutex_lock(&mutex);
    asked.store(round);
    // 2: somebody sleeps, or is about to.
    while (__atomic_load_n(&mutex.__data.__lock, __ATOMIC_RELAXED) != 2) {
    }
    for (const double until = Now() + static_cast<double>(work.arguments[0]) * 1e-6; Now() < until;) {
    }
    const double released_at = Now();
    pthread_mutex_unlock(&mutex);
    while (answered.load() != round) {
    }
    if (released_at >= warm) took.push_back(returned_at - released_at);
  }
  asked.store(-1);
  pthread_join(waiter, nullptr);
  printf("%.3f %zu\n", Median(took) * 1e9, took.size());
  return 0;
}

void* Thread(void* argument) {
  const Work& work = *static_cast<const Work*>(argument);
  const long first = work.arguments[0];
  if (work.name == "pair") {
    Loop(work, [](uint64_t) {
      void* p = malloc(64);
      Use(p);
      free(p);
    });
  } else if (work.name == "new") {
    Loop(work, [](uint64_t) {
      void* p = ::operator new(64);
      Use(p);
      ::operator delete (p, size_t{64});
    });
  } else if (work.name == "ring") {
    Ring(work, static_cast<size_t>(first));
  } else if (work.name == "live") {
    Live(work, static_cast<size_t>(first));
  } else if (work.name == "lock") {
    static thread_local pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    Loop(work, [](uint64_t) {
      pthread_mutex_lock(&own);
      pthread_mutex_unlock(&own);
    });
  } else if (work.name == "contended") {
    Loop(work, [first](uint64_t) {
      pthread_mutex_lock(&mutex);
      Spin(first);
      pthread_mutex_unlock(&mutex);
      Spin(first);
    });
  } else {
    fprintf(stderr, "micro: no work called '%s'\n", work.name.c_str());
    exit(2);
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  Work work;
  std::vector<std::string> parts(1);
  for (const char* at = argv[1]; *at != '\0'; ++at) {
    if (*at == '.')
      parts.emplace_back();
    else
      parts.back() += *at;
  }
  work.name = parts[0];
  for (size_t i = 1; i < parts.size() && i < 3; ++i) work.arguments[i - 1] = atol(parts[i].c_str());
  work.seconds = atof(argv[2]);
  if (work.name == "handoff") return HandOff(work);
  const bool has_argument = work.name == "ring" || work.name == "live" || work.name == "contended";
  const long threads = std::max(1L, work.arguments[has_argument ? 1 : 0]);
  if (work.name == "contended")
    Calibrate();
  else
    work.by_turns = threads > 1;
  std::vector<pthread_t> others(static_cast<size_t>(threads));
  for (pthread_t& thread : others) {
    if (pthread_create(&thread, nullptr, Thread, &work) != 0) return 3;
  }
  while (ready.load() != threads) usleep(1000);
  const double begin = Now();
  start.store(true);
  for (pthread_t thread : others) pthread_join(thread, nullptr);
  const double elapsed = Now() - begin;
  if (work.by_turns) {
    printf("%.3f %lu %.4f\n", seconds_of_one * 1e9, operations.load(), together_over_alone);
    return 0;
  }
  printf("%.3f %lu\n", elapsed * 1e9 * static_cast<double>(threads) / static_cast<double>(operations.load()),
         operations.load());
  return 0;
}
