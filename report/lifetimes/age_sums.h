// What a lifetimes profile says of some of its samples, added up: how much was freed at which age, and by whom.
// No state beside the sums; any thread.
#ifndef HOLDFAST_REPORT_LIFETIMES_AGE_SUMS_H_
#define HOLDFAST_REPORT_LIFETIMES_AGE_SUMS_H_

#include <array>
#include <cstdint>
#include <span>

#include "report/pprof/profile.h"
#include "sampler/contract/age_buckets.h"

namespace holdfast {

// The sample types, in the order in which FilteredStacks has them as columns here: the first is the one whose total is told.
inline constexpr const char* kLifetimesTypes[] = {"freed_space", "freed_objects", "lifetime", "alive_space"};

struct AgeSums {
  double objects = 0, bytes = 0, lifetime_ns = 0, alive = 0;
  double unknown_objects = 0, unknown_bytes = 0;                                  // freed, at an age that nobody knows
  double alive_of_unknown_age = 0;                                                // bytes
  double object_squares = 0, byte_squares = 0;                                    // see AgeErrorPercent
  double temporary = 0, other_thread = 0;                                         // objects
  double variance = 0, alive_variance = 0;                                        // of the bytes
  std::array<double, kAgeBuckets> objects_of = {}, bytes_of = {}, alive_of = {};  // by AgeBucket

  // Adds one sample. `values`: of kLifetimesTypes. `are_drawn`: where every allocation is recorded, ages are known of blocks that were
  // drawn at random. `objects_variance`: of its objects; 0 if they were counted. The other variances are the caller's to add.
  void Add(const Profile& profile, size_t sample, std::span<const int64_t> values, bool are_drawn = false,
           double objects_variance = 0);

  double KnownObjects() const { return objects - unknown_objects; }
  double KnownBytes() const { return bytes - unknown_bytes; }
  // The share of the bytes of known age that lived at most `ns`; 0 if no age is known. A bucket's edge: exact.
  double ShareWithin(int64_t ns) const;
  // Half-width of the 95 % interval of any share of the known ages, in percentage points: of bytes or of objects, whichever is larger. A
  // block that represents w blocks, itself included, adds w (w − 1) to the variance of a count. The error is that of a share of one half,
  // at most 100. Not a number: no age is known.
  double AgeErrorPercent() const;
  // Of the freed blocks half lived no longer, as far as their bucket tells: between its edges in proportion, on a scale of
  // powers, but no more than twice the mean. −1: none was freed.
  int64_t MedianNs() const;
  int64_t MeanNs() const;
  // Live bytes that are known to be older than that; not a number: no age of them is known.
  double AliveLongerThan(int64_t ns) const;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_LIFETIMES_AGE_SUMS_H_
