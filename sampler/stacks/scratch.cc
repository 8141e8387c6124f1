#include "sampler/stacks/scratch.h"

#include <atomic>
#include <bit>

namespace holdfast {
namespace {

constexpr int kBuffers = 64;
constinit StackTrace buffers[kBuffers] = {};  // 128 KiB of .bss, of which only what is used is ever backed
constinit std::atomic<uint64_t> taken{0};

}  // namespace

StackTrace* TakeScratch(ThreadState& thread) {
  uint64_t now = taken.load(std::memory_order_relaxed);
  while (now != ~uint64_t{0}) {
    const int start = thread.shard % kBuffers;
    const int index = (start + std::countr_one(std::rotr(now, start))) % kBuffers;
    // Acquire: its last user has read it.
    if (taken.compare_exchange_weak(now, now | (uint64_t{1} << index), std::memory_order_acquire)) {
      thread.scratch = static_cast<uint8_t>(index + 1);
      return &buffers[index];
    }
  }
  return nullptr;
}

void ReturnScratch(ThreadState& thread) {
  if (thread.scratch == 0) return;  // a handler of this thread has done so, which took it for left by a jump
  const int index = thread.scratch - 1;
  thread.scratch = 0;
  taken.fetch_and(~(uint64_t{1} << index), std::memory_order_release);
}

void ResetScratch() { taken.store(0, std::memory_order_relaxed); }

}  // namespace holdfast
