#include "interpose/heap/large_samples.h"

#include <stdint.h>

#include "interpose/base/real.h"
#include "interpose/heap/perhaps_sampled.h"
#include "sampler/hot_path/sampled_filter.h"

namespace holdfast {

HOLDFAST_HOT_DATA constinit Untagged untagged{};
constinit bool sizes_stand_before_blocks = false;

namespace {

// The credit from which moved bytes are paid, so that programs with few large blocks need no test of sizes. A moved
// block leaves a hole, and at worst the heap grows by about five times the share of its bytes that are moved (measured:
// see large_samples.h). A sample represents 512 KiB, so 2 KiB for each are 0.4 %, and up to 2 % more memory.
constexpr int64_t kMaxCredit = 256 << 10, kCreditOfSample = 2 << 10;
constinit std::atomic<int64_t> credit{kMaxCredit};

bool MayMove(size_t bytes) {
  const auto price = static_cast<int64_t>(bytes);
  if (price > kMaxCredit || credit.load(std::memory_order_relaxed) < price) return false;
  credit.fetch_sub(price, std::memory_order_relaxed);  // slightly below zero if threads come at once
  return true;
}

inline size_t SizeBefore(const void* block) { return static_cast<const size_t*>(block)[-1]; }

// glibc's word: 1 = the previous chunk is in use, 2 = mapped, 4 = of another arena than the first.
bool IsShownBySize(const void* block) {
  const size_t word = SizeBefore(block), usable = real.malloc_usable_size(const_cast<void*>(block));
  const size_t overhead = (word & 2) != 0 ? 2 * sizeof(size_t) : sizeof(size_t);
  return word > kLargeSample && (word & ~size_t{7}) == usable + overhead;
}

HOLDFAST_WARM void FreeUnlessLarge(void* block) {
  if (LIKELY(SizeBefore(block) <= kLargeSample)) return real.free(block);
  return FreePerhapsSampled(block);
}

HOLDFAST_WARM void* ReallocUnlessLarge(void* block, size_t bytes) {
  if (LIKELY(SizeBefore(block) <= kLargeSample || SurelyNotSampled(block))) return real.realloc(block, bytes);
  return ReallocNoneDue(block, bytes);
}

HOLDFAST_WARM void LibcFreeUnlessLarge(void* block) {
  if (LIKELY(SizeBefore(block) <= kLargeSample)) return real.__libc_free(block);
  return LibcFreePerhapsSampled(block);
}

HOLDFAST_WARM void* LibcReallocUnlessLarge(void* block, size_t bytes) {
  if (LIKELY(SizeBefore(block) <= kLargeSample)) return real.__libc_realloc(block, bytes);
  return LibcReallocPerhapsSampled(block, bytes);
}

}  // namespace

bool StaysUntagged(const void* block, size_t bytes) {
  const bool already = untagged.free == FreeUnlessLarge;
  if ((!already && MayMove(bytes)) || !IsShownBySize(block)) return false;
  if (!already) {
    __atomic_store_n(&untagged.libc_realloc, &LibcReallocUnlessLarge, __ATOMIC_RELEASE);
    __atomic_store_n(&untagged.libc_free, &LibcFreeUnlessLarge, __ATOMIC_RELEASE);
    __atomic_store_n(&untagged.realloc, &ReallocUnlessLarge, __ATOMIC_RELEASE);
    __atomic_store_n(&untagged.free, &FreeUnlessLarge, __ATOMIC_RELEASE);
  }
  return true;
}

void EarnMove() {
  if (credit.load(std::memory_order_relaxed) < kMaxCredit) credit.fetch_add(kCreditOfSample, std::memory_order_relaxed);
}

}  // namespace holdfast
