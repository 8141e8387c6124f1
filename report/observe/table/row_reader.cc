#include "report/observe/table/row_reader.h"

#include <string>

#include "report/observe/table/record_at.h"
#include "sampler/contract/weight.h"

namespace holdfast {

bool ReadRowInfo(const Row& row, Offset place, RowInfo* info) {
  const bool sized = row.profile == ProfileKind::kHeap || row.profile == ProfileKind::kMap;
  if (static_cast<int>(row.profile) >= kProfileKinds) return false;
  const bool of_all_sizes = row.profile == ProfileKind::kHeap && row.size_class == kNoSizeClass;
  if (sized && !of_all_sizes && row.size_class > SizeClass(UINT64_MAX)) return false;
  if (IsLockKind(row.profile) && static_cast<int>(row.wait) >= kWaitKinds) return false;
  info->place = place;
  info->profile = row.profile;
  info->class_bytes = sized && !of_all_sizes ? SizeClassUpperEdge(row.size_class) : 0;
  const auto count = [&](int i) { return static_cast<double>(CounterValue(row.sums[i])) / (1 << kCountFractionBits); };
  const auto amount = [&](int i) {
    return static_cast<double>(CounterValue(row.sums[i])) / (1 << kAmountFractionBits);
  };
  const auto variance = [&](int i) { return FromDoubleBits(CounterValue(row.sums[i])); };
  switch (row.profile) {
    case ProfileKind::kHeap:
      if (row.owner != 0) {
        info->sums = {count(kAllocObjects),
                      amount(kAllocSpace),
                      count(kFreeObjects) + count(kFreeObjectsByOthers),
                      amount(kFreeSpace) + amount(kFreeSpaceByOthers),
                      0,
                      0,
                      0,
                      0};
      } else {
        info->sums = {count(kAllocObjects),
                      amount(kAllocSpace),
                      count(kFreeObjects),
                      amount(kFreeSpace),
                      variance(kAllocObjectsVariance),
                      variance(kAllocSpaceVariance),
                      variance(kFreeObjectsVariance),
                      variance(kFreeSpaceVariance)};
      }
      return true;
    case ProfileKind::kMutex:
    case ProfileKind::kBlock:
      info->wait = row.wait;
      info->number = row.size_class;
      info->sums = {count(kContentions),
                    amount(kDelay),
                    variance(kContentionsVariance),
                    variance(kDelayVariance),
                    static_cast<double>(CounterValue(row.sums[kLongest])),
                    static_cast<double>(CounterValue(row.sums[kLockSamples])),
                    0,
                    amount(kAlone)};
      return true;
    case ProfileKind::kMap:
      if (static_cast<int>(row.mapping) >= kMappingKinds) return false;
      info->mark = static_cast<uint8_t>(row.mapping);
      info->sums = {count(kAllocObjects), amount(kAllocSpace), count(kFreeObjects), amount(kFreeSpace)};
      return true;
    case ProfileKind::kThreads:
      info->class_bytes = StackBytes(row.size_class);
      info->sums = {count(kThreadsCreated), count(kThreadsEnded)};
      return true;
    case ProfileKind::kExceptions:
      info->mark = row.thrown & kThrownBits;
      info->number = row.size_class;
      info->sums = {count(kThrown), variance(kThrownVariance)};
      return true;
    case ProfileKind::kCpu:
      info->sums = {count(kCpuSamples), amount(kCpuTime), variance(kCpuVariance)};
      return true;
  }
  return false;
}

void ReadLiveThreads(const char* bytes, uint64_t limit, const absl::flat_hash_map<Offset, uint32_t>& row_index,
                     TableSnapshot* snapshot) {
  const auto* head = reinterpret_cast<const TableHeader*>(bytes);
  for (int i = 0; i < kThreadSegments; ++i) {
    const uint64_t slots = uint64_t{kThreadSlots0} << i;
    const auto* segment =
        RecordAt<LiveThread>(bytes, limit, CounterValue(head->thread_segments[i]), slots * sizeof(LiveThread));
    if (segment == nullptr) continue;
    for (uint64_t slot = 0; slot < slots; ++slot) {
      const uint64_t who = CounterValue(segment[slot].who);
      const auto row = row_index.find(static_cast<Offset>(who >> kNotedRowShift));
      if (who == 0 || row == row_index.end() || snapshot->rows[row->second].profile != ProfileKind::kThreads) continue;
      snapshot->live_threads.push_back(
          {.id = static_cast<uint32_t>(who), .row = row->second, .when_ns = CounterValue(segment[slot].when_ns)});
    }
  }
}

void ReadThrownTypes(const char* bytes, uint64_t limit, TableSnapshot* snapshot) {
  const auto* head = reinterpret_cast<const TableHeader*>(bytes);
  uint32_t left = kMaxTypes;  // a longer walk means that the list is cyclic
  for (const auto& list : head->type_heads) {
    for (Offset offset = CounterValue(list); offset != 0 && left > 0; --left) {
      const auto* type = RecordAt<ThrownType>(bytes, limit, offset);
      if (type == nullptr || type->bytes > kMaxTypeBytes ||
          RecordAt<ThrownType>(bytes, limit, offset, sizeof(ThrownType) + type->bytes) == nullptr)
        break;
      snapshot->thrown_types.emplace(type->number, std::string(type->text, type->bytes));
      offset = type->next;
    }
  }
}

}  // namespace holdfast
