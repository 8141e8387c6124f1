#include "report/lifetimes/age_sums.h"

#include <cmath>
#include <string_view>

#include "sampler/contract/records.h"

namespace holdfast {

void AgeSums::Add(const Profile& profile, size_t sample, std::span<const int64_t> values) {
  int bucket = 0;
  bool is_temporary = false, is_others = false, is_unknown = false;
  for (const Profile::Label& label : profile.LabelsOf(profile.samples[sample])) {
    const std::string_view key = profile.strings[label.key];
    if (key == "age") bucket = AgeBucket(label.number);
    if (key == "freed") is_temporary = profile.strings[label.text] == "temporary";
    if (key == "freed") is_others = profile.strings[label.text] == "other thread";
    if (key == "freed") is_unknown = profile.strings[label.text] == kAgeNotKnown;
  }
  const auto of = [values](size_t i) { return static_cast<double>(values[i]); };
  bytes += of(0);
  objects += of(1);
  lifetime_ns += of(2);
  alive += of(3);
  alive_of[bucket] += of(3);
  if (is_unknown) {
    unknown_bytes += of(0);
    unknown_objects += of(1);
    return;
  }
  bytes_of[bucket] += of(0);
  objects_of[bucket] += of(1);
  const bool is_drawn = of(0) <= of(1) * static_cast<double>(kLargestShadowed);
  squares += of(1) * (is_drawn ? std::fmin(of(1), kAgedOneIn) : 1);
  if (is_temporary) temporary += of(1);
  if (is_others) other_thread += of(1);
}

void AgeSums::SetAlive(double now, double variance_of_them) {
  for (double& of : alive_of) of *= alive > 0 ? now / alive : 0;
  alive = now;
  alive_variance = variance_of_them;
}

double AgeSums::ShareWithin(int64_t ns) const {
  double within = 0;
  for (int i = 0; i < kAgeBuckets && kAgeBucketEdges.ns[i] <= ns; ++i) within += bytes_of[i];
  return KnownBytes() > 0 ? within / KnownBytes() : 0;
}

double AgeSums::AgeErrorPercent() const {
  if (!(squares > 0)) return std::nan("");
  return std::fmin(100, 100 * 1.96 * 0.5 * std::sqrt(squares) / KnownObjects());
}

int64_t AgeSums::MedianNs() const {
  if (!(KnownObjects() > 0)) return -1;
  double below = 0;
  int bucket = 0;
  while (bucket < kAgeBuckets - 1 && below + objects_of[bucket] < KnownObjects() / 2) below += objects_of[bucket++];
  const auto upper = static_cast<double>(kAgeBucketEdges.ns[bucket]);
  const double lower = bucket == 0 ? upper / 10 : static_cast<double>(kAgeBucketEdges.ns[bucket - 1]);
  const double part = objects_of[bucket] > 0 ? (KnownObjects() / 2 - below) / objects_of[bucket] : 1;
  const double inside = lower * std::pow(upper / lower, part);
  // Half lived at least as long as the median, so twice the mean is no less: of the first bucket, which nothing bounds from
  // below, that tells more than any scale.
  const double edge = bucket == 0 ? 0 : lower;
  return static_cast<int64_t>(std::fmax(edge, std::fmin(inside, 2 * lifetime_ns / KnownObjects())));
}

int64_t AgeSums::MeanNs() const {
  return KnownObjects() > 0 ? static_cast<int64_t>(std::fmin(lifetime_ns / KnownObjects(), 9e18)) : -1;
}

double AgeSums::AliveLongerThan(int64_t ns) const {
  double longer = 0, all = 0;
  for (int i = 0; i < kAgeBuckets; ++i) {
    all += alive_of[i];
    longer += i > 0 && kAgeBucketEdges.ns[i - 1] >= ns ? alive_of[i] : 0;
  }
  return all > 0 || alive <= 0 ? longer : std::nan("");
}

}  // namespace holdfast
