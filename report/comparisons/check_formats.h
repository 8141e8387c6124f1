// What `holdfast check` found, as text for a terminal, as Markdown for a comment on a change, as JUnit for the list of tests.
#ifndef HOLDFAST_REPORT_COMPARISONS_CHECK_FORMATS_H_
#define HOLDFAST_REPORT_COMPARISONS_CHECK_FORMATS_H_

#include <string>
#include <vector>

namespace holdfast {

// Of one budget, or of one function that has grown.
struct Outcome {
  std::string name, value, limit;
  bool failed = false, uncertain = false;
  std::string why = "";  // it failed, other than by being larger
};

std::string CheckText(const std::vector<Outcome>& outcomes);
// A heading with the verdict and a table, failures first: some 3 KiB at most, where a comment takes 64.
std::string CheckMarkdown(const std::vector<Outcome>& outcomes);
std::string CheckJunit(const std::vector<Outcome>& outcomes);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMPARISONS_CHECK_FORMATS_H_
