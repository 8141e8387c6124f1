// Leaks that are known and not to be told: files in LeakSanitizer's format.
//
//   # what follows is a comment
//   leak:libfoo.so          a part of a function's, source file's or object's name in the stack
//   leak:^init_*_table$     * stands for anything, ^ and $ for the ends
#ifndef HOLDFAST_REPORT_GROWTH_SUPPRESSIONS_H_
#define HOLDFAST_REPORT_GROWTH_SUPPRESSIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace holdfast {

class Suppressions {
 public:
  // Reads a file and adds its lines. Lines of other kinds (race:, thread: …) are passed over, others are an error.
  absl::Status AddFile(const std::string& path);
  absl::Status AddText(std::string_view text, std::string_view name);

  bool empty() const { return patterns_.empty(); }
  bool Matches(std::string_view name) const;

 private:
  std::vector<std::string> patterns_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_GROWTH_SUPPRESSIONS_H_
