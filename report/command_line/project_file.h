// `.holdfast`, the file in which a project says what tools cannot know about its code. One line for each:
//
//     # our own allocator, and what every lock goes through
//     plumbing ^pool_(get|put)$
//     plumbing libours_sync
//
// `plumbing REGEX` is what --plumbing REGEX is. The file is looked for in the current folder, then in those above; the
// first one counts. Only a regular file of the user's or root's is read: anybody may put one into /tmp.
#ifndef HOLDFAST_REPORT_COMMAND_LINE_PROJECT_FILE_H_
#define HOLDFAST_REPORT_COMMAND_LINE_PROJECT_FILE_H_

#include <string>
#include <vector>

namespace holdfast {

// What the file of `folder` or of the nearest folder above adds. A line that is none is said on standard error.
void AddProjectPatterns(const std::string& folder, std::vector<std::string>* plumbing);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMAND_LINE_PROJECT_FILE_H_
