// The rate at which all leaks of a process grow together.
#ifndef HOLDFAST_REPORT_ANALYSIS_GROWTH_GROWTH_RATE_H_
#define HOLDFAST_REPORT_ANALYSIS_GROWTH_GROWTH_RATE_H_

#include <cmath>
#include <vector>

#include "report/analysis/growth/growth_answer.h"
#include "report/analysis/growth/process_series.h"

namespace holdfast {

struct GrowthRate {
  double slope = 0, half_width = 0;  // bytes an hour, and half-width of the 95 % interval; 0: no leak
};

// `answer` must be AnswerOf(series, entries).
inline GrowthRate RateOf(const ProcessSeries& series, const std::vector<ProcessSeries::Entry>& entries,
                         const GrowthAnswer& answer) {
  GrowthRate rate;
  double variance = 0;
  for (const ProcessSeries::Entry& entry : entries) {
    if (entry.suppressed || !IsLeak(entry.bytes.growth_class)) continue;
    rate.slope += entry.bytes.slope;
    variance += entry.bytes.half_width * entry.bytes.half_width;
  }
  rate.half_width = std::sqrt(variance);
  if (rate.slope > 0 || !IsLeak(answer.grows)) return rate;
  const Growth total = series.Total();
  return {total.slope, total.half_width};
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_GROWTH_GROWTH_RATE_H_
