#include "report/base/pattern.h"

#include <string>

#include "fmt/format.h"
#include "re2/re2.h"

namespace holdfast {

absl::StatusOr<Pattern> Pattern::Compile(std::string_view option, std::string_view text) {
  Pattern pattern;
  if (text.empty()) return pattern;
  re2::RE2::Options options;
  options.set_log_errors(false);
  pattern.expression_ = std::make_shared<re2::RE2>(re2::StringPiece(text.data(), text.size()), options);
  if (pattern.expression_->ok()) return pattern;
  return absl::InvalidArgumentError(
      fmt::format("{} {}: not a regular expression ({}). To match it literally, write \\Q{}\\E.", option, text,
                  pattern.expression_->error(), text));
}

bool Pattern::Matches(std::string_view text) const {
  return expression_ != nullptr && re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *expression_);
}

}  // namespace holdfast
