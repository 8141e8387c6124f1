// Names of like threads: "io-12" and "io-7" become "io-*".
#ifndef HOLDFAST_REPORT_BASE_THREAD_NAME_H_
#define HOLDFAST_REPORT_BASE_THREAD_NAME_H_

#include <string>
#include <string_view>

namespace holdfast {

// "io-12" → "io-*"; a name without a number at its end stays.
std::string FoldedThreadName(std::string_view name);

// The sum of threads that a bounded list has no room for.
inline constexpr char kOtherThreads[] = "[other threads]";

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_THREAD_NAME_H_
