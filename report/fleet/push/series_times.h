// Chooses the times of the profiles of each series so that servers accept them: each is later than the previous one, in
// milliseconds.
//
// Pyroscope counts only one of two profiles with the same series and millisecond. Pyroscope 1 also rejects a profile
// that is older than the last one of its series. Processes may share a series (--label pid=all), and the wall clock may
// be set back. One thread.
#ifndef HOLDFAST_REPORT_FLEET_PUSH_SERIES_TIMES_H_
#define HOLDFAST_REPORT_FLEET_PUSH_SERIES_TIMES_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "report/base/time_budget.h"
#include "report/fleet/push/push_labels.h"

namespace holdfast {

struct SeriesSpan {
  int64_t from_ns = 0, until_ns = 0;
};

class SeriesTimes {
 public:
  // How far in the future servers accept profiles, minus a minute for clocks that differ.
  static constexpr int64_t kMaxAheadNs = int64_t{9} * 60 * kSecond;

  // Returns the time span with which to send a profile: `wanted`, or a later one. Pyroscope uses the end of the span,
  // and for /ingest its beginning. If the clock was set back by more than `kMaxAheadNs`, the profile keeps its own time,
  // because the server accepts no later one.
  SeriesSpan Take(const std::string& family, const std::vector<PushLabel>& labels, SeriesSpan wanted, int64_t now_ns) {
    SeriesSpan& last = last_[absl::HashOf(family, labels)];
    SeriesSpan given{After(wanted.from_ns, last.from_ns), After(wanted.until_ns, last.until_ns)};
    given.from_ns = std::min(given.from_ns, given.until_ns);
    if (given.until_ns > std::max(now_ns, wanted.until_ns) + kMaxAheadNs) given = wanted;
    last = given;
    return given;
  }
  // Records that an earlier pusher sent a profile with that time.
  void Seen(const std::string& family, const std::vector<PushLabel>& labels, int64_t until_ns) {
    SeriesSpan& last = last_[absl::HashOf(family, labels)];
    last.until_ns = std::max(last.until_ns, until_ns);
  }
  void ForgetBefore(int64_t time_ns) {
    absl::erase_if(last_, [&](const auto& one) { return one.second.until_ns < time_ns; });
  }

 private:
  static int64_t After(int64_t wanted_ns, int64_t last_ns) {
    return wanted_ns / kMs > last_ns / kMs ? wanted_ns : (last_ns / kMs + 1) * kMs;
  }
  absl::flat_hash_map<uint64_t, SeriesSpan> last_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_SERIES_TIMES_H_
