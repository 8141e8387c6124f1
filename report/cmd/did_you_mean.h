// Suggests the name that a user meant by a mistyped one. Pure functions.
#ifndef HOLDFAST_REPORT_CMD_DID_YOU_MEAN_H_
#define HOLDFAST_REPORT_CMD_DID_YOU_MEAN_H_

#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// Returns the known name that begins with `typed`, or the one with the fewest typing errors: a letter omitted, inserted
// or replaced, or two neighbours swapped. Returns "" if every name has more than one error per three letters.
std::string NearestName(std::string_view typed, const std::vector<std::string>& known);

// Returns " Did you mean --cum?" with the leading blank, or "" if no name is similar.
std::string DidYouMean(std::string_view typed, const std::vector<std::string>& known);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_CMD_DID_YOU_MEAN_H_
