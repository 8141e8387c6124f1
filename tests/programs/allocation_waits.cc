// Finds out whether allocations block: allocates and frees repeatedly, and reads the clock each time.
//     allocation_waits STACKS LIVE
// First builds a large profile (exactly STACKS call paths, LIVE blocks that stay; for --heap-interval 1) and prints "ready".
// Then works until its input ends. For each input line it prints what happened since the previous one:
//     allocations N blocked N longest_blocked_ns N longest_ns N preempted N answer K
// blocked: allocations in which the thread gave up its processor voluntarily, so it waited in the kernel. longest_ns: the
// longest allocation without such a wait and without preemption: its own work, spinning, interrupts, and on a virtual
// machine the time that the host took. preempted: allocations excluded from longest_ns.
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "known.h"

namespace {

constexpr int kFunctions = 16;
constexpr int kDepth = 24;

template <int I>
__attribute__((noinline)) void* Call(uint64_t path, int depth, size_t bytes);

template <int... I>
void* Next(uint64_t path, int depth, size_t bytes, std::integer_sequence<int, I...>) {
  using Function = void* (*)(uint64_t, int, size_t);
  static constexpr Function functions[] = {&Call<I>...};
  return functions[path % kFunctions](path / 2, depth, bytes);
}

template <int I>
void* Call(uint64_t path, int depth, size_t bytes) {
  void* block =
      depth == 0 ? malloc(bytes) : Next(path, depth - 1, bytes, std::make_integer_sequence<int, kFunctions>());
  asm volatile("");  // no tail call
  return block;
}

int64_t Now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
}

struct Since {
  uint64_t allocations = 0, blocked = 0, preempted = 0;
  int64_t longest_blocked_ns = 0, longest_ns = 0;
};

// By the path, so that after one turn over all of them nothing is new to a profiler. One in 64 is so large that the
// allocator maps it.
size_t BytesOf(uint64_t path) { return path % 64 == 0 ? 256 << 10 : 16 + path * 7919 % 1008; }

// What took less is not looked at more closely: it is under any bound that is asked for.
constexpr int64_t kLongNs = 10'000;

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const uint64_t stacks = strtoull(argv[1], nullptr, 10);
  std::vector<void*> kept(strtoull(argv[2], nullptr, 10));
  const uint64_t filled = std::max<uint64_t>(stacks, kept.size()), ready = filled + stacks;
  Since since;
  int answers = 0;
  rusage before;
  // One loop, so that the call paths, which begin with its one call, are the same in all its parts.
  for (uint64_t turn = 0;; ++turn) {
    const uint64_t path = turn % stacks;
    const int64_t start = Now();
    void* block = Call<0>(path, kDepth, turn < filled ? 48 : BytesOf(path));
    Use(block);
    if (turn < kept.size())
      kept[turn] = block;
    else
      free(block);
    const int64_t took = Now() - start;
    if (turn < ready) continue;
    if (turn == ready) {
      printf("ready\n");
      fflush(stdout);
      fcntl(0, F_SETFL, O_NONBLOCK);
      getrusage(RUSAGE_THREAD, &before);
    }
    ++since.allocations;
    if (took >= kLongNs) {
      rusage now;
      getrusage(RUSAGE_THREAD, &now);
      if (now.ru_nvcsw != before.ru_nvcsw) {
        ++since.blocked;
        since.longest_blocked_ns = std::max(since.longest_blocked_ns, took);
      } else if (now.ru_nivcsw != before.ru_nivcsw) {
        ++since.preempted;
      } else {
        since.longest_ns = std::max(since.longest_ns, took);
      }
      before = now;
    }
    if (turn % 256 != 0) continue;
    char byte;
    const ssize_t got = read(0, &byte, 1);
    if (got == 0) return 0;
    if (got == 1 && byte == '\n') {
      printf("allocations %lu blocked %lu longest_blocked_ns %ld longest_ns %ld preempted %lu answer %d\n",
             since.allocations, since.blocked, since.longest_blocked_ns, since.longest_ns, since.preempted, ++answers);
      fflush(stdout);
      since = {};
      getrusage(RUSAGE_THREAD, &before);
    }
  }
}
