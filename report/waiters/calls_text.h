// Shortens a stack to half a line, for readers who want to know what a thread does.
#ifndef HOLDFAST_REPORT_WAITERS_CALLS_TEXT_H_
#define HOLDFAST_REPORT_WAITERS_CALLS_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/pprof/profile.h"
#include "report/profiles/plumbing.h"

namespace holdfast {

// "transfer ← handle ← run": the innermost functions of a stack that are not plumbing (report/profiles/plumbing.h),
// without parameters; if all are plumbing, the innermost one; "" without frames. Unnamed code is shown if it is
// innermost, or if there is nothing else: "mariadbd!0xd5b023 ← handler::ha_index_read_map ← …". Null `plumbing`: show
// all functions.
std::string CallsText(const Profile& profile, const std::vector<uint32_t>& stack, Plumbing* plumbing);
// Returns the path to a wait, for locks that are not informative: up to 16 functions; of a longer one the ten
// innermost, "…" and the six outermost.
std::string WayText(const Profile& profile, const std::vector<uint32_t>& stack, Plumbing* plumbing);
// Wraps lines between calls at `width` columns. Each line begins with `indent` and ends with a newline.
std::string WrappedCalls(std::string_view calls, std::string_view indent, size_t width);
// "void bank::transfer<int>(Account&, Account&) const" becomes "bank::transfer".
std::string NameAlone(std::string_view function);
// Returns lines with aligned columns. The last column is not padded.
std::string Aligned(const std::vector<std::vector<std::string>>& rows);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_WAITERS_CALLS_TEXT_H_
