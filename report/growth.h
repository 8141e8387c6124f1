// Whether a series of snapshots grows, and how fast: the statistics behind `holdfast leaks`. Pure functions.
//
// Slope        Theil–Sen: the median of the slopes of all pairs of snapshots. Up to 29 % of the snapshots may be
// anything. Its error    two things that are independent, added as squares:
//                - scatter: the rank interval of the slope (Kendall's S, n(n−1)(2n+5)/18), widened by √((1+ρ)/(1−ρ))
//                where
//                  the residuals of neighbours are alike with correlation ρ: a slow wave is no trend
//                - sampling: what is in use at both ends is an estimate itself: √(σ²_first + σ²_last) over the time
//                between
// The interval is 95 %. `is_growing` asks for more, because thousands of stacks are looked at and none may be a false
// alarm: 4 standard errors above 0, the last third still rising at no less than 0.35 of the whole, and a rise in at
// least two of the three thirds. An approach to a limit with time constant τ is a plateau once three τ are seen: its
// last third rises at 0.27 of the whole.
#ifndef HOLDFAST_REPORT_GROWTH_H_
#define HOLDFAST_REPORT_GROWTH_H_

#include <span>
#include <string_view>

namespace holdfast {

enum class GrowthClass {
  kGrowing,   // rises all the time, still at the end
  kPlateau,   // rose, and no longer does: a cache that has warmed up, a buffer that is full
  kSawTooth,  // rises and falls
  kOneOff,    // one step, or there from the beginning: a table made at the start
  kNoise,     // nothing that the errors would let one see
};
std::string_view NameOf(GrowthClass growth_class);

struct Growth {
  double slope = 0;       // per unit of time
  double half_width = 0;  // of its 95 % interval
  GrowthClass growth_class = GrowthClass::kNoise;
  double lower() const { return slope - half_width; }
  double upper() const { return slope + half_width; }
};

inline constexpr size_t kLeastSnapshots = 5;

// `times` ascending, one value for each; `first_variance`, `last_variance` of the estimates at both ends (0 = exact).
// With fewer than kLeastSnapshots everything is noise. More than 200 are thinned evenly: the pairs grow as n².
Growth FitGrowth(std::span<const double> times, std::span<const double> values, double first_variance,
                 double last_variance);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_GROWTH_H_
