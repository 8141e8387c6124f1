#include "report/analysis/owned_total.h"

#include "report/profiles/metric.h"

namespace holdfast {

int64_t OwnedTotal(const Profile& profile, size_t metric, Plumbing* plumbing) {
  int64_t total = 0;
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    const int64_t value = profile.ValuesOf(i)[metric];
    if (value != 0 && plumbing->OwnerOf(profile.FramesOf(profile.samples[i])).has_value()) total += value;
  }
  return total;
}

bool OwnedWasFreed(const Profile& heap, Plumbing* plumbing) {
  const auto in_use = FindMetric(heap, "inuse_space"), allocated = FindMetric(heap, "alloc_space");
  if (!in_use.ok() || !allocated.ok()) return false;
  return AllWasFreed(static_cast<double>(OwnedTotal(heap, *in_use, plumbing)), HalfWidth(heap, *in_use).value_or(0),
                     static_cast<double>(OwnedTotal(heap, *allocated, plumbing)));
}

}  // namespace holdfast
