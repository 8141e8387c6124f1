// A thread's cache of free blocks (glibc's tcache): a block of the heap with a list of free blocks for each size.
//
//    glibc          chunk    begins with                            then
//    2.26 to 2.29   0x250    64 counts, 1 byte each                 the first blocks of 64 lists
//    2.30 to 2.41   0x290    64 counts, 2 bytes each                the first blocks of 64 lists
//    since 2.42     0x300    76 numbers of free places, 2 bytes     the first blocks of 76 lists
//
// Lists 0 to 63 have blocks of 24, 40, … 1032 bytes. The other 12 are in use only if GLIBC_TUNABLES raises
// glibc.malloc.tcache_max: list 64 has chunks of less than 2 KiB, list 65 of less than 4 KiB, … list 75 of less than
// 4 MiB. The version is not asked for: memory that has not exactly one of these forms is no cache.
#ifndef HOLDFAST_REPORT_HOLDERS_THREAD_CACHE_H_
#define HOLDFAST_REPORT_HOLDERS_THREAD_CACHE_H_

#include <cstdint>
#include <vector>

#include "report/holders/address_space.h"
#include "report/holders/block_map.h"

namespace holdfast {

// Bytes of a cached block, unless glibc.malloc.tcache_max is raised.
inline constexpr uint64_t kLargestCached = 0x408;

struct CachedList {
  uint64_t block;    // the first one
  uint64_t count;    // of its blocks
  uint64_t largest;  // bytes of a block in this cache
  bool is_marked;    // every version with such a cache marks cached blocks
};

// Returns whether a block of this size may be a cache.
bool MayBeThreadCache(uint64_t block_bytes);

// Returns the lists of a cache that are not empty. Each begins with a block of its size, or with one in memory that is
// not in the map. Empty: the block is no cache, or an empty one.
std::vector<CachedList> ReadThreadCache(const AddressSpace& space, const BlockMap& blocks,
                                        const BlockMap::Block& block);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_THREAD_CACHE_H_
