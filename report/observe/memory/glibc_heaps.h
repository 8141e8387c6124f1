// Finds free memory inside glibc's heaps, and how it can be returned to the system. Reads the heads of the chunks,
// which are contiguous.
//
//    heap  │ head … in use … │ head … free … │ head … in use … │ head … top        │
//             size ─────────►   size ───────►   PREV_INUSE: no    after the last block
//
// The program keeps running and changes the chunks. If a head is implausible, the walk searches for the next plausible
// one, and the bytes between are `unread`. Blocks cached by threads (tcache, fast bins) count as in use, as their heads
// say. The chunk layout is unchanged since glibc 2.3. The page table tells which pages are resident.
#ifndef HOLDFAST_REPORT_OBSERVE_MEMORY_GLIBC_HEAPS_H_
#define HOLDFAST_REPORT_OBSERVE_MEMORY_GLIBC_HEAPS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "report/observe/memory/mappings.h"

namespace holdfast {

// Free memory that glibc keeps, in resident bytes.
struct FreeMemory {
  uint64_t pages = 0;     // whole free pages between blocks: malloc_trim(0) releases them
  uint64_t main_top = 0;  // after the last block of the main heap: released automatically above M_TRIM_THRESHOLD
  uint64_t tops = 0;      // the same for other arenas: malloc_trim does not release it
  uint64_t pieces = 0;    // less than a page, and the edges of `pages`: no call releases it
  uint64_t piece_count = 0;
  uint64_t arenas = 0, in_arenas = 0;  // except the main one: their number, and their part of the above
  uint64_t unread = 0;
  uint64_t heads = 0;  // of free chunks, not included in all()
  uint64_t all() const { return pages + main_top + tops + pieces; }
};

// Copies a part of a process's memory. Returns false if it cannot be read.
using ReadMemory = std::function<bool(uint64_t address, void* to, size_t bytes)>;

// `heaps`: start addresses of the heaps to read, in addition to [heap].
FreeMemory FreeInGlibcHeaps(const std::vector<MemoryMapping>& mappings, const std::vector<uint64_t>& heaps,
                            const ReadMemory& read, PageTable* pages);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_GLIBC_HEAPS_H_
