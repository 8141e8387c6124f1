// What is said first of a process's snapshots: does it grow? One answer for `holdfast leaks` and the page.
#ifndef HOLDFAST_REPORT_GROWTH_GROWTH_ANSWER_H_
#define HOLDFAST_REPORT_GROWTH_GROWTH_ANSWER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/growth/leak_series.h"

namespace holdfast {

enum class Grows {
  kNo,         // level: no leak is faster than a bound that does not matter
  kUndecided,  // cannot tell: more time, a smaller interval or more snapshots have to
  kSteps,      // grows in steps: rises again and again, with pauses
  kYes,        // growing: a stack does, or all of them together
};
std::string_view GrowsName(Grows grows);
inline bool IsLeak(Grows grows) { return grows == Grows::kYes || grows == Grows::kSteps; }

struct GrowthAnswer {
  Grows grows = Grows::kNo;
  // Where something rises: all bytes in use before the rise and now, how long it took.
  int64_t before = 0, now = 0;
  double hours = 0;
  double active = 1;  // of that time: how much had traffic
  // Whose the largest part of it is, functions leaf first, and which part, 0 … 1. Empty: nobody's.
  std::vector<std::string> largest = {};
  double share = 0;
  double bound = 0;    // bytes an hour: no leak is faster, 95 %; infinite: there are too few snapshots
  bool rises = false;  // cannot tell: something rises surely, and may stop
  // Cannot tell: what is missing.
  double more_hours = 0;
  int64_t smaller_interval = 0;  // bytes; 0: every allocation is known already
  size_t more_snapshots = 0;
  bool by_births = false;  // few snapshots: the births of live blocks are the course
};

// Entries that are suppressed are known: neither they, nor a total that contains one that grows, raise an alarm. Any thread.
GrowthAnswer AnswerOf(const LeakSeries& series, const std::vector<LeakSeries::Entry>& entries);

// What stands before the name of who did most of it: "by", "mostly by"; "" where nobody did half.
std::string_view WhoseWord(const GrowthAnswer& answer);
// "growing: 109MiB → 209MiB in 1min 2s, still rising, mostly by hsetCommand", "level: at most 40KiB a minute (95 %)".
// `hours_seen` chooses the unit of time.
std::string TextOf(const GrowthAnswer& answer, double hours_seen);

// FormatDuration, to a tenth of a second; "more than two years" for all beyond.
std::string HoursText(double hours);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_GROWTH_GROWTH_ANSWER_H_
