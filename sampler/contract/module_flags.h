// The bits of Module::unloaded. For the target and its readers; no state.
#ifndef HOLDFAST_SAMPLER_CONTRACT_MODULE_FLAGS_H_
#define HOLDFAST_SAMPLER_CONTRACT_MODULE_FLAGS_H_

#include <cstdint>

namespace holdfast {

inline constexpr uint32_t kModuleUnloaded = 1;
// The module's calls of free do not reach the library, so the frees of its blocks are not seen:
// sampler/capture/free_calls.h.
inline constexpr uint32_t kModuleFreesElsewhere = 2;
// The executable's allocator returned a block that was sampled and not yet freed: it frees, and probably allocates,
// without its functions (they were inlined, -flto).
inline constexpr uint32_t kModuleFreesInlined = 4;
// The program called a function of the executable's allocator that frees many blocks at once (mi_heap_destroy,
// jemalloc's arena reset), so blocks that count as in use may be freed.
inline constexpr uint32_t kModuleFreesMany = 8;
// Malloc itself is the executable's, and has memory of its own: [heap] may be that allocator's and not the C library's.
// Not set for an allocator under other names alone (je_malloc): the C library's malloc is in use beside it.
inline constexpr uint32_t kModuleReplacesMalloc = 16;
// The executable's, with --entries yes: every function on the list was looked for.
inline constexpr uint32_t kModuleWasSearched = 32;
// From bit 8 on: the executable's EntryOutcome (entry_state.h).

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_MODULE_FLAGS_H_
