// Maps the ids by which the messages of a pprof file refer to each other. For the reader only.
#ifndef HOLDFAST_REPORT_PROFILE_ID_MAP_H_
#define HOLDFAST_REPORT_PROFILE_ID_MAP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/profile/damage.h"
#include "report/profile/profile.h"

namespace holdfast {

// id in the file → index. Ids up to the number of entries are stored in an array. In files that count ids from 1, these
// are all ids.
class IdMap {
 public:
  IdMap(const char* what, size_t count) : what_(what), small_(count + 1, Profile::kNone) {}

  void Add(uint64_t id, uint32_t index) {
    if (id == 0) Fail("a {} has id 0", what_);
    const bool taken = id < small_.size() ? small_[id] != Profile::kNone : large_.contains(id);
    if (taken) Fail("two {}s have id {}", what_, id);
    if (id < small_.size()) {
      small_[id] = index;
    } else {
      large_.emplace(id, index);
    }
  }
  uint32_t Get(uint64_t id) const {
    if (id < small_.size() && small_[id] != Profile::kNone) [[likely]]
      return small_[id];
    return GetLarge(id);
  }

  std::optional<uint32_t> Find(uint64_t id) const {
    if (id < small_.size() && small_[id] != Profile::kNone) return small_[id];
    if (const auto found = large_.find(id); found != large_.end()) return found->second;
    return std::nullopt;
  }

 private:
  [[gnu::noinline]] uint32_t GetLarge(uint64_t id) const {
    if (const auto found = large_.find(id); found != large_.end()) return found->second;
    Fail("{} id {} is used but not defined", what_, id);
  }

  const char* what_;
  std::vector<uint32_t> small_;
  absl::flat_hash_map<uint64_t, uint32_t> large_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_ID_MAP_H_
