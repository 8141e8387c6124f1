#include "report/analysis/wait_rank.h"

#include <string_view>

namespace holdfast {

size_t OwnFunctions(const Profile& profile, std::span<const uint32_t> stack, Plumbing* plumbing) {
  size_t functions = 0;
  for (const uint32_t frame : stack) {
    const Profile::Location& location = profile.locations[frame];
    if (location.lines == 0) functions += plumbing->HoldsObject(location.mapping) ? 0 : 1;
    for (const Profile::Line& line : profile.LinesOf(location)) {
      if (line.function != Profile::kNone) functions += plumbing->Holds(line.function, location.mapping) ? 0 : 1;
    }
  }
  return functions;
}

bool IsInOwnLoop(const Profile& profile, std::span<const uint32_t> stack, bool since_start, Plumbing* plumbing) {
  constexpr std::string_view kTruncatedName = "[truncated]";  // the outermost frame of a stack that was cut
  if (stack.empty()) return false;
  for (const Profile::Line& line : profile.LinesOf(profile.locations[stack.back()])) {
    if (line.function != Profile::kNone && profile.strings[profile.functions[line.function].name] == kTruncatedName)
      return false;
  }
  return OwnFunctions(profile, stack, plumbing) <= (since_start ? kStartFunctions : kLoopFunctions);
}

}  // namespace holdfast
