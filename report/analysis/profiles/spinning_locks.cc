#include "report/analysis/profiles/spinning_locks.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/base/base_name.h"

namespace holdfast {
namespace {

constexpr SpinningLocks kSpinningLocks[] = {
    {"oneTBB's mutexes", "libtbb.so", "tbb::", ""},
    {"folly's locks", "libfolly.so", "folly::", ""},
    {"parking_lot's locks", "", "parking_lot_core::", ""},
    {"abseil's mutexes", "libabsl_synchronization.so", "absl::", "::Mutex::"},
};

void AddOnce(std::string_view of, std::vector<std::string_view>* found) {
  if (std::find(found->begin(), found->end(), of) == found->end()) found->push_back(of);
}

}  // namespace

std::span<const SpinningLocks> AllSpinningLocks() { return kSpinningLocks; }

void AddSpinningLocks(std::string_view file, std::vector<std::string_view>* found) {
  for (const SpinningLocks& locks : kSpinningLocks) {
    if (!locks.library.empty() && BaseName(file).starts_with(locks.library)) AddOnce(locks.of, found);
  }
}

std::vector<std::string_view> SpinningLocksIn(const Profile& profile) {
  std::vector<std::string_view> found;
  for (const Profile::Mapping& mapping : profile.mappings) AddSpinningLocks(profile.strings[mapping.file], &found);
  for (const Profile::Function& function : profile.functions) {
    for (const SpinningLocks& locks : kSpinningLocks) {
      const std::string_view name = profile.strings[function.name];
      if (name.starts_with(locks.scope) && name.find(locks.part) != name.npos) AddOnce(locks.of, &found);
    }
  }
  return found;
}

std::string SpinningText(const std::vector<std::string_view>& found) {
  if (found.empty()) return "";
  return fmt::format("{} spin before they sleep: waits that end before that are not seen", fmt::join(found, ", "));
}

}  // namespace holdfast
