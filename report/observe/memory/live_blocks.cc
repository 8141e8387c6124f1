#include "report/observe/memory/live_blocks.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "report/observe/memory/table_reader.h"
#include "report/observe/table/snapshot_locks.h"
#include "sampler/contract/layout.h"
#include "sampler/contract/pool_blocks.h"
#include "sampler/contract/shadow_words.h"

namespace holdfast {
namespace {

// Reads the levels of slots: first keys, then their samples (sampler/contract/records.h).
void AddSegments(const TableReader& reader, const TableHeader& head, std::vector<LiveBlock>* blocks) {
  const uint32_t intervals = std::min<uint32_t>(CounterValue(head.heap_interval_count), kIntervals);
  for (uint32_t segment = 0; segment < kLiveSegments; ++segment) {
    const uint32_t slots = LiveSlotsIn(segment);
    const Offset offset = CounterValue(head.live_segments[segment]);
    if (offset == 0) continue;
    std::vector<uint64_t> keys(slots), later(slots);
    std::vector<LiveSample> samples(slots);
    const uint64_t start = uint64_t{offset} * kUnit, key_bytes = slots * sizeof(uint64_t);
    if (!reader.ReadAt(start, keys.data(), key_bytes)) continue;
    if (!reader.ReadAt(start + key_bytes, samples.data(), slots * sizeof(LiveSample))) continue;
    if (!reader.ReadAt(start, later.data(), key_bytes)) continue;
    for (uint32_t i = 0; i < slots; ++i) {
      if (keys[i] != later[i]) continue;  // the slot was reused meanwhile
      if (keys[i] <= 1 || (keys[i] & 1) != 0 || samples[i].interval_index >= intervals) continue;
      if (samples[i].beside_shadow != 0) continue;
      blocks->push_back({AddressOfBlock(keys[i]), samples[i].size,
                         head.heap_intervals[samples[i].interval_index].interval, samples[i].row});
    }
  }
}

void AddShadowed(const TableReader& reader, const TableHeader& head, std::vector<LiveBlock>* blocks) {
  const auto directory = std::make_unique<ShadowDirectory>();
  if (!reader.Read(CounterValue(head.in_use.shadow), directory.get(), sizeof *directory)) return;
  const auto chunk = std::make_unique<ShadowChunk>();
  absl::flat_hash_map<Offset, uint32_t> size_classes;  // of rows already read
  const auto size_class_of = [&](Offset row) {
    const auto [known, added] = size_classes.emplace(row, UINT32_MAX);  // matches no block
    if (Row read; added && reader.Read(row, &read, sizeof read)) known->second = read.size_class;
    return known->second;
  };
  const auto tinies = std::make_unique<ShadowTinies>();
  for (const std::atomic<uint64_t>& place : directory->chunks) {
    const uint64_t entry = CounterValue(place);
    if (entry == 0 || !reader.Read(static_cast<Offset>(entry), chunk.get(), sizeof *chunk)) continue;
    const uint64_t base = entry >> 32 << kShadowShift;
    const auto add = [&](uint64_t address, uint32_t word, uint32_t second) {
      if (!IsShadowedRow(word)) return;
      const Offset row = ShadowedRow(word);
      const std::optional<uint32_t> bytes = CheckedShadowedBytes(size_class_of(row), second);
      if (bytes.has_value()) blocks->push_back({AddressOfBlock(address), *bytes, 1, row});
    };
    for (uint32_t i = 0; i < kShadowSlots; ++i) {
      const uint32_t word = CounterValue(chunk->slots[i]);
      add(base + uint64_t{i} * kShadowGrain + ShadowedAt(word), word, CounterValue(chunk->slots[i + 1]));
    }
    for (uint32_t page = 0; page < kTinyPages; ++page) {
      const Offset of_page = CounterValue(chunk->tinies[page]);
      if (of_page == 0 || !reader.Read(of_page, tinies.get(), sizeof *tinies)) continue;
      for (uint32_t i = 0; i < kTinyPage / kTinyGrain; ++i)
        add(base + uint64_t{page} * kTinyPage + uint64_t{i} * kTinyGrain, CounterValue(tinies->slots[i]), 0);
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<LiveBlock>> ReadLiveBlocks(const TableFile& table) {
  const TableReader reader(table.descriptor());
  const absl::StatusOr<std::unique_ptr<TableHeader>> read = reader.Head();
  if (!read.ok()) return read.status();
  const TableHeader& head = **read;
  std::vector<LiveBlock> blocks;
  AddSegments(reader, head, &blocks);
  AddShadowed(reader, head, &blocks);
  std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
  return blocks;
}

}  // namespace holdfast
