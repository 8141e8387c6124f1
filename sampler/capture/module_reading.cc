#include "sampler/capture/module_reading.h"

#include <atomic>

#include "sampler/capture/row_cache.h"
#include "sampler/contract/syscalls.h"

namespace holdfast {
namespace {

constinit std::atomic<uint32_t> readers{0};
constinit std::atomic<uint32_t> unloading{0};  // calls of dlclose in progress

void AwaitReaders() {
  // Sequentially consistent, like the addition in Begin: either the reader sees the dlclose, or this sees the reader.
  AwaitBounded(1000, [] { return readers.load(std::memory_order_seq_cst) == 0; });
}

}  // namespace

void BeginUnload() {
  unloading.fetch_add(1, std::memory_order_seq_cst);
  walk_generation.fetch_add(1, std::memory_order_acq_rel);
  AwaitReaders();
}

// Never below 0: a child of fork begins at 0, perhaps in the middle of a dlclose.
void EndUnload() {
  ForgetUnloadableRows();
  uint32_t now = unloading.load(std::memory_order_relaxed);
  while (now != 0 && !unloading.compare_exchange_weak(now, now - 1, std::memory_order_release)) {
  }
}

bool ModulesStay() { return unloading.load(std::memory_order_acquire) == 0; }

void ForgetReaders() {
  readers.store(0, std::memory_order_relaxed);
  unloading.store(0, std::memory_order_relaxed);
}

bool ModuleReading::Begin() {
  if (held_) return true;
  if (!ModulesStay()) return false;
  blocked_ = !no_system_calls.load(std::memory_order_relaxed);
  const uint64_t all = ~uint64_t{0};
  if (blocked_) RawSyscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask_, sizeof all);
  readers.fetch_add(1, std::memory_order_seq_cst);
  held_ = true;
  if (unloading.load(std::memory_order_seq_cst) == 0) return true;
  End();
  return false;
}

void ModuleReading::End() {
  // Release: earlier reads come before the dlclose that waits.
  readers.fetch_sub(1, std::memory_order_release);
  held_ = false;
  if (blocked_) RawSyscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask_, nullptr, sizeof mask_);
}

}  // namespace holdfast
