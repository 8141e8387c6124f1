#include "interpose/heap/musl_forms.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "interpose/base/find_functions.h"
#include "interpose/base/late_functions.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "interpose/heap/sampled_block.h"
#include "sampler/contract/syscalls.h"

namespace holdfast {
namespace {

void* Zeroed(size_t count, size_t each) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, each, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  void* block = real.malloc(bytes);
  if (block == nullptr) return nullptr;
  return bytes >= kMayBeUntouched ? ZeroWhereNeeded(block, bytes) : memset(block, 0, bytes);
}

int Aligned(void** result, size_t alignment, size_t bytes) {
  if (alignment < sizeof(void*)) return EINVAL;
  void* block = real.aligned_alloc(alignment, bytes);
  if (block == nullptr) return errno;
  *result = block;
  return 0;
}

void* AlignedBlock(size_t alignment, size_t bytes) { return real.aligned_alloc(alignment, bytes); }
void* PageAligned(size_t bytes) { return real.aligned_alloc(PageBytes(), bytes); }

// ---- musl 1.1.20 to 1.2.0 ----

// It refuses to align blocks of a malloc that is not its own, even if that calls its own. It does free a block that has a
// mapping of its own, wherever in the mapping the block begins. Two words before the block describe the mapping:
//
//   mapping | … | bytes from the mapping to these words | bytes from these words to the end | block
//
// Even numbers, as blocks of the heap have odd ones.
constexpr size_t kWords = 2 * sizeof(size_t), kOwnAlignment = 32;

void* MappedBlock(size_t alignment, size_t bytes) {
  if ((alignment & (alignment - 1)) != 0) {
    errno = EINVAL;
    return nullptr;
  }
  if (alignment <= kOwnAlignment) return real.malloc(bytes);
  const size_t page = PageBytes();
  size_t mapped = 0;
  if (__builtin_add_overflow(alignment, bytes, &mapped) ||
      __builtin_add_overflow(mapped, kOwnAlignment + page, &mapped)) {
    errno = ENOMEM;
    return nullptr;
  }
  mapped &= ~(page - 1);
  const long mapping =
      RawSyscall(SYS_mmap, 0, static_cast<long>(mapped), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (SyscallFailed(mapping)) {
    errno = ENOMEM;
    return nullptr;
  }
  const auto start = static_cast<size_t>(mapping);
  const size_t block = (start + kOwnAlignment + alignment - 1) & ~(alignment - 1);
  auto* words = reinterpret_cast<size_t*>(block - kWords);
  words[0] = block - kWords - start;
  words[1] = mapped - words[0];
  return reinterpret_cast<void*>(block);
}

bool CanAlign() {
  const int error = errno;
  void* block = real.aligned_alloc(2 * kOwnAlignment, 1);
  errno = error;
  real.free(block);
  return block != nullptr;
}

// Its smallest block has 16 bytes. Those of 1.2.1, which refuses too, have another form.
bool HasWordsBeforeBlocks() {
  void* block = real.malloc(1);
  const bool has = block != nullptr && real.malloc_usable_size(block) == 16;
  real.free(block);
  return has;
}

}  // namespace

bool UseOwnForms() {
  const bool can_align = IsFound(reinterpret_cast<const void*>(real._Fork)) || CanAlign();
  if (!can_align && HasWordsBeforeBlocks()) real.aligned_alloc = MappedBlock;
  real.calloc = Zeroed;
  real.posix_memalign = Aligned;
  real.memalign = AlignedBlock;
  real.valloc = PageAligned;
  // Without memory, aligned_alloc of 1.2.2 crashes instead of returning null. qsort_r is of 1.2.3.
  return can_align && FindFunction("qsort_r") != nullptr;
}

}  // namespace holdfast
