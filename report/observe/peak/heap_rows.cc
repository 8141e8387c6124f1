#include "report/observe/peak/heap_rows.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "report/observe/peak/table_pages.h"
#include "report/observe/table/snapshot_locks.h"

namespace holdfast {
namespace {

// Rows at most this far apart are read together: a read costs as much as copying a few KiB.
constexpr uint64_t kGap = 4 << 10, kRun = 32 << 10;

float Variance(uint64_t allocated, uint64_t freed) {
  const double left = std::bit_cast<double>(allocated) - std::bit_cast<double>(freed);
  // The comparison is also false for NaN.
  return left > 0 && left < 1e300 ? static_cast<float>(std::min(left, 3e38)) : 0;
}

// A row may grow between our two reads of it, so the difference may be negative: return 0 then.
uint64_t Left(uint64_t allocated, uint64_t freed) { return allocated > freed ? allocated - freed : 0; }

RowInUse InUse(const Row& row, Offset place) {
  const auto sum = [&row](int i) { return CounterValue(row.sums[i]); };
  RowInUse in_use{};
  in_use.row = place;
  if (row.owner != 0) {
    in_use.objects = Left(sum(kAllocObjects), sum(kFreeObjects) + sum(kFreeObjectsByOthers));
    in_use.bytes = Left(sum(kAllocSpace), sum(kFreeSpace) + sum(kFreeSpaceByOthers));
  } else {
    in_use.objects = Left(sum(kAllocObjects), sum(kFreeObjects));
    in_use.bytes = Left(sum(kAllocSpace), sum(kFreeSpace));
    in_use.objects_variance = Variance(sum(kAllocObjectsVariance), sum(kFreeObjectsVariance));
    in_use.bytes_variance = Variance(sum(kAllocSpaceVariance), sum(kFreeSpaceVariance));
  }
  return in_use;
}

}  // namespace

bool HeapRows::Follow(int table) {
  RecordShard shards[kCounterShards];
  // Read before the table's size, so that the size includes everything that the heads refer to.
  if (!ReadTable(table, shards, offsetof(TableHeader, record_shards), sizeof shards)) return false;
  bool come = false;
  for (int i = 0; i < kCounterShards; ++i) come |= CounterValue(shards[i].newest_row) != newest_[i];
  if (!come) return true;
  TablePages pages(table);
  if (!pages.ok()) return false;
  const size_t before = places_.size();
  size_t left = pages.size() / sizeof(Row) - std::min<size_t>(before, pages.size() / sizeof(Row));
  for (int i = 0; i < kCounterShards; ++i) {
    const Offset newest = CounterValue(shards[i].newest_row);
    for (Offset at = newest; at != newest_[i] && at != 0 && left > 0; --left) {
      const Row* row = pages.At<Row>(at);
      if (row == nullptr) break;
      places_.push_back(at);
      at = row->older;
    }
    newest_[i] = newest;
  }
  const auto added = places_.begin() + static_cast<ptrdiff_t>(before);
  std::sort(added, places_.end());
  std::inplace_merge(places_.begin(), added, places_.end());
  places_.erase(std::unique(places_.begin(), places_.end()), places_.end());
  return true;
}

template <typename Take>
bool HeapRows::ForEach(int table, Take take) const {
  char buffer[kRun];
  for (size_t first = 0, last; first < places_.size(); first = last) {
    const uint64_t start = uint64_t{places_[first]} * kUnit;
    uint64_t end = start + sizeof(Row);
    for (last = first + 1; last < places_.size(); ++last) {
      const uint64_t next = uint64_t{places_[last]} * kUnit;
      if (next > end + kGap || next + sizeof(Row) > start + kRun) break;
      end = next + sizeof(Row);
    }
    if (!ReadTable(table, buffer, start, end - start)) return false;
    for (size_t i = first; i < last; ++i) {
      Row row;
      memcpy(static_cast<void*>(&row), buffer + (uint64_t{places_[i]} * kUnit - start), sizeof row);
      take(row, places_[i]);
    }
  }
  return true;
}

bool HeapRows::Read(int table, std::vector<RowInUse>* rows, uint64_t* bytes) const {
  rows->clear();
  *bytes = 0;
  return ForEach(table, [&](const Row& row, Offset place) {
    const RowInUse in_use = InUse(row, place);
    if (in_use.bytes == 0 && in_use.objects == 0) return;
    rows->push_back(in_use);
    *bytes += in_use.bytes;
  });
}

bool HeapRows::ReadSums(int table, std::vector<RowSums>* rows) const {
  rows->clear();
  return ForEach(table, [&](const Row& row, Offset place) {
    const auto sum = [&row](int i) { return CounterValue(row.sums[i]); };
    const bool has_owner = row.owner != 0;  // otherwise the last sums are variances
    const uint64_t objects = sum(kFreeObjects) + (has_owner ? sum(kFreeObjectsByOthers) : 0);
    const uint64_t bytes = sum(kFreeSpace) + (has_owner ? sum(kFreeSpaceByOthers) : 0);
    if (sum(kAllocObjects) == 0) return;
    rows->push_back({.allocated_bytes = sum(kAllocSpace) >> kAmountFractionBits,
                     .allocated_objects = sum(kAllocObjects) >> kCountFractionBits,
                     .freed_bytes = bytes >> kAmountFractionBits,
                     .freed_objects = objects >> kCountFractionBits,
                     .row = place});
  });
}

}  // namespace holdfast
