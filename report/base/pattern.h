// A regular expression of the command line. The syntax is RE2's, as in `go tool pprof`; matching takes linear time on
// any text.
#ifndef HOLDFAST_REPORT_BASE_PATTERN_H_
#define HOLDFAST_REPORT_BASE_PATTERN_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"

namespace re2 {
class RE2;
}

namespace holdfast {

class Pattern {
 public:
  // "" compiles to an `empty` pattern, which matches nothing. The message of an error begins with `option`.
  static absl::StatusOr<Pattern> Compile(std::string_view option, std::string_view text);

  bool empty() const { return expression_ == nullptr; }
  // Returns whether the pattern matches anywhere in `text`.
  bool Matches(std::string_view text) const;

 private:
  std::shared_ptr<const re2::RE2> expression_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_PATTERN_H_
