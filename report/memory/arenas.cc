#include "report/memory/arenas.h"

namespace holdfast {
namespace {

constexpr uint64_t kArena = uint64_t{64} << 20;  // glibc: HEAP_MAX_SIZE

}  // namespace

bool IsPrivateMemory(const MemoryMapping& mapping) {
  return mapping.is_anonymous() && mapping.writable && !mapping.shared;
}

// A heap of an arena begins at a multiple of 64 MiB with where the arena is described: right behind the head of its first heap.
bool IsArena(const MemoryMapping& mapping, const ProcessMemory& memory) {
  constexpr uint64_t kLargestHead = 256;
  uint64_t arena = 0;
  return IsPrivateMemory(mapping) && mapping.start % kArena == 0 && mapping.end - mapping.start <= kArena &&
         memory.Read(mapping.start, &arena, sizeof arena) && arena >= kArena && arena % kArena != 0 &&
         arena % kArena < kLargestHead;
}

}  // namespace holdfast
