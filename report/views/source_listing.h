// `holdfast list`: the source lines of functions, with what each line used.
//
// Needs lines in the profile (debug information when it was written, or holdfast symbolize). The source itself is read
// from where the profile says it was, or below one of `source_paths`; without it the lines are shown by number.
#ifndef HOLDFAST_REPORT_VIEWS_SOURCE_LISTING_H_
#define HOLDFAST_REPORT_VIEWS_SOURCE_LISTING_H_

#include <ostream>
#include <string>
#include <vector>

#include "report/views/selection.h"

namespace holdfast {

struct ListOptions {
  ViewOptions view;
  std::string function;  // an expression
  std::vector<std::string> source_paths = {};
  size_t context = 3;  // lines shown around each line that used something
};

int RunList(const ListOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_VIEWS_SOURCE_LISTING_H_
