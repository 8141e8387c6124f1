// Whether a series of snapshots grows, and how fast: the statistics behind `holdfast leaks`. Pure functions.
//
// Slope        Theil–Sen: the median of the slopes of all pairs of snapshots. Up to 29 % of them may be anything.
//
// Its error    two things that are independent, added as squares:
//                - scatter: the rank interval of the slope (Kendall's S, n(n−1)(2n+5)/18), widened by √((1+ρ)/(1−ρ))
//                  where the residuals of neighbours are alike with correlation ρ: a slow wave is no trend
//                - sampling: what is in use at both ends is an estimate itself. Blocks in use at both ends are the same
//                  samples; uncertain are those that came in between and stayed, at most what was allocated, and those
//                  that went: σ²(Δ) = w·(min(A, last) + min(A − Δ, first)), w = σ²/value, A allocated in between.
//                  A pure leak has A = Δ; a cache that was turned over has σ²_first + σ²_last
//
// The interval is 95 %. To be called growing takes more, because thousands of stacks are looked at and none may be a false
// alarm: a slope of 4 standard errors, a rise in at least two of the three thirds, no fall by half of the range, and no
// slowing down: the last half surely rises (2.2 standard errors), at no less than 0.5 of the whole, the last third at no
// less than 0.35. An approach to a limit with time constant τ is a plateau once three τ are seen: its last third rises at
// 0.27 of the whole. In a simulation, of 400 caches that warm up over five τ to 40 samples none was called growing, and
// all of 200 leaks of 94 samples were.
//
// Late risers  The median slope of a run knows nothing of what began in its last third. So the last time that the series was
//              within a tenth of its range above its lowest value is looked for, and the rise from there on is held to the
//              same rules, and to 5 standard errors, as the place was chosen by what is looked for. It must make up a fifth
//              of the snapshots. What is too short for that, or has fewer than 10 snapshots, and at the end rises for three of
//              them, by a tenth and by 5 standard errors of its sampling, is undecided.
#ifndef HOLDFAST_REPORT_GROWTH_GROWTH_H_
#define HOLDFAST_REPORT_GROWTH_GROWTH_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace holdfast {

enum class GrowthClass {
  kGrowing,    // rises all the time, or since it began to, still at the end
  kPlateau,    // rose, and no longer does: a cache that has warmed up, a buffer that is full
  kSawTooth,   // rises and falls
  kOneOff,     // one step, or there from the beginning: a table made at the start
  kUndecided,  // rises at the end, and too little of that was seen to say whether it goes on
  kNoise,      // nothing that the errors would let one see
};
std::string_view GrowthClassName(GrowthClass growth_class);

struct Growth {
  double slope = 0;       // per unit of time
  double half_width = 0;  // of its 95 % interval
  double since = 0;       // growing, undecided: the time from which on it rises, and slope and interval are of
  GrowthClass growth_class = GrowthClass::kNoise;
  double lower() const { return slope - half_width; }
  double upper() const { return slope + half_width; }
};

inline constexpr size_t kLeastSnapshots = 5;

// Snapshots, the oldest first; all of one length.
struct Series {
  std::vector<double> times;
  std::vector<double> values;     // what is in use
  std::vector<double> variances;  // of these estimates, 0 = exact
  std::vector<double> allocated;  // until then, never decreasing; empty: not known, all may have been turned over
};

// Slopes are for each unit of `times`. With fewer than kLeastSnapshots everything is noise. More than 200 are thinned
// evenly: the pairs grow as n².
Growth FitGrowth(const Series& series);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_GROWTH_GROWTH_H_
