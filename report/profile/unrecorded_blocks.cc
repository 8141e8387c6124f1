#include "report/profile/unrecorded_blocks.h"

#include "report/profile/typed_records.h"
#include "sampler/contract/losses.h"

namespace holdfast {

bool WasAttached(const Profile& profile) { return profile.process().attached && profile.process().parent_pid == 0; }

bool LacksOlderBlocks(const Profile& profile) {
  return profile.process().parent_pid != 0 || profile.process().attached;
}

uint64_t SamplesLostIn(const Profile& profile) {
  const Loss full = profile.process().kind == "map" ? Loss::kMappingsFull : Loss::kLiveTableFull;
  uint64_t lost = 0;
  for (const record::Loss& loss : profile.records().loss) {
    for (const Loss cause : {full, Loss::kSumFull}) {
      if (loss.cause == kLossNames[static_cast<size_t>(cause)]) lost += loss.count;
    }
  }
  return lost;
}

std::vector<TimeOff> TimesOffIn(const Profile& profile) {
  std::vector<TimeOff> off;
  const auto& sampling = profile.records().sampling;
  // The intervals of a sum are those of its files.
  if (!sampling.has_value() || sampling->interval_in_part) return off;
  for (const record::Interval& interval : sampling->interval) {
    if (interval.unit != "bytes") continue;
    if (!off.empty() && off.back().to_ns == INT64_MAX) off.back().to_ns = interval.since_ns;
    if (interval.mean <= 0) off.push_back({interval.since_ns, INT64_MAX});
  }
  return off;
}

bool LacksBlocks(const Profile& profile) {
  return LacksOlderBlocks(profile) || SamplesLostIn(profile) > 0 || !TimesOffIn(profile).empty();
}

}  // namespace holdfast
