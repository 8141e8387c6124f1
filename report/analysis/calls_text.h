// A stack in half a line, for those who look for what a thread does, and not for what it stands on.
#ifndef HOLDFAST_REPORT_ANALYSIS_CALLS_TEXT_H_
#define HOLDFAST_REPORT_ANALYSIS_CALLS_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/pprof/profile.h"

namespace holdfast {

// "transfer ← handle ← run": the innermost functions of a stack that are not the system's, without their parameters; of the
// system's the innermost one where there are no others; "" for no frames at all.
std::string CallsText(const Profile& profile, const std::vector<uint32_t>& stack);
// "bank::transfer" of "void bank::transfer<int>(Account&, Account&) const".
std::string NameAlone(std::string_view function);
// "25.1 s", "250 ms", "5 min 12 s", "3 h 12 min".
std::string ForHowLong(int64_t ns);
// Lines of columns as wide as their widest cell; the last one is not filled up.
std::string Aligned(const std::vector<std::vector<std::string>>& rows);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_CALLS_TEXT_H_
