#include "report/observe/memory/arenas.h"

#include <algorithm>
#include <utility>

#include "report/observe/memory/joined_mappings.h"

namespace holdfast {
namespace {

constexpr uint64_t kArena = kArenaHeapBytes;

// Returns whether an arena's heap begins at `start`, a multiple of 64 MiB. A heap begins with the address of the
// arena's description, which is directly after the head of the arena's first heap. So the first heap contains the same
// address.
bool IsArena(uint64_t start, const ProcessMemory& memory) {
  constexpr uint64_t kLargestHead = 256;
  uint64_t arena = 0, first = 0;
  return memory.Read(start, &arena, sizeof arena) && arena >= kArena && arena % kArena != 0 &&
         arena % kArena < kLargestHead && memory.Read(arena - arena % kArena, &first, sizeof first) && first == arena;
}

}  // namespace

std::set<uint64_t> FindArenas(const ProcessMemory& memory, PageTable* pages, ArenasSay say,
                              std::vector<MemoryMapping>* mappings) {
  std::set<uint64_t> arenas;
  std::vector<MemoryMapping> parts;
  const auto up = [](uint64_t at) { return (at + kArena - 1) / kArena * kArena; };
  for (const MemoryMapping& mapping : *mappings) {
    std::set<uint64_t> bounds;
    const uint64_t end = mapping.end;
    for (uint64_t at = up(mapping.start); IsPrivateMemory(mapping) && at < end; at += kArena) {
      if (const uint64_t there = pages->FirstPopulated(at, end); there != at) {
        at = up(there) - kArena;
        continue;
      }
      // Do not read untouched pages: the kernel would create the page and its page table entry for the program. A
      // reserved TiB has 16,384 candidates, and before Linux 6.7 each is looked up individually.
      const PageTable::Share head = pages->Of(at, sizeof(uint64_t));
      if (!pages->is_denied() && head.resident + head.swapped == 0) continue;
      if (!IsArena(at, memory)) continue;
      if (at != mapping.start) {
        if (say == ArenasSay::kParts && pages->is_denied()) break;  // the resident bytes of each part are unknown
        bounds.insert(at);
      }
      arenas.insert(at);
    }
    CutAt(bounds, mapping, say == ArenasSay::kParts ? pages : nullptr, &parts);
  }
  *mappings = std::move(parts);
  return arenas;
}

}  // namespace holdfast
