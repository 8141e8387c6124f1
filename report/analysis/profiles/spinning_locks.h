// Libraries with waits that are not seen: locks that spin, or yield the processor, before they sleep; OpenMP's tasks. For `locks`, `stuck` and `doctor`. Any thread.
#ifndef HOLDFAST_REPORT_ANALYSIS_PROFILES_SPINNING_LOCKS_H_
#define HOLDFAST_REPORT_ANALYSIS_PROFILES_SPINNING_LOCKS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/profile/profile.h"

namespace holdfast {

struct SpinningLocks {
  std::string_view of;       // "oneTBB's mutexes"
  std::string_view library;  // how the file's name begins; "": always linked into a program
  std::string_view scope;    // how a demangled function's name begins; "": not known
  std::string_view part;     // what that name contains as well
};
std::span<const SpinningLocks> AllSpinningLocks();

// Adds to `found` what the name of a mapped file, or of a function, reveals.
void AddSpinningLocks(std::string_view file, std::vector<std::string_view>* found);
// Recognizes libraries with spinning locks by the mapped files and functions of a profile. Includes kOpenMp if OpenMP's runtime is mapped.
inline constexpr std::string_view kOpenMp = "OpenMP";
std::vector<std::string_view> SpinningLocksIn(const Profile& profile);

// "oneTBB's mutexes spin before they sleep: waits that end before that are not seen"; "" for an empty list. kOpenMp adds
// a text of its own.
std::string SpinningText(const std::vector<std::string_view>& found);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_PROFILES_SPINNING_LOCKS_H_
