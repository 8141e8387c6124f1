// The flat views: `holdfast top` (functions, the largest first) and `holdfast peek` (callers and callees of functions).
// report/show/selection.h says how several files are combined. The command line is in report/cmd/add_top.cc. Exit
// codes: 0, 2 (wrong usage), 3 (a file could not be read). Messages go to `err`, one line each.
#ifndef HOLDFAST_REPORT_SHOW_TOP_H_
#define HOLDFAST_REPORT_SHOW_TOP_H_

#include <ostream>
#include <string>

#include "report/show/selection.h"

namespace holdfast {

using TopOptions = ViewOptions;

int RunTop(const TopOptions& options, std::ostream& out, std::ostream& err);

// For each function that matches `pattern`, prints its callers and callees with the values of the calls.
int RunPeek(const ViewOptions& options, const std::string& pattern, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_TOP_H_
