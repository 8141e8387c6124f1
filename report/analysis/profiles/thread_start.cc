#include "report/analysis/profiles/thread_start.h"

#include "fmt/format.h"
#include "report/analysis/profiles/frame_origin.h"
#include "report/base/base_name.h"

namespace holdfast {

std::string ThreadStartOf(const Profile& profile, std::span<const uint32_t> frames) {
  std::string last = "(unknown)";
  for (size_t i = frames.size(); i-- > 0;) {
    const Profile::Location& at = profile.locations[frames[i]];
    const std::string_view object =
        at.mapping == Profile::kNone ? std::string_view() : profile.strings[profile.mappings[at.mapping].file];
    const auto lines = profile.LinesOf(at);
    if (lines.empty()) {
      last = object.empty() ? "(unknown)" : fmt::format("[{}]", BaseName(object));
      if (!object.empty() && !IsSystemFrame("", object)) return last;
    }
    for (size_t line = lines.size(); line-- > 0;) {  // the last is the function that the others were inlined into
      last = std::string(profile.strings[profile.functions[lines[line].function].name]);
      if (!IsSystemFrame(last, object)) return last;
    }
  }
  return last;
}

}  // namespace holdfast
