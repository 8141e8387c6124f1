#include "report/builder/stack_interner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace holdfast {
namespace {

// Labels that are ours, or that later processing adds. A program's own label of such a name gets the prefix `label_`.
constexpr std::string_view kOwnLabels[] = {"bytes",  "lock",    "wait", "lock_address", "holder", "state",
                                           "thread", "mapping", "type", "rethrow",      "age",    "freed"};

}  // namespace

int64_t Rounded(double value) {
  if (!(value > 0)) return 0;
  if (value >= 9.2e18) return std::numeric_limits<int64_t>::max();
  return std::llround(value);
}

int64_t Columns::Value(size_t type, double value) {
  uint64_t total = totals_[type];
  full_sums_ += !AddSaturating(static_cast<uint64_t>(Rounded(value)), &total);
  return static_cast<int64_t>(total - std::exchange(totals_[type], total));
}

void DescribeBlocks(const ProcessState& state, std::span<const std::pair<const char*, const char*>> types, size_t shown,
                    Profile* profile) {
  const auto intern = [profile](const char* text) { return profile->strings.Intern(text); };
  for (const auto& [type, unit] : types) profile->sample_types.push_back({intern(type), intern(unit)});
  profile->default_sample_type = profile->sample_types[shown].type;
  profile->period_type = {intern("space"), intern("bytes")};
  for (const IntervalChange& change : state.table->heap_intervals) {
    if (change.interval != 0) profile->period = static_cast<int64_t>(change.interval);  // the newest that is not "off"
  }
  profile->time_nanos = state.table->wall_ns;
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
