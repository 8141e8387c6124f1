// Lines of source for the HTML report: those around the lines that frames name, read where the report is made.
//
// A profile may come from anybody and a report is made to be sent on, so a file name in a profile must not be a way to
// put somebody's private file into a report: only regular files with the ending of a programming language are read, at
// most 4 MiB of each.
#ifndef HOLDFAST_REPORT_HTML_HTML_SOURCE_H_
#define HOLDFAST_REPORT_HTML_HTML_SOURCE_H_

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

// Whether a file of that name is source text, by its ending (or a header of the C++ library, which has none).
bool IsSourceName(const std::string& file);

// The lines of `file` around `lines`; no chunks where it cannot be read, is not source, or has no such lines.
SourceText ReadSource(const std::string& file, const std::set<int64_t>& lines);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTML_HTML_SOURCE_H_
