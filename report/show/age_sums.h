// Adds up samples of a lifetimes profile: how much was freed at which age, and by which threads. Only the sums have
// state; any thread.
#ifndef HOLDFAST_REPORT_SHOW_AGE_SUMS_H_
#define HOLDFAST_REPORT_SHOW_AGE_SUMS_H_

#include <array>
#include <cstdint>
#include <span>

#include "report/profile/profile.h"
#include "sampler/contract/age_buckets.h"

namespace holdfast {

// The sample types, in the order of the columns of FilteredStacks. The total of the first one is printed.
inline constexpr const char* kLifetimesTypes[] = {"freed_space", "freed_objects", "lifetime", "alive_space"};

struct AgeSums {
  double objects = 0, bytes = 0, lifetime_ns = 0, alive = 0;
  double unknown_objects = 0, unknown_bytes = 0;                                  // freed at an unknown age
  double alive_of_unknown_age = 0;                                                // bytes
  double object_squares = 0, byte_squares = 0;                                    // see AgeErrorPercent
  double temporary = 0, other_thread = 0;                                         // objects
  double variance = 0, alive_variance = 0;                                        // of the bytes
  std::array<double, kAgeBuckets> objects_of = {}, bytes_of = {}, alive_of = {};  // by AgeBucket

  // Adds one sample. `values`: in the order of kLifetimesTypes. `are_drawn`: every allocation is recorded, but ages are
  // known only for randomly chosen blocks. `objects_variance`: of the objects; 0 if they were counted. The caller adds
  // the other variances.
  void Add(const Profile& profile, size_t sample, std::span<const int64_t> values, bool are_drawn = false,
           double objects_variance = 0);

  double KnownObjects() const { return objects - unknown_objects; }
  double KnownBytes() const { return bytes - unknown_bytes; }
  // Returns the share of the bytes of known age that lived at most `ns`; 0 if no age is known. Exact if `ns` is a
  // bucket's edge.
  double ShareWithin(int64_t ns) const;
  // Returns the half-width of the 95 % interval for a share of all freed blocks, in percentage points: for bytes or
  // objects, whichever is larger. A block that represents w blocks (including itself) adds w (w − 1) to the variance of
  // a count. Uses the error of a share of one half, plus the share of unknown age, at most 100. NaN if no age is known.
  double AgeErrorPercent() const;
  // Returns the median age of the freed blocks, interpolated logarithmically between the edges of its bucket, but at
  // most twice the mean. −1 if none was freed.
  int64_t MedianNs() const;
  int64_t MeanNs() const;
  // Returns the live bytes known to be older than `ns`; NaN if no age is known.
  double AliveLongerThan(int64_t ns) const;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_AGE_SUMS_H_
