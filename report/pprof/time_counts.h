// How many waits or holds were how long, and the percentiles of that: counts by TimeBucket (sampler/contract/time_buckets.h).
//
//     TimeCounts times;   times.Add(TimeBucket(1'000'000), 90);   times.Add(TimeBucket(20'000'000), 10);
//     times.Percentile(0.99, /*longest_ns=*/20'000'321)   → 20'521'234, the geometric middle of 19.9 … 23.5 ms
//
// Counts of several processes add up. Plain data, one thread.
#ifndef HOLDFAST_REPORT_PPROF_TIME_COUNTS_H_
#define HOLDFAST_REPORT_PPROF_TIME_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace holdfast {

class TimeCounts {
 public:
  void Add(uint32_t bucket, double count);
  void Add(const TimeCounts& other);
  // Never below 0.
  void Subtract(const TimeCounts& earlier);

  bool empty() const { return counts_.empty(); }
  double total() const;
  // False: some were not counted, so there are no percentiles.
  bool complete() const { return complete_; }
  void set_incomplete() { complete_ = false; }

  // The shortest time that `share` of them do not exceed, within 12 % (half a bucket), and never above the longest; that itself
  // where it is the last one's. Nearest rank; −1: not known.
  int64_t Percentile(double share, int64_t longest_ns) const;

  // "p50 1.1ms  p90 20ms  p99 200ms  longest 203ms"; "" where nothing was counted.
  std::string LengthsText(int64_t longest_ns) const;

  // "1048576:12 19922944:3": where the bucket begins, in nanoseconds, and the count; "incomplete" comes first where that holds.
  std::string Text() const;
  static TimeCounts FromText(std::string_view text);  // what is not of that form is passed over

  bool operator==(const TimeCounts&) const = default;

 private:
  std::map<uint32_t, double> counts_;  // by bucket
  bool complete_ = true;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PPROF_TIME_COUNTS_H_
