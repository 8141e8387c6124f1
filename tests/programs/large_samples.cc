// Large heap blocks, all of them sampled at the smallest interval with tagged addresses. They are allocated and freed in
// every way. Prints how many of them were not where samples usually are.
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include <new>

#include "known.h"

extern "C" {
void __libc_free(void* block);
void* __libc_realloc(void* block, size_t bytes);
}

namespace {

constexpr size_t kMiB = 1 << 20;
constexpr size_t kSize = 12 * kMiB;
volatile size_t huge = PTRDIFF_MAX;
int untagged = 0, blocks = 0;

// The bits 5 to 9 of a tagged place are 0.
template <typename Block>
Block* Looked(Block* block) {
  ++blocks;
  untagged += (reinterpret_cast<uintptr_t>(block) & 0x3e0) != 0;
  return block;
}

// So that blocks of one size do not all lie at the same place within 1 KiB.
void Shift() {
  static int step = 0;
  Use(malloc(48 + 32 * (++step % 16)));
}

}  // namespace

extern "C" {
KNOWN void* by_malloc() { return Looked(malloc(kSize)); }
KNOWN void* by_calloc() { return Looked(calloc(kSize / 16, 16)); }
KNOWN void* by_null() { return Looked(realloc(nullptr, kSize)); }
KNOWN void* by_memalign() { return Looked(memalign(64, kSize)); }
KNOWN void* by_aligned_alloc() { return Looked(aligned_alloc(32, kSize)); }
KNOWN void* by_posix() {
  void* block = nullptr;
  if (posix_memalign(&block, 32, kSize) != 0) abort();
  return Looked(block);
}
KNOWN void* by_new() { return Looked(::operator new(kSize)); }
KNOWN void* by_new_array() { return Looked(::operator new[](kSize)); }
KNOWN void* by_nothrow() { return Looked(::operator new(kSize, std::nothrow)); }
KNOWN void* by_aligned_new() { return Looked(::operator new (kSize, std::align_val_t{64})); }
KNOWN void* shrunk(void* block) { return Looked(realloc(block, kSize - kMiB)); }
KNOWN void* grown(void* block) { return Looked(realloc(block, kSize + kMiB)); }
KNOWN void* of_array(void* block) { return Looked(reallocarray(block, kSize / 32, 32)); }
KNOWN void* not_grown(void* block) { return realloc(block, huge); }
// Its result is not recorded.
KNOWN void* past_us(void* block, size_t bytes) { return __libc_realloc(block, bytes); }
KNOWN void* made_small(void* block) { return realloc(block, 24); }
KNOWN void* in_a_thread(void*) { return Looked(malloc(kSize)); }
KNOWN void* kept() { return Looked(malloc(kSize)); }
KNOWN void* for_libc_free() { return Looked(malloc(kSize)); }
KNOWN void* for_libc_realloc() { return Looked(malloc(kSize)); }
}

int main() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  constexpr int kRounds = 20;
  for (int i = 0; i < kRounds; ++i) {
    Shift();
    void* beside = by_malloc();
    Shift();  // so that nothing grows where it is
    free(by_calloc());
    free(by_null());
    free(by_memalign());
    free(by_aligned_alloc());
    free(by_posix());
    ::operator delete(by_new());
    ::operator delete(by_new(), kSize);
    ::operator delete(by_new(), std::nothrow);
    ::operator delete[](by_new_array());
    ::operator delete[](by_new_array(), kSize);
    ::operator delete(by_nothrow(), std::nothrow);
    ::operator delete (by_aligned_new(), std::align_val_t{64});
    ::operator delete (by_aligned_new(), kSize, std::align_val_t{64});
    void* block = shrunk(by_malloc());
    Shift();
    block = grown(block);
    block = of_array(block);
    if (not_grown(block) != nullptr) return 1;
    if (realloc(block, 0) != nullptr) return 1;
    Use(made_small(by_malloc()));
    free(beside);
  }
  pthread_t thread;
  void* from_thread = nullptr;
  if (pthread_create(&thread, nullptr, in_a_thread, nullptr) != 0 || pthread_join(thread, &from_thread) != 0) return 1;
  free(from_thread);
  Use(kept());
  // After all others: a later sample at the same address ends the old one, freed or not.
  void* moved = for_libc_realloc();
  void* freed = for_libc_free();  // so that the first cannot grow in place
  if (past_us(moved, huge) != nullptr) return 1;
  __libc_free(past_us(moved, kSize + kMiB));
  __libc_free(freed);
  printf("%d blocks, %s\n", blocks, 2 * untagged > blocks ? "most of them untagged" : "few of them untagged");

  const auto gone = [](const char* function, size_t each, size_t bytes) {
    Expect(function, each * kRounds, each * kRounds * bytes, 0, 0);
  };
  gone("by_malloc", 3, kSize);
  gone("by_calloc", 1, kSize);
  gone("by_null", 1, kSize);
  gone("by_memalign", 1, kSize);
  gone("by_aligned_alloc", 1, kSize);
  gone("by_posix", 1, kSize);
  gone("by_new", 3, kSize);
  gone("by_new_array", 2, kSize);
  gone("by_nothrow", 1, kSize);
  gone("by_aligned_new", 2, kSize);
  gone("shrunk", 1, kSize - kMiB);
  gone("grown", 1, kSize + kMiB);
  gone("of_array", 1, kSize);
  Expect("in_a_thread", 1, kSize, 0, 0);
  Expect("kept", 1, kSize, 1, kSize);
  Expect("for_libc_free", 1, kSize, 0, 0);
  Expect("for_libc_realloc", 1, kSize, 0, 0);
  return 0;
}
