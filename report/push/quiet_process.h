// A process in which nothing has happened since it was last told: what is in use there is told again, as the same profile at a
// later time. Neither its table is read through nor a profile made; of a thousand programs most are quiet most of the time.
#ifndef HOLDFAST_REPORT_PUSH_QUIET_PROCESS_H_
#define HOLDFAST_REPORT_PUSH_QUIET_PROCESS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/push/server_profile.h"
#include "sampler/contract/layout.h"

namespace holdfast {

class QuietProcess {
 public:
  struct Kept {
    ProfileKind kind;
    std::string pprof;  // gzip; without a counter
  };
  // A thousand processes may have so much each. Larger ones are made again, which is little beside sending them.
  static constexpr size_t kMostBytes = 32 << 10;

  // `records`: as they were before what is kept was read.
  void Begin(std::optional<uint64_t> records) {
    *this = {};
    records_ = records;
  }
  // Of one kind; `may_be_better`: next time it may say more (names that were not found in time), or it counts something.
  void Keep(ProfileKind kind, const ServerProfiles& made, bool may_be_better) {
    if (made.parts.empty()) return;
    is_whole_ = is_whole_ && !may_be_better && made.parts.size() == 1 && made.parts[0].pprof.size() <= kMostBytes;
    if (is_whole_) kept_.push_back({kind, made.parts[0].pprof});
  }
  void End() {
    if (!is_whole_) kept_.clear();
    is_ended_ = true;
  }

  // Whether what is kept is all there is to tell.
  bool IsStill(std::optional<uint64_t> records) const {
    return is_ended_ && is_whole_ && records.has_value() && records == records_;
  }
  const std::vector<Kept>& kept() const { return kept_; }

 private:
  std::optional<uint64_t> records_;
  bool is_whole_ = true, is_ended_ = false;
  std::vector<Kept> kept_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PUSH_QUIET_PROCESS_H_
