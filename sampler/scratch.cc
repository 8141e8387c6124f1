#include "sampler/scratch.h"

#include <atomic>
#include <bit>

namespace holdfast {
namespace {

constexpr int kBuffers = 64;
constinit StackTrace buffers[kBuffers];  // 128 KiB of .bss, of which only what is used is ever backed
constinit std::atomic<uint64_t> taken{0};

}  // namespace

StackTrace* TakeScratch(uint32_t hint) {
  uint64_t now = taken.load(std::memory_order_relaxed);
  while (now != ~uint64_t{0}) {
    const int start = static_cast<int>(hint % kBuffers);
    const int index = (start + std::countr_one(std::rotr(now, start))) % kBuffers;
    // Acquire: its last user has read it.
    if (taken.compare_exchange_weak(now, now | (uint64_t{1} << index), std::memory_order_acquire)) return &buffers[index];
  }
  return nullptr;
}

void ReturnScratch(StackTrace* trace) {
  taken.fetch_and(~(uint64_t{1} << (trace - buffers)), std::memory_order_release);
}

void ResetScratch() { taken.store(0, std::memory_order_relaxed); }

}  // namespace holdfast
