// The comments of a profile: `key: value` lines that say whose it is, how it was sampled, what is exact, how sure the
// totals are, and what was lost. Called by BuildProfile once the samples stand.
#ifndef HOLDFAST_SAMPLER_PROFILE_COMMENTS_H_
#define HOLDFAST_SAMPLER_PROFILE_COMMENTS_H_

#include <span>

#include "sampler/profile.h"
#include "sampler/snapshot.h"

namespace holdfast {

// `variances`: of the total of each sample type.
void AddComments(const Snapshot& snapshot, ProfileKind kind, std::span<const double> variances, Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROFILE_COMMENTS_H_
