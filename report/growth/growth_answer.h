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
  kNo,         // steady: what rose has stopped, or came down again
  kUndecided,  // the total still rises at the end, and nothing rises surely; or too few snapshots to say
  kYes,        // a stack grows, or all of them together
};
std::string_view GrowsName(Grows grows);  // steady, undecided, growing

struct GrowthAnswer {
  Grows grows = Grows::kNo;
  // Unless it is steady: all bytes in use before the rise and now, how long it took, how much longer it has to be watched.
  int64_t before = 0, now = 0;
  double hours = 0, more_hours = 0;
  // Whose the largest part of it is, functions leaf first, and which part, 0 … 1. Empty: nobody's.
  std::vector<std::string> largest = {};
  double share = 0;
};

// Entries that are suppressed are known: neither they, nor a total that contains one that grows, raise an alarm. Any thread.
GrowthAnswer AnswerOf(const LeakSeries& series, const std::vector<LeakSeries::Entry>& entries);

// What stands before the name of who did most of it: "by", "mostly by"; "" where nobody did half.
std::string_view WhoseWord(const GrowthAnswer& answer);
// "growing: 109MiB → 209MiB in 1min 2s, still rising, mostly by hsetCommand".
std::string TextOf(const GrowthAnswer& answer);

// FormatDuration, to a tenth of a second; "more than two years" for all beyond.
std::string HoursText(double hours);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_GROWTH_GROWTH_ANSWER_H_
