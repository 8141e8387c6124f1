// An executable with a malloc and with operators new of its own, which throw std::bad_alloc for large blocks: one by itself,
// one from a function that it calls with its second instruction. The callers have objects to destroy.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <initializer_list>
#include <new>

#include "known.h"

namespace {
constexpr size_t kBlock = 1024, kHead = 16;
alignas(16) char room[8 << 20];
size_t used, frees;
long destroyed;
struct Destroyed {
  ~Destroyed() { ++destroyed; }
};
}  // namespace

extern "C" {
// ---- The allocator: no block is given out twice ----
KNOWN void* malloc(size_t bytes) {
  const size_t whole = (bytes + kHead + kBlock - 1) / kBlock * kBlock;
  if (bytes > sizeof room || used + whole > sizeof room) return nullptr;
  used += whole;
  return room + used - whole + kHead;
}
KNOWN void free(void* block) {
  if (block != nullptr) ++frees;
}
KNOWN void* calloc(size_t count, size_t each) { return malloc(count * each); }
KNOWN void* realloc(void* old, size_t bytes) {
  void* block = malloc(bytes);
  if (old != nullptr && block != nullptr) memcpy(block, old, bytes);
  return block;
}
KNOWN void* allocates_or_throws(size_t bytes) {
  if (bytes > sizeof room) throw std::bad_alloc();
  return malloc(bytes);
}
}  // extern "C"

void* operator new(size_t bytes) {
  if (bytes > sizeof room) throw std::bad_alloc();
  void* block = malloc(bytes);
  Use(block);
  return block;
}
void operator delete(void* block) noexcept { free(block); }
void operator delete(void* block, size_t) noexcept { free(block); }
// operator new[]
__asm__(
    ".text\n.p2align 4\n.globl _Znam\n.type _Znam,@function\n_Znam:\n.cfi_startproc\n"
    "push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbx,-16\ncall allocates_or_throws\n"
    "pop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size _Znam,.-_Znam\n");
void operator delete[](void* block) noexcept { free(block); }
void operator delete[](void* block, size_t) noexcept { free(block); }

extern "C" {
KNOWN void* by_new(size_t bytes) {
  const Destroyed one;
  void* block = ::operator new(bytes);
  Use(block);
  return block;
}
KNOWN void* by_array_new(size_t bytes) {
  const Destroyed one;
  void* block = ::operator new[](bytes);
  Use(block);
  return block;
}
// Returns whether it was caught here, with everything as before.
KNOWN bool catches(void* (*allocate)(size_t), size_t bytes, long number) {
  const long was = destroyed, twice = 2 * number;
  try {
    allocate(bytes);
  } catch (const std::bad_alloc&) {
    return destroyed == was + 1 && twice == 2 * number;
  }
  return false;
}
}

int main() {
  constexpr long kRounds = 100;
  long wrong = 0;
  for (long i = 0; i < kRounds; ++i) {
    for (void* (*allocate)(size_t) : {by_new, by_array_new}) {
      wrong += catches(allocate, 300, i);
      wrong += !catches(allocate, sizeof room + 1, i);  // charged by the stub
      wrong += !catches(allocate, SIZE_MAX / 2, i);     // too large for that
      free(allocate(200));
    }
  }
  wrong += destroyed != 8 * kRounds;
  Expect("by_new", 2 * kRounds, kRounds * 500, kRounds, kRounds * 300);
  Expect("allocates_or_throws", 2 * kRounds, kRounds * 500, kRounds, kRounds * 300);
  printf("thrown %ld\nwrong %ld\n", 4 * kRounds, wrong);
  return wrong != 0;
}
