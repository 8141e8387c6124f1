// A plugin that replaces one operator new of many: libstdc++'s new[] arrives at it by a jump, so that who called new is
// hard to tell.
#include <stdlib.h>

#include <new>

#include "known.h"

static int through_own = 0;

void* operator new(size_t size) {
  ++through_own;
  if (void* block = malloc(size)) return block;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { free(p); }
void operator delete(void* p, size_t) noexcept { free(p); }

extern "C" void* Allocate(size_t size) {
  auto* numbers = new int[100];
  delete[] numbers;
  auto* nothrow = new (std::nothrow) int[100];
  delete[] nothrow;
  try {
    Use(operator new[](size_t{1} << 60));
  } catch (const std::bad_alloc&) {
    ++through_own;
  }
  return ::operator new(size);
}
extern "C" void Release(void* p) { ::operator delete(p); }
extern "C" int Throw(int) { return through_own; }
