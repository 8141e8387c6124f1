#include "report/growth/growth_answer.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "report/base/value_units.h"
#include "report/profiles/short_name.h"

namespace holdfast {
namespace {

constexpr double kMuch = 0.1;    // of the memory in use: what rises undecidedly and is less does not matter
constexpr double kMostly = 0.5;  // of a rise: whose it mostly is
constexpr double kAllOfIt = 0.9;

double RiseOf(const LeakSeries& series, const LeakSeries::Entry& entry) {
  return static_cast<double>(entry.bytes_now - series.BytesAt(entry, series.SnapshotAt(entry.bytes.since)));
}

}  // namespace

std::string_view GrowsName(Grows grows) {
  switch (grows) {
    case Grows::kYes:
      return "growing";
    case Grows::kUndecided:
      return "undecided";
    case Grows::kNo:
      break;
  }
  return "steady";
}

GrowthAnswer AnswerOf(const LeakSeries& series, const std::vector<LeakSeries::Entry>& entries) {
  const Growth total = series.Total();
  const auto now = static_cast<double>(series.TotalNow());
  GrowthAnswer answer;
  bool known = false;
  double since = total.since;
  for (const LeakSeries::Entry& entry : entries) {
    const bool grows = entry.bytes.growth_class == GrowthClass::kGrowing;
    const bool might = entry.bytes.growth_class == GrowthClass::kUndecided && RiseOf(series, entry) >= kMuch * now;
    if (!grows && !might) continue;
    known = known || entry.suppressed;
    if (entry.suppressed || (!grows && answer.grows != Grows::kNo)) continue;
    if (answer.grows != Grows::kYes) since = entry.bytes.since;  // of the surest of those that grow
    answer.grows = grows ? Grows::kYes : Grows::kUndecided;
  }
  if (total.growth_class == GrowthClass::kGrowing || total.growth_class == GrowthClass::kUndecided) {
    since = total.since;
    const bool surely = total.growth_class == GrowthClass::kGrowing;
    if (!known && answer.grows != Grows::kYes) answer.grows = surely ? Grows::kYes : Grows::kUndecided;
  }
  if (answer.grows == Grows::kNo) return answer;
  const uint32_t first = series.SnapshotAt(since);
  answer.before = series.TotalAt(first);
  answer.now = series.TotalNow();
  answer.hours = series.Hours() - since;
  answer.more_hours = std::max(answer.hours, series.Hours() / 4);
  const LeakSeries::Entry* largest = nullptr;
  int64_t largest_rise = 0;
  for (const LeakSeries::Entry& entry : entries) {
    const int64_t rise = entry.bytes_now - series.BytesAt(entry, first);
    if (rise <= largest_rise) continue;
    largest_rise = rise;
    largest = &entry;
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

std::string TextOf(const GrowthAnswer& answer) {
  std::string text = std::string(GrowsName(answer.grows)) + ": ";
  if (answer.grows == Grows::kNo) return text + "nothing rises all the time";
  text += answer.now > answer.before ? fmt::format("{} → {} in {}, still rising", FormatSize(answer.before),
                                                   FormatSize(answer.now), HoursText(answer.hours))
                                     : FormatSize(answer.now) + " in use, and no more than before";
  if (const std::string_view by = WhoseWord(answer); !by.empty())
    text += fmt::format(", {} {}", by, ShortName(answer.largest.front()));
  if (answer.grows == Grows::kUndecided)
    text += fmt::format("; another {} will tell, or a smaller --heap-interval", HoursText(answer.more_hours));
  return text;
}

std::string HoursText(double hours) {
  constexpr double kTwoYears = 2 * 365 * 24;
  if (!(hours < kTwoYears)) return "more than two years";
  return FormatDuration(static_cast<int64_t>(std::round(hours * 36'000)) * 100'000'000);  // not known to more
}

}  // namespace holdfast
