// `holdfast list`: prints the source lines of functions with the values of each line.
//
// The profile must have lines (from debug information when it was written, or from holdfast symbolize). Reads the
// source from the path in the profile, or from one of `source_paths`. If there is no source, lines are shown by number
// only.
#ifndef HOLDFAST_REPORT_SHOW_SOURCE_LISTING_H_
#define HOLDFAST_REPORT_SHOW_SOURCE_LISTING_H_

#include <ostream>
#include <string>
#include <vector>

#include "report/show/selection.h"

namespace holdfast {

struct ListOptions {
  ViewOptions view;
  std::string function;  // a regular expression
  std::vector<std::string> source_paths = {};
  size_t context = 3;  // lines shown around each line that has a value
};

int RunList(const ListOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_SOURCE_LISTING_H_
