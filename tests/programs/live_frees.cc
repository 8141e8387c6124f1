// The cost of free and malloc while many sampled blocks are live, for callgrind with --instr-atstart=no: a ring of 1,024 blocks,
// none of them sampled. Runs with lazy_allocator.so below, and with --heap-interval 256KiB, a quarter of its blocks' size.
//     live_frees LIVE       prints "rounds N, live M"
#include <stdlib.h>

#include <vector>

#include "known.h"
#include "own_table.h"
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#endif

namespace {

constexpr size_t kRing = 1024;
constexpr size_t kRounds = 65536;
void* ring[kRing];

void Turn(size_t i) {
  free(ring[i % kRing]);
  ring[i % kRing] = malloc(16 + i * 7919 % 1008);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::vector<void*> live(static_cast<size_t>(atol(argv[1])));
  for (void*& block : live) block = malloc(1 << 20);
  holdfast::TableHeader* table = holdfast::OwnTable();
  if (table != nullptr) holdfast::SetHeapInterval(table, 0);
  for (size_t i = 0; i < 4 * kRing; ++i) Turn(i);
  CALLGRIND_START_INSTRUMENTATION;
  for (size_t i = 0; i < kRounds; ++i) Turn(i);
  CALLGRIND_STOP_INSTRUMENTATION;
  uint64_t sampled = 0;
  if (table != nullptr) {
    for (const holdfast::CounterShard& shard : table->counters) sampled += shard.alloc_calls - shard.free_calls;
  }
  printf("rounds %zu, live %lu\n", kRounds, sampled);
  return 0;
}
