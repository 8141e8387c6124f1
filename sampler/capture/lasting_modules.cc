#include "sampler/capture/lasting_modules.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>

#include "sampler/capture/find_object.h"

namespace holdfast {
namespace {

// The link_maps of modules loaded with the program, hashed; those without room count as unloadable.
constexpr uint32_t kLastingSlots = 1024, kMaxLasting = 768;
constinit const link_map* lasting[kLastingSlots] = {};

uint32_t FirstSlot(const link_map* map) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(map) >> 4); }

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

}  // namespace holdfast
