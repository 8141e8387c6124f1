// `--tagfocus` and `--tagignore`: selects samples by the values of labels. Any thread may use a filter once it is made.
//
//   wait=mutex            samples with a label `wait`; its value matches the expression
//   bytes=1KiB:64KiB      samples with a numeric label in the range; "bytes=4096", ":64KiB" and "1KiB:" also work
//   mutex,cond            one expression per part; each must match a `key:value` of the sample
//   1KiB:64KiB            any numeric label
#ifndef HOLDFAST_REPORT_ANALYSIS_PROFILES_LABEL_FILTER_H_
#define HOLDFAST_REPORT_ANALYSIS_PROFILES_LABEL_FILTER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "report/base/pattern.h"
#include "report/profile/profile.h"

namespace holdfast {

class LabelFilter {
 public:
  // "" makes no filter. Returns an error for a range of other things than numbers, and for an expression on a label that
  // has numbers in `profile`: such a filter would match nothing, or everything.
  static absl::StatusOr<LabelFilter> Parse(std::string_view option, std::string_view text, const Profile& profile);
  bool empty() const { return empty_; }
  bool Matches(const Profile& profile, const Profile::Sample& sample) const;

 private:
  static absl::StatusOr<LabelFilter> ParseText(std::string_view option, std::string_view text);

  bool empty_ = true, is_range_ = false;
  std::string key_;
  int64_t low_ = 0, high_ = 0;
  std::vector<Pattern> patterns_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_PROFILES_LABEL_FILTER_H_
