// Formats the result of `holdfast check` as text for a terminal, as Markdown for a comment on a change, or as JUnit for
// a list of tests.
#ifndef HOLDFAST_REPORT_SHOW_CHECK_FORMATS_H_
#define HOLDFAST_REPORT_SHOW_CHECK_FORMATS_H_

#include <string>
#include <vector>

namespace holdfast {

// The result for one budget, or for one function that has grown.
struct Outcome {
  std::string name, value, limit;
  bool failed = false, uncertain = false;
  bool unknown = false;  // nobody knows the value: neither a failure nor kept
  std::string why = "";  // the reason for a failure other than a too large value
};

std::string CheckText(const std::vector<Outcome>& outcomes);
// A heading with the verdict and a table, failures first: at most about 3 KiB; a comment may have 64 KiB.
std::string CheckMarkdown(const std::vector<Outcome>& outcomes);
std::string CheckJunit(const std::vector<Outcome>& outcomes);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_CHECK_FORMATS_H_
