#include "report/analysis/profiles/spinning_locks.h"

#include <algorithm>
#include <vector>

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

constexpr std::string_view kOpenMpRuntimes[] = {"libgomp.so", "libomp.so", "libiomp5.so"};

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
  for (const Profile::Mapping& mapping : profile.mappings) {
    const std::string_view file = profile.strings[mapping.file];
    AddSpinningLocks(file, &found);
    for (const std::string_view runtime : kOpenMpRuntimes) {
      if (BaseName(file).starts_with(runtime)) AddOnce(kOpenMp, &found);
    }
  }
  for (const Profile::Function& function : profile.functions) {
    for (const SpinningLocks& locks : kSpinningLocks) {
      const std::string_view name = profile.strings[function.name];
      if (name.starts_with(locks.scope) && name.find(locks.part) != name.npos) AddOnce(locks.of, &found);
    }
  }
  return found;
}

std::string SpinningText(const std::vector<std::string_view>& found) {
  std::vector<std::string_view> spinning = found;
  std::vector<std::string> texts;
  if (std::erase(spinning, kOpenMp) > 0) {
    texts.emplace_back(
        "OpenMP's waits for tasks, at the end of parallel regions and in doacross loops are not seen, nor those at "
        "barriers of a program with tasks");
  }
  if (!spinning.empty()) {
    texts.push_back(
        fmt::format("{} spin before they sleep: waits that end before that are not seen", fmt::join(spinning, ", ")));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace holdfast
