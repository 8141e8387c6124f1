#include "report/analysis/growth/growth.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace holdfast {
namespace {

constexpr double kInterval = 1.96;
// Alarm thresholds. For m stacks each one may raise a false alarm with probability kFalseAlarm / m; 4 standard errors
// always suffice.
constexpr double kFalseAlarm = 0.005, kMinAlarm = 3.3, kMaxAlarm = 4, kLateAlarm = 5;
constexpr double kMinClimb = 0.002;  // of the bytes in use: less does not matter
// The centre of time of a rise: 0.5 if steady, 0.418 for a cache that fills up over one time constant.
constexpr double kMinCentre = 0.41, kCentreErrors = 2.1, kSpreadOfTime = 0.2887;
constexpr double kOfTurnover = 0.12;  // 0.35²: turnover moves the mean of a quarter
constexpr double kVague = 0.2;        // an error of the centre of time that leaves everything undecided
// The mean of log(1 + 20 t) over a rise is the best test of a steady rise against a cache that fills up as that
// logarithm (1.52).
constexpr double kCurve = 20, kCurveOfSteady = 2.197, kSpreadOfCurve = 0.70, kMinCurve = 1.92, kCurveErrors = 1.9;
constexpr size_t kParts = 8, kMinRising = 3;      // parts of a rise's duration
constexpr double kMaxShare = 0.6;                 // of a rise, in one part
constexpr double kFew = 0.1, kFewSampled = 0.25;  // of the mean rate: less is a pause
constexpr double kSureSamples = 8;                // expected but missing: exp(−8) = 0.03 %
constexpr double kBusy = 0.85;                    // of all intervals: a typical busy one
// A flat end, in units of the longest pause: the pauses of a doubling vector double.
constexpr double kLongestEnd = 2.1;
constexpr double kShortEnd = 0.07, kPauseAtEnd = 0.25, kMinLate = 0.2, kStartUp = 0.1;
constexpr double kSureFall = 4.5;   // standard errors: all pairs of snapshots are tested
constexpr double kTooth = 0.1;      // of a rise: a significant fall
constexpr double kDeepTooth = 0.5;  // a deeper fall: only the low points then show a rise
constexpr size_t kMinLows = 4;
constexpr double kSurvives = 0.25;  // of a rise: the least that must remain of its first half …
constexpr double kStays = 0.5;      // … and of what had come in that half
constexpr double kFewAges = 0.35;   // relative error of the total over all known ages: 8 blocks
constexpr double kKeptPart = 0.5, kWithLoad = 0.6;
constexpr double kBoundError = 0.05, kWindows = 4, kLateTime = 0.8;
constexpr double kGrowsInSize = 0.67;  // objects per byte: blocks have grown
constexpr double kKnownPart = 0.7;     // of a rise: the part that ages must cover
constexpr double kRisesAtEnd = 0.25;   // of the mean rate
constexpr size_t kMaxSnapshots = 200;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns how many standard errors a random deviation exceeds with probability `p`, one-sided.
double ErrorsOf(double p) {
  double low = 0, high = 10;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2)) / 2 > p ? low : high) = middle;
  }
  return low;
}

// Returns the standard errors at which a process raises a false alarm with probability kFalseAlarm if `series` of its
// series are judged. Callers judge all series of a process in turn, so one answer is kept.
double AlarmErrors(size_t series) {
  thread_local size_t last = 0;
  thread_local double errors = 0;
  if (series != last) {
    errors = ErrorsOf(kFalseAlarm / static_cast<double>(series));
    last = series;
  }
  return errors;
}

// Converts Student's t with `freedom` degrees of freedom to standard errors of a normal distribution (Wallace's
// approximation).
double NormalOf(double t, double freedom) {
  if (freedom <= 0) return 0;
  if (!std::isfinite(t)) return t;
  const double z = (8 * freedom + 1) / (8 * freedom + 3) * std::sqrt(freedom * std::log1p(t * t / freedom));
  return t < 0 ? -z : z;
}

