// Computes the variance of each sample's estimate from the file.
//
// A sample of n objects and b bytes, s = b/n bytes each, sampled with p = 1 − exp(−s/R), has
//     Var(objects) = n·(1−p)/p       Var(bytes) = b·s·(1−p)/p        (docs/sampling.md: n·p samples of weight 1/p)
// For waits the mean time takes the place of s. Sizes within a sample differ a little (size class) or much (waits of
// one stack), so the variances are scaled to the exact variance of the total in our files (`total inuse_space: … ± …`).
//
// If the interval was changed, a sample does not say which one applied. The largest is assumed for all, so that single
// rows have rough errors, while their sum is right.
//
// For resident_space and swapped_space a sample does not say which of its blocks are resident or swapped: these
// variances are also scaled to the stated total. Mappings without blocks (label `mapping`) are exact, except an
// allocator's mappings, which are the remainder after the blocks. Together these are as certain as all blocks together;
// nothing more is known.
//
// Variances of independent samples add up; the 95 % interval is ± 1.96·√variance. Any thread.
#ifndef HOLDFAST_REPORT_ANALYSIS_VARIANCE_H_
#define HOLDFAST_REPORT_ANALYSIS_VARIANCE_H_

#include <cmath>
#include <vector>

#include "report/profile/profile.h"

namespace holdfast {

// Returns one variance for each sample and sample type, in the order of Profile::ValuesOf. Empty if the file does not
// say how it was sampled: errors are then unknown. `by_age`: for parts of a lifetimes profile by age. If every
// allocation is recorded, its sums are exact, and these parts are not.
std::vector<double> VariancesOf(const Profile& profile, bool by_age = false);

inline double HalfWidthOf(double variance) { return 1.96 * std::sqrt(variance > 0 ? variance : 0); }

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_VARIANCE_H_
