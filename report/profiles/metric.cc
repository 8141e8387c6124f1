#include "report/profiles/metric.h"

#include <algorithm>
#include <charconv>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/base/value_units.h"
#include "sampler/contract/layout.h"
#include "sampler/contract/records.h"

namespace holdfast {
namespace {

// What a user should do about each cause of loss, in the order of kLossNames.
constexpr std::string_view kLossTexts[kLosses] = {
    "samples in [overflow]: the stack table was full (raise --max-memory)",
    "samples not followed to their free: the table of live blocks was full (raise --max-memory)",
    "stacks cut: deeper than 256 frames, or not walkable",
    "samples without a stack: too little of the thread's stack was left",
    "modules not recorded: their functions have no name (raise --max-memory)",
    "samples with no table to keep them in (see holdfast doctor)",
    "steps of growth refused by the kernel: too little room where the tables lie (see --tables)",
    "steps of growth not tried behind a seccomp filter",
    "samples of locks that holdfast locks does not list: more than 4,096 locks or 8,192 pairs (the profiles have them)",
    "waits whose holder is not in the mutex profile: more than 1,024 locks, 8 of one place, or 15,360 waiters of one, at once",
    "times that a sum had no room for more (292 years of waiting): it stays as it is",
    "waits that no snapshot saw while they lasted: too many threads waited at once",
    "waits and holds whose length was not counted: their locks have no percentiles (raise --max-memory)",
    "labels that became [overflow]: more than 4,032 different sets, one of more than 512 bytes, or more than 64 names of threads",
    "freed blocks whose age was not noted: the table was full (raise --max-memory)",
    "threads that count as ended: more than 16,128 lived at once",
    "exceptions whose type became [overflow]: more than 1,024 types",
    "mappings and unmappings that were not seen, or had no room (raise --max-memory)",
};
static_assert(!kLossTexts[kLosses - 1].empty());

constexpr std::string_view kDrawnAges = "of one block in ";

template <typename Number>
std::optional<Number> Parse(std::string_view text) {
  Number number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
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
  return absl::NotFoundError(fmt::format("no metric \"{}\". There are: {}.", name, fmt::join(names, ", ")));
}

std::optional<double> HalfWidth(const Profile& profile, size_t metric) {
  const auto value = profile.CommentValue(fmt::format("total {}", profile.strings[profile.sample_types[metric].type]));
  constexpr std::string_view kSign = " ± ";
  const size_t sign = value.find(kSign);
  if (sign == std::string_view::npos) return std::nullopt;
  return Parse<double>(value.substr(sign + kSign.size()));
}

std::string ProfileKindOf(const Profile& profile) {
  if (const auto kind = profile.CommentValue("kind"); !kind.empty()) return std::string(kind);
  return fmt::format("{}", fmt::join(MetricNames(profile), "/"));
}

std::vector<Interval> IntervalsOf(const Profile& profile) {
  const auto parsed = [](std::string_view text) {
    return Interval{std::max<int64_t>(0, Parse<int64_t>(text).value_or(0)),
                    text.substr(std::min(text.size(), text.find(' ') + 1))};
  };
  std::vector<Interval> intervals;
  for (const StringId comment : profile.comments) {
    const std::string_view text = profile.strings[comment];
    if (!text.starts_with("interval since ") && !text.starts_with(kIntervalInPart)) continue;
    // The time contains colons, but no ": ".
    if (const size_t at = text.find(": "); at != std::string_view::npos)
      intervals.push_back(parsed(text.substr(at + 2)));
  }
  if (!intervals.empty()) return intervals;
  if (const auto comment = profile.CommentValue("interval"); !comment.empty()) return {parsed(comment)};
  if (profile.period > 0) return {{profile.period, profile.strings[profile.period_type.unit]}};
  return {};
}

std::string SamplingOf(const Profile& profile) {
  if (ProfileKindOf(profile) == "exceptions")
    return "every one up to 100 in each tenth of a second of a thread; above that at random";
  // If every block is recorded, ages are known for only some of them.
  const bool few_ages = ProfileKindOf(profile) == "lifetimes" && AgesAreDrawn(profile);
  std::vector<std::string> texts;
  for (const Interval& interval : IntervalsOf(profile)) {
    texts.push_back(interval.mean == 0               ? "off"
                    : few_ages && interval.mean == 1 ? "every one recorded, the ages of few: see ages"
                    : interval.mean == 1             ? "every one"
                                                     : "1 in " + FormatValue(interval.mean, interval.unit, "auto"));
  }
  constexpr size_t kShown = 4;
  if (texts.size() > kShown) {
    texts = {texts[0], fmt::format("… ({} changes: holdfast info)", texts.size() - 1), texts.back()};
  }
  return fmt::format("{}", fmt::join(texts, profile.CommentValue(kIntervalInPart).empty() ? ", then " : ", "));
}

namespace {

struct Moment {
  std::optional<int64_t> bytes;
  std::string_view time;
};
// "123 bytes at 2023-11-14T22:13:20.000Z"
Moment MomentIn(const Profile& profile, std::string_view key) {
  constexpr std::string_view kBetween = " bytes at ";
  const std::string_view text = profile.CommentValue(key);
  const size_t at = text.find(kBetween);
  return at == std::string_view::npos ? Moment{} : Moment{Parse<int64_t>(text), text.substr(at + kBetween.size())};
}

}  // namespace

std::optional<int64_t> PeakBytesOf(const Profile& profile) { return MomentIn(profile, "peak").bytes; }
std::optional<int64_t> PeakStacksBytesOf(const Profile& profile) { return MomentIn(profile, "peak stacks").bytes; }

int64_t PeakMissingBytesOf(const Profile& profile) {
  return std::max<int64_t>(0, Parse<int64_t>(profile.CommentValue("peak error")).value_or(0));
}

std::string PeakOf(const Profile& profile) {
  const Moment highest = MomentIn(profile, "peak"), seen = MomentIn(profile, "peak stacks");
  if (!highest.bytes) return "";
  std::string text = fmt::format("{} at {}", FormatSize(*highest.bytes), highest.time);
  if (const auto missing = PeakMissingBytesOf(profile); missing > 0)
    text += fmt::format(" (several threads: up to {} more)", FormatSize(missing));
  // Less than 2 % below the peak, the accuracy that is promised, counts as equal.
  if (seen.bytes && static_cast<double>(*seen.bytes) < 0.98 * static_cast<double>(*highest.bytes))
    text += fmt::format(", too short to be seen; these stacks: {} at {}", FormatSize(*seen.bytes), seen.time);
  if (const auto merged = profile.CommentValue("merged"); merged.starts_with(kHighestOf))
    text += fmt::format(" ({})", merged);
  return text;
}

std::optional<int64_t> ResidentBytesOf(const Profile& profile) {
  const std::string_view text = profile.CommentValue("resident_bytes");
  int64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || bytes < 0) return std::nullopt;
  return bytes;
}

bool AgesAreDrawn(const Profile& profile) {
  return profile.CommentValue("ages known").find(kDrawnAges) != std::string_view::npos;
}

std::string AgesKnownInAll(const std::set<std::string>& known) {
  return known.contains("") ? "" : fmt::format("{}", fmt::join(known, "; "));
}

constexpr std::string_view kFreesNotSeen = "frees not seen: ";
constexpr std::string_view kIncomplete = "incomplete: ", kAllocator = "allocator: ";

std::vector<std::string> LossesOf(const Profile& profile) {
  std::vector<std::string> losses;
  for (int i = 0; i < kLosses; ++i) {
    const auto count = profile.CommentValue(fmt::format("lost {}", kLossNames[i]));
    if (!count.empty()) losses.push_back(fmt::format("{} {}", count, kLossTexts[i]));
  }
  for (const StringId comment : profile.comments) {
    const std::string_view text = profile.strings[comment];
    if (text.starts_with(kFreesNotSeen))
      losses.push_back(fmt::format("the frees of {}", text.substr(kFreesNotSeen.size())));
    if (text.starts_with(kIncomplete)) losses.emplace_back(text.substr(kIncomplete.size()));
    if (text.starts_with(kAllocator) && text.find(" is not seen: ") != std::string_view::npos)
      losses.emplace_back(text.substr(kAllocator.size()));
  }
  return losses;
}

}  // namespace holdfast