// A least-squares line. Its error comes from the scatter, and is larger if neighbouring residuals are correlated.
struct Line {
  double slope = 0, error = 0;
  double errors() const { return error > 0 ? slope / error : slope > 0 ? kInfinity : 0; }
};
Line FitLine(const std::vector<double>& times, const std::vector<double>& values) {
  Line line;
  const auto n = static_cast<double>(times.size());
  if (n < 2) return line;
  double time = 0, value = 0, square = 0, product = 0;
  for (size_t i = 0; i < times.size(); ++i) time += times[i] / n, value += values[i] / n;
  for (size_t i = 0; i < times.size(); ++i) {
    square += (times[i] - time) * (times[i] - time);
    product += (times[i] - time) * (values[i] - value);
  }
  if (!(square > 0)) return line;
  line.slope = product / square;
  double scatter = 0, alike = 0, before = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    const double residual = values[i] - value - line.slope * (times[i] - time);
    scatter += residual * residual;
    if (i > 0) alike += residual * before;
    before = residual;
  }
  // Rounding errors of exact data are not scatter.
  if (n < 3 || scatter <= 1e-18 * value * value) return line;
  const double correlation = std::clamp(alike / scatter, 0.0, 0.9);
  line.error = std::sqrt(scatter / (n - 2) / square * (1 + correlation) / (1 - correlation));
  return line;
}

// The first and last snapshot identify a part of a series.
class Course {
 public:
  explicit Course(const Series& series) : series_(series), n_(series.values.size()) {
    const double errors = AlarmErrors(std::max<size_t>(1, series.looked_at));
    alarm_ = std::clamp(errors, kMinAlarm, kMaxAlarm);
    alarm_if_nothing_is_freed_ = std::min(errors, kMaxAlarm);
    MakeClock();
  }

  Growth Answer() const {
    Growth growth;
    growth.growth_class = GrowthClass::kNoise;
    const size_t last = n_ - 1;
    growth.bound = kInfinity;
    const double whole = Time(0, last);
    if (n_ < 2 || !(whole > 0)) return growth;
    growth.since = series_.times[0];
    SetRate(0, &growth);
    const double high = *std::max_element(series_.values.begin(), series_.values.end());
    growth.growth_class = Judge(0, alarm_, {});
    size_t from = 0;
    if (!IsLeak(growth.growth_class)) {
      const size_t foot = FootOf();
      const auto take = [&](size_t first, double alarm, Strict strict) {
        if (first == 0 || first >= last || IsLeak(growth.growth_class)) return;
        const GrowthClass part = Judge(first, alarm, strict);
        if (IsLeak(part)) growth.growth_class = part, from = first;
      };
      // Memory allocated at the start hides a leak, so start later as well. The later the start, the more a leak and a
      // cache that fills up look alike.
      take(At(0.125), alarm_, {0.43, 0});
      take(At(0.25), kLateAlarm, {0.45, 0.5});
      take(At(0.5), kLateAlarm, {0.47, 1});
      const double late = clock_[last] - clock_[foot];
      const Fall fall = LargestFall(0, last);
      const bool again = fall.sure && fall.size > 0.5 * Climb(foot, last) && late < 2 * (clock_[foot] - clock_[0]);
      if (late >= kMinLate * (clock_[last] - clock_[0]) && !again) take(foot, kLateAlarm, {});
      if (!IsLeak(growth.growth_class) && !again && RisesAtTheEnd(foot, high)) {
        growth.growth_class = GrowthClass::kUndecided;
        from = foot;
      }
    }
    if (IsLeak(growth.growth_class) || growth.growth_class == GrowthClass::kUndecided) {
      const size_t foot = FootOf();
      if (foot > from && foot + 1 < last) from = foot;
      growth.since = series_.times[from];
      SetRate(from, &growth);
    }
    if (IsLeak(growth.growth_class)) {
      growth.bound = std::max(0.0, growth.upper());
    } else if (growth.growth_class == GrowthClass::kUndecided) {
      Growth any;
      SetBound(&any);
      growth.bound = std::max({0.0, growth.upper(), any.bound});
    } else {
      SetBound(&growth);
    }
    if (growth.growth_class == GrowthClass::kNoise && high > 0) {
      const double error = std::sqrt(Variance(0, last));
      const bool present = series_.values[0] > 3 * std::sqrt(series_.variances[0]) && series_.values[0] > 0;
      const double low = *std::min_element(series_.values.begin(), series_.values.end());
      if (present && high - low <= std::max(3 * error, 0.02 * high)) growth.growth_class = GrowthClass::kOneOff;
      double step = 0;
      for (size_t i = 1; i < n_; ++i) step = std::max(step, Climb(i - 1, i));
      if (step >= 0.8 * (high - low) && series_.values[last] >= low + 0.8 * (high - low) && step > 3 * error)
        growth.growth_class = GrowthClass::kOneOff;
      if (const Fall fall = LargestFall(0, last); fall.sure && fall.size >= 0.25 * (high - low))
        growth.growth_class = GrowthClass::kSawTooth;
    }
    return growth;
  }

