// What glibc's malloc has free inside of its heaps, and what would give it back: read from the heads of its chunks, which lie
// one behind the other.
//
//     heap  │ head … in use … │ head … free … │ head … in use … │ head … top        │
//              size ─────────►   size ───────►   PREV_INUSE: no    behind the last block
//
// The program runs on meanwhile, and changes them: where a head makes no sense, the next one that does is looked for, and what was
// passed is `unread`. Blocks that threads keep for themselves (tcache, fast bins) count as in use, as their heads say.
// Layout of chunks as since glibc 2.3; what the kernel knows of pages is asked of the page table.
#ifndef HOLDFAST_REPORT_MEMORY_GLIBC_HEAPS_H_
#define HOLDFAST_REPORT_MEMORY_GLIBC_HEAPS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "report/memory/mappings.h"

namespace holdfast {

// Bytes are resident ones.
struct FreeMemory {
  uint64_t pages = 0;     // whole pages between blocks: malloc_trim(0) gives them back
  uint64_t main_top = 0;  // behind the last block of the main heap: goes back by itself above M_TRIM_THRESHOLD
  uint64_t tops = 0;      // the same of other arenas: malloc_trim leaves it
  uint64_t pieces = 0;    // what is less than a page, and the edges of the others: no call gives it back
  uint64_t piece_count = 0;
  uint64_t arenas = 0, in_arenas = 0;  // besides the main one: how many, and what of all that is theirs
  uint64_t unread = 0;
  uint64_t heads = 0;  // of free chunks, which `all` does not have
  uint64_t all() const { return pages + main_top + tops + pieces; }
};

// A part of a process's memory, copied; false: it cannot be read.
using ReadMemory = std::function<bool(uint64_t address, void* to, size_t bytes)>;

// `heaps`: all that begin at those addresses, and [heap].
FreeMemory FreeInGlibcHeaps(const std::vector<MemoryMapping>& mappings, const std::vector<uint64_t>& heaps,
                            const ReadMemory& read, PageTable* pages);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_MEMORY_GLIBC_HEAPS_H_
