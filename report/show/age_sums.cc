#include "report/show/age_sums.h"

#include <cmath>
#include <string_view>

#include "sampler/contract/records.h"

namespace holdfast {

void AgeSums::Add(const Profile& profile, size_t sample, std::span<const int64_t> values, bool are_drawn,
                  double objects_variance) {
  int bucket = 0;
  bool is_temporary = false, is_others = false, is_unknown = false, has_age = false;
  for (const Profile::Label& label : profile.LabelsOf(profile.samples[sample])) {
    const std::string_view key = profile.strings[label.key];
    if (key == "age") bucket = AgeBucket(label.number);
    has_age = has_age || key == "age";
    if (key == "freed") is_temporary = profile.strings[label.text] == "temporary";
    if (key == "freed") is_others = profile.strings[label.text] == "other thread";
    if (key == "freed") is_unknown = profile.strings[label.text] == kAgeNotKnown;
  }
  const auto of = [values](size_t i) { return static_cast<double>(values[i]); };
  bytes += of(0);
  objects += of(1);
  lifetime_ns += of(2);
  alive += of(3);
  (has_age ? alive_of[bucket] : alive_of_unknown_age) += of(3);
  if (is_unknown) {
    unknown_bytes += of(0);
    unknown_objects += of(1);
    return;
  }
  bytes_of[bucket] += of(0);
  objects_of[bucket] += of(1);
  const bool is_drawn = are_drawn && of(0) <= of(1) * static_cast<double>(kLargestShadowed);
  const double drawn = is_drawn && of(1) > 0 ? of(1) * (std::fmin(of(1), kAgedOneIn) - 1) : 0;
  const double squares = std::fmax(drawn, objects_variance);
  object_squares += squares;
  byte_squares += of(1) > 0 ? squares * (of(0) / of(1)) * (of(0) / of(1)) : 0;
  if (is_temporary) temporary += of(1);
  if (is_others) other_thread += of(1);
}

double AgeSums::ShareWithin(int64_t ns) const {
  double within = 0;
  for (int i = 0; i < kAgeBuckets && kAgeBucketEdges.ns[i] <= ns; ++i) within += bytes_of[i];
  return KnownBytes() > 0 ? within / KnownBytes() : 0;
}

double AgeSums::AgeErrorPercent() const {
  if (!(KnownObjects() > 0)) return std::nan("");
  constexpr double kHalfWidth = 1.96 * 0.5;
  const double of_objects = kHalfWidth * std::sqrt(object_squares) / KnownObjects() + unknown_objects / objects;
  const double of_bytes =
      KnownBytes() > 0 ? kHalfWidth * std::sqrt(byte_squares) / KnownBytes() + unknown_bytes / bytes : 0;
  return std::fmin(100, 100 * std::fmax(of_objects, of_bytes));
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
  // Half the blocks lived at least as long as the median, so the median is at most twice the mean. In the first bucket,
  // which has no lower edge, this says more than any scale.
  const double edge = bucket == 0 ? 0 : lower;
  return static_cast<int64_t>(std::fmax(edge, std::fmin(inside, 2 * lifetime_ns / KnownObjects())));
}

int64_t AgeSums::MeanNs() const {
  return KnownObjects() > 0 ? static_cast<int64_t>(std::fmin(lifetime_ns / KnownObjects(), 9e18)) : -1;
}

double AgeSums::AliveLongerThan(int64_t ns) const {
  double longer = 0;
  for (int i = 1; i < kAgeBuckets; ++i) longer += kAgeBucketEdges.ns[i - 1] >= ns ? alive_of[i] : 0;
  return alive_of_unknown_age < alive || alive <= 0 ? longer : std::nan("");
}

}  // namespace holdfast