 private:
  // The centre of a rise must be at least this late, and exceed that by at least this many of its standard errors.
  struct Strict {
    double centre = 0, errors = 0;
  };
  struct Fall {
    double size = 0;
    bool sure = false;  // more than sampling explains
  };

  double Time(size_t first, size_t last) const { return series_.times[last] - series_.times[first]; }
  double Climb(size_t first, size_t last) const { return series_.values[last] - series_.values[first]; }

  // Returns the variance of the change between two snapshots: blocks that came and stayed, and blocks that went.
  double Variance(size_t first, size_t last) const {
    const double before = std::max(0.0, series_.variances[first]), after = std::max(0.0, series_.variances[last]);
    double came = kInfinity;
    if (!series_.allocated_variances.empty()) {
      came = std::max(0.0, series_.allocated_variances[last] - series_.allocated_variances[first]);
    } else if (!series_.allocated.empty()) {
      const double in_use = series_.values[first] + series_.values[last];
      const double weight = in_use > 0 ? (before + after) / in_use : 0;
      came = weight * std::max(0.0, series_.allocated[last] - series_.allocated[first]);
    }
    const double went = std::max(0.0, came - (after - before));
    return std::min(came, after) + std::min(went, before);
  }

  // Includes the randomness of the program itself: each block that came and stayed, or went, is a separate event. If
  // every allocation is known, only this remains. Blocks that grow in size are no events.
  double ErrorOf(size_t first, size_t last) const {
    const double sampling = Variance(first, last);
    if (series_.objects.empty() || series_.allocated.empty() || GrowsInSize(first)) return std::sqrt(sampling);
    const double objects = std::max(series_.objects[first], series_.objects[last]);
    const double size = objects > 0 ? std::max(series_.values[first], series_.values[last]) / objects : 0;
    const double came = std::max(0.0, series_.allocated[last] - series_.allocated[first]);
    const double went = std::max(0.0, came - Climb(first, last));
    const double events = std::min(came, series_.values[last]) + std::min(went, series_.values[first]);
    const double variance = std::max(sampling, size * events);
    if (went > 0 || !(came > 0) || !(variance > 0)) return std::sqrt(variance);
    // Nothing was freed: if frees were as likely as allocations, n blocks in a row would stay with probability 2^-n.
    const double blocks = std::min(came * came / variance, 40.0);
    return came / std::max(1e-9, ErrorsOf(std::exp2(-blocks))) * alarm_if_nothing_is_freed_ / alarm_;
  }
  bool GrowsInSize(size_t first) const {
    const size_t last = n_ - 1;
    const double middle = (series_.times[first] + series_.times[last]) / 2;
    size_t at = first;
    while (at + 1 < n_ && series_.times[at + 1] <= middle) ++at;
    const auto smaller = [&](size_t then) {
      return series_.objects[then] > 0 &&
             series_.objects[last] * series_.values[then] < series_.values[last] * series_.objects[then] * kGrowsInSize;
    };
    return !series_.objects.empty() && (smaller(at) || smaller(first));
  }

  // Time without traffic does not count if it is short, or if there was traffic before and after it.
  void MakeClock() {
    clock_ = series_.times;
    paused_.assign(n_, false);
    if (n_ < 3 || series_.traffic.empty()) return;
    const double whole = Time(0, n_ - 1);
    // Relative to a typical busy time, so that one burst at the start does not turn all other times into pauses.
    std::vector<double> rates;
    for (size_t i = 1; i < n_; ++i) {
      if (Time(i - 1, i) > 0) rates.push_back((series_.traffic[i] - series_.traffic[i - 1]) / Time(i - 1, i));
    }
    if (rates.empty()) return;  // all snapshots are of one time: copies of one file
    std::sort(rates.begin(), rates.end());
    const double rate = std::min((series_.traffic[n_ - 1] - series_.traffic[0]) / whole,
                                 rates[static_cast<size_t>(kBusy * static_cast<double>(rates.size() - 1))]);
    if (!(rate > 0)) return;
    const double own = Climb(0, n_ - 1) / whole;
    double longest = 0;
    for (size_t begin = 0; begin + 1 < n_;) {
      size_t end = begin;
      const double few = series_.sample > 0 ? kFewSampled : kFew;
      // A series that rises has traffic.
      while (end + 1 < n_ && series_.traffic[end + 1] - series_.traffic[end] < few * rate * Time(end, end + 1) &&
             Climb(end, end + 1) <= std::max(0.0, few * own * Time(end, end + 1))) {
        ++end;
      }
      if (end == begin) {
        ++begin;
        continue;
      }
      const double length = Time(begin, end);
      const bool at_end = end + 1 == n_, sure = rate * length >= kSureSamples * series_.sample;
      if (sure && (!at_end || length < kPauseAtEnd * whole || length <= 2 * longest)) {
        for (size_t i = begin + 1; i <= end; ++i) paused_[i] = true;
        if (begin > 0) longest = std::max(longest, length);
      }
      flat_end_ = flat_end_ || (sure && at_end);
      begin = end + 1;
    }
    for (size_t i = 1; i < n_; ++i) clock_[i] = clock_[i - 1] + (paused_[i] ? 0 : Time(i - 1, i));
    if (!(clock_[n_ - 1] > clock_[0])) clock_ = series_.times;
  }

