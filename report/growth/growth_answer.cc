#include "report/growth/growth_answer.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/base/value_units.h"
#include "report/growth/rate_unit.h"
#include "report/profiles/short_name.h"

namespace holdfast {
namespace {

constexpr double kLittle = 0.01;  // of the bytes in use: a smaller undecided rise does not matter
constexpr double kMostly = 0.5;   // a stack with at least this part of a rise is named
constexpr double kAllOfIt = 0.9;
// Level: no leak exceeds this part of the bytes in use within a day; or within the observed time if every allocation is
// known.
constexpr double kHarmless = 0.05, kHoursADay = 24;
constexpr int64_t kFinerBy = 8;
constexpr double kAloneErrors = 6;  // standard errors

double RiseOf(const LeakSeries& series, const LeakSeries::Entry& entry) {
  return static_cast<double>(entry.bytes_now - series.BytesAt(entry, series.SnapshotAt(entry.bytes.since)));
}

bool LeaksAny(const std::vector<LeakSeries::Entry>& entries) {
  return std::ranges::any_of(
      entries, [](const LeakSeries::Entry& entry) { return !entry.suppressed && IsLeak(entry.bytes.growth_class); });
}

// Returns whether one stack has most of the total's rise since then.
bool OneHasMost(const LeakSeries& series, const std::vector<LeakSeries::Entry>& entries, double since) {
  const uint32_t first = series.SnapshotAt(since);
  const auto rise = static_cast<double>(series.TotalNow() - series.TotalAt(first));
  return std::ranges::any_of(entries, [&](const LeakSeries::Entry& entry) {
    return static_cast<double>(entry.bytes_now - series.BytesAt(entry, first)) > kMostly * rise;
  });
}

// "40KiB a minute": the unit fits the observed time.
std::string RateText(double bytes_an_hour, double hours_seen) {
  const RateUnit unit = RateUnitFor(hours_seen);
  return fmt::format("{} {}", FormatSize(static_cast<int64_t>(std::min(9e18, std::ceil(bytes_an_hour / unit.an_hour)))),
                     unit.words);
}

}  // namespace

std::string_view GrowsName(Grows grows) {
  switch (grows) {
    case Grows::kYes:
      return "growing";
    case Grows::kSteps:
      return "grows in steps";
    case Grows::kUndecided:
      return "cannot tell";
    case Grows::kNo:
      break;
  }
  return "level";
}

GrowthAnswer AnswerOf(const LeakSeries& series, const std::vector<LeakSeries::Entry>& entries) {
  const Growth total = series.Total();
  GrowthAnswer answer{.now = series.TotalNow()};
  const auto now = static_cast<double>(answer.now);
  bool known = false;
  double since = total.since;
  for (const LeakSeries::Entry& entry : entries) {
    const bool leaks = IsLeak(entry.bytes.growth_class);
    const bool might = entry.bytes.growth_class == GrowthClass::kUndecided && RiseOf(series, entry) >= kLittle * now;
    known = known || entry.suppressed;
    if (entry.suppressed) continue;
    answer.bound = std::max(answer.bound, entry.bytes.bound);
    if (!leaks && !might) continue;
    // The first of those that grow is the most certain.
    if (!IsLeak(answer.grows)) {
      since = entry.bytes.since;
      answer.active = entry.bytes.active;
    }
    answer.rises = true;
    answer.grows = std::max(answer.grows, !leaks                                              ? Grows::kUndecided
                                          : entry.bytes.growth_class == GrowthClass::kGrowing ? Grows::kYes
                                                                                              : Grows::kSteps);
  }
  // With births as the course, the sum over all stacks has none, because it includes tables made at the start.
  answer.by_births = series.is_by_births();
  known = known || answer.by_births;
  if (!known) answer.bound = std::max(answer.bound, total.bound);
  // The sum of many courses looks steadier than each one. To be a leak on its own, the sum needs more standard errors,
  // and no stack may have most of the rise.
  const bool total_leaks =
      IsLeak(total.growth_class) && (IsLeak(answer.grows) || (total.slope >= kAloneErrors / 1.96 * total.half_width &&
                                                              !OneHasMost(series, entries, total.since)));
  if (!known && (IsLeak(total.growth_class) || total.growth_class == GrowthClass::kUndecided)) {
    if (total_leaks && !IsLeak(answer.grows)) {
      answer.grows = total.growth_class == GrowthClass::kGrowing ? Grows::kYes : Grows::kSteps;
      answer.active = total.active;
    }
    if (answer.grows == Grows::kNo) answer.grows = Grows::kUndecided;
    answer.rises = true;
    since = total.since;
  }
  if (answer.grows == Grows::kNo) {
    const double hours = series.exact() ? series.Hours() : kHoursADay;
    if (!(answer.bound * hours <= kHarmless * now)) answer.grows = Grows::kUndecided;
  }
  if (answer.grows == Grows::kNo) return answer;
  if (series.evidence() < kLeastSnapshots && !answer.by_births)
    answer.more_snapshots = kLeastSnapshots - series.evidence();
  answer.smaller_interval = series.exact() ? 0 : std::max<int64_t>(1, series.interval() / kFinerBy);
  answer.more_hours = series.Hours();
  if (!answer.rises) return answer;
  const uint32_t first = series.SnapshotAt(since);
  answer.before = series.TotalAt(first);
  answer.hours = series.Hours() - since;
  answer.more_hours = std::max(answer.hours, series.Hours() / 4);
  const LeakSeries::Entry* largest = nullptr;
  int64_t largest_rise = 0;
  for (const LeakSeries::Entry& entry : entries) {
    const int64_t rise = entry.bytes_now - series.BytesAt(entry, first);
    // A stack that only comes and goes is not the cause.
    const bool takes_part = answer.by_births && !IsLeak(answer.grows)
                                ? entry.bytes.growth_class == GrowthClass::kUndecided
                                : !IsLeak(answer.grows) || IsLeak(entry.bytes.growth_class) || !LeaksAny(entries);
    if (rise <= largest_rise || !takes_part) continue;
    largest_rise = rise;
    largest = &entry;
  }
  if (answer.by_births) {
    // Only what grows, without tables made at the start.
    answer.before = answer.now = 0;
    for (const LeakSeries::Entry& entry : entries) {
      const bool rises =
          IsLeak(answer.grows) ? IsLeak(entry.bytes.growth_class) : entry.bytes.growth_class == GrowthClass::kUndecided;
      if (rises && !entry.suppressed) answer.now += entry.bytes_now;
      if (rises && !entry.suppressed) answer.before += series.BytesAt(entry, first);
    }
  }
  if (largest == nullptr) return answer;
  answer.largest = series.FramesOf(*largest);
  answer.share = std::min(
      1.0, static_cast<double>(largest_rise) / std::max<double>(1, static_cast<double>(answer.now - answer.before)));
  return answer;
}

std::string_view WhoseWord(const GrowthAnswer& answer) {
  if (answer.largest.empty() || answer.share < kMostly) return "";
  return answer.share >= kAllOfIt ? "by" : "mostly by";
}

std::string TextOf(const GrowthAnswer& answer, double hours_seen) {
  std::string text = std::string(GrowsName(answer.grows)) + ": ";
  const bool bounded = std::isfinite(answer.bound);
  const std::string bound =
      answer.bound <= 0 ? "zero" : fmt::format("at most {} (95 %)", RateText(answer.bound, hours_seen));
  if (answer.grows == Grows::kNo) return text + (answer.bound <= 0 ? "nothing grows" : "a leak is " + bound);
  if (answer.rises) {
    text += answer.now > answer.before ? fmt::format("{} → {} in {}, still rising", FormatSize(answer.before),
                                                     FormatSize(answer.now), HoursText(answer.hours))
                                       : FormatSize(answer.now) + " in use, no more than before";
    if (const std::string_view by = WhoseWord(answer); !by.empty())
      text += fmt::format(", {} {}", by, ShortName(answer.largest.front()));
    constexpr double kAlways = 0.9;
    if (IsLeak(answer.grows) && answer.active < kAlways && answer.active > 0 && answer.hours > 0 &&
        answer.now > answer.before) {
      const double rate = static_cast<double>(answer.now - answer.before) / answer.hours / answer.active;
      text += fmt::format("; {} while there is traffic", RateText(rate, hours_seen));
    }
  } else {
    text += bounded ? "a leak is " + bound : "there is only one snapshot";
  }
  if (answer.grows != Grows::kUndecided) return text;
  std::vector<std::string> missing;
  if (answer.by_births && hours_seen > 0)
    missing.push_back(fmt::format("--snapshot-every {}", HoursText(std::max(hours_seen / 8, 0.1 / 3600))));
  if (answer.more_snapshots > 0)
    missing.push_back(fmt::format("{} more snapshot{}", answer.more_snapshots, answer.more_snapshots == 1 ? "" : "s"));
  if (answer.more_hours > 0)
    missing.push_back((answer.by_births ? "a run longer by " : "another ") + HoursText(answer.more_hours));
  if (answer.smaller_interval > 0) missing.push_back("--heap-interval " + FormatSize(answer.smaller_interval));
  return missing.empty() ? text : fmt::format("{}; {} will tell", text, fmt::join(missing, " or "));
}

std::string HoursText(double hours) {
  constexpr double kTwoYears = 2 * 365 * 24;
  if (!(hours < kTwoYears)) return "more than two years";
  return FormatDuration(static_cast<int64_t>(std::round(hours * 36'000)) * 100'000'000);  // no greater precision
}

}  // namespace holdfast
