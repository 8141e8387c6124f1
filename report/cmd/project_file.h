// `.holdfast`, the file in which a project states what tools cannot know about its code, one item per line:
//
//     # our own allocator, and what every lock goes through
//     plumbing ^pool_(get|put)$
//     plumbing libours_sync
//
// `plumbing REGEX` has the effect of --plumbing REGEX. The file is searched in the current folder and then in each
// folder above it; the first one found is used. Only a regular file that belongs to the user or to root is read,
// because anybody may create a file in /tmp.
#ifndef HOLDFAST_REPORT_CMD_PROJECT_FILE_H_
#define HOLDFAST_REPORT_CMD_PROJECT_FILE_H_

#include <string>
#include <vector>

namespace holdfast {

// Adds the patterns in the file of `folder`, or of the nearest folder above it that has one. Prints each invalid line
// to standard error.
void AddProjectPatterns(const std::string& folder, std::vector<std::string>* plumbing);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_CMD_PROJECT_FILE_H_