  size_t At(double share) const {
    const double time = clock_[0] + share * (clock_[n_ - 1] - clock_[0]);
    size_t at = 0;
    while (at + 1 < n_ && clock_[at + 1] <= time) ++at;
    return at;
  }

  void SetRate(size_t first, Growth* growth) const {
    const size_t last = n_ - 1;
    const double time = Time(first, last);
    if (!(time > 0)) return;
    growth->slope = Climb(first, last) / time;
    growth->half_width = kInterval * std::sqrt(Variance(first, last)) / time;
    growth->active = (clock_[last] - clock_[first]) / time;
    if (const std::vector<size_t> lows = LowsOf(first); lows.size() >= kMinLows) {
      const Line line = LineOf(lows);
      growth->slope = line.slope;
      growth->half_width = std::hypot(kInterval * line.error, growth->half_width);
    }
  }

  Fall LargestFall(size_t first, size_t last) const {
    Fall fall;
    size_t top = first;
    for (size_t i = first + 1; i <= last; ++i) {
      if (series_.values[i] >= series_.values[top]) top = i;
      const double size = series_.values[top] - series_.values[i];
      if (size <= fall.size) continue;
      const double error = std::sqrt(Variance(top, i));
      if (size > kSureFall * error + 2 * series_.sample) fall = {size, true};
      if (!fall.sure) fall.size = size;
    }
    return fall;
  }

  // Returns the low points between significant falls; empty if there are none.
  std::vector<size_t> LowsOf(size_t first) const {
    std::vector<size_t> lows;
    const size_t last = n_ - 1;
    const Fall fall = LargestFall(first, last);
    if (!fall.sure || fall.size < kTooth * std::abs(Climb(first, last))) return lows;
    const double step = fall.size / 2;
    size_t low = first, top = first;
    bool down = true;  // searching for a low point
    for (size_t i = first + 1; i <= last; ++i) {
      if (down) {
        if (series_.values[i] < series_.values[low]) low = i;
        if (series_.values[i] >= series_.values[low] + step) {
          lows.push_back(low);
          down = false;
          top = i;
        }
      } else {
        if (series_.values[i] > series_.values[top]) top = i;
        if (series_.values[i] <= series_.values[top] - step) {
          down = true;
          low = i;
        }
      }
    }
    return lows;
  }

  Line LineOf(const std::vector<size_t>& at) const {
    std::vector<double> times, values;
    for (const size_t i : at) times.push_back(series_.times[i]), values.push_back(series_.values[i]);
    return FitLine(times, values);
  }

  // Returns the last snapshot near the minimum: the start of the rise.
  size_t FootOf() const {
    const auto [low, high] = std::minmax_element(series_.values.begin(), series_.values.end());
    size_t foot = n_ - 1;
    while (foot > 0 && series_.values[foot] > *low + kTooth * (*high - *low)) --foot;
    return foot;
  }

  bool RisesAtTheEnd(size_t foot, double high) const {
    const size_t last = n_ - 1;
    const double climb = Climb(foot, last);
    return foot + kMinRising <= last && climb >= 0.1 * high && series_.values[last] >= high - kTooth * climb &&
           climb > kLateAlarm * ErrorOf(foot, last) && !PaceOf(foot, series_.values, false, {}).stopped;
  }

