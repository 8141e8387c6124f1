#include "report/show/no_match.h"

#include <algorithm>
#include <set>
#include <string>

#include "fmt/format.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/profile/profile.h"

namespace holdfast {
namespace {

bool HasFunction(const Profile& profile, const Pattern& pattern) {
  return std::any_of(profile.functions.begin(), profile.functions.end(), [&](const Profile::Function& function) {
    return pattern.Matches(profile.strings[function.name]);
  });
}

}  // namespace

absl::Status NoFunctionMatches(std::string_view asked, const Pattern& pattern, const ViewOptions& options) {
  std::set<std::string> kinds;
  if (options.kind.empty() && options.metric.empty() && !options.peak) {
    // Errors were already reported when the files were read the first time.
    (void)ReadProfileSet(options.files, {.keep = KeepProfiles::kNone, .each = [&](const ProfileFile& file, bool) {
                                           if (file.profile != nullptr && HasFunction(*file.profile, pattern))
                                             kinds.insert(file.kind);
                                         }});
  }
  if (kinds.empty()) {
    return absl::NotFoundError(
        fmt::format("{}: no function in the profile matches. List the names with holdfast top.", asked));
  }
  return absl::NotFoundError(
      fmt::format("{}: no function in this kind of profile matches, but another kind has one: --kind {}", asked,
                  fmt::join(kinds, " or --kind ")));
}

}  // namespace holdfast
