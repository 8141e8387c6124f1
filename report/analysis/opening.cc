#include "report/analysis/opening.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "report/analysis/locks/idle_waits.h"
#include "report/analysis/locks/lock_classes.h"
#include "report/analysis/locks/lock_list.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/value_units.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

// A part of the run time: on average, one thread in four only waits. A guess.
constexpr double kManyWaits = 0.25;
// Shorter delays are nothing that a user would notice, however short the run. A guess.
constexpr int64_t kNoticedNs = 10'000'000;

// At the end of a process some blocks always stay, such as stdio's buffers: up to this part of the peak is hardly anything.
constexpr double kHardlyAnything = 0.02;

// Whether the snapshot is from the end of a process that freed nearly all that it held at its peak.
bool HoldsHardlyAnything(const Profile& heap, double in_use) {
  const bool at_end = heap.process().moment != record::Moment::kRunning;
  return at_end && in_use <= kHardlyAnything * static_cast<double>(PeakBytesOf(heap).value_or(0));
}

}  // namespace

std::optional<OwnMemory> OwnMemory::Of(const Profile& heap, std::string process, Plumbing* plumbing) {
  const auto in_use = FindMetric(heap, "inuse_space"), allocated = FindMetric(heap, "alloc_space");
  if (!in_use.ok() || !allocated.ok()) return std::nullopt;
  double held = 0, of_all = 0;
  for (size_t i = 0; i < heap.samples.size(); ++i) {
    if (!plumbing->OwnerOf(heap.FramesOf(heap.samples[i])).has_value()) continue;
    held += static_cast<double>(heap.ValuesOf(i)[*in_use]);
    of_all += static_cast<double>(heap.ValuesOf(i)[*allocated]);
  }
  return OwnMemory{.process = std::move(process),
                   .in_use = HoldsHardlyAnything(heap, held) ? 0 : held,
                   .variance = std::pow(HalfWidth(heap, *in_use).value_or(0), 2),
                   .allocated = of_all,
                   .left = heap.Total(*in_use)};
}

Opening OpeningOf(const std::vector<OwnMemory>& heaps, const std::set<std::string>& with_peak) {
  OwnMemory sum;
  const OwnMemory* largest = nullptr;
  for (const OwnMemory& heap : heaps) {
    sum.in_use += heap.in_use;
    sum.variance += heap.variance;
    sum.allocated += heap.allocated;
    if (largest == nullptr || heap.allocated > largest->allocated) largest = &heap;
  }
  if (!AllWasFreed(sum.in_use, std::sqrt(sum.variance), sum.allocated)) return Opening::kInUse;
  return with_peak.contains(largest->process) ? Opening::kPeak : Opening::kAllocated;
}

std::string OpeningText(Opening opening, const std::string& left) {
  return fmt::format("{} in use any more, so this shows {}",
                     left.empty() ? "nothing is" : fmt::format("hardly anything is ({})", left),
                     opening == Opening::kPeak ? "the peak" : "all allocations");
}

void LockTrouble::Add(const LockTrouble& other) {
  if (other.longest_ns > longest_ns) {
    longest_ns = other.longest_ns;
    hottest = other.hottest;
  }
  delay_ns = WrappedSum(delay_ns, other.delay_ns);
}

int64_t HeldLockDelay(const Profile& block, Plumbing* plumbing) {
  const auto delay = FindMetric(block, "delay");
  const IdleWaits idle(block, plumbing);
  if (!delay.ok() || !idle.any()) return 0;
  int64_t sum = 0;
  for (size_t i = 0; i < block.samples.size(); ++i) {
    if (idle.RankOf(block.samples[i]) == WaitRank::kLock) sum = WrappedSum(sum, block.ValuesOf(i)[*delay]);
  }
  return sum;
}

std::optional<LockTrouble> LockTroubleOf(const Profile& block, Plumbing* plumbing) {
  const int64_t delay = HeldLockDelay(block, plumbing), elapsed = block.process().elapsed_ns;
  if (elapsed <= 0 || delay < kNoticedNs || static_cast<double>(delay) < kManyWaits * static_cast<double>(elapsed))
    return std::nullopt;
  LockTrouble trouble{.delay_ns = delay, .hottest = "", .longest_ns = delay};
  const LockList list = GroupByClass(block, ReadLockList(block, plumbing), plumbing);
  // Idle waits are last in the list.
  if (!list.locks.empty() && list.locks.front().rank == WaitRank::kLock)
    trouble.hottest = ShortName(LockNameOf(block, list, list.locks.front(), plumbing));
  return trouble;
}

std::string LockTroubleText(const LockTrouble& trouble) {
  return fmt::format("{} for locks that others held{}", FormatValue(trouble.delay_ns, "nanoseconds", "auto"),
                     trouble.hottest.empty() ? "" : fmt::format(", most for {}", trouble.hottest));
}

}  // namespace holdfast