  struct Pace {
    double centre = 0.5;          // of the rise, in time
    double error = 0;             // of the centre
    double longest = 0, end = 0;  // the longest flat part between rises, and the one at the end
    size_t steps = 0;             // rises with pauses between them
    bool stopped = false, slows = false;
  };
  // Returns how the rise from `first` on is distributed over time.
  Pace PaceOf(size_t first, const std::vector<double>& values, bool falls, Strict strict) const {
    const size_t last = n_ - 1;
    Pace pace;
    const auto rise = [&](size_t a, size_t b) { return values[b] - values[a]; };
    const double climb = rise(first, last), span = clock_[last] - clock_[first];
    if (!(climb > 0) || !(span > 0)) return pace;
    double area = 0;
    for (size_t i = first + 1; i <= last; ++i) {
      area += (clock_[i] - clock_[i - 1]) * ((values[i] + values[i - 1]) / 2 - values[first]);
    }
    pace.centre = 1 - area / climb / span;
    pace.error = kSpreadOfTime * std::sqrt(Variance(first, last)) / climb;
    double curve = CurveOf(first, values, clock_);
    if (clock_[last] - clock_[first] < 0.99 * Time(first, last)) {
      // Snapshots locate the begin and end of a burst only to within one interval. A leak is steady by one of the two
      // clocks.
      size_t end = last;
      while (end > first + 1 && paused_[end]) --end;
      double by_time = 0;
      for (size_t i = first + 1; i <= end; ++i)
        by_time += Time(i - 1, i) * ((values[i] + values[i - 1]) / 2 - values[first]);
      pace.centre = std::max(pace.centre, 1 - by_time / climb / Time(first, end));
      curve = std::max(curve, CurveOf(first, values, series_.times));
    }
    if (falls) SmoothCentre(first, &pace);
    // Flat parts. A part with a small expected rise tells nothing.
    const double rate = climb / span;
    bool rising = false;
    for (size_t i = first; i < last;) {
      size_t end = i;
      while (end < last && (paused_[end + 1] || rise(end, end + 1) < kFew * rate * (clock_[end + 1] - clock_[end])))
        ++end;
      if (end == i) {
        pace.steps += !rising;
        rising = true;
        ++i;
        continue;
      }
      const double flat = clock_[end] - clock_[i];
      const bool sure = rate * flat >= kSureSamples * series_.sample && end - i + (end < last) >= 2;
      const bool paused = std::any_of(paused_.begin() + static_cast<ptrdiff_t>(i) + 1,
                                      paused_.begin() + static_cast<ptrdiff_t>(end) + 1, [](bool is) { return is; });
      if (sure || paused) rising = false;
      if (end == last) {
        pace.end = sure ? flat : 0;
      } else if (pace.steps > 0) {
        pace.longest = std::max(pace.longest, Time(i, end));
      }
      i = end;
      if (i == last) break;
    }
    pace.longest = std::max(pace.longest, series_.unseen_pause);
    pace.stopped = pace.end > kLongestEnd * pace.longest && pace.end >= kShortEnd * span;
    // Steps are judged from the first to the last: the pause after the last is not part of the rise.
    const bool in_steps = pace.steps >= kMinRising && !pace.stopped && pace.end > 0;
    if (in_steps) pace.centre = std::max(pace.centre, std::min(0.5, pace.centre * span / (span - pace.end)));
    const double least = strict.centre > 0 ? strict.centre + strict.errors * pace.error
                                           : std::min(kMinCentre, 0.5 - kCentreErrors * pace.error);
    pace.slows = pace.centre < least || pace.error > kVague;
    const double curve_error = kSpreadOfCurve / kSpreadOfTime * pace.error;
    if (!falls && !in_steps && strict.centre == 0)
      pace.slows = pace.slows || curve < std::min(kMinCurve, kCurveOfSteady - kCurveErrors * curve_error);
    return pace;
  }

  // Returns the mean of log(1 + 20 t) over the rise from `first` on, with t from 0 to 1.
  double CurveOf(size_t first, const std::vector<double>& values, const std::vector<double>& clock) const {
    const size_t last = n_ - 1;
    const double climb = values[last] - values[first], span = clock[last] - clock[first];
    double sum = 0;
    for (size_t i = first + 1; i <= last; ++i) {
      const double begin = (clock[i - 1] - clock[first]) / span, length = (clock[i] - clock[i - 1]) / span;
      for (const double part : {0.17, 0.5, 0.83})
        sum += (values[i] - values[i - 1]) / 3 * std::log1p(kCurve * (begin + part * length));
    }
    return sum / climb;
  }

