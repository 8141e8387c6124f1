// Chooses the comments that our profiles contain: at most 20, because `go tool pprof` prints every comment above its table. The
// records (typed_records.h) have everything that is left out.
#ifndef HOLDFAST_REPORT_PROFILE_WRITTEN_COMMENTS_H_
#define HOLDFAST_REPORT_PROFILE_WRITTEN_COMMENTS_H_

#include <cstddef>
#include <vector>

#include "report/profile/profile.h"

namespace holdfast {

inline constexpr size_t kMaxComments = 20;

// Returns all comments, in their order; of a profile with a record of its process, without the least informative ones
// beyond kMaxComments ("executable", the last of many "no names").
std::vector<StringId> CommentsToWrite(const Profile& profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_WRITTEN_COMMENTS_H_
