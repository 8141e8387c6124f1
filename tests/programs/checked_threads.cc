// 16 threads allocate, write, check, resize and free blocks, with locks and vector registers. 2 of them run all the time,
// the others wait for these; with the argument "waiting", until the end. Each line on standard input is answered with the
// mistakes so far. For tests of attach.
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace {

constexpr int kThreads = 16, kRunning = 2;

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
long turn = 0;
std::atomic<long> rounds, mistakes;
std::atomic<bool> is_over;
bool others_wait = false;

struct Block {
  uint8_t* bytes;
  size_t size;
  uint32_t seed;

  void Fill(size_t from) const {
    for (size_t i = from; i < size; ++i) bytes[i] = static_cast<uint8_t>(seed + i);
  }
  void Check() const {
    for (size_t i = 0; i < size; ++i) {
      if (bytes[i] == static_cast<uint8_t>(seed + i)) continue;
      ++mistakes;
      return;
    }
  }
};

// The same products in registers that a switch to another context must keep.
void CheckVectors([[maybe_unused]] double start) {
#if defined(__x86_64__)
  __m128d one = _mm_set1_pd(start), other = one;
  const __m128d factor = _mm_set1_pd(1.0000001);
  for (int i = 0; i < 50; ++i) one = _mm_mul_pd(one, factor);
  for (int i = 0; i < 50; ++i) other = _mm_mul_pd(other, factor);
  if (memcmp(&one, &other, sizeof one) != 0) ++mistakes;
#endif
}

void TakeTurn(long thread) {
  pthread_mutex_lock(&mutex);
  if (thread < kRunning) {
    if (++turn % 64 == 0) pthread_cond_broadcast(&turn_changed);
  } else {
    for (const long before = turn; (others_wait || turn == before) && !is_over;)
      pthread_cond_wait(&turn_changed, &mutex);
  }
  pthread_mutex_unlock(&mutex);
}

void* Work(void* given) {
  const long thread = reinterpret_cast<long>(given);
  auto random = static_cast<uint32_t>(thread * 77 + 1);
  std::vector<Block> live;
  while (!is_over) {
    random = random * 1664525 + 1013904223;
    const size_t size = 16 + (random >> 8) % 3000;
    if (live.size() < 200) {
      live.push_back({static_cast<uint8_t*>(malloc(size)), size, random});
      live.back().Fill(0);
    }
    Block& block = live[(random >> 3) % live.size()];
    block.Check();
    if ((random & 1024) != 0 || block.size > 100'000) {
      free(block.bytes);
      block = live.back();
      live.pop_back();
    } else if ((random & 2048) != 0) {
      const size_t before = block.size;
      block.size += 64;
      block.bytes = static_cast<uint8_t*>(realloc(block.bytes, block.size));
      block.Fill(before);
    }
    TakeTurn(thread);
    CheckVectors(1.5 + static_cast<double>(thread));
    char* copy = strdup("a copy made by libc");
    if (strcmp(copy, "a copy made by libc") != 0) ++mistakes;
    free(copy);
    delete[] new char[100];
    ++rounds;
  }
  for (const Block& block : live) {
    block.Check();
    free(block.bytes);
  }
  return nullptr;
}

}  // namespace

int main(int argc, char**) {
  others_wait = argc > 1;
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; ++i) pthread_create(&threads[i], nullptr, Work, reinterpret_cast<void*>(i));
  setvbuf(stdin, nullptr, _IONBF, 0);
  printf("ready\n");
  fflush(stdout);
  char line[100];
  for (int lines = 1; fgets(line, sizeof line, stdin) != nullptr; ++lines) {
    const long before = rounds;
    while (rounds == before) {
    }
    printf("line %d: %ld mistakes\n", lines, mistakes.load());
    fflush(stdout);
  }
  is_over = true;
  pthread_mutex_lock(&mutex);
  pthread_cond_broadcast(&turn_changed);
  pthread_mutex_unlock(&mutex);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  printf("end: %ld mistakes\n", mistakes.load());
  return mistakes == 0 ? 0 : 1;
}
