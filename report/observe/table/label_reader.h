// Reads the labels of threads from a table that is untrusted.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_LABEL_READER_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_LABEL_READER_H_

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/base/utf8.h"
#include "report/observe/table/record_at.h"
#include "report/observe/table/snapshot.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// `limit`: this many bytes may contain records.
class LabelReader {
 public:
  LabelReader(const char* bytes, uint64_t limit) : bytes_(bytes), limit_(limit) {}

  // Reads the LabelSet at `offset` and adds it to `sets` once. Returns its index in `sets`. An unreadable set becomes
  // `labels=[overflow]`, like a set that found no room: labels are not a reason to reject a table.
  uint32_t Read(Offset offset, std::vector<LabelPairs>* sets);

 private:
  LabelPairs PairsAt(Offset offset) const;

  const char* bytes_;
  uint64_t limit_;
  absl::flat_hash_map<Offset, uint32_t> known_;
};

inline uint32_t LabelReader::Read(Offset offset, std::vector<LabelPairs>* sets) {
  if (const auto found = known_.find(offset); found != known_.end()) return found->second;
  // The writer never makes more.
  LabelPairs pairs = known_.size() <= kMaxLabelSets ? PairsAt(offset) : LabelPairs{};
  if (pairs.empty()) {
    offset = 0;
    pairs = {{"labels", kLabelOverflow}};
  }
  const auto [place, added] = known_.emplace(offset, static_cast<uint32_t>(sets->size()));
  if (added) sets->push_back(std::move(pairs));
  return place->second;
}

// Returns an empty list if there is no valid set.
inline LabelPairs LabelReader::PairsAt(Offset offset) const {
  const auto* set = RecordAt<LabelSet>(bytes_, limit_, offset);
  if (set == nullptr || set->bytes > kMaxLabelBytes ||
      RecordAt<LabelSet>(bytes_, limit_, offset, sizeof(LabelSet) + set->bytes) == nullptr)
    return {};
  LabelPairs pairs;
  std::string_view left(set->text, set->bytes);
  while (!left.empty()) {
    const size_t key = left.find('\0');
    const size_t value = key != std::string_view::npos ? left.find('\0', key + 1) : std::string_view::npos;
    if (value == std::string_view::npos || key == 0) return {};
    pairs.emplace_back(RepairUtf8(left.substr(0, key)), RepairUtf8(left.substr(key + 1, value - key - 1)));
    left.remove_prefix(value + 1);
  }
  return pairs;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_LABEL_READER_H_
