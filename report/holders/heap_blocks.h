// All blocks of a process's heap, from the best source that there is:
//
//    kGlibc     glibc's malloc, chunk by chunk (glibc_blocks.h)
//    kRecorded  blocks that Holdfast recorded, of any allocator: all of them with --exact, otherwise the sampled ones. The
//               memory between them may contain anything, and counts as a root
//    kGuessed   block starts are guessed from the pointers into the heap: good enough to say what holds memory, and never
//               used to report unreachable blocks
//    kNone      nothing is known
//
// Blocks of different sources may be in one map.
#ifndef HOLDFAST_REPORT_HOLDERS_HEAP_BLOCKS_H_
#define HOLDFAST_REPORT_HOLDERS_HEAP_BLOCKS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/holders/address_space.h"
#include "report/holders/block_map.h"
#include "report/observe/memory/live_blocks.h"

namespace holdfast {

enum class BlockSource : uint8_t { kNone, kGlibc, kRecorded, kGuessed };

// Returns the upper end of the outermost frame of a sleeping thread; nothing if its stack cannot be walked completely.
using OutermostEnd = std::function<std::optional<uint64_t>(const TargetThread&)>;

struct HeapBlocksInput {
  std::span<const LiveBlock> recorded;  // that Holdfast knows, by address; empty: none. The caller keeps them
  std::vector<MemoryRange> mapped;      // by the program itself, by address
  std::vector<MemoryRange> excluded;    // Holdfast's own memory, by address
  bool may_guess = false;
  uint64_t most_bytes = UINT64_MAX;  // of our memory for the map
  OutermostEnd outermost_end = nullptr;
  // Called for the words of the heaps in HeapBlocks::visited while their blocks are found, so that nobody has to read
  // them a second time. At that moment the map is not complete.
  WordVisitor visit_words = nullptr;
};

struct HeapBlocks {
  BlockMap map;
  BlockSource source = BlockSource::kNone;
  bool knows_free = true;         // all free blocks are marked as unused, also those in caches of threads
  bool is_complete = true;        // false: many blocks may be missing, because the program changed the heap meanwhile
  uint64_t heap_bytes = 0;        // existing memory of the heaps in `map`
  uint64_t unknown_bytes = 0;     // of large mappings that may contain blocks of an unknown allocator
  std::string glibc_version;      // "" = unknown
  std::vector<MemoryRange> gaps;  // parts of heaps that are roots, by address
  std::vector<MemoryRange> visited;  // whole heaps
  std::vector<MemoryRange> ignored;  // the allocator's own state outside heaps, by address
};

absl::StatusOr<HeapBlocks> FindHeapBlocks(AddressSpace* space, const HeapBlocksInput& input);

// Offsets in glibc's struct pthread (2.26 to 2.43): the thread's id, for which a joining thread waits up to 2.42, and the
// thread's state, for which a joining thread waits since 2.43.
inline constexpr uint64_t kThreadIdOffset = 0x2d0, kThreadStateOffset = 0x628;

// A part of the memory that keeps blocks alive.
enum class RootKind : uint8_t { kData, kStack, kThreadBlock, kMapping, kGap, kRegisters, kKernel };
struct RootRange {
  MemoryRange range;
  RootKind kind;
  uint32_t index;           // of the mapping, or of the thread
  bool every_byte = false;  // code: pointers may be at any address
};

// Returns the memory to search for pointers, besides the heap, by address: data of modules, stacks from the stack
// pointer on, thread-local variables, other mappings. Without Holdfast's own memory, and without the stacks of threads
// that have ended. The memory below a stack pointer counts as dead only if the walk of the stack ends where the thread's
// stack begins: the stacks of other coroutines may be below that of a running one.
// `unknown_stacks`: how many threads have a stack that was not found because the search reached its limit. These stacks
// are parts of mappings. May be null.
std::vector<RootRange> FindRoots(AddressSpace* space, const HeapBlocks& heap, const HeapBlocksInput& input,
                                 uint32_t* unknown_stacks = nullptr);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_HEAP_BLOCKS_H_
