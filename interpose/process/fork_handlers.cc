#include "interpose/process/fork_handlers.h"

#include <string.h>

#include <cstdint>

#include "interpose/base/find_functions.h"
#include "interpose/base/import_entries.h"
#include "sampler/contract/attributes.h"
#include "sampler/contract/syscalls.h"

extern "C" HOLDFAST_HIDDEN void* __dso_handle;

namespace holdfast {
namespace {

using Handler = void (*)();

void* GlibcsFunction() { return FindFunction("__register_atfork"); }

[[maybe_unused]] bool MayBeReadAt(uintptr_t address) { return MayBeRead(address & ~(PageBytes() - 1)); }

// Returns the first word that the function takes by "lock cmpxchg" on an address relative to the instruction; null: none is found.
const int* LockTakenBy([[maybe_unused]] const void* function) {
#if defined(__x86_64__)
  constexpr uintptr_t kSearched = 96, kLength = 7;
  const auto start = reinterpret_cast<uintptr_t>(function);
  if (!MayBeReadAt(start) || !MayBeReadAt(start + kSearched + kLength)) return nullptr;
  const auto* code = static_cast<const unsigned char*>(function);
  for (uintptr_t at = 0; at < kSearched; ++at) {
    constexpr unsigned char kRelative = 0x05, kModeAndBase = 0xc7;
    if (code[at] != 0x0f || code[at + 1] != 0xb1 || (code[at + 2] & kModeAndBase) != kRelative) continue;
    int32_t distance;
    memcpy(&distance, code + at + 3, sizeof distance);
    const uintptr_t word = start + at + kLength + static_cast<uintptr_t>(static_cast<intptr_t>(distance));
    return word % sizeof(int) == 0 && MayBeReadAt(word) ? reinterpret_cast<const int*>(word) : nullptr;
  }
#endif
  return nullptr;
}

bool IsTaken(const int* lock) {
  constexpr int kTaken = 1, kTakenAndAwaited = 2;  // anything else is no lock of glibc's
  const int value = __atomic_load_n(lock, __ATOMIC_RELAXED);
  return value == kTaken || value == kTakenAndAwaited;
}

void Register(void* glibcs, const ForkHandlers& handlers) {
  reinterpret_cast<int (*)(Handler, Handler, Handler, void*)>(glibcs)(handlers.before, handlers.after,
                                                                      handlers.in_child, __dso_handle);
}

}  // namespace

void RegisterForkHandlers(const ForkHandlers& handlers) {
  if (void* const glibcs = GlibcsFunction()) {
    Register(glibcs, handlers);
  } else if (void* const musls = FindFunction("pthread_atfork")) {
    reinterpret_cast<int (*)(Handler, Handler, Handler)>(musls)(handlers.before, handlers.after, handlers.in_child);
  }
}

bool TryRegisterForkHandlers(const ForkHandlers& handlers) {
  void* const glibcs = GlibcsFunction();
  const int* const lock = glibcs != nullptr ? LockTakenBy(glibcs) : nullptr;
  if (lock != nullptr && !AwaitFork([lock] { return !IsTaken(lock); })) return false;
  if (glibcs != nullptr) Register(glibcs, handlers);
  return true;
}

}  // namespace holdfast
