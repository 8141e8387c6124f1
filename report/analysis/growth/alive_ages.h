// The ages of what is in use, for one stack or several: bytes by age bucket (sampler/contract/age_buckets.h). Plain
// data.
#ifndef HOLDFAST_REPORT_ANALYSIS_GROWTH_ALIVE_AGES_H_
#define HOLDFAST_REPORT_ANALYSIS_GROWTH_ALIVE_AGES_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "report/base/value_units.h"
#include "sampler/contract/age_buckets.h"

namespace holdfast {

struct AliveAges {
  std::array<double, kAgeBuckets> bytes = {}, variances = {};
  double unknown_bytes = 0;  // of unknown age

  void Add(int bucket, double of, double variance) {
    bytes[bucket] += of;
    variances[bucket] += variance;
  }
  void Add(const AliveAges& other) {
    for (int i = 0; i < kAgeBuckets; ++i) Add(i, other.bytes[i], other.variances[i]);
    unknown_bytes += other.unknown_bytes;
  }
  // Returns the bytes above an age, and their variance. Assumes uniformly distributed births within a bucket.
  struct Part {
    double bytes = 0, variance = 0;
  };
  Part OlderThan(double age_ns) const {
    Part part;
    for (int i = 0; i < kAgeBuckets; ++i) {
      const double low = i == 0 ? 0 : static_cast<double>(kAgeBucketEdges.ns[i - 1]);
      const auto high = static_cast<double>(kAgeBucketEdges.ns[i]);
      const double share = std::clamp((high - age_ns) / (high - low), 0.0, 1.0);
      part.bytes += share * bytes[i];
      part.variance += share * variances[i];
    }
    return part;
  }
  // Returns the age that a `share` of the bytes exceed, rounded down to an edge of a bucket; −1 if too few ages are known.
  int64_t OlderNs(double share) const {
    double known = 0, older = 0;
    for (const double of : bytes) known += of;
    const double all = known + unknown_bytes;
    if (!(known > 0) || known < share * all) return -1;
    int i = kAgeBuckets;
    while (i > 0 && (older <= 0 || older < share * all)) older += bytes[--i];
    return i == 0 ? 0 : kAgeBucketEdges.ns[i - 1];
  }
  int64_t half_ns() const { return OlderNs(0.5); }
  int64_t oldest_ns() const { return OlderNs(0); }
};

// Formats a minimum age: ">20s". "" if unknown.
inline std::string OlderText(int64_t ns) {
  if (ns < 0) return "";
  return ns == 0 ? "<1us" : ">" + FormatRoughTimeNs(ns);
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_GROWTH_ALIVE_AGES_H_
