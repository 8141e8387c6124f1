#include "sampler/contract/syscalls.h"

namespace holdfast {

constinit std::atomic<bool> no_system_calls{false};
constinit std::atomic<bool> no_clock{false};

namespace {

enum class Dropping : uint8_t { kUnknown, kWorks, kImpossible };
constinit std::atomic<Dropping> dropping{Dropping::kUnknown};  // of the kernel, so the same in children

Dropping TryDropping() {
  auto* word = static_cast<std::atomic<uint64_t>*>(MapAnonymous(kPageBytes));
  if (word == nullptr) return Dropping::kUnknown;
  word->store(1, std::memory_order_relaxed);
  const bool works = !SyscallFailed(RawSyscall(SYS_madvise, word, kPageBytes, MADV_DONTNEED)) &&
                     word->load(std::memory_order_relaxed) == 0;
  RawSyscall(SYS_munmap, word, kPageBytes);
  return works ? Dropping::kWorks : Dropping::kImpossible;
}

}  // namespace

void EmptyPages(void* start, size_t bytes) {
  // Relaxed: two threads that try at once find the same.
  Dropping known = dropping.load(std::memory_order_relaxed);
  if (known == Dropping::kUnknown) dropping.store(known = TryDropping(), std::memory_order_relaxed);
  if (known == Dropping::kWorks && !SyscallFailed(RawSyscall(SYS_madvise, start, bytes, MADV_DONTNEED))) return;
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    // A word that is zero already needs no page.
    volatile uint64_t* word = reinterpret_cast<volatile uint64_t*>(static_cast<char*>(start) + at);
    if (*word != 0) *word = 0;
  }
}

}  // namespace holdfast
