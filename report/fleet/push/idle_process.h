// A process in which nothing has happened since the last report. What is in use there is reported again by sending the
// same profile with a later time. This avoids reading the table and building a profile: of a thousand programs, most
// are idle most of the time.
#ifndef HOLDFAST_REPORT_FLEET_PUSH_IDLE_PROCESS_H_
#define HOLDFAST_REPORT_FLEET_PUSH_IDLE_PROCESS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/fleet/push/server_profile.h"
#include "sampler/contract/layout.h"

namespace holdfast {

class IdleProcess {
 public:
  struct Kept {
    ProfileKind kind;
    std::string pprof;  // gzip; contains no counter
  };
  // The limit per process, because there may be a thousand. Larger profiles are built again, which costs little
  // compared with sending them.
  static constexpr size_t kMaxBytes = 32 << 10;

  // `records`: RecordsHash before the kept data was read.
  void Begin(std::optional<uint64_t> records) {
    *this = {};
    records_ = records;
  }
  // Keeps the profile of one kind. `may_be_better`: a later profile may say more (missing names), or this one has
  // counters.
  void Keep(ProfileKind kind, const ServerProfiles& made, bool may_be_better) {
    if (made.parts.empty()) return;
    is_whole_ = is_whole_ && !may_be_better && made.parts.size() == 1 && made.parts[0].pprof.size() <= kMaxBytes;
    if (is_whole_) kept_.push_back({kind, made.parts[0].pprof});
  }
  void End() {
    if (!is_whole_) kept_.clear();
    is_ended_ = true;
  }

  // Whether the kept profiles are all there is to report.
  bool IsUnchanged(std::optional<uint64_t> records) const {
    return is_ended_ && is_whole_ && records.has_value() && records == records_;
  }
  const std::vector<Kept>& kept() const { return kept_; }

 private:
  std::optional<uint64_t> records_;
  bool is_whole_ = true, is_ended_ = false;
  std::vector<Kept> kept_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_IDLE_PROCESS_H_