  // If a rise has falls, its last value is arbitrary. The mean of the last quarter is better; it is 7/8 of a steady
  // rise.
  void SmoothCentre(size_t first, Pace* pace) const {
    const size_t last = n_ - 1;
    const double span = clock_[last] - clock_[first], quarter = clock_[last] - span / 4;
    double area = 0, late = 0, time = 0;
    for (size_t i = first + 1; i <= last; ++i) {
      const double length = clock_[i] - clock_[i - 1];
      const double value = (series_.values[i] + series_.values[i - 1]) / 2 - series_.values[first];
      area += length * value;
      if ((clock_[i] + clock_[i - 1]) / 2 < quarter && i < last) continue;
      late += length * value;
      time += length;
    }
    if (!(late > 0) || !(time > 0)) return;
    const double part = 1 - time / span / 2;  // height of a steady rise in the middle of the last quarter
    pace->centre = 1 - area / span / (late / time) * part;
    const double climb = Climb(first, last), all = Variance(first, last), born = std::min(all, series_.sample * climb);
    pace->error = std::sqrt(kSpreadOfTime * kSpreadOfTime * born + kOfTurnover * (all - born)) / climb;
  }

  GrowthClass Judge(size_t first, double alarm, Strict strict) const {
    const size_t last = n_ - 1;
    const double climb = Climb(first, last), error = ErrorOf(first, last);
    const double high = *std::max_element(series_.values.begin() + static_cast<ptrdiff_t>(first), series_.values.end());
    if (climb <= kMinClimb * high || climb <= alarm * error || climb < 2 * series_.sample) return GrowthClass::kNoise;
    const Fall fall = LargestFall(first, last);
    const bool falls = fall.sure && fall.size >= kTooth * climb;
    if (falls) {
      const std::vector<size_t> lows = LowsOf(first);
      const GrowthClass by_lows = lows.size() >= kMinLows ? JudgeLows(lows, alarm) : GrowthClass::kSawTooth;
      if (fall.size > kDeepTooth * climb || IsLeak(by_lows)) return by_lows;
    }
    if (TurnedOver(first)) return GrowthClass::kSawTooth;
    if (RisesWithItsLoad(first)) return GrowthClass::kUndecided;
    const std::vector<double> values = falls ? Floors() : series_.values;
    const Pace pace = PaceOf(first, values, fall.size >= kTooth * climb, strict);
    if (const GrowthClass spread = SpreadOf(first, values, pace); spread != GrowthClass::kGrowing) return spread;
    if (pace.stopped || pace.slows) {
      const double rate = climb / (clock_[last] - clock_[first]);
      const double third = clock_[last] - (clock_[last] - clock_[first]) / 3;
      size_t at = last;
      while (at > first + 1 && clock_[at] > third) --at;
      const bool rises = clock_[last] > clock_[at] && !pace.stopped &&
                         values[last] - values[at] >= kRisesAtEnd * rate * (clock_[last] - clock_[at]);
      // It stopped when the traffic stopped, so its course under traffic is unknown. At start-up tables are filled like
      // this.
      const bool paused = flat_end_ && pace.stopped && pace.end < (1 - kStartUp) * (clock_[last] - clock_[first]);
      return rises || paused ? GrowthClass::kUndecided : GrowthClass::kPlateau;
    }
    if (last - first < kMinRising) return GrowthClass::kUndecided;
    const bool dropped = clock_[last] - clock_[first] < 0.9 * Time(first, last);
    if (dropped && !GoesOnAfterPause(first)) return GrowthClass::kUndecided;
    return pace.steps >= kMinRising || (pace.steps == 2 && dropped) ? GrowthClass::kSteps : GrowthClass::kGrowing;
  }

  // Returns the minimum of each value and all later ones.
  std::vector<double> Floors() const {
    std::vector<double> floors = series_.values;
    for (size_t i = n_ - 1; i > 0; --i) floors[i - 1] = std::min(floors[i - 1], floors[i]);
    return floors;
  }

  // Tests whether the series rises in enough parts of its duration. One step may be a table, two steps two tables.
  GrowthClass SpreadOf(size_t first, const std::vector<double>& values, const Pace& pace) const {
    const size_t last = n_ - 1, parts = std::min(kParts, last - first);
    const double climb = values[last] - values[first], span = clock_[last] - clock_[first];
    std::vector<double> rises(parts);
    double largest = 0;
    size_t step = first;
    for (size_t i = first + 1; i <= last; ++i) {
      const double middle = ((clock_[i] + clock_[i - 1]) / 2 - clock_[first]) / span;
      const auto part = std::min(parts - 1, static_cast<size_t>(std::max(0.0, middle) * static_cast<double>(parts)));
      const double rise = values[i] - values[i - 1];
      rises[part] += rise;
      if (rise > largest) largest = rise, step = i;
    }
    const auto rising = std::ranges::count_if(rises, [&](double rise) { return rise > 0.01 * climb; });
    const double most = *std::max_element(rises.begin(), rises.end());
    const bool stays = clock_[last] - clock_[step] >= kMinLate * span;
    if (largest > kMaxShare * climb) return stays ? GrowthClass::kOneOff : GrowthClass::kUndecided;
    if (most > kMaxShare * climb || static_cast<size_t>(rising) < kMinRising) {
      return last - first < kMinRising || !pace.stopped ? GrowthClass::kUndecided : GrowthClass::kPlateau;
    }
    return GrowthClass::kGrowing;
  }

