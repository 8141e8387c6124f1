// The conditions that a user gave for one process (`run --snapshot-when`), observed from outside.
//
//    each look    PeakWatch's value in use: inuse, growth        every 40 ms, if the exporter looks that often
//    a second     the kernel's VmRSS: rss; the table's counters of waits: delay (more often for a window below 16 s)
//
// Bounded: at most kMaxExtra snapshots for each process, kExtraApart apart. A condition that becomes true too early
// after another waits for its turn as long as it stays true.
#ifndef HOLDFAST_REPORT_DAEMON_TRIGGER_WATCH_H_
#define HOLDFAST_REPORT_DAEMON_TRIGGER_WATCH_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/base/time_budget.h"
#include "report/daemon/trigger_state.h"
#include "report/observe/table/memory_room.h"
#include "report/observe/table/table_folder.h"

namespace holdfast {

inline constexpr int kMaxExtra = 10;
inline constexpr int64_t kExtraApart = 5 * kSecond;

class TriggerWatch {
 public:
  // `text`: from the table; invalid conditions are ignored. `process`: the pid as we see it; none: rss is unknown.
  // `began_ns`: CLOCK_MONOTONIC when the process began; 0: unknown.
  TriggerWatch(const std::string& text, std::optional<pid_t> process, int64_t began_ns = 0);

  bool is_wanted() const { return !states_.empty() && taken_ < kMaxExtra; }
  bool wants_in_use() const { return is_wanted() && wants_in_use_; }
  // `in_use`: from PeakWatch.
  void Look(const TableFile& table, std::optional<uint64_t> in_use, int64_t now_ns);

  bool IsDue(int64_t now_ns) const { return has_pending_ && is_wanted() && now_ns >= not_before_ns_; }
  // Returns the reasons of all conditions that are due.
  std::vector<std::string> Reasons() const;
  // Records an attempt at a snapshot. After a failure another one is made later, while the condition is true.
  void Tried(bool done, bool wrote, int64_t now_ns);

 private:
  struct Watched {
    TriggerState state;
    bool pending = false;
  };
  void LookAt(Watched* watched, uint64_t value, int64_t now_ns);

  std::vector<Watched> states_;
  std::optional<pid_t> process_;
  std::optional<MemoryLevels> levels_;  // for conditions with a share of the limit
  uint64_t limit_ = 0;
  bool wants_in_use_ = false, wants_resident_ = false, wants_delay_ = false, has_pending_ = false;
  int taken_ = 0;
  int64_t delay_look_ns_ = kSecond;  // between looks at waits
  int64_t not_before_ns_ = 0, next_resident_look_ns_ = 0, next_delay_look_ns_ = 0, next_limit_look_ns_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_TRIGGER_WATCH_H_
