#include "sampler/capture/scratch.h"

#include <atomic>
#include <bit>

#include "sampler/contract/own_memory.h"
#include "sampler/contract/syscalls.h"

namespace holdfast {
namespace {

constexpr int kWordBits = 64;
constexpr int kBuffers = 64, kMoreBuffers = 1024;

using Taken = std::atomic<uint64_t>;  // a bit for each buffer

constinit StackTrace buffers[kBuffers] = {};  // 164 KiB of .bss; only used pages get memory
constinit Taken taken{0};

// Mapped when all of those are in use: threads preempted during a capture keep their buffers, and when a thousand
// threads begin to wait at once on two processors, that is hundreds.
struct More {
  Taken taken[kMoreBuffers / kWordBits];
  StackTrace buffers[kMoreBuffers];
};
constinit std::atomic<More*> more{nullptr};

More* GetMore() {
  More* found = more.load(std::memory_order_acquire);
  if (found != nullptr || no_system_calls.load(std::memory_order_relaxed)) return found;
  auto* made = static_cast<More*>(MapLazily(sizeof(More)));
  if (made == nullptr) return nullptr;
  if (more.compare_exchange_strong(found, made, std::memory_order_acq_rel)) {
    NoteOwnMemory(made, sizeof(More));
    return made;
  }
  RawSyscall(SYS_munmap, made, sizeof(More));
  return found;
}

constexpr int kNone = -1;

// Returns the first free one from `start` on.
int TakeBit(Taken* word, int start) {
  uint64_t now = word->load(std::memory_order_relaxed);
  while (now != ~uint64_t{0}) {
    const int index = (start + std::countr_one(std::rotr(now, start))) % kWordBits;
    // Acquire: its last user has read it.
    if (word->compare_exchange_weak(now, now | (uint64_t{1} << index), std::memory_order_acquire)) return index;
  }
  return kNone;
}

void ReturnBit(Taken* word, int index) { word->fetch_and(~(uint64_t{1} << index), std::memory_order_release); }

}  // namespace

StackTrace* TakeScratch(ThreadState& thread) {
  const int start = thread.shard % kWordBits;
  if (const int index = TakeBit(&taken, start); index != kNone) {
    thread.scratch = static_cast<uint16_t>(index + 1);
    return &buffers[index];
  }
  More* also = GetMore();
  for (int word = 0; also != nullptr && word < kMoreBuffers / kWordBits; ++word) {
    if (const int bit = TakeBit(&also->taken[word], start); bit != kNone) {
      const int index = word * kWordBits + bit;
      thread.scratch = static_cast<uint16_t>(kBuffers + index + 1);
      return &also->buffers[index];
    }
  }
  return nullptr;
}

void ReturnScratch(ThreadState& thread) {
  if (thread.scratch == 0) return;  // a handler of this thread has freed it, taking it for left by a jump
  const int index = thread.scratch - 1;
  thread.scratch = 0;
  if (index < kBuffers) return ReturnBit(&taken, index);
  const int further = index - kBuffers;
  More* also = more.load(std::memory_order_relaxed);  // then it is from there
  ReturnBit(&also->taken[further / kWordBits], further % kWordBits);
}

void ResetScratch() {
  taken.store(0, std::memory_order_relaxed);
  More* also = more.load(std::memory_order_relaxed);
  if (also == nullptr) return;
  for (Taken& word : also->taken) word.store(0, std::memory_order_relaxed);
}

}  // namespace holdfast
