// Which comments of our profiles are for people, and which are records that only `holdfast` reads.
//
// In memory both are in one list, `Profile::comments`. In a file, records have a field of their own
// (ProfileField::kRecord), which other tools skip: `go tool pprof` prints every comment above its table. Files of older
// versions store all of them as comments; they are read the same way.
#ifndef HOLDFAST_REPORT_PPROF_COMMENT_RECORDS_H_
#define HOLDFAST_REPORT_PPROF_COMMENT_RECORDS_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "report/pprof/profile.h"

namespace holdfast {

// The number of comments that we write at most. Applies only to our own comments; those from other tools stay comments.
inline constexpr size_t kMostComments = 20;

// Whether a comment is always a record: "own table_steps: …", "resident_bytes: …".
bool IsRecord(std::string_view comment);

// Returns for each of the profile's comments whether it is written as a record. These are all for which IsRecord is
// true, plus the least informative others ("executable", the last of many "no names") beyond kMostComments.
std::vector<bool> WrittenAsRecords(const Profile& profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PPROF_COMMENT_RECORDS_H_
