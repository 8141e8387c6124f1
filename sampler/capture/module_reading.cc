#include "sampler/capture/module_reading.h"

#include <link.h>

#include <atomic>

#include "sampler/capture/find_object.h"
#include "sampler/capture/row_cache.h"
#include "sampler/contract/syscalls.h"

namespace holdfast {
namespace {

// The link_maps of modules loaded with the program, hashed; those without room count as unloadable.
constexpr uint32_t kLastingSlots = 1024, kMaxLasting = 768;
constinit const link_map* lasting[kLastingSlots] = {};

constinit std::atomic<uint32_t> readers{0};
constinit std::atomic<uint32_t> unloading{0};  // calls of dlclose in progress

uint32_t FirstSlot(const link_map* map) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(map) >> 4); }

void AwaitReaders() {
  // Sequentially consistent, like the addition in Begin: either the reader sees the dlclose, or this sees the reader.
  AwaitBounded(1000, [] { return readers.load(std::memory_order_seq_cst) == 0; });
}

}  // namespace

void NoteLastingModules() {
  NoteFirstObjects();
  dl_find_object found;
  if (!FindObject(reinterpret_cast<void*>(&NoteLastingModules), &found)) return;
  const link_map* map = found.dlfo_link_map;
  while (map->l_prev != nullptr) map = map->l_prev;
  for (uint32_t count = 0; map != nullptr && count < kMaxLasting; map = map->l_next, ++count) {
    if (IsLasting(map)) continue;
    uint32_t slot = FirstSlot(map);
    while (lasting[slot % kLastingSlots] != nullptr) ++slot;
    lasting[slot % kLastingSlots] = map;
  }
}

bool IsLasting(const link_map* map) {
  for (uint32_t slot = FirstSlot(map);; ++slot) {
    const link_map* known = lasting[slot % kLastingSlots];
    if (known == map) return true;
    if (known == nullptr) return false;
  }
}

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
