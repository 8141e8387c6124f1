// Answers first whether a process grows, from its snapshots. `holdfast leaks` and the page give the same answer.
#ifndef HOLDFAST_REPORT_ANALYSIS_GROWTH_GROWTH_ANSWER_H_
#define HOLDFAST_REPORT_ANALYSIS_GROWTH_GROWTH_ANSWER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/growth/process_series.h"

namespace holdfast {

enum class Grows {
  kNo,         // level: no leak is faster than a harmless bound
  kUndecided,  // cannot tell: needs more time, a smaller interval or more snapshots
  kSteps,      // grows in steps: rises repeatedly, with pauses
  kYes,        // growing: one stack, or all together
};
std::string_view GrowsName(Grows grows);
inline bool IsLeak(Grows grows) { return grows == Grows::kYes || grows == Grows::kSteps; }

struct GrowthAnswer {
  Grows grows = Grows::kNo;
  // For a rise: all bytes in use before it and now, and its duration.
  int64_t before = 0, now = 0;
  double hours = 0;
  bool goes_on = true;  // the rise: in the last quarter of that time, too
  double active = 1;    // of that time: how much had traffic
  // The owner of its largest part, functions leaf first from the owner on, and which part, 0 … 1. Empty: nobody's.
  std::vector<std::string> largest = {};
  double share = 0;
  double bound = 0;    // bytes an hour: no leak is faster, 95 %; infinite: too few snapshots
  bool rises = false;  // cannot tell: a real rise, which may stop
  // Cannot tell: what is needed.
  double more_hours = 0;
  int64_t smaller_interval = 0;  // bytes; 0: every allocation is already known
  size_t more_snapshots = 0;
  ProcessSeries::Doubt doubt = ProcessSeries::Doubt::kNone;  // cannot tell: why the largest rise is no leak
  std::string unrecorded = {};                               // cannot tell: why new blocks are missing
  bool is_one_run = false;                                   // moments of one run are the course
  bool by_births = false;                                    // few snapshots: the births of live blocks are the course
};

// Suppressed entries are known leaks: neither they, nor a total with a suppressed one that grows, raise an alarm. Any
// thread.
GrowthAnswer AnswerOf(const ProcessSeries& series, const std::vector<ProcessSeries::Entry>& entries);

// Returns the words before the name of the stack: "by", "mostly by"; "" if no stack has half.
std::string_view OwnerPhrase(const GrowthAnswer& answer);
// "growing: 109MiB → 209MiB in 1min 2s, still rising, mostly by hsetCommand", "level: at most 40KiB a minute (95 %)".
// `hours_seen` determines the unit of time.
std::string TextOf(const GrowthAnswer& answer, double hours_seen);

// FormatDuration, to a tenth of a second; "more than two years" for longer times.
std::string HoursText(double hours);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_GROWTH_GROWTH_ANSWER_H_
