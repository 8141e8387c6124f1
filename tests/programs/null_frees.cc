// Frees null while the low 32 bits of a live block's address are below 1,024, as in the first block of an arena at a
// multiple of 4 GiB. Null and that block then share one entry in every index by the low half of an address. Exit status 77:
// the kernel has placed the block elsewhere.
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

extern "C" {
#include "known.h"
KNOWN void* make_first();
KNOWN void* make_placed();
}

namespace {

constexpr size_t kBytes = size_t{64} << 20, kMapped = kBytes + 4096, kFour = size_t{1} << 32;

void* Reserve(size_t bytes, void* at = nullptr, int flags = 0) {
  return mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

// Fills the address space down to a multiple of 4 GiB, so that the kernel puts the next mapping of kMapped bytes there.
bool FillAboveMultiple() {
  void* const gap = Reserve(kFour + kMapped);
  if (gap == MAP_FAILED) return false;
  const uintptr_t end = reinterpret_cast<uintptr_t>(gap) + kFour + kMapped;
  munmap(gap, kFour + kMapped);
  // Smaller gaps above that one.
  void* probe;
  while ((probe = Reserve(kMapped)) != MAP_FAILED && reinterpret_cast<uintptr_t>(probe) >= end) {
  }
  munmap(probe, kMapped);
  const uintptr_t from = (end - kMapped) / kFour * kFour + kMapped;
  void* const at = reinterpret_cast<void*>(from);
  return from == end || Reserve(end - from, at, MAP_FIXED_NOREPLACE) == at;
}

KNOWN void free_null() {
  free(nullptr);
  Use(realloc(nullptr, 0));
  operator delete(nullptr);
  operator delete[](nullptr);
  operator delete (nullptr, size_t{64});
  operator delete[](nullptr, size_t{64});
  operator delete(nullptr, std::nothrow);
  operator delete (nullptr, std::align_val_t{64});
  operator delete (nullptr, size_t{64}, std::align_val_t{64});
}

}  // namespace

void* make_first() { return malloc(kBytes); }
void* make_placed() { return malloc(kBytes); }

int main() {
  // What the library maps at its first sample is mapped before.
  free(make_first());
  if (!FillAboveMultiple()) return 77;
  for (int round = 0; round < 3; ++round) {
    void* block = make_placed();
    if (reinterpret_cast<uintptr_t>(block) % kFour >= 1024) return 77;
    free_null();
    free(block);
  }
  Expect("make_placed", 3, 3 * kBytes, 0, 0);
  return 0;
}
