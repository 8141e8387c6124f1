// A histogram of the lengths of waits or holds, and its percentiles. Buckets: TimeBucket
// (sampler/contract/time_buckets.h).
//
//     TimeCounts times;   times.Add(TimeBucket(1'000'000), 90);   times.Add(TimeBucket(20'000'000), 10);
//     times.Percentile(0.99, /*longest_ns=*/20'000'321)   → 20'521'234, the geometric middle of 19.9 … 23.5 ms
//
// Counts of several processes add up. Plain data, one thread.
#ifndef HOLDFAST_REPORT_PROFILE_TIME_COUNTS_H_
#define HOLDFAST_REPORT_PROFILE_TIME_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>

namespace holdfast {

class TimeCounts {
 public:
  void Add(uint32_t bucket, double count);
  void Add(const TimeCounts& other);
  // Subtracts the counts. None falls below 0.
  void Subtract(const TimeCounts& earlier);

  bool empty() const { return counts_.empty(); }
  const std::map<uint32_t, double>& counts() const { return counts_; }  // by bucket
  double total() const;
  // False: some waits were not counted, so there are no percentiles.
  bool complete() const { return complete_; }
  void set_incomplete() { complete_ = false; }

  // Returns the shortest time that at least `share` of the waits do not exceed, within 12 % (half a bucket). The result
  // is at most `longest_ns`, and equals it if the percentile falls on the longest wait. Nearest rank. −1: unknown.
  int64_t Percentile(double share, int64_t longest_ns) const;

  // Returns "p50 1.1ms  p90 20ms  p99 200ms  longest 203ms", or "" if nothing was counted.
  std::string LengthsText(int64_t longest_ns) const;

  bool operator==(const TimeCounts&) const = default;

 private:
  std::map<uint32_t, double> counts_;  // by bucket
  bool complete_ = true;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_TIME_COUNTS_H_