  // Tests whether a rise continues after a time without traffic by as much as before.
  bool GoesOnAfterPause(size_t first) const {
    const size_t last = n_ - 1;
    size_t pause = first + 1;
    while (pause < last && !(paused_[pause] && Climb(first, pause) > 0)) ++pause;
    return pause == last || Climb(pause, last) >= kRisesAtEnd * Climb(first, last);
  }

  GrowthClass JudgeLows(const std::vector<size_t>& lows, double alarm) const {
    const Line line = LineOf(lows);
    const double climb = Climb(lows.front(), lows.back());
    const double errors = NormalOf(line.errors(), static_cast<double>(lows.size()) - 2);
    if (errors < alarm || climb <= alarm * ErrorOf(lows.front(), lows.back()) ||
        climb <= kMinClimb * series_.values[lows.back()] || TurnedOver(lows.front())) {
      return GrowthClass::kSawTooth;
    }
    double area = 0, largest = 0;
    for (size_t i = 1; i < lows.size(); ++i) {
      area += Time(lows[i - 1], lows[i]) *
              ((series_.values[lows[i]] + series_.values[lows[i - 1]]) / 2 - series_.values[lows.front()]);
      largest = std::max(largest, Climb(lows[i - 1], lows[i]));
    }
    const double centre = 1 - area / climb / Time(lows.front(), lows.back());
    return centre >= kMinCentre && largest <= kMaxShare * climb ? GrowthClass::kGrowing : GrowthClass::kUndecided;
  }

  // Returns whether enough blocks have a known age. Few suffice if every allocation is recorded.
  bool AgesTell() const {
    return !series_.survivors.empty() && std::sqrt(series_.survivor_variances[series_.survivors_of]) <
                                             kFewAges * series_.survivors[series_.survivors_of];
  }

  // Tests whether memory allocated in the first half of the rise was freed: what is in use is then young, and no leak.
  bool TurnedOver(size_t first) const {
    const size_t then = series_.survivors_of;
    if (!AgesTell() || then <= first || Time(first, then) < kKnownPart * Time(first, n_ - 1)) return false;
    // A block that grows by realloc always looks young.
    if (GrowsInSize(first)) return false;
    const double climb = Climb(first, then), middle = (series_.times[first] + series_.times[then]) / 2;
    if (!(climb > 0)) return false;
    size_t at = first;
    while (at + 1 < n_ && series_.times[at + 1] <= middle) ++at;
    // If nothing had come by then, use the time when half had come.
    if (Climb(first, at) < kSurvives * climb)
      while (at < then && Climb(first, at) < 0.5 * climb) ++at;
    // In a leak everything from that time is still in use, according to the same samples.
    const double left = series_.survivors[at] - std::min(series_.survivors[first], series_.values[first]);
    return left < kSurvives * climb && left < kStays * Climb(first, at);
  }

  // Returns whether a stack holds more because it allocates more, and frees most of it. Without ages that looks like a
  // leak.
  bool RisesWithItsLoad(size_t first) const {
    if (AgesTell() || series_.allocated.empty() || GrowsInSize(first)) return false;
    const size_t last = n_ - 1;
    const double came = series_.allocated[last] - series_.allocated[first];
    if (!(came > 0) || Climb(first, last) > kKeptPart * came) return false;
    // Compare the allocations in a period with the bytes in use, for the first third and the last.
    const double third = Time(first, last) / 3;
    size_t early = first + 1, late = last - 1;
    while (early < last && Time(first, early) < third) ++early;
    while (late > first && Time(late, last) < third) --late;
    const auto mean = [&](size_t begin, size_t end) {
      double area = 0;
      for (size_t i = begin + 1; i <= end; ++i)
        area += Time(i - 1, i) * (series_.values[i] + series_.values[i - 1]) / 2;
      return area / Time(begin, end);
    };
    const auto rate = [&](size_t begin, size_t end) {
      return (series_.allocated[end] - series_.allocated[begin]) / Time(begin, end);
    };
    const double before = rate(first, early), in_use = mean(first, early);
    if (!(before > 0) || !(in_use > 0)) return false;
    return rate(late, last) / before - 1 >= kWithLoad * (mean(late, last) / in_use - 1);
  }

