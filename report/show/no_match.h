// The error for a function pattern that matches nothing. Names the other kinds of profile in the folder that have such
// a function.
#ifndef HOLDFAST_REPORT_SHOW_NO_MATCH_H_
#define HOLDFAST_REPORT_SHOW_NO_MATCH_H_

#include <string_view>

#include "absl/status/status.h"
#include "report/base/pattern.h"
#include "report/show/selection.h"

namespace holdfast {

// `asked`: the pattern as the user typed it. Reads the files of `options` again, unless the user chose a kind.
absl::Status NoFunctionMatches(std::string_view asked, const Pattern& pattern, const ViewOptions& options);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_NO_MATCH_H_
