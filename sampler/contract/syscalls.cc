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

// The kernel empties whole pages, so the parts before and after them are cleared by hand.
void EmptyPages(void* start, size_t bytes) {
  // Relaxed: two threads that try at once find the same.
  Dropping known = dropping.load(std::memory_order_relaxed);
  if (known == Dropping::kUnknown) dropping.store(known = TryDropping(), std::memory_order_relaxed);
  const auto clear = [](uintptr_t at, uintptr_t end) {
    for (; at < end; at += sizeof(uint64_t)) {
      // A word that is zero already needs no page.
      auto* word = reinterpret_cast<volatile uint64_t*>(at);
      if (*word != 0) *word = 0;
    }
  };
  const uintptr_t page = PageBytes(), from = reinterpret_cast<uintptr_t>(start), end = from + bytes;
  const uintptr_t first = (from + page - 1) & ~(page - 1), last = end & ~(page - 1);
  const bool emptied = known == Dropping::kWorks && first < last &&
                       !SyscallFailed(RawSyscall(SYS_madvise, first, last - first, MADV_DONTNEED));
  clear(from, emptied ? first : end);
  if (emptied) clear(last, end);
}

}  // namespace holdfast
