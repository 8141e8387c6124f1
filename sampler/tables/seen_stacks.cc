#include "sampler/tables/seen_stacks.h"

#include <sys/mman.h>

#include "sampler/contract/syscalls.h"

namespace holdfast {

constinit std::atomic<SeenStacks*> seen_stacks{nullptr};

void BeginSeenStacks(SharedTable* table) {
  if (seen_stacks.load(std::memory_order_relaxed) != nullptr || no_system_calls.load(std::memory_order_relaxed)) return;
  auto* made = static_cast<SeenStacks*>(MapLazily(sizeof(SeenStacks)));
  if (made == nullptr) return;
  SeenStacks* none = nullptr;
  // Of two threads that make it at once one's stays unused.
  if (!seen_stacks.compare_exchange_strong(none, made)) return;
  // Whoever adds to a list from now on finds it; who did not yet notes his stack once it is there.
  const std::atomic<Offset>* const heads = table->header()->stack_heads;
  for (uint32_t i = 0; i < kStackHeads; ++i) {
    if (heads[i].load() != 0) made->words[i].store(~uint64_t{0});
  }
  made->complete.store(true, std::memory_order_release);
}

void ForgetSeenStacks() {
  SeenStacks* seen = seen_stacks.load(std::memory_order_relaxed);
  if (seen == nullptr) return;
  RawSyscall(SYS_madvise, seen, sizeof(SeenStacks), MADV_DONTNEED);
  // Its table is empty: there is nothing of before.
  seen->complete.store(true, std::memory_order_relaxed);
}

}  // namespace holdfast
