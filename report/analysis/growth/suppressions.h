// Known leaks that are not reported, from files in LeakSanitizer's format:
//
//  # a comment
//  leak:libfoo.so          part of the name of a function, source file or object in the stack
//  leak:^init_*_table$     * matches any text, ^ and $ the ends
#ifndef HOLDFAST_REPORT_ANALYSIS_GROWTH_SUPPRESSIONS_H_
#define HOLDFAST_REPORT_ANALYSIS_GROWTH_SUPPRESSIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace holdfast {

class Suppressions {
 public:
  // Reads a file and adds its lines. Skips lines of LeakSanitizer's other kinds (race:, thread: …); other lines are
  // errors.
  absl::Status AddFile(const std::string& path);
  absl::Status AddText(std::string_view text, std::string_view name);

  bool empty() const { return patterns_.empty(); }
  bool Matches(std::string_view name) const;

 private:
  std::vector<std::string> patterns_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_GROWTH_SUPPRESSIONS_H_
