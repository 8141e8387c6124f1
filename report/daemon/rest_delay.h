// How long the exporter keeps names, and what else it needs for snapshots, after the last one. To read the names of a program
// again takes 0.1 s of CPU if its debug information is compressed; a server that forks every few seconds would pay that for
// each child.
#ifndef HOLDFAST_REPORT_DAEMON_REST_DELAY_H_
#define HOLDFAST_REPORT_DAEMON_REST_DELAY_H_

#include <algorithm>
#include <cstdint>

#include "report/base/time_budget.h"

namespace holdfast {

class RestDelay {
 public:
  static constexpr int64_t kShortest = kSecond, kLongest = 32 * kSecond, kSoon = 30 * kSecond;

  // Work begins after a rest, or for the first time. Doubles the delay if the rest was short.
  void Begin(int64_t now_ns) {
    const bool soon = rested_ns_ != 0 && now_ns - rested_ns_ <= kSoon;
    delay_ns_ = soon ? std::min(2 * delay_ns_, kLongest) : kShortest;
  }
  void Rest(int64_t now_ns) { rested_ns_ = now_ns; }
  int64_t ns() const { return delay_ns_; }

 private:
  int64_t delay_ns_ = kShortest, rested_ns_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_REST_DELAY_H_
