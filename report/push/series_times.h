// The times of the profiles of each series, as servers want them: each later than the one before, in milliseconds.
//
// Of two profiles of one series and millisecond Pyroscope counts one. Pyroscope 1 also refuses a profile that is older than the
// last one of its series. Processes may share a series (--label pid=all), and the clock of the day may be set back.
// One thread.
#ifndef HOLDFAST_REPORT_PUSH_SERIES_TIMES_H_
#define HOLDFAST_REPORT_PUSH_SERIES_TIMES_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "report/base/time_budget.h"
#include "report/push/push_labels.h"

namespace holdfast {

struct SeriesSpan {
  int64_t from_ns = 0, until_ns = 0;
};

class SeriesTimes {
 public:
  // What servers take of the future, less a minute for clocks that differ.
  static constexpr int64_t kMostAhead = int64_t{9} * 60 * kSecond;

  // The span under which a profile of `wanted` is sent: that one, or a later one. Pyroscope goes by its end, and of /ingest by its
  // beginning. After the clock was set back by more than `kMostAhead` the profile has its own time: the server took no later one.
  SeriesSpan Take(const std::string& family, const std::vector<PushLabel>& labels, SeriesSpan wanted, int64_t now_ns) {
    SeriesSpan& last = last_[absl::HashOf(family, labels)];
    SeriesSpan given{After(wanted.from_ns, last.from_ns), After(wanted.until_ns, last.until_ns)};
    given.from_ns = std::min(given.from_ns, given.until_ns);
    if (given.until_ns > std::max(now_ns, wanted.until_ns) + kMostAhead) given = wanted;
    last = given;
    return given;
  }
  // An earlier pusher sent one of that time.
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

#endif  // HOLDFAST_REPORT_PUSH_SERIES_TIMES_H_
