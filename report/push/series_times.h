// Times that tell the profiles of one series apart. Pyroscope takes two of one series and millisecond for copies, and counts
// one of them: where processes share a series (--label pid=all) they must not be told of at the same time.
// One thread.
#ifndef HOLDFAST_REPORT_PUSH_SERIES_TIMES_H_
#define HOLDFAST_REPORT_PUSH_SERIES_TIMES_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "report/base/time_budget.h"
#include "report/push/push_labels.h"

namespace holdfast {

class SeriesTimes {
 public:
  // How much later a profile from `from_ns` to `until_ns` is to be told, in ns: whole milliseconds, mostly 0. Old servers go by
  // its beginning, others by its end.
  int64_t Take(const std::string& family, const std::vector<PushLabel>& labels, int64_t from_ns, int64_t until_ns) {
    const uint64_t series = absl::HashOf(family, labels);
    int64_t later_ns = 0;
    while (IsTaken(series, from_ns + later_ns, until_ns + later_ns)) later_ns += kMs;
    taken_.emplace(series, 'f', (from_ns + later_ns) / kMs);
    taken_.emplace(series, 'u', (until_ns + later_ns) / kMs);
    return later_ns;
  }
  // Nothing is told any more that lies before.
  void ForgetBefore(int64_t time_ns) {
    absl::erase_if(taken_, [&](const auto& one) { return std::get<2>(one) < time_ns / kMs; });
  }

 private:
  bool IsTaken(uint64_t series, int64_t from_ns, int64_t until_ns) const {
    return taken_.contains({series, 'f', from_ns / kMs}) || taken_.contains({series, 'u', until_ns / kMs});
  }
  absl::flat_hash_set<std::tuple<uint64_t, char, int64_t>> taken_;  // milliseconds
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PUSH_SERIES_TIMES_H_
