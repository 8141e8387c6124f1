#include "report/analysis/profiles/metric.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/base/value_units.h"
#include "report/profile/typed_records.h"
#include "sampler/contract/layout.h"
#include "sampler/contract/records.h"

namespace holdfast {
namespace {

// Advice for each cause of loss, in the order of kLossNames.
constexpr std::string_view kLossTexts[kLosses] = {
    "samples in [overflow]: the stack table was full (raise --max-memory)",
    "samples without a recorded free: the table of live blocks was full (raise --max-memory)",
    "truncated stacks: deeper than 256 frames, or not walkable",
    "samples without a stack: too little of it was left, or a CPU sample interrupted Holdfast itself",
    "modules not recorded: their functions have no name (raise --max-memory)",
    "samples without a table (see holdfast doctor)",
    "growth steps refused by the kernel: too little space in the folder of the tables (see --tables)",
    "growth steps not tried because of a seccomp filter",
    "samples of locks that holdfast locks does not list: more than 4,096 locks or 8,192 pairs (the profiles contain them)",
    "waits without a holder in the mutex profile: more than 1,024 locks, 8 of one place, or 15,360 waiters of one, at once",
    "sums that saturated (292 years of waiting)",
    "waits in progress that no snapshot shows: too many threads waited at once",
    "waits and holds without a recorded length: their locks have no percentiles (raise --max-memory)",
    "labels that became [overflow]: more than 4,032 different sets, one of more than 512 bytes, or more than 64 names of threads",
    "freed blocks without a recorded age: the table was full (raise --max-memory)",
    "threads counted as exited: more than 16,128 were alive at once",
    "exceptions with type [overflow]: more than 1,024 types",
    "mappings and unmappings that were not seen or not stored (raise --max-memory)",
    "threads without a CPU timer: a quarter of the user's pending signals is in use (ulimit -i), or too little stack is left",
};
static_assert(!kLossTexts[kLosses - 1].empty());

void AddLossTexts(const Profile& profile, Loss cause, std::vector<std::string>* texts) {
  const auto i = static_cast<size_t>(cause);
  for (const record::Loss& loss : profile.records().loss) {
    if (loss.cause == kLossNames[i]) texts->push_back(fmt::format("{} {}", loss.count, kLossTexts[i]));
  }
}

std::vector<std::string_view> MetricNames(const Profile& profile) {
  std::vector<std::string_view> names;
  for (const auto& type : profile.sample_types) names.push_back(profile.strings[type.type]);
  return names;
}

}  // namespace

size_t DefaultMetric(const Profile& profile) {
  for (size_t i = 0; i < profile.sample_types.size(); ++i) {
    if (profile.default_sample_type != 0 && profile.sample_types[i].type == profile.default_sample_type) return i;
  }
  return profile.sample_types.size() - 1;
}

absl::StatusOr<size_t> FindMetric(const Profile& profile, std::string_view name) {
  if (name.empty()) return DefaultMetric(profile);
  const auto names = MetricNames(profile);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return i;
  }
  size_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error == std::errc() && end == name.data() + name.size() && index < names.size()) return index;
  return absl::NotFoundError(fmt::format("no metric \"{}\". The profile has: {}.", name, fmt::join(names, ", ")));
}

std::optional<double> HalfWidth(const Profile& profile, size_t metric) {
  const std::string_view name = profile.strings[profile.sample_types[metric].type];
  for (const record::Total& total : profile.records().total) {
    if (total.type == name && total.half_width >= 0) return total.half_width;  // a file may contain any number
  }
  return std::nullopt;
}

void AddTotal(size_t metric, std::optional<double> half_width, Profile* profile) {
  const std::string type(profile->strings[profile->sample_types[metric].type]);
  const int64_t total = profile->Total(metric);
  profile->mutable_records()->total.push_back({type, total, half_width.has_value() ? std::round(*half_width) : -1});
  profile->AddComment(half_width.has_value() ? fmt::format("total {}: {} ± {:.0f}", type, total, *half_width)
                                             : fmt::format("total {}: {}", type, total));
}

