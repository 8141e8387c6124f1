// Private memory that only the library uses. It may contain words of the program, such as addresses of locks and
// remembered words of stacks, and these are no pointers of the program. So searches for pointers leave it out: they find
// this list by its mark in the library's data (report/holders/library_memory.h).
//
// Not in the list: memory that the program may get from the library (interpose/heap/early_arena.h), and the arguments of
// threads that have not begun (sampler/record/threads.h).
#ifndef HOLDFAST_SAMPLER_CONTRACT_OWN_MEMORY_H_
#define HOLDFAST_SAMPLER_CONTRACT_OWN_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace holdfast {

inline constexpr uint64_t kOwnMemoryMark[2] = {0x686f6c6466617374, 0x6f776e206d656d31};  // "holdfast" "own mem1"
// At most one for each thread that owns rows, and a few for the whole process.
inline constexpr uint32_t kMaxOwnMemory = 64;

struct OwnMemoryList {
  uint64_t mark[2];
  std::atomic<uint64_t> count;  // may be greater than kMaxOwnMemory: the others are not in the list
  struct Range {
    std::atomic<uint64_t> start, end;  // start is written last; 0: not yet
  } ranges[kMaxOwnMemory];
};

// Adds a mapping that will never be unmapped. Any thread, also in signal handlers.
void NoteOwnMemory(const void* start, size_t bytes);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_OWN_MEMORY_H_
