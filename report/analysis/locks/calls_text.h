// Shortens a stack to half a line, for readers who want to know what a thread does.
#ifndef HOLDFAST_REPORT_ANALYSIS_LOCKS_CALLS_TEXT_H_
#define HOLDFAST_REPORT_ANALYSIS_LOCKS_CALLS_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/profiles/plumbing.h"
#include "report/profile/profile.h"

namespace holdfast {

// "transfer ← handle ← run": the innermost functions of a stack that are not plumbing (report/analysis/profiles/plumbing.h), by their
// short names (report/analysis/profiles/short_name.h); of plumbing the innermost one where there are no others; "" for no frames at all. Code without a name
// counts where it is the innermost, or where there is no other: "mariadbd!0xd5b023 ← handler::ha_index_read_map ← …".
// No `plumbing`: nothing is left out.
std::string CallsText(const Profile& profile, const std::vector<uint32_t>& stack, Plumbing* plumbing);
// Each of them.
std::vector<std::string> FewCalls(const Profile& profile, const std::vector<uint32_t>& stack, Plumbing* plumbing);
// The calls of a wait for an unnamed lock: up to 16; if there are more, the ten innermost, "…" and the six outermost.
std::string WayText(const Profile& profile, const std::vector<uint32_t>& stack, Plumbing* plumbing);
// Wraps lines between calls at `width` columns. Each line begins with `indent` and ends with a newline.
std::string WrappedCalls(std::string_view calls, std::string_view indent, size_t width);
// Lines of columns as wide as their widest cell; the last one is not filled up.
std::string Aligned(const std::vector<std::vector<std::string>>& rows);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_LOCKS_CALLS_TEXT_H_
