// A plugin with its own operators new and delete, which put a mark before each block. A block from one must never reach the
// other's delete.
#include <stdint.h>
#include <stdlib.h>

#include <new>

#include "known.h"

static const uint64_t kMark = 0x6d61726b6d61726b;
static int wrong = 0;

void* operator new(size_t size) {
  auto* block = static_cast<uint64_t*>(malloc(size + 16));
  if (!block) throw std::bad_alloc();
  block[0] = kMark;
  return block + 2;
}
void operator delete(void* p) noexcept {
  if (!p) return;
  auto* block = static_cast<uint64_t*>(p) - 2;
  if (block[0] != kMark) {
    ++wrong;
    return;
  }
  block[0] = 0;
  free(block);
}
void operator delete(void* p, size_t) noexcept { operator delete(p); }

extern "C" KNOWN void* own_new_plugin_allocates(size_t size) { return ::operator new(size); }
extern "C" void* Allocate(size_t size) {
  void* p = own_new_plugin_allocates(size);
  Use(p);
  return p;
}
extern "C" void Release(void* p) { ::operator delete(p); }
extern "C" int Throw(int) { return wrong; }
