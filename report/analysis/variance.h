// How sure each value of a profile is: the variance of every sample's estimate, recomputed from the file.
//
// A sample of n objects and b bytes, s = b/n bytes each, sampled with p = 1 − exp(−s/R), has
//     Var(objects) = n·(1−p)/p       Var(bytes) = b·s·(1−p)/p        (docs/sampling.md: n·p samples of weight 1/p)
// and waits the same with their mean time. The sizes in a sample differ a little (its class) or much (waits of one
// stack), so the sums are scaled to the exact variance of the total that our files state (`total inuse_space: … ± …`).
// Where the interval was changed, a sample does not say under which it was taken: the largest is assumed for all, so that the
// errors of single rows are rough, and their sum is right.
// Of resident_space and swapped_space a sample does not say which of its blocks are: the sums are scaled to the stated one as well. Mappings
// beside the blocks (label `mapping`) are exact, but for those of an allocator, which are what the blocks leave of them: of these no more is
// known than that all together are as sure as all blocks.
// Variances of independent samples add up; the 95 % interval is ± 1.96·√variance. Any thread.
#ifndef HOLDFAST_REPORT_ANALYSIS_VARIANCE_H_
#define HOLDFAST_REPORT_ANALYSIS_VARIANCE_H_

#include <cmath>
#include <vector>

#include "report/pprof/profile.h"

namespace holdfast {

// One for each sample and sample type, in the order of Profile::ValuesOf. Empty when the file does not say how it was
// sampled: then nothing is known about errors. `by_age`: of a lifetimes profile, for parts by age. Where every allocation is recorded its
// sums are exact, and the parts are not.
std::vector<double> VariancesOf(const Profile& profile, bool by_age = false);

inline double HalfWidthOf(double variance) { return 1.96 * std::sqrt(variance > 0 ? variance : 0); }

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_VARIANCE_H_
