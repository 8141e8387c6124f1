// A plugin that replaces only one of the operators new. libstdc++'s new[] jumps to it, so the caller of new is hard to
// find.
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
