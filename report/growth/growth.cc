#include "report/growth/growth.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace holdfast {
namespace {

constexpr double kInterval = 1.96, kAlarm = 4, kLateAlarm = 5, kStillRising = 2.2;
constexpr double kFoot = 0.1;         // of the range above the lowest value: where a rise begins
constexpr double kLeastClimb = 0.1;   // of the highest value: less of a rise does not matter
constexpr size_t kFewSnapshots = 10;  // in which chance may look like a trend, and a trend like chance
constexpr size_t kLeastSteps = 3;     // of a rise
constexpr double kLeastLate = 0.2;    // of the snapshots that a late rise takes
constexpr size_t kMostSnapshots = 200;

double Median(std::vector<double>* values) {
  if (values->empty()) return 0;
  const size_t middle = values->size() / 2;
  std::nth_element(values->begin(), values->begin() + static_cast<ptrdiff_t>(middle), values->end());
  const double upper = (*values)[middle];
  if (values->size() % 2 == 1) return upper;
  return (upper + *std::max_element(values->begin(), values->begin() + static_cast<ptrdiff_t>(middle))) / 2;
}

std::vector<double> PairSlopes(std::span<const double> times, std::span<const double> values) {
  std::vector<double> slopes;
  slopes.reserve(times.size() * (times.size() - 1) / 2);
  for (size_t i = 0; i < times.size(); ++i) {
    for (size_t j = i + 1; j < times.size(); ++j) {
      if (times[j] > times[i]) slopes.push_back((values[j] - values[i]) / (times[j] - times[i]));
    }
  }
  return slopes;
}

// How alike the deviations of neighbours from the line are, 0 … 0.9.
double Autocorrelation(std::span<const double> times, std::span<const double> values, double slope) {
  std::vector<double> residuals;
  for (size_t i = 0; i < times.size(); ++i) residuals.push_back(values[i] - slope * times[i]);
  std::vector<double> copy = residuals;
  const double middle = Median(&copy);
  double product = 0, square = 0;
  for (size_t i = 0; i < residuals.size(); ++i) {
    square += (residuals[i] - middle) * (residuals[i] - middle);
    if (i > 0) product += (residuals[i] - middle) * (residuals[i - 1] - middle);
  }
  return square > 0 ? std::clamp(product / square, 0.0, 0.9) : 0;
}

// Of what came and went between two snapshots; see growth.h.
double DifferenceVariance(const Series& series, size_t first, size_t last) {
  const double before = series.values[first], after = series.values[last];
  const double sum = series.variances[first] + series.variances[last];
  if (series.allocated.empty() || !(before + after > 0)) return sum;
  const double weight = sum / (before + after);
  const double came = std::max(0.0, series.allocated[last] - series.allocated[first]);
  const double went = std::max(0.0, came - (after - before));
  return weight * (std::min(came, after) + std::min(went, before));
}

// Slope and its error of the snapshots from `first` on, no class.
Growth FitLine(const Series& series, size_t first) {
  const std::span<const double> times = std::span(series.times).subspan(first);
  const std::span<const double> values = std::span(series.values).subspan(first);
  Growth growth;
  std::vector<double> slopes = PairSlopes(times, values);
  if (slopes.empty()) return growth;
  growth.slope = Median(&slopes);
  std::sort(slopes.begin(), slopes.end());
  const auto n = static_cast<double>(times.size());
  const double ranks = kInterval * std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  const auto at = [&](double rank) {
    return slopes[static_cast<size_t>(std::clamp(std::round(rank), 0.0, static_cast<double>(slopes.size() - 1)))];
  };
  const auto pairs = static_cast<double>(slopes.size());
  const double scatter = std::max(growth.slope - at((pairs - ranks) / 2), at((pairs + ranks) / 2) - growth.slope);
  const double correlation = Autocorrelation(times, values, growth.slope);
  const double widened = scatter * std::sqrt((1 + correlation) / (1 - correlation));
  const double sampling = kInterval * std::sqrt(DifferenceVariance(series, first, series.values.size() - 1)) /
                          (times.back() - times.front());
  growth.half_width = std::hypot(widened, sampling);
  return growth;
}

double MedianSlope(const Series& series, size_t begin, size_t end) {
  auto slopes = PairSlopes(std::span(series.times).subspan(begin, end - begin),
                           std::span(series.values).subspan(begin, end - begin));
  return Median(&slopes);
}

double LargestFall(std::span<const double> values) {
  double largest = 0;
  for (size_t i = 1; i < values.size(); ++i) largest = std::max(largest, values[i - 1] - values[i]);
  return largest;
}

// Whether the snapshots from `first` on, to which `line` was fitted, rise all the time. What costs most is asked last.
bool RisesAllTheTime(const Series& series, size_t first, const Growth& line, double alarm) {
  if (line.slope <= 0 || line.slope <= alarm * line.half_width / kInterval) return false;
  const std::span<const double> values = std::span(series.values).subspan(first);
  const size_t n = values.size(), third = n / 3, end = series.values.size();
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double last = MedianSlope(series, end - third - 1, end);
  const int rising = (MedianSlope(series, first, first + third + 1) > 0) +
                     (MedianSlope(series, first + third, end - third) > 0) + (last > 0);
  if (rising < 2 || LargestFall(values) >= 0.5 * (*high - *low) || last < 0.35 * line.slope) return false;
  const Growth half = FitLine(series, first + n / 2);
  return half.slope >= 0.5 * line.slope && half.slope > kStillRising * half.half_width / kInterval;
}

// From which snapshot on it rises, if it does so at the end: the last one that is near its lowest value.
size_t FootOf(std::span<const double> values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  size_t foot = values.size() - 1;
  while (foot > 0 && values[foot] > *low + kFoot * (*high - *low)) --foot;
  return foot;
}

// Whether the rise from `foot` on, which may be too short to be surely one, has not slowed down as that of a full buffer does.
bool GoesOn(const Series& series, size_t foot) {
  const size_t n = series.values.size(), third = std::max<size_t>(1, (n - foot) / 3);
  const double whole = (series.values[n - 1] - series.values[foot]) / (series.times[n - 1] - series.times[foot]);
  return MedianSlope(series, n - third - 1, n) >= 0.35 * whole;
}

// Still at the top of a rise that matters, and that is none of the errors'.
bool RisesAtTheEnd(const Series& series, size_t foot) {
  const std::span<const double> values = series.values;
  const size_t n = values.size();
  const double climb = values[n - 1] - values[foot], high = *std::max_element(values.begin(), values.end());
  return foot + kLeastSteps < n && climb >= kLeastClimb * high && values[n - 1] >= high - kFoot * climb &&
         climb > kLateAlarm * std::sqrt(DifferenceVariance(series, foot, n - 1)) && GoesOn(series, foot);
}

void Classify(const Series& series, Growth* growth) {
  const std::span<const double> values = series.values, variances = series.variances;
  const size_t n = values.size();
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double range = *high - *low;
  const double noise = 3 * std::sqrt(std::max(variances.front(), variances.back()));
  growth->since = series.times.front();
  const auto is = [growth](GrowthClass growth_class) { growth->growth_class = growth_class; };
  if (*high <= 0) return is(GrowthClass::kNoise);
  if (range <= std::max(noise, 0.02 * *high)) return is(values[0] > noise ? GrowthClass::kOneOff : GrowthClass::kNoise);
  // One step up that makes most of the range, and nothing to speak of before and after it.
  size_t step = 1;
  double rises = 0, falls = 0;
  for (size_t i = 1; i < n; ++i) {
    const double change = values[i] - values[i - 1];
    if (change > values[step] - values[step - 1]) step = i;
    (change > 0 ? rises : falls) += std::abs(change);
  }
  if (values[step] - values[step - 1] >= 0.8 * range && values[n - 1] >= *low + 0.8 * range)
    return is(GrowthClass::kOneOff);
  if (RisesAllTheTime(series, 0, *growth, kAlarm)) return is(GrowthClass::kGrowing);
  const size_t foot = FootOf(values);
  const auto from_foot = [&] {
    Growth late = FitLine(series, foot);
    late.since = series.times[foot];
    return late;
  };
  const bool is_short =
      n - foot < kLeastSnapshots || static_cast<double>(n - foot) < kLeastLate * static_cast<double>(n);
  if (!is_short) {
    const Growth late = from_foot();
    if (RisesAllTheTime(series, foot, late, kLateAlarm)) {
      *growth = late;
      return is(GrowthClass::kGrowing);
    }
  }
  if (falls >= 0.4 * rises && LargestFall(values) >= 0.25 * range) return is(GrowthClass::kSawTooth);
  if ((is_short || n < kFewSnapshots) && RisesAtTheEnd(series, foot)) {
    *growth = from_foot();
    return is(GrowthClass::kUndecided);
  }
  const double first = MedianSlope(series, 0, n / 3 + 1), last = MedianSlope(series, n - n / 3 - 1, n);
  const bool stopped = last < 0.35 * std::max(first, growth->slope) || (foot + 1 < n && !GoesOn(series, foot));
  if (values[n - 1] >= *low + 0.5 * range && stopped) return is(GrowthClass::kPlateau);
  is(falls >= 0.4 * rises ? GrowthClass::kSawTooth : GrowthClass::kNoise);
}

}  // namespace

std::string_view GrowthClassName(GrowthClass growth_class) {
  switch (growth_class) {
    case GrowthClass::kGrowing:
      return "growing";
    case GrowthClass::kPlateau:
      return "plateau";
    case GrowthClass::kSawTooth:
      return "saw-tooth";
    case GrowthClass::kOneOff:
      return "one-off";
    case GrowthClass::kUndecided:
      return "undecided";
    case GrowthClass::kNoise:
      break;
  }
  return "noise";
}

Growth FitGrowth(const Series& all) {
  Series series;
  const size_t count = all.times.size(), kept = std::min(count, kMostSnapshots);
  for (size_t i = 0; i < kept; ++i) {
    const size_t at = kept < 2 ? 0 : i * (count - 1) / (kept - 1);
    series.times.push_back(all.times[at]);
    series.values.push_back(all.values[at]);
    series.variances.push_back(all.variances[at]);
    if (!all.allocated.empty()) series.allocated.push_back(all.allocated[at]);
  }
  if (kept < kLeastSnapshots || !(series.times.back() > series.times.front())) return {};
  Growth growth = FitLine(series, 0);
  Classify(series, &growth);
  return growth;
}

}  // namespace holdfast
