// Decides whether a series of snapshots grows, and how fast: the statistics of `holdfast leaks`. Pure functions.
// docs/sampling.md ("Does it grow?") has the estimators, their errors and the error of the decision.
//
// Growth       the change of what is in use. Its variance counts only blocks that were born or freed in between: a block in use
//              at both ends is the same sample twice. Let a be the variance of what was allocated in between, and i, j those of
//              what is in use at both ends:  min(a, j) + min(a − (j − i), i).  A leak of n samples has a relative error of 1/√n.
//
// Course       a rise is a leak if it continues. Five properties of the course decide that:
//                - its centre of time: 0.5 for a steady leak, less for a cache that fills up
//                - no flat end, or none longer than the pauses before it; time without any allocation does not count
//                - it rises in at least three parts of the time, each with at most 0.6 of the rise
//                - no falls, or low points that rise by more than their scatter explains
//                - survivors: if birth times are known, what was allocated early is still in use
//
// Bound        the largest growth that the data do not exclude, 95 %, one-sided.
#ifndef HOLDFAST_REPORT_ANALYSIS_GROWTH_GROWTH_H_
#define HOLDFAST_REPORT_ANALYSIS_GROWTH_GROWTH_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace holdfast {

enum class GrowthClass {
  kGrowing,    // rises from beginning to end
  kSteps,      // rises repeatedly, with pauses
  kPlateau,    // rose and stopped: a cache that is warm, a buffer that is full
  kSawTooth,   // rises and falls
  kOneOff,     // one step, or constant from the beginning: a table made at the start
  kUndecided,  // a real rise that may end or continue
  kNoise,      // nothing distinguishable from errors
};
std::string_view GrowthClassName(GrowthClass growth_class);
// Returns whether the class is a leak: growing, or in steps.
inline bool IsLeak(GrowthClass growth_class) {
  return growth_class == GrowthClass::kGrowing || growth_class == GrowthClass::kSteps;
}

struct Growth {
  double slope = 0;       // per unit of time
  double half_width = 0;  // of the slope's 95 % interval
  double since = 0;       // growing, undecided: start of the rise; slope and interval are for the time since then
  double active = 0;      // fraction of the time since then with traffic, 0 … 1
  double bound = 0;       // per unit of time: no leak is faster, 95 %; infinite with fewer than two snapshots
  GrowthClass growth_class = GrowthClass::kNoise;
  double lower() const { return slope - half_width; }
  double upper() const { return slope + half_width; }
};

// It takes three intervals to recognize a rise that continues.
inline constexpr size_t kMinSnapshots = 4;

// Snapshots, oldest first. All vectors have the same length; optional ones may be empty.
struct Series {
  std::vector<double> times;
  std::vector<double> values;                    // in use
  std::vector<double> variances;                 // of `values`, 0 = exact
  std::vector<double> allocated = {};            // cumulative; empty: unknown, everything may have been turned over
  std::vector<double> allocated_variances = {};  // of `allocated`; empty: in proportion to what is in use
  std::vector<double> traffic = {};              // cumulative allocations of the whole process; empty: unknown
  double sample = 0;                             // minimum weight of a sampled block; 0: exact
  size_t looked_at = 1;                          // number of series in the process: each may be a false alarm
  std::vector<double> objects = {};              // in use; empty: unknown
  // The part of values[survivors_of] that was born before times[i], and its variance; empty: unknown.
  std::vector<double> survivors = {}, survivor_variances = {};
  size_t survivors_of = 0;
  double unseen_pause = 0;  // shorter pauses are not detectable
};

// Slopes are per unit of `times`. Series of more than 200 snapshots are thinned evenly.
Growth FitGrowth(const Series& series);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_GROWTH_GROWTH_H_
