// Reads the identity of files in the output folder from their records, to count or remove what an earlier exporter
// wrote.
//
// Root's exporter also copies into its files what another user's process handed over, unread. So root itself reads none
// of them: a child does, as user nobody, and returns only the data below.
#ifndef HOLDFAST_REPORT_BUILDER_WRITTEN_FILES_H_
#define HOLDFAST_REPORT_BUILDER_WRITTEN_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/builder/output_folder.h"
#include "report/profile/profile.h"

namespace holdfast {

struct WrittenFile {
  std::string process, program, kind;  // from its records
  bool by_holdfast = false;
  bool is_sum = false;  // of several processes
  int64_t time_nanos = 0;
  std::vector<int64_t> totals;  // of each value type
};

// Returns one for each of `names`; nothing for a file that is no profile or cannot be read.
std::vector<std::optional<WrittenFile>> ReadWrittenFiles(const OutputFolder& output,
                                                         const std::vector<ProfileName>& names);

std::vector<int64_t> TotalsOf(const Profile& profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_WRITTEN_FILES_H_