  // Sets the fastest leak that is not excluded, with 95 %: the minimum over several windows of the upper end of an
  // interval. Each window gets a part of the error. Sets the slope and interval of `growth` to match.
  void SetBound(Growth* growth) const {
    const size_t last = n_ - 1;
    growth->bound = kInfinity;
    static const double errors = ErrorsOf(kBoundError / kWindows);
    const double w = series_.sample;
    const double few = (errors * errors + 2) / 3 * w;  // for a Poisson count
    const auto take = [&](double most, double rise, size_t first, double time) {
      if (most / time >= growth->bound) return;
      growth->bound = most / time;
      growth->slope = rise / time;
      growth->half_width = growth->bound - growth->slope;
      growth->since = series_.times[first];
    };
    for (const size_t first : {size_t{0}, At(0.25), At(0.5)}) {
      const double time = Time(first, last);
      if (!(time > 0)) continue;
      // A part of the time is subject to chance; the whole is fixed.
      const double error = first == 0 ? std::sqrt(Variance(first, last)) : ErrorOf(first, last);
      const double noise = errors * std::sqrt(error * error + 0.75 * w * w) + few;
      double rise = Climb(first, last);
      double most = std::max(0.0, rise) + noise;
      if (const Fall fall = LargestFall(first, last); fall.sure) {
        // Falls may hide a rise of the same size. Repeated low points tell more.
        const std::vector<size_t> lows = LowsOf(first);
        most += fall.size;
        if (lows.size() >= kMinLows) {
          const Line line = LineOf(lows);
          const double by_lows = (std::max(0.0, line.slope) + errors * line.error) * time + noise;
          if (by_lows < most) most = by_lows, rise = line.slope * time;
        }
      }
      take(most, rise, first, time);
    }
    // All that leaked until a time is in use at all later times, according to the same samples: the lowest later value
    // includes it.
    double least = kInfinity;
    const double block =
        !series_.objects.empty() && series_.objects[last] > 0 ? series_.values[last] / series_.objects[last] : 0;
    for (size_t i = last; i > 0; --i) {
      least = std::min(least, series_.values[i]);
      const double time = std::min(Time(0, i), (clock_[i] - clock_[0]) / (clock_[last] - clock_[0]) * Time(0, last));
      if (!(time > 0) || time < kLateTime * Time(0, last)) break;
      const double noise = errors * std::sqrt(std::max(0.0, series_.variances[i]) + 0.75 * w * w) + few;
      take(least + noise + block, std::min(least, Climb(0, last)), 0, time);
    }
  }

  const Series& series_;
  size_t n_;
  double alarm_ = kMaxAlarm, alarm_if_nothing_is_freed_ = kMaxAlarm;
  std::vector<double> clock_;
  std::vector<bool> paused_;  // whether the time before each snapshot does not count
  bool flat_end_ = false;
};

}  // namespace

std::string_view GrowthClassName(GrowthClass growth_class) {
  switch (growth_class) {
    case GrowthClass::kGrowing:
      return "growing";
    case GrowthClass::kSteps:
      return "steps";
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
  const size_t count = all.times.size(), kept = std::min(count, kMaxSnapshots);
  if (kept == 0) return {.bound = kInfinity};
  if (kept == count) return Course(all).Answer();
  Series series;
  series.sample = all.sample;
  series.looked_at = all.looked_at;
  series.unseen_pause = all.unseen_pause;
  const auto thin = [&](const std::vector<double>& from, std::vector<double>* to) {
    for (size_t i = 0; i < kept && !from.empty(); ++i) to->push_back(from[i * (count - 1) / (kept - 1)]);
  };
  thin(all.times, &series.times);
  thin(all.values, &series.values);
  thin(all.variances, &series.variances);
  thin(all.allocated, &series.allocated);
  thin(all.allocated_variances, &series.allocated_variances);
  thin(all.traffic, &series.traffic);
  thin(all.objects, &series.objects);
  thin(all.survivors, &series.survivors);
  thin(all.survivor_variances, &series.survivor_variances);
  series.survivors_of = count < 2 ? 0 : all.survivors_of * (kept - 1) / (count - 1);
  return Course(series).Answer();
}

}  // namespace holdfast
