// What somebody who mistyped a name meant. Pure functions.
#ifndef HOLDFAST_REPORT_COMMAND_LINE_DID_YOU_MEAN_H_
#define HOLDFAST_REPORT_COMMAND_LINE_DID_YOU_MEAN_H_

#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// The known name that is the fewest slips away (a letter left out, put in, replaced; two swapped), or that begins with what
// was typed, or an empty text: more than one slip in three letters is no slip.
std::string NearestName(std::string_view typed, const std::vector<std::string>& known);

// " Did you mean --cum?", with the blank; empty where nothing is near.
std::string DidYouMean(std::string_view typed, const std::vector<std::string>& known);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMAND_LINE_DID_YOU_MEAN_H_