std::string ProfileKindOf(const Profile& profile) {
  if (const std::string& kind = profile.process().kind; !kind.empty()) return kind;
  return fmt::format("{}", fmt::join(MetricNames(profile), "/"));
}

std::vector<Interval> IntervalsOf(const Profile& profile) {
  std::vector<Interval> intervals;
  if (const auto& sampling = profile.records().sampling; sampling.has_value()) {
    for (const record::Interval& interval : sampling->interval)
      intervals.push_back({std::max<int64_t>(0, interval.mean), interval.unit});
  }
  if (intervals.empty() && profile.period > 0)
    intervals.push_back({profile.period, profile.strings[profile.period_type.unit]});
  return intervals;
}

bool HasIntervalsInPart(const Profile& profile) {
  return profile.records().sampling.has_value() && profile.records().sampling->interval_in_part;
}

std::string SamplingOf(const Profile& profile) {
  if (ProfileKindOf(profile) == "exceptions")
    return "all of up to 100 per tenth of a second and thread, a random sample of more";
  if (ProfileKindOf(profile) == "cpu" && profile.period > 0)
    return fmt::format("1 in {} of CPU time", FormatValue(profile.period, "nanoseconds", "auto"));
  if (ProfileKindOf(profile) == "wall" && profile.period > 0) {
    // Looks at many threads are rarer, and those of an exporter that waits for a CPU.
    const auto& times = profile.records().thread_times;
    int64_t mean_ns = profile.period;
    if (times.has_value() && times->looks > 1 && times->lane_start_ns > 0 && profile.time_nanos > times->lane_start_ns)
      mean_ns = static_cast<int64_t>(static_cast<uint64_t>(profile.time_nanos - times->lane_start_ns) / times->looks);
    constexpr int64_t kStep = 5'000'000;  // so that processes of a folder mostly have the same text
    return fmt::format(
        "looks at all threads about every {}; the sums are exact",
        FormatValue((std::max(mean_ns, profile.period) + kStep / 2) / kStep * kStep, "nanoseconds", "auto"));
  }
  // If every block is recorded, ages are known for only some of them.
  const bool few_ages = ProfileKindOf(profile) == "lifetimes" && AgesAreDrawn(profile);
  std::vector<std::string> texts;
  for (const Interval& interval : IntervalsOf(profile)) {
    texts.push_back(interval.mean == 0               ? "off"
                    : few_ages && interval.mean == 1 ? "all recorded, but only some ages: see ages"
                    : interval.mean == 1             ? "all"
                                                     : "1 in " + FormatValue(interval.mean, interval.unit, "auto"));
  }
  constexpr size_t kShown = 4;
  if (texts.size() > kShown) {
    texts = {texts[0], fmt::format("… ({} changes: holdfast info)", texts.size() - 1), texts.back()};
  }
  return fmt::format("{}", fmt::join(texts, HasIntervalsInPart(profile) ? ", " : ", then "));
}

std::optional<int64_t> PeakBytesOf(const Profile& profile) {
  const std::optional<record::Peak>& peak = profile.records().peak;
  return peak.has_value() && peak->bytes > 0 ? std::optional(peak->bytes) : std::nullopt;
}

std::optional<int64_t> PeakStacksBytesOf(const Profile& profile) {
  const std::optional<record::Peak>& peak = profile.records().peak;
  return peak.has_value() && peak->stacks_bytes > 0 ? std::optional(peak->stacks_bytes) : std::nullopt;
}

int64_t PeakMissingBytesOf(const Profile& profile) {
  const std::optional<record::Peak>& peak = profile.records().peak;
  return peak.has_value() ? std::max<int64_t>(0, peak->missing_bytes) : 0;
}

