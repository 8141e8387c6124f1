#include "sampler/process/process.h"

#include "sampler/contract/clock.h"
#include "sampler/contract/syscalls.h"

namespace holdfast {

constinit Process process{};

void DrawSeed() {
  process.seed = process.options.seed;
  if (process.seed == 0 &&
      RawSyscall(SYS_getrandom, &process.seed, sizeof process.seed, 1 /*GRND_NONBLOCK*/) != sizeof process.seed) {
    process.seed = static_cast<uint64_t>(KernelNs()) * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(process.pid);
  }
}

bool InBorrowedMemory() {
  return !no_system_calls.load(std::memory_order_relaxed) && RawSyscall(SYS_getpid) != process.pid;
}

}  // namespace holdfast
