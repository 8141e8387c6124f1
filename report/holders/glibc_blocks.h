// Finds the blocks of glibc's malloc in a process's memory, chunk by chunk.
//
//    [heap]            the main arena: contiguous chunks, from the first one to the top
//    64 MiB-aligned    heaps of the other arenas (report/observe/memory/arenas.h): a head, then chunks
//    anonymous         large blocks, each in a mapping of its own: 0, size | 2; since 2.43 size - 16 | 2
//
//    chunk  │ size of the previous one, if free │ size, flags │ user's bytes …
//    block                                      └─ begins 16 bytes after the chunk, ends 8 bytes into the next chunk
//
// All of this is glibc's only if the main arena's state is in the data of libc or of the program, and has memory:
// musl, and tcmalloc, use [heap] as well.
//
// Free chunks are recognized exactly: by the next chunk's flag; in fast bins by the arena's lists; in a thread's cache by
// its lists (thread_cache.h) and by a mark, the second word: one random number for the whole process (since 2.34; it is in
// libc's data, too), or the address of the cache (2.29 to 2.33). A used block may have the mark by accident. Marked
// blocks in no list are gaps: they are not named, and what they contain counts. If any of this cannot be found,
// knows_caches() is false, and free chunks may look used.
//
// The program may change chunks during the walk. If a head is implausible, the walk continues at the next plausible one
// and reports the bytes between as a gap: they may contain pointers, and no block. Searches have a budget, so contents
// made on purpose cannot make them endless; afterwards the rest is a gap.
#ifndef HOLDFAST_REPORT_HOLDERS_GLIBC_BLOCKS_H_
#define HOLDFAST_REPORT_HOLDERS_GLIBC_BLOCKS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "report/holders/address_space.h"
#include "report/holders/block_map.h"

namespace holdfast {

class GlibcBlocks {
 public:
  // `excluded`: ranges that are no heap, because the program has mapped them itself; by address. All arguments must
  // outlive this.
  GlibcBlocks(AddressSpace* space, const std::vector<MemoryRange>& excluded, BlockMap* blocks);
  ~GlibcBlocks();

  // Adds the heaps to the map. Then the caller seals the map.
  void FindHeaps();
  // Adds the blocks to the map. Then the caller numbers them. `visit`: called for all words of the walked heaps, in
  // ascending order, as they are read; null: for none.
  void AddBlocks(const WordVisitor& visit = nullptr);
  // Marks cached blocks as free.
  void FindCached();

  const std::vector<MemoryRange>& gaps() const { return gaps_; }      // parts of heaps that were not understood
  const std::vector<MemoryRange>& arenas() const { return arenas_; }  // malloc's state: its pointers hold nothing
  const std::string& version() const { return version_; }             // "2.36"; "": unknown
  bool knows_caches() const { return knows_caches_; }
  // A heap was not walked, or parts of one, because the program changed them meanwhile.
  bool has_lost_heap() const { return has_lost_heap_; }
  uint64_t lost_bytes() const { return lost_bytes_; }
  size_t heaps() const { return heap_count_; }                        // without blocks in mappings of their own
  const std::vector<MemoryRange>& walked() const { return walked_; }  // heaps, without those blocks
  uint64_t cached() const { return cached_; }

 private:
  class Walk;
  std::unique_ptr<Walk> walk_;
  std::vector<MemoryRange> gaps_, arenas_, walked_;
  std::string version_;
  bool knows_caches_ = true, has_lost_heap_ = false;
  uint64_t lost_bytes_ = 0;
  size_t heap_count_ = 0;
  uint64_t cached_ = 0;
};

// Returns "2.36" from the text of libc.so.6; "": it has no such text.
std::string GlibcVersionIn(std::string_view bytes);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_GLIBC_BLOCKS_H_
