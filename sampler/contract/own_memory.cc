#include "sampler/contract/own_memory.h"

namespace holdfast {
namespace {

constinit OwnMemoryList own_memory = {.mark = {kOwnMemoryMark[0], kOwnMemoryMark[1]}, .count = 0, .ranges = {}};

}  // namespace

void NoteOwnMemory(const void* start, size_t bytes) {
  const uint64_t number = own_memory.count.fetch_add(1, std::memory_order_relaxed);
  if (number >= kMaxOwnMemory) return;
  OwnMemoryList::Range& range = own_memory.ranges[number];
  range.end.store(reinterpret_cast<uintptr_t>(start) + bytes, std::memory_order_relaxed);
  range.start.store(reinterpret_cast<uintptr_t>(start), std::memory_order_release);
}

}  // namespace holdfast
