// Whether a series of snapshots grows, and how fast: the statistics behind `holdfast leaks`. Pure functions.
// docs/sampling.md ("Does it grow?") has the estimators, their errors and the error of the decision.
//
// Growth       the change of what is in use. Its variance counts only blocks that were born or freed in between: a block in use
//              at both ends is the same sample twice. With a the variance of what was allocated in between, and i, j that of what
//              is in use at both ends:  min(a, j) + min(a − (j − i), i).  A leak of n samples has a relative error of 1/√n.
//
// Its course   a rise is a leak if it goes on. Five properties of the course decide that:
//                - its centre of time: 0.5 for a steady leak, less for a cache that fills up
//                - no flat end, or none longer than the pauses before it; time without any allocation does not count
//                - at least three parts of the time in which it rises, none with more than 0.6 of the rise
//                - no falls, or low points that rise by more than their scatter explains
//                - survivors: where birth times are known, what was allocated early is still in use
//
// Bound        the growth that these data do not exclude, 95 %, one-sided.
#ifndef HOLDFAST_REPORT_GROWTH_GROWTH_H_
#define HOLDFAST_REPORT_GROWTH_GROWTH_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace holdfast {

enum class GrowthClass {
  kGrowing,    // rises from its begin to the end
  kSteps,      // rises again and again, with pauses
  kPlateau,    // rose, and no longer does: a cache that has warmed up, a buffer that is full
  kSawTooth,   // rises and falls
  kOneOff,     // one step, or there from the beginning: a table made at the start
  kUndecided,  // a rise that is real, and may end or go on
  kNoise,      // nothing that the errors would let one see
};
std::string_view GrowthClassName(GrowthClass growth_class);
// Of a leak: growing, or in steps.
inline bool IsLeak(GrowthClass growth_class) {
  return growth_class == GrowthClass::kGrowing || growth_class == GrowthClass::kSteps;
}

struct Growth {
  double slope = 0;       // per unit of time
  double half_width = 0;  // of its 95 % interval
  double since = 0;       // growing, undecided: the time from which on it rises, and slope and interval are of
  double active = 0;      // of the time since then: how much had traffic, 0 … 1
  double bound = 0;       // per unit of time: no leak is faster, 95 %; infinite with fewer than two snapshots
  GrowthClass growth_class = GrowthClass::kNoise;
  double lower() const { return slope - half_width; }
  double upper() const { return slope + half_width; }
};

// A rise takes three intervals to be one that goes on.
inline constexpr size_t kLeastSnapshots = 4;

// Snapshots, the oldest first; all vectors of one length or, where they may be, empty.
struct Series {
  std::vector<double> times;
  std::vector<double> values;          // what is in use
  std::vector<double> variances;       // of these estimates, 0 = exact
  std::vector<double> allocated = {};  // until then, never decreasing; empty: not known, all may have been turned over
  std::vector<double> allocated_variances = {};  // of these estimates; empty: in proportion to what is in use
  std::vector<double> traffic = {};              // what the whole process allocated until then; empty: not known
  double sample = 0;                             // the weight of one sampled block, at least; 0: exact
  size_t looked_at = 1;                          // series of the same process: each may be a false alarm
  std::vector<double> objects = {};              // in use; empty: not known
  // What of values[survivors_of] was born before times[i], and its variance; empty: not known.
  std::vector<double> survivors = {}, survivor_variances = {};
  size_t survivors_of = 0;
  double unseen_pause = 0;  // shorter pauses cannot be seen
};

// Slopes are for each unit of `times`. More than 200 snapshots are thinned evenly.
Growth FitGrowth(const Series& series);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_GROWTH_GROWTH_H_
