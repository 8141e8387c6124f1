#include "report/observe/table/snapshot_ages.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_format.h"
#include "report/observe/table/record_at.h"
#include "sampler/contract/age_buckets.h"
#include "sampler/contract/weight.h"

namespace holdfast {

absl::Status AgesReader::ReadCells(const Row& row, uint32_t stack, TableSnapshot* snapshot) {
  for (Offset at = CounterValue(row.ages); at != 0;) {
    const auto* cell = RecordAt<AgeCell>(bytes_, limit_, at);
    if (cell == nullptr || cells_left_ == 0 || cell->bucket >= kAgeBuckets ||
        static_cast<int>(cell->freed_by) >= kFreedBys) {
      return absl::DataLossError(absl::StrFormat("bad counts of ages at byte %d", uint64_t{at} * kUnit));
    }
    --cells_left_;
    AgesInfo info{.stack = stack, .bucket = cell->bucket, .freed_by = cell->freed_by};
    info.objects = static_cast<double>(CounterValue(cell->objects)) / (1 << kCountFractionBits);
    info.bytes = static_cast<double>(CounterValue(cell->bytes)) / (1 << kAmountFractionBits);
    info.ages_ns = FromDoubleBits(CounterValue(cell->ages_ns));
    info.variance = FromDoubleBits(CounterValue(cell->variance));
    at = cell->next;
    if (!(info.objects > 0)) continue;
    snapshot->ages.push_back(info);
  }
  return absl::OkStatus();
}

void AgesReader::ReadAlive(const absl::flat_hash_map<Offset, uint32_t>& stack_of_row, TableSnapshot* snapshot) const {
  const auto& head = *reinterpret_cast<const TableHeader*>(bytes_);
  const uint32_t intervals = std::min<uint32_t>(CounterValue(head.heap_interval_count), kIntervals);
  // The program's clock at the snapshot: for an ended process, ages are those at its end.
  const auto now = static_cast<int64_t>(static_cast<uint64_t>(head.start_monotonic_ns) +
                                        static_cast<uint64_t>(snapshot->elapsed_ns));
  // Set even if there were no samples.
  snapshot->ages_are_drawn = CounterValue(head.in_use.shadow) != 0;
  absl::flat_hash_map<std::tuple<uint32_t, int, int>, size_t> index;
  for (uint32_t segment = 0; segment < kLiveSegments; ++segment) {
    const uint32_t slots = LiveSlotsIn(segment);
    const auto* keys = RecordAt<std::atomic<uint64_t>>(bytes_, limit_, CounterValue(head.live_segments[segment]),
                                                       slots * (sizeof(uint64_t) + sizeof(LiveSample)));
    if (keys == nullptr) continue;
    const auto* samples = reinterpret_cast<const LiveSample*>(keys + slots);
    for (uint32_t i = 0; i < slots; ++i) {
      const uint64_t key = CounterValue(keys[i]);
      const LiveSample& sample = samples[i];
      if (key <= 1 || (key & 1) != 0 || sample.born_ns == 0 || sample.interval_index >= intervals) continue;
      const auto stack = stack_of_row.find(sample.row);
      if (stack == stack_of_row.end()) continue;
      const int bucket = AgeBucket(std::max<int64_t>(0, now - sample.born_ns));
      const Weight weight = WeightOf(sample.size, head.heap_intervals[sample.interval_index].interval,
                                     sample.beside_shadow != 0 ? 1.0 / kAgedOneIn : 1);
      const int size_class = SizeClass(sample.size);
      const auto [place, added] = index.emplace(std::tuple(stack->second, bucket, size_class), snapshot->alive.size());
      if (added) {
        snapshot->alive.push_back(
            {.stack = stack->second, .bucket = bucket, .class_bytes = SizeClassUpperEdge(size_class)});
      }
      AliveInfo& info = snapshot->alive[place->second];
      info.bytes += static_cast<double>(weight.amount) / (1 << kAmountFractionBits);
      info.variance += weight.amount_variance;
    }
  }
}

}  // namespace holdfast
