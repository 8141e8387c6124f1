#include "report/export/stack_interner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace holdfast {
namespace {

// Labels of ours, or of what is made of a profile later: a program's own of that name has `label_` before it.
constexpr std::string_view kOwnLabels[] = {"bytes",   "lock", "wait",    "lock_address", "state", "thread",
                                           "mapping", "type", "rethrow", "age",          "freed"};

}  // namespace

int64_t Rounded(double value) {
  if (!(value > 0)) return 0;
  if (value >= 9.2e18) return std::numeric_limits<int64_t>::max();
  return std::llround(value);
}

void AddThreadLabels(const LabelPairs& set, Profile* profile, std::vector<Profile::Label>* labels) {
  for (const auto& [key, value] : set) {
    if (key == kThreadNameKey) {
      labels->push_back({.key = profile->strings.Intern("thread"), .text = profile->strings.Intern(value)});
      continue;
    }
    const bool taken = std::find(std::begin(kOwnLabels), std::end(kOwnLabels), key) != std::end(kOwnLabels);
    labels->push_back(
        {.key = profile->strings.Intern(taken ? "label_" + key : key), .text = profile->strings.Intern(value)});
  }
}

}  // namespace holdfast
