// Calls every function of an allocator that is linked into the executable, in one thread or in as many as the argument
// says, checks what it gets, and says what the heap profile must hold at interval 1. With `again` it then waits for the
// end of input.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <new>

#include "known.h"

namespace {

constexpr int kCount = 200;
struct Aligned {
  alignas(64) char bytes[192];
};

int wrong = 0;

void Check(bool right) {
  if (!right) __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

}  // namespace

extern "C" {

KNOWN void* by_malloc(size_t bytes) { return malloc(bytes); }
KNOWN void* by_calloc(size_t count, size_t each) { return calloc(count, each); }
KNOWN void* by_realloc(void* block, size_t bytes) { return realloc(block, bytes); }
KNOWN void* by_posix_memalign(size_t bytes) {
  void* block = nullptr;
  Check(posix_memalign(&block, 256, bytes) == 0);
  return block;
}
KNOWN void* by_aligned_alloc(size_t bytes) { return aligned_alloc(128, bytes); }
KNOWN void* by_new(size_t bytes) { return ::operator new(bytes); }
KNOWN void* by_new_array(size_t bytes) { return ::operator new[](bytes); }
KNOWN void* by_nothrow_new(size_t bytes) { return ::operator new(bytes, std::nothrow); }
KNOWN void* by_aligned_new() { return new Aligned; }

}  // extern "C"

namespace {

size_t empty_blocks;  // mimalloc and snmalloc return a block of 0 bytes where others free

void* Work(void*) {
  for (int i = 0; i < kCount; ++i) {
    // Every other block is freed.
    const bool kept = i % 2 == 0;
    auto* bytes = static_cast<char*>(by_malloc(100));
    memset(bytes, i, 100);
    for (int k = 0; k < 100; ++k) Check(bytes[k] == static_cast<char>(i));
    if (!kept) free(bytes);
    auto* zeros = static_cast<char*>(by_calloc(7, 43));
    for (int k = 0; k < 301; ++k) Check(zeros[k] == 0);
    if (!kept) free(zeros);
    auto* grown = static_cast<char*>(by_realloc(nullptr, 50));
    memset(grown, 3, 50);
    grown = static_cast<char*>(by_realloc(grown, 7000));
    for (int k = 0; k < 50; ++k) Check(grown[k] == 3);
    if (!kept && by_realloc(grown, 0) != nullptr) __atomic_fetch_add(&empty_blocks, 1, __ATOMIC_RELAXED);
    void* aligned = by_posix_memalign(500);
    Check(reinterpret_cast<uintptr_t>(aligned) % 256 == 0);
    if (!kept) free(aligned);
    aligned = by_aligned_alloc(256);
    Check(reinterpret_cast<uintptr_t>(aligned) % 128 == 0);
    if (!kept) free(aligned);
    void* block = by_new(333);
    if (!kept) ::operator delete (block, size_t{333});
    block = by_new_array(444);
    if (!kept) ::operator delete[](block);
    block = by_nothrow_new(555);
    if (!kept) ::operator delete(block, std::nothrow);
    block = by_aligned_new();
    Check(reinterpret_cast<uintptr_t>(block) % 64 == 0);
    if (!kept) delete static_cast<Aligned*>(block);
  }
  return nullptr;
}

void Say(const char* function, size_t threads, size_t bytes) {
  Expect(function, kCount * threads, kCount * threads * bytes, kCount / 2 * threads, kCount / 2 * threads * bytes);
}

}  // namespace

int main(int count, char** arguments) {
  const bool waits = count > 1 && strcmp(arguments[1], "again") == 0;
  const int threads = count > 1 && !waits ? atoi(arguments[1]) : 1;
  pthread_t others[16];
  for (int i = 1; i < threads && i <= 16; ++i) pthread_create(&others[i - 1], nullptr, Work, nullptr);
  Work(nullptr);
  for (int i = 1; i < threads && i <= 16; ++i) pthread_join(others[i - 1], nullptr);
  if (waits) {
    puts("worked");
    fflush(stdout);
    char end;
    while (read(0, &end, 1) > 0) continue;
  }
  const auto all = static_cast<size_t>(threads);
  Say("by_malloc", all, 100);
  Say("by_calloc", all, 301);
  Expect("by_realloc", 2 * kCount * all + empty_blocks, kCount * all * 7050, kCount / 2 * all + empty_blocks,
         kCount / 2 * all * 7000);
  Say("by_posix_memalign", all, 500);
  Say("by_aligned_alloc", all, 256);
  Say("by_new", all, 333);
  Say("by_new_array", all, 444);
  Say("by_nothrow_new", all, 555);
  Say("by_aligned_new", all, 192);
  printf("wrong %d\n", wrong);
  return wrong == 0 ? 0 : 1;
}
