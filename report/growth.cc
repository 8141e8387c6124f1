#include "report/growth.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace holdfast {
namespace {

constexpr double kInterval = 1.96, kAlarm = 4;
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

GrowthClass Classify(std::span<const double> times, std::span<const double> values, const Growth& growth,
                     double sigma) {
  const size_t n = values.size();
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double range = *high - *low;
  const double noise = 3 * sigma;
  if (*high <= 0) return GrowthClass::kNoise;
  if (range <= std::max(noise, 0.02 * *high)) {
    return values[0] > noise ? GrowthClass::kOneOff : GrowthClass::kNoise;
  }
  // One step up that makes most of the range, and nothing to speak of before and after it.
  size_t step = 1;
  double rises = 0, falls = 0, largest_fall = 0;
  for (size_t i = 1; i < n; ++i) {
    const double change = values[i] - values[i - 1];
    if (change > values[step] - values[step - 1]) step = i;
    (change > 0 ? rises : falls) += std::abs(change);
    largest_fall = std::max(largest_fall, -change);
  }
  if (values[step] - values[step - 1] >= 0.8 * range && values[n - 1] >= *low + 0.8 * range)
    return GrowthClass::kOneOff;
  const size_t third = n / 3;
  const auto slope_of = [&](size_t begin, size_t end) {
    auto slopes = PairSlopes(times.subspan(begin, end - begin), values.subspan(begin, end - begin));
    return Median(&slopes);
  };
  const double first = slope_of(0, third + 1), middle = slope_of(third, n - third), last = slope_of(n - third - 1, n);
  const double standard_error = growth.half_width / kInterval;
  const int rising = (first > 0) + (middle > 0) + (last > 0);
  if (growth.slope > kAlarm * standard_error && growth.slope > 0 && last >= 0.35 * growth.slope && rising >= 2 &&
      falls < 0.8 * rises) {
    return GrowthClass::kGrowing;
  }
  if (falls >= 0.4 * rises && largest_fall >= 0.25 * range) return GrowthClass::kSawTooth;
  if (values[n - 1] >= *low + 0.5 * range && last < 0.35 * std::max(first, growth.slope)) return GrowthClass::kPlateau;
  return falls >= 0.4 * rises ? GrowthClass::kSawTooth : GrowthClass::kNoise;
}

}  // namespace

std::string_view NameOf(GrowthClass growth_class) {
  switch (growth_class) {
    case GrowthClass::kGrowing:
      return "growing";
    case GrowthClass::kPlateau:
      return "plateau";
    case GrowthClass::kSawTooth:
      return "saw-tooth";
    case GrowthClass::kOneOff:
      return "one-off";
    case GrowthClass::kNoise:
      break;
  }
  return "noise";
}

Growth FitGrowth(std::span<const double> all_times, std::span<const double> all_values, double first_variance,
                 double last_variance) {
  std::vector<double> times, values;
  const size_t count = all_times.size(), kept = std::min(count, kMostSnapshots);
  for (size_t i = 0; i < kept; ++i) {
    const size_t at = kept < 2 ? 0 : i * (count - 1) / (kept - 1);
    times.push_back(all_times[at]);
    values.push_back(all_values[at]);
  }
  Growth growth;
  if (kept < kLeastSnapshots || !(times.back() > times.front())) return growth;
  std::vector<double> slopes = PairSlopes(times, values);
  growth.slope = Median(&slopes);
  std::sort(slopes.begin(), slopes.end());
  const auto n = static_cast<double>(kept);
  const double ranks = kInterval * std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  const auto at = [&](double rank) {
    return slopes[static_cast<size_t>(std::clamp(std::round(rank), 0.0, static_cast<double>(slopes.size() - 1)))];
  };
  const auto pairs = static_cast<double>(slopes.size());
  const double scatter = std::max(growth.slope - at((pairs - ranks) / 2), at((pairs + ranks) / 2) - growth.slope);
  const double correlation = Autocorrelation(times, values, growth.slope);
  const double widened = scatter * std::sqrt((1 + correlation) / (1 - correlation));
  const double sampling = kInterval * std::sqrt(first_variance + last_variance) / (times.back() - times.front());
  growth.half_width = std::hypot(widened, sampling);
  growth.growth_class = Classify(times, values, growth, std::sqrt(std::max(first_variance, last_variance)));
  return growth;
}

}  // namespace holdfast
