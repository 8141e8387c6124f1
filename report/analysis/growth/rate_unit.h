// Chooses the unit of time for a growth rate: one that fits the observed time. 134 MiB in 15 s are printed as 8.9 MiB a
// second, not as 31 GiB an hour, which nobody observed.
#ifndef HOLDFAST_REPORT_ANALYSIS_GROWTH_RATE_UNIT_H_
#define HOLDFAST_REPORT_ANALYSIS_GROWTH_RATE_UNIT_H_

#include <string_view>

namespace holdfast {

struct RateUnit {
  double an_hour = 1;  // units in an hour
  std::string_view symbol = "h", words = "an hour";
};

inline RateUnit RateUnitFor(double hours_seen) {
  constexpr double kMinutes = 5;
  if (hours_seen * 60 >= kMinutes - 0.01) return {};
  if (hours_seen * 60 >= 1) return {60, "min", "a minute"};
  return {3600, "s", "a second"};
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_GROWTH_RATE_UNIT_H_
