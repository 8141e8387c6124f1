#include "report/profile/time_counts.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "report/base/value_units.h"
#include "sampler/contract/time_buckets.h"

namespace holdfast {
namespace {

// The largest sum of counts: a malicious file may contain any number.
constexpr double kMaxCount = 9e15;

}  // namespace

void TimeCounts::Add(uint32_t bucket, double count) {
  if (!(count > 0)) return;
  double& sum = counts_[std::min(bucket, kTimeBuckets - 1)];
  sum = std::min(sum + count, kMaxCount);
}

void TimeCounts::Add(const TimeCounts& other) {
  for (const auto& [bucket, count] : other.counts_) Add(bucket, count);
  complete_ = complete_ && other.complete_;
}

void TimeCounts::Subtract(const TimeCounts& earlier) {
  for (const auto& [bucket, count] : earlier.counts_) {
    const auto found = counts_.find(bucket);
    if (found == counts_.end()) continue;
    found->second -= count;
    if (!(found->second > 0)) counts_.erase(found);
  }
  complete_ = complete_ && earlier.complete_;
}

double TimeCounts::total() const {
  double sum = 0;
  for (const auto& [bucket, count] : counts_) sum += count;
  return sum;
}

int64_t TimeCounts::Percentile(double share, int64_t longest_ns) const {
  const double everything = total();
  if (!complete_ || !(everything > 0)) return -1;
  const double rank = std::ceil(share * everything - 1e-6);
  if (rank > everything - 0.5) return longest_ns;
  double up_to = 0;
  for (const auto& [bucket, count] : counts_) {
    up_to += count;
    if (up_to < rank) continue;
    const auto from = static_cast<double>(TimeBucketStart(bucket));
    const double to = std::min(static_cast<double>(TimeBucketStart(bucket + 1)), static_cast<double>(longest_ns));
    return std::min(longest_ns, static_cast<int64_t>(std::sqrt(from * std::max(from, to))));
  }
  return longest_ns;
}

std::string TimeCounts::LengthsText(int64_t longest_ns) const {
  if (!complete_) return "unknown: there was no space to count them all";
  if (empty()) return "";
  const auto at = [&](double share) { return FormatRoughTimeNs(Percentile(share, longest_ns)); };
  return fmt::format("p50 {}  p90 {}  p99 {}  longest {}", at(0.5), at(0.9), at(0.99), FormatRoughTimeNs(longest_ns));
}

}  // namespace holdfast
