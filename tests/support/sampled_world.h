// A world for leak shapes (tests/support/leak_shapes.h) that samples as the library does, and keeps the series that `holdfast leaks`
// makes of snapshots: a block of s bytes is sampled with p = 1 − exp(−s/R) and weighs 1/p blocks.
#ifndef HOLDFAST_TESTS_SUPPORT_SAMPLED_WORLD_H_
#define HOLDFAST_TESTS_SUPPORT_SAMPLED_WORLD_H_

#include <cmath>
#include <map>
#include <random>
#include <unordered_map>
#include <vector>

#include "report/analysis/growth/alive_ages.h"
#include "report/analysis/growth/growth.h"
#include "sampler/contract/age_buckets.h"
#include "tests/support/leak_shapes.h"

namespace holdfast::testing {

class SampledWorld : public World {
 public:
  // `snapshots`, evenly over `hours`. Interval 1: exact.
  SampledWorld(uint64_t seed, double interval, int snapshots, double hours, bool births)
      : random_(seed), interval_(interval), snapshots_(snapshots), hours_(hours), births_(births) {}

  Handle Alloc(int who, size_t bytes) override {
    const double size = static_cast<double>(bytes);
    truth_[who] += size;
    const double p = interval_ <= 1 ? 1 : -std::expm1(-std::max(1.0, size) / interval_);
    const Handle block = ++last_;
    sizes_.push_back({size, who});
    if (p < 1 && std::uniform_real_distribution<double>()(random_) >= p) return block;
    live_[block] = {who, size, p, time_};
    Sums& sums = sums_[who];
    sums.allocated += size / p;
    sums.allocated_variance += size * size * (1 - p) / p / p;
    sums.in_use += size / p;
    sums.objects += 1 / p;
    sums.variance += size * size * (1 - p) / p / p;
    return block;
  }
  void Free(Handle block) override {
    truth_[sizes_[block - 1].second] -= sizes_[block - 1].first;
    const auto found = live_.find(block);
    if (found == live_.end()) return;
    const Block& was = found->second;
    Sums& sums = sums_[was.who];
    sums.in_use -= was.size / was.p;
    sums.objects -= 1 / was.p;
    sums.variance -= was.size * was.size * (1 - was.p) / was.p / was.p;
    live_.erase(found);
  }
  void Tick(double time) override {
    time_ = time;
    while (time + 1e-9 >= static_cast<double>(taken_) / (snapshots_ - 1)) {
      Take(time);
      ++taken_;
      if (time == 0) break;
    }
  }

  const std::vector<double>& times() const { return times_; }
  std::vector<int> Whos() const {
    std::vector<int> whos;
    for (const auto& [who, sums] : sums_) whos.push_back(who);
    return whos;
  }
  // Of one function; −1: of all.
  Series SeriesOf(int who) const {
    Series series;
    series.times = times_;
    series.sample = interval_ <= 1 ? 0 : interval_;
    series.looked_at = sums_.size();
    for (const auto& moment : moments_) {
      Sums of{}, all{};
      for (const auto& [each, sums] : moment) {
        if (each == who || who < 0) of += sums;
        all += sums;
      }
      series.values.push_back(of.in_use);
      series.variances.push_back(std::max(0.0, of.variance));
      series.allocated.push_back(of.allocated);
      series.allocated_variances.push_back(of.allocated_variance);
      series.traffic.push_back(all.allocated);
      series.objects.push_back(of.objects);
    }
    if (births_) {
      AliveAges ages;
      for (const auto& [key, block] : live_) {
        if (block.who == who || who < 0)
          ages.Add(AgeBucket(static_cast<int64_t>((time_ - block.born) * hours_ * 3600e9)), block.size / block.p,
                   block.size * block.size * (1 - block.p) / block.p / block.p);
      }
      series.survivors_of = times_.size() - 1;
      for (const double time : times_) {
        const AliveAges::Part older = ages.OlderThan((times_.back() - time) * 3600e9);
        series.survivors.push_back(older.bytes);
        series.survivor_variances.push_back(older.variance);
      }
    }
    return series;
  }
  double Now(int who) const {
    return moments_.empty() || !moments_.back().contains(who) ? 0 : moments_.back().at(who).in_use;
  }
  // By how much the estimate rose from the first snapshot to the last; −1: of all functions.
  double GrowthSeen(int who) const {
    const Series series = SeriesOf(who);
    return series.values.empty() ? 0 : series.values.back() - series.values.front();
  }
  double TotalNow() const {
    double all = 0;
    for (const auto& [who, sums] : moments_.back()) all += sums.in_use;
    return all;
  }
  // How many bytes of a function were really in use at the end.
  double Truth(int who) const { return truth_.contains(who) ? truth_.at(who) : 0; }
  // The same, less what was in use at the first snapshot.
  double GrowthOf(int who) const { return Truth(who) - (first_truth_.contains(who) ? first_truth_.at(who) : 0); }

 private:
  struct Block {
    int who;
    double size, p, born;
  };
  struct Sums {
    double objects = 0;
    double allocated = 0, allocated_variance = 0, in_use = 0, variance = 0;
    void operator+=(const Sums& other) {
      objects += other.objects, allocated += other.allocated, allocated_variance += other.allocated_variance;
      in_use += other.in_use, variance += other.variance;
    }
  };
  void Take(double time) {
    if (times_.empty()) first_truth_ = truth_;
    times_.push_back(time * hours_);
    moments_.push_back(sums_);
  }

  std::mt19937_64 random_;
  double interval_;
  int snapshots_, taken_ = 0;
  double hours_;
  bool births_;
  double time_ = 0;
  Handle last_ = 0;
  std::vector<std::pair<double, int>> sizes_;
  std::unordered_map<Handle, Block> live_;
  std::map<int, Sums> sums_;
  std::map<int, double> truth_, first_truth_;
  std::vector<double> times_;
  std::vector<std::map<int, Sums>> moments_;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_SUPPORT_SAMPLED_WORLD_H_
