// What a call of an allocator's function means: where its size and its block are, and what it returns. The names are
// those of the wrappers in interpose/heap, in allocator_names.inc.
#ifndef HOLDFAST_SAMPLER_ENTRIES_CALL_SHAPE_H_
#define HOLDFAST_SAMPLER_ENTRIES_CALL_SHAPE_H_

#include <cstdint>

namespace holdfast {

enum class Effect : uint8_t {
  kAllocates,           // returns the block, or null
  kAllocatesInto,       // returns 0 and stores the block where the first argument points, or returns an error
  kCopies,              // returns a block with a text: its length is the size
  kCopiesPath,          // the same, unless the second argument is a buffer
  kReallocates,         // returns the new block; null for a size above 0: it failed, and the old block stays
  kReallocatesOrFrees,  // the same, but the old block is freed when it fails
  kResizes,             // returns the size that the block has now; it failed if that is less than asked for
  kFrees,
  kFreesMany,          // all blocks of a heap
  kControls,           // jemalloc's mallctl: the first argument is the name of what it does
  kControlNumbers,     // mallctlnametomib: stores the numbers of such a name where the second argument points
  kControlsByNumbers,  // mallctlbymib: the first argument points to such numbers, the second is their count
  kOther,              // allocates nothing: a known function with which an entry must not share its address
};

// Numbers of arguments, from 0; −1: none. `block` of kCopiesPath: the buffer.
struct CallShape {
  Effect effect;
  int8_t arguments;  // how many
  int8_t size;
  int8_t times;  // the size is multiplied by this one
  int8_t block;
};

namespace call_shapes {
inline constexpr CallShape Allocate{Effect::kAllocates, 1, 0, -1, -1};
inline constexpr CallShape AllocateMany{Effect::kAllocates, 2, 0, 1, -1};
inline constexpr CallShape AllocateWithFlags{Effect::kAllocates, 2, 0, -1, -1};
inline constexpr CallShape AllocateAligned{Effect::kAllocates, 2, 0, -1, -1};
inline constexpr CallShape AllocateAlignedTo{Effect::kAllocates, 2, 1, -1, -1};
inline constexpr CallShape AllocateAlignedInto{Effect::kAllocatesInto, 3, 2, -1, -1};
inline constexpr CallShape AllocateNothrow{Effect::kAllocates, 2, 0, -1, -1};
inline constexpr CallShape AllocateAlignedNothrow{Effect::kAllocates, 3, 0, -1, -1};
inline constexpr CallShape AllocateAlignedAt{Effect::kAllocates, 3, 0, -1, -1};
inline constexpr CallShape AllocateAlignedHinted{Effect::kAllocates, 4, 0, -1, -1};
inline constexpr CallShape AllocateManyAligned{Effect::kAllocates, 3, 0, 1, -1};
inline constexpr CallShape AllocateCopy{Effect::kCopies, 2, -1, -1, -1};
inline constexpr CallShape AllocatePath{Effect::kCopiesPath, 2, -1, -1, 1};
inline constexpr CallShape HeapAllocate{Effect::kAllocates, 3, 1, -1, -1};
inline constexpr CallShape AllocateManyAlignedAt{Effect::kAllocates, 4, 0, 1, -1};
inline constexpr CallShape HeapAllocateAt{Effect::kAllocates, 4, 1, -1, -1};
inline constexpr CallShape HeapAllocateManyAligned{Effect::kAllocates, 4, 1, 2, -1};
inline constexpr CallShape HeapAllocateManyAlignedAt{Effect::kAllocates, 5, 1, 2, -1};
inline constexpr CallShape HeapAllocateAlignedTo{Effect::kAllocates, 3, 2, -1, -1};
inline constexpr CallShape HeapFree{Effect::kFrees, 2, -1, -1, 1};
inline constexpr CallShape HeapAllocateMany{Effect::kAllocates, 3, 1, 2, -1};
inline constexpr CallShape HeapAllocateCopy{Effect::kCopies, 2, -1, -1, -1};
inline constexpr CallShape HeapAllocatePath{Effect::kCopiesPath, 3, -1, -1, 2};
inline constexpr CallShape Reallocate{Effect::kReallocates, 2, 1, -1, 0};
inline constexpr CallShape ReallocateWithFlags{Effect::kReallocates, 3, 1, -1, 0};
inline constexpr CallShape ReallocateMany{Effect::kReallocates, 3, 1, 2, 0};
inline constexpr CallShape ReallocateAligned{Effect::kReallocates, 3, 1, -1, 0};
inline constexpr CallShape ReallocateAlignedAt{Effect::kReallocates, 4, 1, -1, 0};
inline constexpr CallShape ReallocateManyAligned{Effect::kReallocates, 4, 1, 2, 0};
inline constexpr CallShape ReallocateManyAlignedAt{Effect::kReallocates, 5, 1, 2, 0};
inline constexpr CallShape ReallocateOrFree{Effect::kReallocatesOrFrees, 2, 1, -1, 0};
inline constexpr CallShape ReallocateOfSize{Effect::kReallocates, 4, 3, -1, 0};
inline constexpr CallShape HeapReallocate{Effect::kReallocates, 4, 2, -1, 1};
inline constexpr CallShape HeapReallocateAt{Effect::kReallocates, 5, 2, -1, 1};
inline constexpr CallShape HeapReallocateMany{Effect::kReallocates, 4, 2, 3, 1};
inline constexpr CallShape HeapReallocateManyAligned{Effect::kReallocates, 5, 2, 3, 1};
inline constexpr CallShape HeapReallocateManyAlignedAt{Effect::kReallocates, 6, 2, 3, 1};
inline constexpr CallShape HeapReallocateOrFree{Effect::kReallocatesOrFrees, 3, 2, -1, 1};
inline constexpr CallShape ResizeInPlace{Effect::kResizes, 4, 1, -1, 0};
inline constexpr CallShape Free{Effect::kFrees, 1, -1, -1, 0};
inline constexpr CallShape FreeWithFlags{Effect::kFrees, 2, -1, -1, 0};
inline constexpr CallShape FreeNothrow{Effect::kFrees, 2, -1, -1, 0};
inline constexpr CallShape FreeAlignedNothrow{Effect::kFrees, 3, -1, -1, 0};
inline constexpr CallShape FreeAligned{Effect::kFrees, 2, -1, -1, 0};
inline constexpr CallShape FreeSized{Effect::kFrees, 2, -1, -1, 0};
inline constexpr CallShape FreeSizedAligned{Effect::kFrees, 3, -1, -1, 0};
inline constexpr CallShape FreeSizedWithFlags{Effect::kFrees, 3, -1, -1, 0};
inline constexpr CallShape FreeMany{Effect::kFreesMany, 1, -1, -1, -1};
inline constexpr CallShape Control{Effect::kControls, 5, -1, -1, -1};
inline constexpr CallShape ControlNumbers{Effect::kControlNumbers, 3, -1, -1, -1};
inline constexpr CallShape ControlByNumbers{Effect::kControlsByNumbers, 6, -1, -1, -1};
inline constexpr CallShape Other{Effect::kOther, 1, -1, -1, -1};
}  // namespace call_shapes

// Whether a call of one may be handled as a call of the other: two names of one function.
inline constexpr bool AreAlike(const CallShape& a, const CallShape& b) {
  return a.effect == b.effect && a.size == b.size && a.times == b.times && a.block == b.block;
}

// The list, as numbers. Those of HOLDFAST_NAME come first (interpose/heap).
enum AllocatorName : int {
#define HOLDFAST_NAME(name, shape) kName_##name,
#include "sampler/entries/allocator_names.inc"
  kOwnNames,
  kBeforeEntryNames = kOwnNames - 1,
#define HOLDFAST_NAME(name, shape)
#define HOLDFAST_ENTRY_NAME(name, shape) kName_##name,
#define HOLDFAST_PLAIN_NAME(name, shape) kName_##name,
#include "sampler/entries/allocator_names.inc"
  kAllocatorNames,
  kFirstPlainName = kName_malloc,
  kFirstEntryName = kOwnNames,
};

struct NamedCall {
  char text[64];  // no pointer, which the dynamic linker would have to relocate at the start of every program
  CallShape shape;
};
inline constexpr NamedCall kNamedCalls[kAllocatorNames] = {
#define HOLDFAST_NAME(name, shape) {#name, call_shapes::shape},
#include "sampler/entries/allocator_names.inc"
#define HOLDFAST_NAME(name, shape)
#define HOLDFAST_ENTRY_NAME(name, shape) {#name, call_shapes::shape},
#define HOLDFAST_PLAIN_NAME(name, shape) {#name, call_shapes::shape},
#include "sampler/entries/allocator_names.inc"
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_ENTRIES_CALL_SHAPE_H_
