#include "interpose/heap/musl_forms.h"

#include <errno.h>
#include <string.h>

#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "interpose/heap/sampled_block.h"

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

}  // namespace

void UseOwnForms() {
  real.calloc = Zeroed;
  real.posix_memalign = Aligned;
  real.memalign = AlignedBlock;
  real.valloc = PageAligned;
}

}  // namespace holdfast