std::string PeakOf(const Profile& profile) {
  const std::optional<int64_t> highest = PeakBytesOf(profile), seen = PeakStacksBytesOf(profile);
  if (!highest) return "";
  const record::Peak& peak = *profile.records().peak;
  std::string text = fmt::format("{} at {}", FormatSize(*highest), FormatWallTime(peak.time_ns));
  if (const auto missing = PeakMissingBytesOf(profile); missing > 0)
    text += fmt::format(" (several threads: up to {} more)", FormatSize(missing));
  // Less than the promised 2 % below is as good as the same.
  if (seen && static_cast<double>(*seen) < 0.98 * static_cast<double>(*highest)) {
    text += fmt::format(", too short to be seen; these stacks: {} at {}", FormatSize(*seen),
                        FormatWallTime(peak.stacks_time_ns));
  }
  if (const auto& merged = profile.records().merged; merged.has_value() && merged->how == record::MergeMode::kHighest)
    text += fmt::format(" (the highest of {} process{})", merged->processes, merged->processes == 1 ? "" : "es");
  return text;
}

std::optional<int64_t> ResidentBytesOf(const Profile& profile) {
  const uint64_t bytes = profile.process().resident_bytes;
  return bytes == 0 || bytes > INT64_MAX ? std::nullopt : std::optional(static_cast<int64_t>(bytes));
}

bool AgesAreDrawn(const Profile& profile) {
  return profile.records().sampling.has_value() && profile.records().sampling->aged_one_in > 0;
}

std::string_view AgesKnownIn(const Profile& profile) {
  return profile.records().sampling.has_value() ? std::string_view(profile.records().sampling->ages_known)
                                                : std::string_view();
}

void AddAgesKnown(const std::vector<const Profile*>& of, Profile* sum) {
  std::set<std::string_view> known;
  const record::Sampling* drawn = nullptr;
  for (const Profile* profile : of) {
    known.insert(AgesKnownIn(*profile));
    if (AgesAreDrawn(*profile)) drawn = &*profile->records().sampling;
  }
  if (known.contains("")) return;
  std::optional<record::Sampling>& sampling = sum->mutable_records()->sampling;
  if (!sampling.has_value()) sampling.emplace();
  sampling->ages_known = fmt::format("{}", fmt::join(known, "; "));
  if (drawn != nullptr) {
    sampling->aged_one_in = drawn->aged_one_in;
    sampling->aged_up_to_bytes = drawn->aged_up_to_bytes;
  }
  sum->AddComment("ages known: " + sampling->ages_known);
}

std::vector<std::string> LossesOf(const Profile& profile) {
  std::vector<std::string> losses;
  for (int i = 0; i < kLosses; ++i) AddLossTexts(profile, static_cast<Loss>(i), &losses);
  for (const record::UnseenFrees& unseen : profile.records().unseen_frees) {
    losses.push_back(
        fmt::format("the frees of {:.0f} bytes in {:.0f} blocks of {}, which calls another free: they count as freed",
                    unseen.bytes, unseen.blocks, unseen.module));
  }
  if (const auto& allocator = profile.records().allocator; allocator.has_value()) {
    if (!allocator->incomplete.empty()) losses.push_back(allocator->incomplete);
    if (const std::string& unseen = allocator->is_seen ? allocator->not_seen : allocator->outcome; !unseen.empty())
      losses.push_back(unseen);
  }
  return losses;
}

std::vector<std::string> LockLossesOf(const Profile& profile) {
  std::vector<std::string> losses;
  for (const Loss cause : {Loss::kLockTableFull, Loss::kLockSlotTaken, Loss::kSumFull, Loss::kOngoingFull})
    AddLossTexts(profile, cause, &losses);
  return losses;
}

uint64_t UnlistedLockSamplesOf(const Profile& profile) {
  uint64_t samples = 0;
  for (const record::Loss& loss : profile.records().loss) {
    if (loss.cause == kLossNames[static_cast<size_t>(Loss::kLockTableFull)]) samples += loss.count;
  }
  return samples;
}

}  // namespace holdfast
