// Walks call trees at random, the same in each run. Consecutive stacks share their outer frames. Frames have frame pointers
// or not, and are left by returns and by jumps, in signal handlers, on coroutines and in threads.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

#include <utility>

#include "known.h"

namespace {

constexpr int kFunctions = 24;

struct Walker {
  uint64_t random;
  int left;
  void* kept[64] = {};
  sigjmp_buf out;
  ucontext_t caller, coroutine;
};

uint64_t Next(Walker* walker) {
  walker->random = walker->random * 6364136223846793005 + 1442695040888963407;
  return walker->random >> 33;
}

// Replaces a block that lives, so that frees come at other stacks.
__attribute__((noinline)) void Replace(Walker* walker) {
  void*& place = walker->kept[Next(walker) % 64];
  free(place);
  place = malloc(Next(walker) % 300);
  Use(place);
  --walker->left;
}

template <int I>
__attribute__((noinline)) void Grow(Walker* walker, int depth);

template <int... I>
__attribute__((noinline)) void GrowOne(Walker* walker, int depth, uint64_t which, std::integer_sequence<int, I...>) {
  using Function = void (*)(Walker*, int);
  static constexpr Function functions[] = {&Grow<I>...};
  functions[which % kFunctions](walker, depth);
}
__attribute__((noinline)) void GrowAny(Walker* walker, int depth) {
  GrowOne(walker, depth, Next(walker), std::make_integer_sequence<int, kFunctions>());
}

__thread Walker* of_this_thread;
void Handle(int) {
  Replace(of_this_thread);
  GrowAny(of_this_thread, 2);
}

void OnCoroutine() {
  for (int i = 0; i < 3; ++i) {
    GrowAny(of_this_thread, 4);
    swapcontext(&of_this_thread->coroutine, &of_this_thread->caller);
  }
}

__attribute__((noinline)) void Deep(Walker* walker, int depth) {
  if (depth > 0) {
    Deep(walker, depth - 1);
  } else {
    Replace(walker);
  }
  if (depth % 40 == 3) Replace(walker);
}

template <int I>
void Grow(Walker* walker, int depth) {
  [[maybe_unused]] volatile char of_its_own[I % 5 * 16 + 1];
  of_its_own[0] = static_cast<char>(depth);
  // By a frame pointer, as its size is not known.
  if (I % 3 == 0) Use(__builtin_alloca(Next(walker) % 64 + 1));
  Replace(walker);
  if (depth > 0 && walker->left > 0) {
    for (uint64_t children = Next(walker) % 3; children > 0; --children) GrowAny(walker, depth - 1);
    if (Next(walker) % 64 == 0) raise(SIGUSR1);
    if (Next(walker) % 512 == 0) Deep(walker, static_cast<int>(Next(walker) % 300));
    if (Next(walker) % 128 == 0) siglongjmp(walker->out, 1);
  }
  of_its_own[0] = 1;
}

void* Walk(void* walker_of_thread) {
  auto* walker = of_this_thread = static_cast<Walker*>(walker_of_thread);
  void* stack = malloc(64 << 10);
  for (volatile bool on_coroutine = false; walker->left > 0; on_coroutine = !on_coroutine) {
    if (sigsetjmp(walker->out, 1) != 0) continue;
    if (!on_coroutine) {
      for (int i = 0; i < 20; ++i) GrowAny(walker, 20);
    } else {
      getcontext(&walker->coroutine);
      walker->coroutine.uc_stack.ss_sp = stack;
      walker->coroutine.uc_stack.ss_size = 64 << 10;
      makecontext(&walker->coroutine, OnCoroutine, 0);
      for (int i = 0; i < 3; ++i) swapcontext(&walker->caller, &walker->coroutine);
    }
  }
  free(stack);
  for (void*& block : walker->kept) free(std::exchange(block, nullptr));
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGUSR1, Handle);
  static Walker walkers[2];
  const int count = argc > 1 ? atoi(argv[1]) : 4'000;
  pthread_t thread;
  for (int i = 0; i < 2; ++i) {
    walkers[i].random = static_cast<uint64_t>(i) + 1;
    walkers[i].left = count;
  }
  pthread_create(&thread, nullptr, Walk, &walkers[1]);
  Walk(&walkers[0]);
  pthread_join(thread, nullptr);
  return 0;
}
