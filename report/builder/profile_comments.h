// Fills the records of a profile (typed_records.h): which process it is of, how it was sampled, exact counts, how precise the
// totals are, and what was lost. Adds the same as comments for people, `key: value`; docs/format.md lists their keys.
// BuildProfile calls this after it has added the samples.
#ifndef HOLDFAST_REPORT_BUILDER_PROFILE_COMMENTS_H_
#define HOLDFAST_REPORT_BUILDER_PROFILE_COMMENTS_H_

#include <span>

#include "report/builder/file_kinds.h"
#include "report/observe/process_state.h"
#include "report/profile/profile.h"

namespace holdfast {

// `variances`: of the total of each sample type. `full_sums`: how many values had to be limited so that their column can
// be added up (kMaxValue).
void AddComments(const ProcessState& state, const FileKind& file, std::span<const double> variances, uint64_t full_sums,
                 Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_PROFILE_COMMENTS_H_
