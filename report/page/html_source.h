// Source lines for the HTML report: the lines around those that frames name, read when the report is made.
//
// A profile may come from anybody, and reports are sent to other people. A file name in a profile must therefore not
// put a private file into a report: only regular files with the extension of a programming language are read, at most 4
// MiB of each.
#ifndef HOLDFAST_REPORT_PAGE_HTML_SOURCE_H_
#define HOLDFAST_REPORT_PAGE_HTML_SOURCE_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace holdfast {

struct SourceText {
  std::string file;
  std::vector<std::pair<int64_t, std::string>> chunks;  // first line (from 1), text of one or more lines
  size_t bytes = 0;
};

// Whether a file of that name is source text, by its extension. Headers of the C++ library have none and count, too.
bool IsSourceName(const std::string& file);

// Returns the lines of `file` around `lines`. Returns no chunks if the file is unreadable, is not source, or has no
// such lines.
SourceText ReadSource(const std::string& file, const std::set<int64_t>& lines);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PAGE_HTML_SOURCE_H_
