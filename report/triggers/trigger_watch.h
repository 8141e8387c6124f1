// The conditions that a user gave for one process (`run --snapshot-when`), looked at from outside.
//
//     each look    what PeakWatch saw in use: inuse, growth      40 ms, where the exporter looks as often
//     a second     VmRSS of the kernel: rss; the table's counters of waits: delay (of a shorter time than 16 s more often)
//
// Bounded: kMostExtra snapshots a process, kExtraApart apart. One that comes too early after another waits for its turn as long as its
// condition is true.
#ifndef HOLDFAST_REPORT_TRIGGERS_TRIGGER_WATCH_H_
#define HOLDFAST_REPORT_TRIGGERS_TRIGGER_WATCH_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/base/time_budget.h"
#include "report/table/memory_room.h"
#include "report/table/table_folder.h"
#include "report/triggers/trigger_state.h"

namespace holdfast {

inline constexpr int kMostExtra = 10;
inline constexpr int64_t kExtraApart = 5 * kSecond;

class TriggerWatch {
 public:
  // `text`: of the table; what does not parse is none. `process`: as we see it; none: rss is not known. `began_ns`: of
  // CLOCK_MONOTONIC, when it began; 0: not known.
  TriggerWatch(const std::string& text, std::optional<pid_t> process, int64_t began_ns = 0);

  bool is_wanted() const { return !states_.empty() && taken_ < kMostExtra; }
  bool wants_in_use() const { return is_wanted() && wants_in_use_; }
  // `in_use`: as of PeakWatch.
  void Look(const TableFile& table, std::optional<uint64_t> in_use, int64_t now_ns);

  bool IsDue(int64_t now_ns) const { return has_pending_ && is_wanted() && now_ns >= not_before_ns_; }
  // Why: of all that are due.
  std::vector<std::string> Reasons() const;
  // A snapshot was tried. It failed: again later, while the condition is true.
  void Tried(bool done, bool wrote, int64_t now_ns);

 private:
  struct Watched {
    TriggerState state;
    bool pending = false;
  };
  void LookAt(Watched* watched, uint64_t value, int64_t now_ns);

  std::vector<Watched> states_;
  std::optional<pid_t> process_;
  std::optional<MemoryLevels> levels_;  // where a condition is a share of the limit
  uint64_t limit_ = 0;
  bool wants_in_use_ = false, wants_resident_ = false, wants_delay_ = false, has_pending_ = false;
  int taken_ = 0;
  int64_t delay_look_ns_ = kSecond;  // from one look at waits to the next
  int64_t not_before_ns_ = 0, next_resident_look_ns_ = 0, next_delay_look_ns_ = 0, next_limit_look_ns_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TRIGGERS_TRIGGER_WATCH_H_
