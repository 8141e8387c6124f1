// Which comments of our profiles are for people, and which are records that only `holdfast` reads.
//
// In memory they are one list, `Profile::comments`. In a file the records stand in a field of their own
// (ProfileField::kRecord), which other tools pass over: `go tool pprof` prints every comment above its table. Files of older
// versions have all of them as comments; they are read the same.
#ifndef HOLDFAST_REPORT_PPROF_COMMENT_RECORDS_H_
#define HOLDFAST_REPORT_PPROF_COMMENT_RECORDS_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "report/pprof/profile.h"

namespace holdfast {

// Of what we write; a comment of others stays one.
inline constexpr size_t kMostComments = 20;

// "lock 3: …", "waiting thread 1: …", "mutex delay_ns: …", "own table_steps: …": whatever the number of comments.
bool IsRecord(std::string_view comment);

// For each of the profile's comments, whether it is written as a record: those that IsRecord, and of the others the least telling
// ("executable", the last of many "no names") where there are more than kMostComments.
std::vector<bool> WrittenAsRecords(const Profile& profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PPROF_COMMENT_RECORDS_H_
