#include "report/table/heap_in_use.h"

#include "report/table/snapshot_locks.h"

namespace holdfast {

uint64_t BytesInUse(const InUseLines& lines) {
  uint64_t sum = CounterValue(lines.all.now);
  for (const ThreadInUse& thread : lines.of_threads) sum += CounterValue(thread.limit) - CounterValue(thread.room);
  // Lines that were read while they changed.
  return static_cast<int64_t>(sum) > 0 ? sum : 0;
}

HeightError HeightErrorOf(const InUseLines& lines) {
  if (CounterValue(lines.all.shadow) == 0) return HeightError::kEstimated;
  int used = 0;
  for (const ThreadInUse& thread : lines.of_threads)
    used += CounterValue(thread.limit) != 0 || CounterValue(thread.room) != 0;
  return used > 1 ? HeightError::kOfThreads : HeightError::kNone;
}

}  // namespace holdfast
