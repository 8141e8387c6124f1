// A library with an allocator under names of its own, for known.cc: mimalloc's. Hands out parts of one array.
#include <stddef.h>

namespace {

alignas(16) char memory[1 << 20];
size_t used = 0;

}  // namespace

extern "C" void* mi_malloc(size_t bytes) {
  void* block = memory + used;
  used += (bytes + 15) / 16 * 16;
  return block;
}
extern "C" void mi_free(void*) {}
