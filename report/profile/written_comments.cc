#include "report/profile/written_comments.h"

#include <string_view>

#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

// The least informative first. Of several equal ones, the last is left out first. "kind" is not among them: older releases
// know what a file is by this comment alone. "tail calls" is in no record.
constexpr std::string_view kDispensable[] = {
    "interval since ", "interval in part: ", "no lines: ", "no names: ", "exact: ", "executable: "};

}  // namespace

std::vector<StringId> CommentsToWrite(const Profile& profile) {
  std::vector<StringId> comments = profile.comments;
  if (!profile.records().process.has_value()) return comments;
  for (const std::string_view start : kDispensable) {
    for (size_t i = comments.size(); i-- > 0 && comments.size() > kMaxComments;) {
      if (profile.strings[comments[i]].starts_with(start)) comments.erase(comments.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  return comments;
}

}  // namespace holdfast
