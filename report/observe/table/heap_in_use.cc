#include "report/observe/table/heap_in_use.h"

#include <algorithm>

#include "report/observe/table/snapshot_locks.h"

namespace holdfast {

uint64_t BytesInUse(const InUseLines& lines) {
  uint64_t sum = CounterValue(lines.all.now);
  for (const ThreadInUse& thread : lines.of_threads) sum += CounterValue(thread.limit) - CounterValue(thread.room);
  // The lines changed while they were read.
  if (static_cast<int64_t>(sum) <= 0) return 0;
  return std::min(sum, MaxInUse(lines).value_or(sum));
}

std::optional<uint64_t> MaxInUse(const InUseLines& lines) {
  if (CounterValue(lines.all.shadow) == 0) return std::nullopt;
  return std::max(CounterValue(lines.all.most), CounterValue(lines.all.highest));
}

}  // namespace holdfast
