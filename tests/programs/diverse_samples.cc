// Takes 10,000 samples on 10,000 different stacks between two calls of getppid, which strace can see. Before that, takes as many
// on other stacks, so that the unwind rows of the functions are known. Frees each block at once, so that the allocator makes no
// system calls. With counting_loader.so below, prints how often the dynamic linker and libc's locks were called in between.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <utility>

#include "known.h"

namespace {

constexpr int kFunctions = 64;

template <int I>
__attribute__((noinline)) void Call(uint64_t path, int depth);

template <int... I>
void Next(uint64_t path, int depth, int which, std::integer_sequence<int, I...>) {
  using Function = void (*)(uint64_t, int);
  static constexpr Function functions[] = {&Call<I>...};
  functions[which % kFunctions](path, depth);
}

template <int I>
void Call(uint64_t path, int depth) {
  if (depth == 0) {
    void* block = malloc(64);
    Use(block);
    free(block);
  } else {
    Next(path * 6364136223846793005u + 1442695040888963407u, depth - 1, static_cast<int>(path >> 40),
         std::make_integer_sequence<int, kFunctions>());
  }
  asm volatile("");  // no tail call
}

void Samples(uint64_t first) {
  for (uint64_t i = first; i < first + 10'000; ++i) Call<0>(i * 0x9e3779b97f4a7c15u, 26);
}

}  // namespace

int main() {
  Samples(1);
  auto* counted = reinterpret_cast<long (*)()>(dlsym(RTLD_DEFAULT, "CountedCalls"));
  const long before = counted != nullptr ? counted() : 0;
  getppid();
  Samples(100'000);
  getppid();
  if (counted != nullptr) printf("calls %ld\n", counted() - before);
  return 0;
}
