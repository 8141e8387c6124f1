// A large profile: call paths that branch as in real programs, blocks that stay, threads that stay.
//     many_stacks STACKS DEPTH LIVE THREADS
// Prints "ready", waits for its input to end. For --heap-interval 1: each path then allocates once in each of its turns, and
// LIVE blocks in total stay allocated.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "known.h"

namespace {

constexpr int kFunctions = 64;
std::vector<void*> kept;
size_t kept_count;

template <int I>
__attribute__((noinline)) void Call(uint64_t path, int depth, size_t bytes);

template <int... I>
void Next(uint64_t path, int depth, size_t bytes, int which, std::integer_sequence<int, I...>) {
  using Function = void (*)(uint64_t, int, size_t);
  static constexpr Function functions[] = {&Call<I>...};
  functions[which % kFunctions](path, depth, bytes);
}

// Two ways to go on at two frames of three, one at the others: 17 choices in 30 frames, 131,072 paths.
template <int I>
void Call(uint64_t path, int depth, size_t bytes) {
  if (depth == 0) {
    void* block = malloc(bytes);
    if (kept_count < kept.size())
      kept[kept_count++] = block;
    else
      free(block);
  } else {
    const bool branches = depth % 3 < 2;
    const int which = depth * 2 + (branches ? static_cast<int>(path & 1) : 0);
    Next(branches ? path >> 1 : path, depth - 1, bytes, which, std::make_integer_sequence<int, kFunctions>());
  }
  asm volatile("");  // no tail call
}

void* Thread(void* barrier) {
  Use(malloc(100));
  pthread_barrier_wait(static_cast<pthread_barrier_t*>(barrier));
  pause();
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const long stacks = atol(argv[1]), live = atol(argv[3]), threads = atol(argv[4]);
  const int depth = atoi(argv[2]);
  kept.resize(static_cast<size_t>(live));
  const int others = 3;  // main, its caller and that one's
  for (long i = 0; i < stacks || kept_count < kept.size(); ++i) {
    // The fewest bits of the path are its innermost choices: neighbours share what is outside.
    uint64_t path = 0;
    for (int bit = 0; bit < 17; ++bit) path |= static_cast<uint64_t>(i % stacks >> bit & 1) << (16 - bit);
    Call<0>(path, depth - others - 1, 48);
  }
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, static_cast<unsigned>(threads) + 1);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  for (long i = 0; i < threads; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &small, Thread, &barrier) != 0) return 3;
  }
  pthread_barrier_wait(&barrier);
  printf("ready\n");
  fflush(stdout);
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  return 0;
}
